// Finds the handler for warnings of a recorded operation, which warns only when it is computed.
#pragma once
#include "r_api.h"

void vg_init_handlers(void);
SEXP C_warning_fate(SEXP call, SEXP op, SEXP args, SEXP rho);

// To be called if vg_call_site_wanted is set. Stores `call` in that cell unless it has a call, looks for an enclosing
// handler of warnings, and computes `out` at once if there is one. `rho` is the frame of the method, or of a function
// that it calls, or a null pointer. `call` may be an integer, the argument of sys.call() in `rho`. Returns `out`.
SEXP vg_finish_recording(SEXP out, SEXP rho, SEXP call);
