// What becomes of the warnings of a recorded operation, which it gives when it is computed.
#pragma once
#include "r_api.h"

void vg_init_handlers(void);
SEXP C_warning_fate(SEXP call, SEXP op, SEXP args, SEXP rho);

// Called where vg_call_site_wanted is set: puts the call into the cell where it has none yet, and looks for an
// enclosing handler of warnings. `rho` is the frame of the method, or of a function that it calls, or NULL; `call` may
// be the number that sys.call() takes there.
SEXP vg_site_recorded(SEXP out, SEXP rho, SEXP call);
