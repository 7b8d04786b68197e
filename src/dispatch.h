// Fast dispatch of operators in R before 4.3 (see dispatch.c).
#pragma once
#include "r_api.h"

extern int vg_slow_dispatch;         // nonzero where the quick way is to be turned on
SEXP vg_quick_dispatch(SEXP result); // turns it on; returns `result`

// In an operator's method, with its frame.
#if R_VERSION < R_Version(4, 3, 0)
void vg_look_at_dispatch(SEXP rho);
static inline void vg_note_dispatch(SEXP rho) {
  static unsigned calls = 0;
  // looked at now and then: a loop is long enough, or of no account
  if (calls++ % 8 == 0) vg_look_at_dispatch(rho);
}
#else
static inline void vg_note_dispatch(SEXP rho) { (void)rho; }
#endif
