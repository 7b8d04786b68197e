// Attributes of arrays: the class that their dimensions imply, and copying.
#include "attributes.h"
#include <string.h>

enum { KINDS = 8 };
static SEXP classes[4][5]; // class attributes by type (vg_place_of) and shape (vg_set_class)
static SEXP kinds[KINDS + 1];  // CHARSXPs: the first string of each class attribute, and "gpu_array"
SEXP vg_dtype_symbol;

// How many strings stand in front of the array's own in a class attribute, as class(x) <- c("mine", class(x)) puts them
// there. 0 if none of the strings is the array's own.
static R_xlen_t in_front(SEXP class) {
  if (TYPEOF(class) != STRSXP) return 0;
  for (R_xlen_t i = 0; i < XLENGTH(class); i++) {
    SEXP name = STRING_ELT(class, i);
    for (int k = 0; k <= KINDS; k++)
      if (kinds[k] == name) return i;
  }
  return 0;
}

// The first `n` strings of `from`, and then `own`.
static SEXP behind(SEXP from, R_xlen_t n, SEXP own) {
  SEXP class = Rf_allocVector(STRSXP, n + XLENGTH(own));
  for (R_xlen_t k = 0; k < n; k++) SET_STRING_ELT(class, k, STRING_ELT(from, k));
  for (R_xlen_t k = 0; k < XLENGTH(own); k++) SET_STRING_ELT(class, n + k, STRING_ELT(own, k));
  return class;
}

SEXP vg_set_class(SEXP x, int shape) {
  // copied from an operand that was saved; it does not describe this array
  if (Rf_getAttrib(x, vg_dtype_symbol) != R_NilValue) Rf_setAttrib(x, vg_dtype_symbol, R_NilValue);
  SEXP class = classes[vg_place_of(TYPEOF(x))][shape];
  // copying an operand's attributes has usually set the class already
  SEXP now = Rf_getAttrib(x, R_ClassSymbol);
  if (now == class) return x;
  // classes of the user's own that came with the operand's attributes stay, as in base R
  R_xlen_t front = in_front(now);
  class = PROTECT(front > 0 ? behind(now, front, class) : class);
  Rf_setAttrib(x, R_ClassSymbol, class);
  UNPROTECT(1);
  return x;
}

int vg_is_fronted(SEXP x) { return in_front(Rf_getAttrib(x, R_ClassSymbol)) > 0; }

int vg_is_vector_class(SEXP class) {
  for (int t = 0; t < 4; t++)
    if (classes[t][0] == class) return 1;
  return 0;
}

// The strings in front of the array's own in the class attribute `class`, or NULL.
SEXP C_front_classes(SEXP class) {
  R_xlen_t front = in_front(class);
  return front > 0 ? Rf_xlengthgets(class, front) : R_NilValue;
}

int vg_is_own_class(const char *name) {
  for (int k = 0; k <= KINDS; k++)
    if (strcmp(CHAR(kinds[k]), name) == 0) return 1;
  return 0;
}

int vg_has_own_class(SEXP x) {
  SEXP class = Rf_getAttrib(x, R_ClassSymbol);
  if (TYPEOF(class) != STRSXP || XLENGTH(class) == 0) return 0;
  SEXP first = STRING_ELT(class, 0);
  for (int k = 0; k <= KINDS; k++)
    if (kinds[k] == first) return 1;
  return 0;
}

void vg_classify_as(SEXP x, SEXP dims, int series) {
  R_xlen_t n = dims == R_NilValue ? 0 : Rf_xlength(dims);
  vg_set_class(x, n == 0 ? (series ? 3 : 0) : n == 2 ? (series ? 4 : 1) : 2);
}

void vg_classify(SEXP x) {
  vg_classify_as(x, Rf_getAttrib(x, R_DimSymbol), Rf_getAttrib(x, R_TspSymbol) != R_NilValue);
}

// Copies dim, dimnames and names, which Rf_copyMostAttrib leaves out.
void vg_copy_shape(SEXP from, SEXP to) {
  SEXP value;
  if ((value = Rf_getAttrib(from, R_DimSymbol)) != R_NilValue) {
    Rf_setAttrib(to, R_DimSymbol, value);
    if ((value = Rf_getAttrib(from, R_DimNamesSymbol)) != R_NilValue) Rf_setAttrib(to, R_DimNamesSymbol, value);
  } else if ((value = Rf_getAttrib(from, R_NamesSymbol)) != R_NilValue) {
    Rf_setAttrib(to, R_NamesSymbol, value);
  }
}

void vg_copy_attributes(SEXP from, SEXP to) {
  Rf_copyMostAttrib(from, to);
  vg_copy_shape(from, to);
  // a matrix may have both names and dimnames; for one dimension Rf_getAttrib() returns the dimnames as names
  SEXP dim = Rf_getAttrib(from, R_DimSymbol);
  if (dim == R_NilValue || Rf_xlength(dim) == 1) return;
  SEXP names = Rf_getAttrib(from, R_NamesSymbol);
  if (names != R_NilValue) Rf_setAttrib(to, R_NamesSymbol, names);
}

// Copies all attributes to `to`, a new array of the same length.
SEXP C_copy_attributes(SEXP from, SEXP to) {
  vg_copy_attributes(from, to);
  vg_classify(to);
  return to;
}

void vg_init_attributes(void) {
  vg_dtype_symbol = Rf_install("gpu_dtype");
  static const char *types[4][2] = {{"logical", NULL}, {"integer", "numeric"}, {"numeric", NULL}, {"complex", NULL}};
  static const char *shapes[5][3] = {
    {NULL}, {"matrix", "array", NULL}, {"array", NULL}, {"ts", NULL}, {"ts", "matrix", "array"}};
  // S4 dispatch uses the first string only, so that string names type or shape (R/aaa-class.R)
  static const char *first[KINDS + 1] = {"gpu_logical", "gpu_integer", "gpu_numeric", "gpu_complex", "gpu_matrix",
    "gpu_tensor", "gpu_ts", "gpu_mts", "gpu_array"};
  for (int k = 0; k <= KINDS; k++) {
    kinds[k] = Rf_mkChar(first[k]);
    R_PreserveObject(kinds[k]);
  }
  for (int t = 0; t < 4; t++) {
    for (int s = 0; s < 5; s++) {
      const char *names[7] = {first[s == 0 ? t : s + 3], "gpu_array"};
      int n = 2;
      for (int k = 0; k < 3 && shapes[s][k] != NULL; k++) names[n++] = shapes[s][k];
      for (int k = 0; k < 2 && types[t][k] != NULL; k++) names[n++] = types[t][k];
      if (s == 0) names[n++] = "vector"; // is(x, "vector") calls inherits()
      SEXP class = Rf_allocVector(STRSXP, n);
      R_PreserveObject(class);
      for (int k = 0; k < n; k++) SET_STRING_ELT(class, k, Rf_mkChar(names[k]));
      MARK_NOT_MUTABLE(class);
      classes[t][s] = class;
    }
  }
}
