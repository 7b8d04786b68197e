// gpu_compute() and the Summary group.
#pragma once
#include "r_api.h"

void vg_init_summary(void);
SEXP C_evaluate(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_summary(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_holds_array(SEXP x);
