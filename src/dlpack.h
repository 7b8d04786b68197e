// Memory shared with other libraries: DLPack capsules and torch tensors.
#pragma once
#include "r_api.h"

void vg_init_dlpack(void);
SEXP C_as_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_from_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_as_torch(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_from_torch(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_needs_no_conversion(SEXP call, SEXP op, SEXP args, SEXP rho);
SEXP C_as_gpu_direct(SEXP call, SEXP op, SEXP args, SEXP rho);
