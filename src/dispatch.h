// Operators beside another class, in R before 4.3 (see dispatch.c).
#pragma once
#include "r_api.h"

extern int vg_looked_up;              // a method was looked up for an operator's array, and not called since
SEXP C_method_of_array(SEXP ours);    // what R is to find for an array, whose own method this is
SEXP C_method_beside(SEXP method);    // what R is to find for an object of another class; NULL for no method
SEXP C_other_method_called(void);
void vg_refuse_operator(void);        // an error
