// R code that Rust may call: R_ToplevelExec() catches its jumps, so they never cross a Rust frame.
#include <string.h>
#include <time.h>
#include <R_ext/Utils.h>
#include "toplevel.h"
#include "helpers.h"
#include <R_ext/GraphicsEngine.h> // R_interrupts_suspended

// Runs `run` at top level; 0 if it jumped. Interrupts are suspended and stay pending, since R would raise one at the
// end of a garbage collection.
int vg_toplevel(void (*run)(void *), void *data) {
  const Rboolean before = R_interrupts_suspended;
  R_interrupts_suspended = TRUE;
  const int done = R_ToplevelExec(run, data);
  R_interrupts_suspended = before;
  return done;
}

static void collect_young(void *unused) {
  static SEXP call = NULL;
  if (call == NULL) {
    SEXP no = PROTECT(Rf_ScalarLogical(0));
    SEXP made = PROTECT(Rf_lang4(Rf_install("gc"), no, no, no)); // verbose, reset, full
    R_PreserveObject(made);
    call = made;
    UNPROTECT(2);
  }
  Rf_eval(call, R_BaseEnv);
}

static void collect_all(void *unused) { R_gc(); }

// Garbage collection, full or of the young generation. R's C API has only the full one, hence the call of gc().
void vg_collect_garbage(int all) { vg_toplevel(all ? collect_all : collect_young, NULL); }

// Processor time that this process has used.
double vg_processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

typedef struct {
  SEXP call;
  char *out;
  int size;
} Text;

static void write_text(void *data) {
  Text *text = data;
  SEXP quoted = PROTECT(Rf_lang2(Rf_install("quote"), text->call));
  SEXP line = PROTECT(vg_eval_helper("call_text", quoted, R_NilValue));
  strncpy(text->out, Rf_translateCharUTF8(STRING_ELT(line, 0)), (size_t)text->size - 1);
  UNPROTECT(2);
}

// Deparses a call into `out`: NUL-terminated and truncated to `size` bytes; "" on failure.
void vg_call_text(SEXP call, char *out, int size) {
  Text text = {call, out, size};
  memset(out, 0, (size_t)size);
  if (!vg_toplevel(write_text, &text)) out[0] = 0;
}
