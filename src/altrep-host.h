// The ALTREP classes of host vectors that hold the elements of large arrays.
#pragma once
#include "r_api.h"

void vg_register_host_vectors(DllInfo *dll);
SEXP vg_new_vector(int type);                 // a vector whose external pointer has no owner of memory yet; unprotected
SEXP C_collect_ordinary(SEXP x);
