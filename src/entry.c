// What happens at the end of every entry, when R code may run. No Rust frame is alive, except possibly that of an entry
// function that owns nothing, so R may jump.
#include "entry.h"
#include "helpers.h"

SEXP vg_entry_returned(SEXP result) { return vg_returned(result); }

SEXP vg_tell_freed(SEXP result) {
  PROTECT(result);
  for (SEXP on_free; (on_free = vg_next_freed()) != R_NilValue;) {
    PROTECT(on_free);
    vg_eval_helper("call_on_free", on_free, R_NilValue);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return result;
}

void vg_take_interrupt(SEXP result) {
  PROTECT(result);
  R_CheckUserInterrupt();
  UNPROTECT(1);
}
