// Whether an assignment function may write to its first argument.
#pragma once
#include "r_api.h"

void vg_init_target(void);
// Whether `x`, an argument of the method whose frame is `rho`, is R's `*tmp*`, one of our vectors, to which nothing
// but the variable that is assigned to refers, and still will when the method has evaluated its other arguments: `i`,
// if the method has it (a symbol or NULL, the pointer), those of `...`, and `value`. To be asked before they are
// evaluated.
int vg_is_target(SEXP x, SEXP i, SEXP rho);
// The code that an argument of that frame was written as, as substitute() has it; NULL where it is not known.
SEXP vg_written(SEXP symbol, SEXP rho);
