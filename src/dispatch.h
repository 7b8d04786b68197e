// Operators on an array and an object of another class, in R before 4.3 (see dispatch.c).
#pragma once
#include "r_api.h"

extern int vg_lookup_pending;         // nonzero if a method was looked up for an operator's array and not called since
SEXP C_method_of_array(SEXP ours);    // the method that R is to find for an array; `ours` is the arrays' method
SEXP C_method_beside(SEXP method);    // the method that R is to find for an object of another class; NULL for none
SEXP C_other_method_called(void);
void vg_refuse_operator(void);        // raises an error: R computes with the array's elements instead of a method
