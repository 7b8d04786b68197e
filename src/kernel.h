// Calls of kernels.
#pragma once
#include "r_api.h"

void vg_init_kernel(void);
SEXP C_launch(SEXP call, SEXP op, SEXP args, SEXP rho);
