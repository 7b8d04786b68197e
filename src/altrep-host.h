// The ALTREP classes of vectors that were read from arrays.
#pragma once
#include "r_api.h"

void vg_register_host_vectors(DllInfo *dll);
SEXP vg_new_vector(int type);                 // an ordinary vector whose pointer is to own its memory; unprotected
SEXP C_collect_ordinary(SEXP x);
