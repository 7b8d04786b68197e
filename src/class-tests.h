// Tests of what an object is.
#pragma once
#include "r_api.h"

SEXP C_inherits(SEXP x, SEXP classes);        // inherits(x, classes)
SEXP C_any_inherit(SEXP list, SEXP classes);  // the same of any element of a list
SEXP C_is_int64(SEXP x);                      // whether x is an int64 array or an ordinary integer64 vector
