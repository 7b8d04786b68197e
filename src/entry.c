// The end of every entry: R code may run. No frame of Rust is alive but that of an entry, which owns nothing.
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
