// Subsetting and assignment.
#pragma once
#include "r_api.h"

void vg_init_subset(void);
SEXP C_subset(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_subset2(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_replace(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_replace_element(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_replace_at(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_take(SEXP x, SEXP at, SEXP drop);
SEXP C_put(SEXP x, SEXP at, SEXP value, SEXP names);
