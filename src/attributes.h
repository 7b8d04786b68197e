// Attributes of arrays.
#pragma once
#include "r_api.h"

// gpu_dtype: a saved array's dtype, if R's type does not imply it
extern SEXP vg_dtype_symbol;
void vg_init_attributes(void);
int vg_is_fronted(SEXP x);          // whether classes of the user's own stand in front of the array's
int vg_is_vector_class(SEXP class); // whether it is the class attribute of an array of no dimensions
SEXP vg_set_class(SEXP x, int shape);         // 0 vector, 1 matrix, 2 array, 3 ts, 4 matrix that is a ts
int vg_is_own_class(const char *name);        // whether `name` is "gpu_array" or a first class of arrays
int vg_has_own_class(SEXP x);                 // whether x's first class is such a class
void vg_classify_as(SEXP x, SEXP dims, int series); // sets the class for a dim attribute (or NULL), and for tsp
void vg_classify(SEXP x);                     // sets the class of a new array by its dim and tsp
void vg_copy_shape(SEXP from, SEXP to);       // dim, dimnames and names
void vg_copy_attributes(SEXP from, SEXP to);
SEXP C_copy_attributes(SEXP from, SEXP to);
SEXP C_front_classes(SEXP class);

// The index of a vector type in tables; -1 for types that arrays do not have.
static inline int vg_place_of(int type) {
  switch (type) {
  case LGLSXP: return 0;
  case INTSXP: return 1;
  case REALSXP: return 2;
  case CPLXSXP: return 3;
  default: return -1;
  }
}
