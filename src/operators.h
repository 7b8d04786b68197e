// Operators and elementwise functions.
#pragma once
#include "r_api.h"

void vg_init_operators(void);
SEXP C_binary(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_elementwise(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_unary(SEXP op, SEXP keep, SEXP x, SEXP call);
SEXP C_recycled(SEXP call, SEXP op, SEXP args, SEXP rho);
