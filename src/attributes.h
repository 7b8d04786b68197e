// Attributes of arrays.
#pragma once
#include "r_api.h"

// gpu_dtype: the dtype of an array in a file, where R's type does not say it
extern SEXP vg_dtype_symbol;
void vg_init_attributes(void);
SEXP vg_set_class(SEXP x, int shape);         // 0 vector, 1 matrix, 2 array, 3 ts, 4 matrix that is a ts
int vg_is_own_class(const char *name);        // whether it is the first class of arrays of a kind, or gpu_array
int vg_has_own_class(SEXP x);                 // whether no other class comes before an array's own
void vg_classify_as(SEXP x, SEXP dims, int series); // the class that goes with a dim attribute and tsp
void vg_classify(SEXP x);                     // gives a new array the class that goes with its attributes
void vg_copy_shape(SEXP from, SEXP to);       // everything that Rf_copyMostAttrib leaves out
void vg_copy_attributes(SEXP from, SEXP to);
SEXP C_copy_attributes(SEXP from, SEXP to);

// The place of a type of arrays in tables; -1 for other types.
static inline int vg_place_of(int type) {
  switch (type) {
  case LGLSXP: return 0;
  case INTSXP: return 1;
  case REALSXP: return 2;
  case CPLXSXP: return 3;
  default: return -1;
  }
}
