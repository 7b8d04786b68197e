// Fast dispatch of operators in R before 4.3.
//
// R before 4.3 has a fast dispatch of S4 methods on primitives, which loading or attaching a package turns off. Turning
// it on halves the cost of `x + y`, but has no effect within a dispatch. Only the slow dispatch leaves `.defined` in
// the method's frame; this is noted here, and the next other entry turns the fast one on. It stops doing so if
// something else keeps turning it off.
#include "dispatch.h"
#include "helpers.h"

int vg_slow_dispatch = 0;

#if R_VERSION < R_Version(4, 3, 0)
void vg_look_at_dispatch(SEXP rho) {
  static int slow = 0;
  static SEXP defined = NULL;
  if (defined == NULL) defined = Rf_install(".defined");
  if (Rf_findVarInFrame3(rho, defined, FALSE) != R_UnboundValue && slow++ % 64 == 0) vg_slow_dispatch = 1;
}
#endif

SEXP vg_quick_dispatch(SEXP result) {
  vg_slow_dispatch = 0;
  PROTECT(result);
  vg_eval_helper("quick_dispatch", R_NilValue, R_NilValue);
  UNPROTECT(1);
  return result;
}
