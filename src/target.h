// Decides whether an assignment function may write to its first argument in place.
#pragma once
#include "r_api.h"

void vg_init_target(void);
// Whether `x`, an argument of the method with frame `rho`, is R's `*tmp*` and an array to which only the assigned
// variable refers, also after the method has evaluated its other arguments: `i` (its symbol, or a null pointer if the
// method has no such formal), `...` and `value`. To be called before they are evaluated.
int vg_is_target(SEXP x, SEXP i, SEXP rho);
// The code of an argument in frame `rho`, as substitute() gives it; a null pointer if it is not known.
SEXP vg_argument_code(SEXP symbol, SEXP rho);
