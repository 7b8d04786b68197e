// The arguments of a method, read from its frame `rho`. Elements of `...` are counted from 1.
#pragma once
#include "r_api.h"

enum { VG_EMPTY, VG_VALUE, VG_PROMISE }; // kinds of elements of `...`; VG_EMPTY as in x[, 1]
int vg_is_missing(SEXP symbol, SEXP rho);
int vg_dots_length(SEXP rho);
int vg_dots_named(SEXP rho);
int vg_dots_kind(int k, SEXP rho);
SEXP vg_dots_value(int k, SEXP rho);
// Evaluates all elements of `...`. Names are CHARSXPs, or NULL for elements without one; the frame keeps the values
// alive. Returns their number, or -1 if there are more than `most` or one is empty.
int vg_dots_all(SEXP rho, int most, SEXP *names, SEXP *values);
// The value of a variable or argument if no code has to run for it: a value, a forced promise, or a promise of a
// constant or of such a variable. Otherwise a null pointer.
SEXP vg_known(SEXP symbol, SEXP env);
SEXP vg_dot_known(int k, SEXP rho);
