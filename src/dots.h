// The arguments of a method's frame; those of `...` count from 1.
#pragma once
#include "r_api.h"

enum { VG_EMPTY, VG_VALUE, VG_PROMISE };
int vg_is_missing(SEXP symbol, SEXP rho);
int vg_dots_length(SEXP rho);
int vg_dots_named(SEXP rho);
int vg_dots_kind(int k, SEXP rho);
SEXP vg_dots_value(int k, SEXP rho);
// All of them: names as CHARSXP, NULL where there is none, and values, which the frame keeps. How many; -1 where there
// are more than `most`, or an empty one.
int vg_dots_all(SEXP rho, int most, SEXP *names, SEXP *values);
// The value of a variable or argument where it is known without running code: it has been evaluated, or is a constant
// or a variable of which the same holds. NULL, the pointer, elsewhere.
SEXP vg_known(SEXP symbol, SEXP env);
SEXP vg_dot_known(int k, SEXP rho);
