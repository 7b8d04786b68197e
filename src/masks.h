// Masks: active bindings of package:verdigris for names of other functions.
#pragma once
#include "r_api.h"

void vg_init_masks(void);
SEXP C_masked(SEXP state);
SEXP C_mask_assign(SEXP state, SEXP value);
SEXP C_known(SEXP call, SEXP op, SEXP args, SEXP rho);
