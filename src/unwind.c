// Keeps R's jumps from crossing Rust frames. Rust calls R functions that may raise an error or an interrupt through
// vg_unwind_protect(). The jump ends there, Rust returns and drops its values, and vg_raise_pending() resumes the jump
// when no Rust frame is left (rust/src/r/mod.rs, `protect`).
#include <setjmp.h>
#include <string.h>
#include "unwind.h"
#include <R_ext/GraphicsEngine.h> // R_interrupts_suspended

// Continuation tokens of R_UnwindProtect(). Two, since one may hold a jump that waits to be resumed.
static SEXP tokens[2];
static int current = 0;
static SEXP jumping = NULL; // the token of the waiting jump, or NULL
// A cell that holds the error that R raised within a wait, such as that of setTimeLimit(), until it is raised again.
static SEXP wait_error = NULL;

void vg_init_unwind(void) {
  for (int k = 0; k < 2; k++) {
    tokens[k] = R_MakeUnwindCont();
    R_PreserveObject(tokens[k]);
  }
  R_PreserveObject(wait_error = Rf_cons(R_NilValue, R_NilValue));
}

typedef struct {
  void (*run)(void *);
  void *data;
  SEXP token;
  jmp_buf back;
} Body;

static SEXP run_body(void *data) {
  Body *body = data;
  body->run(body->data);
  return R_NilValue;
}

static void come_back(void *data, Rboolean jump) {
  if (jump) longjmp(((Body *)data)->back, 1);
}

// Runs the body. Returns 0 if R jumped out of it; the jump then waits for vg_continue_jump().
int vg_unwind_protect(void (*run)(void *), void *data) {
  Body body;
  body.run = run;
  body.data = data;
  // A body may run a finalizer, and that an entry whose own jump changes `current`.
  body.token = tokens[current];
  if (setjmp(body.back)) {
    jumping = body.token;
    current = body.token == tokens[0];
    return 0;
  }
  R_UnwindProtect(run_body, &body, come_back, &body, body.token);
  return 1;
}

int vg_is_jumping(void) { return jumping != NULL; }

// Resumes the waiting jump, if any.
void vg_continue_jump(void) {
  if (jumping == NULL) return;
  SEXP token = jumping;
  jumping = NULL;
  R_ContinueUnwind(token);
}

// Discards the waiting jump, for callers that R must not jump over. Returns whether there was one.
int vg_drop_jump(void) {
  int any = jumping != NULL;
  jumping = NULL;
  return any;
}

// ---- interrupts ------------------------------------------------------------------------------------

// Whether this file has suspended interrupts. While Rust runs they are suspended; where it waits it polls by
// vg_interrupted().
static int held = 0;

// Suspends interrupts. Returns what vg_release_interrupts() takes: 0 if they were suspended already.
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

static SEXP check(void *unused) {
  R_CheckUserInterrupt();
  return R_NilValue;
}

static SEXP keep_error(SEXP condition, void *failed) {
  SETCAR(wait_error, condition);
  *(int *)failed = 1;
  return R_NilValue;
}

static void check_interrupt(void *failed) { R_tryCatchError(check, NULL, keep_error, failed); }

// Whether the user has interrupted, or R has raised an error instead, which vg_raise_wait_error() raises. Clears the
// interrupt. R code may run: tryCatch(), finalizers and handlers of events.
int vg_interrupted(void) {
  const Rboolean before = R_interrupts_suspended;
  const int ours = held; // a handler of events may run an entry, which clears `held`
  int failed = 0;
  SETCAR(wait_error, R_NilValue);
  if (held) R_interrupts_suspended = FALSE;
  int done = R_ToplevelExec(check_interrupt, &failed);
  R_interrupts_suspended = before;
  held = ours;
  return !done || failed;
}

// Raises the error that ended a wait, if any, without its call, which is one of R's internal functions.
void vg_raise_wait_error(void) {
  if (CAR(wait_error) == R_NilValue) return;
  SEXP condition = PROTECT(Rf_shallow_duplicate(CAR(wait_error)));
  SETCAR(wait_error, R_NilValue);
  SEXP names = Rf_getAttrib(condition, R_NamesSymbol);
  for (R_xlen_t k = 0; TYPEOF(condition) == VECSXP && k < Rf_xlength(names); k++)
    if (strcmp(CHAR(STRING_ELT(names, k)), "call") == 0) SET_VECTOR_ELT(condition, k, R_NilValue);
  SEXP call = PROTECT(Rf_lang2(Rf_install("stop"), condition));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
}
