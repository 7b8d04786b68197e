// R code that Rust may call: what jumps in it ends here, and never passes a Rust frame.
#include <string.h>
#include <time.h>
#include <R_ext/Utils.h>
#include "bridge.h"

static void look(void *unused) { R_CheckUserInterrupt(); }

// Whether the user has interrupted; R then takes it as dealt with.
int vg_interrupted(void) { return !R_ToplevelExec(look, NULL); }

static void collect_young(void *unused) {
  static SEXP call = NULL;
  if (call == NULL) {
    SEXP no = PROTECT(Rf_ScalarLogical(0));
    call = Rf_lang4(Rf_install("gc"), no, no, no); // verbose, reset, full
    R_PreserveObject(call);
    UNPROTECT(1);
  }
  Rf_eval(call, R_BaseEnv);
}

// The quick kind of garbage collection, which C cannot ask for otherwise. 0 where an interrupt ended it.
int vg_collect_young(void) { return R_ToplevelExec(collect_young, NULL); }

// Processor time of this process.
double vg_processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

typedef struct {
  SEXP call;
  char *out;
  int room;
} Text;

static void write_text(void *data) {
  Text *text = data;
  SEXP line = PROTECT(vg_eval_helper("call_text", text->call, R_NilValue));
  strncpy(text->out, Rf_translateCharUTF8(STRING_ELT(line, 0)), (size_t)text->room - 1);
  UNPROTECT(1);
}

// A call as people write it, ended in NUL and cut to the room; "" where it cannot be said.
void vg_call_text(SEXP call, char *out, int room) {
  Text text = {Rf_lang2(Rf_install("quote"), call), out, room};
  memset(out, 0, (size_t)room);
  PROTECT(text.call);
  if (!R_ToplevelExec(write_text, &text)) out[0] = 0;
  UNPROTECT(1);
}
