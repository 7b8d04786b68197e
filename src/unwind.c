// R's jumps and Rust's frames. Rust calls R functions that may fail or be interrupted by vg_unwind_protect(). A jump
// ends there, Rust unwinds and drops its values, and vg_raise_pending() resumes the jump when no Rust frame is left
// (rust/src/r/mod.rs, `protect`).
#include <setjmp.h>
#include "unwind.h"
#include <R_ext/GraphicsEngine.h> // R_interrupts_suspended

// Where a jump goes is kept in a token of R's. There are two: one may hold a jump that waits for Rust to return.
static SEXP tokens[2];
static int current = 0;
static SEXP jumping = NULL; // the token of that jump

void vg_init_unwind(void) {
  for (int k = 0; k < 2; k++) {
    tokens[k] = R_MakeUnwindCont();
    R_PreserveObject(tokens[k]);
  }
}

typedef struct {
  void (*run)(void *);
  void *data;
  jmp_buf back;
} Body;

static SEXP run_body(void *data) {
  Body *body = data;
  body->run(body->data);
  return R_NilValue; // the token keeps it
}

static void come_back(void *data, Rboolean jump) {
  if (jump) longjmp(((Body *)data)->back, 1);
}

// Runs the body. 0 where R has jumped out of it; the jump waits.
int vg_unwind_protect(void (*run)(void *), void *data) {
  Body body;
  body.run = run;
  body.data = data;
  if (setjmp(body.back)) {
    jumping = tokens[current];
    current = 1 - current;
    return 0;
  }
  R_UnwindProtect(run_body, &body, come_back, &body, tokens[current]);
  return 1;
}

int vg_is_jumping(void) { return jumping != NULL; }

// Goes on with a jump that waits.
void vg_continue_jump(void) {
  if (jumping == NULL) return;
  SEXP token = jumping;
  jumping = NULL;
  R_ContinueUnwind(token);
}

// Gives it up, for callers that R must not jump past. Whether there was one.
int vg_drop_jump(void) {
  int any = jumping != NULL;
  jumping = NULL;
  return any;
}

// ---- interrupts ------------------------------------------------------------------------------------

// Whether interrupts are suspended by us, while Rust runs: it looks for them where it waits (vg_interrupted).
static int held = 0;

int vg_hold_interrupts(void) {
  if (R_interrupts_suspended) return 0;
  R_interrupts_suspended = TRUE;
  return held = 1;
}

void vg_release_interrupts(int ours) {
  if (!ours) return;
  R_interrupts_suspended = FALSE;
  held = 0;
}

static void check_interrupt(void *unused) { R_CheckUserInterrupt(); }

// Whether the user has interrupted; R then takes it as dealt with.
int vg_interrupted(void) {
  const Rboolean before = R_interrupts_suspended;
  if (held) R_interrupts_suspended = FALSE;
  int done = R_ToplevelExec(check_interrupt, NULL);
  R_interrupts_suspended = before;
  return !done;
}
