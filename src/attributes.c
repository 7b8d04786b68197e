// Attributes of arrays: the class that their dimensions imply, and copying.
#include "attributes.h"

static SEXP classes[4][5]; // class attributes by type and shape
SEXP vg_dtype_symbol;

SEXP vg_set_class(SEXP x, int shape) {
  // of an operand that was saved: it is not the dtype of this array
  if (Rf_getAttrib(x, vg_dtype_symbol) != R_NilValue) Rf_setAttrib(x, vg_dtype_symbol, R_NilValue);
  SEXP class = classes[vg_place_of(TYPEOF(x))][shape];
  // an operand's attributes, copied, have brought the class along more often than not
  if (Rf_getAttrib(x, R_ClassSymbol) != class) Rf_setAttrib(x, R_ClassSymbol, class);
#if R_VERSION < R_Version(4, 3, 0)
  PROTECT(x);
  x = Rf_asS4(x, TRUE, 0); // S4 methods on Ops are the only way past Date and factor there
  UNPROTECT(1);
#endif
  return x;
}

// The class that goes with a dim attribute and tsp.
void vg_classify_as(SEXP x, SEXP dims, int series) {
  R_xlen_t n = dims == R_NilValue ? 0 : Rf_xlength(dims);
  vg_set_class(x, n == 0 ? (series ? 3 : 0) : n == 2 ? (series ? 4 : 1) : 2);
}

// The class that goes with the attributes.
void vg_classify(SEXP x) {
  vg_classify_as(x, Rf_getAttrib(x, R_DimSymbol), Rf_getAttrib(x, R_TspSymbol) != R_NilValue);
}

// Everything that Rf_copyMostAttrib leaves out.
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
  // a matrix may have names beside its dimnames; of one dimension R gives the dimnames for them
  SEXP dim = Rf_getAttrib(from, R_DimSymbol);
  if (dim == R_NilValue || Rf_xlength(dim) == 1) return;
  SEXP names = Rf_getAttrib(from, R_NamesSymbol);
  if (names != R_NilValue) Rf_setAttrib(to, R_NamesSymbol, names);
}

// All attributes of `from` on `to`, a new array of the same length.
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
  for (int t = 0; t < 4; t++) {
    for (int s = 0; s < 5; s++) {
      const char *names[6] = {"gpu_array"};
      int n = 1;
      for (int k = 0; k < 3 && shapes[s][k] != NULL; k++) names[n++] = shapes[s][k];
      for (int k = 0; k < 2 && types[t][k] != NULL; k++) names[n++] = types[t][k];
      SEXP class = Rf_allocVector(STRSXP, n);
      R_PreserveObject(class);
      for (int k = 0; k < n; k++) SET_STRING_ELT(class, k, Rf_mkChar(names[k]));
      MARK_NOT_MUTABLE(class);
      classes[t][s] = class;
    }
  }
}
