// Operators and elementwise functions: base R's rules on lengths and attributes.
//
// The values are recorded by Rust (vg_record); what R says about dim, dimnames, names, tsp and the
// rest is said here, in C, so that R's errors may leave by longjmp with no Rust frame alive. The rules
// are those of ?Arithmetic, ?Comparison and ?Math.
#include "bridge.h"

SEXP vg_record(SEXP op, SEXP operands, SEXP call);  // Rust

static SEXP settled(SEXP result) { return vg_pending ? vg_settle(result) : result; }

static int is_array(SEXP x) { return vg_handle_of(x) != NULL || Rf_inherits(x, "gpu_array"); }

// The class that goes with the attributes.
static void classify(SEXP x) {
  R_xlen_t n = Rf_xlength(Rf_getAttrib(x, R_DimSymbol));
  int series = Rf_getAttrib(x, R_TspSymbol) != R_NilValue;
  vg_set_class(x, n == 0 ? (series ? 3 : 0) : n == 2 ? (series ? 4 : 1) : 2);
}

// Whether the device can take an operand: a number or logical whose class means nothing more than that.
static int takes(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP: case INTSXP: case REALSXP: case CPLXSXP: break;
  default: return 0;
  }
  return !Rf_isObject(x) || is_array(x) || Rf_inherits(x, "integer64") || Rf_inherits(x, "ts");
}

static int is_ts(SEXP x) { return Rf_getAttrib(x, R_TspSymbol) != R_NilValue; }

static int same_values(SEXP a, SEXP b) {
  if (TYPEOF(a) != TYPEOF(b) || XLENGTH(a) != XLENGTH(b)) return 0;
  for (R_xlen_t i = 0; i < XLENGTH(a); i++)
    if (TYPEOF(a) == INTSXP ? INTEGER_ELT(a, i) != INTEGER_ELT(b, i) : REAL_ELT(a, i) != REAL_ELT(b, i)) return 0;
  return 1;
}

// Everything that Rf_copyMostAttrib leaves out.
static void copy_shape(SEXP from, SEXP to) {
  SEXP value;
  if ((value = Rf_getAttrib(from, R_DimSymbol)) != R_NilValue) {
    Rf_setAttrib(to, R_DimSymbol, value);
    if ((value = Rf_getAttrib(from, R_DimNamesSymbol)) != R_NilValue) Rf_setAttrib(to, R_DimNamesSymbol, value);
  } else if ((value = Rf_getAttrib(from, R_NamesSymbol)) != R_NilValue) {
    Rf_setAttrib(to, R_NamesSymbol, value);
  }
}

static void copy_all(SEXP from, SEXP to) {
  Rf_copyMostAttrib(from, to);
  copy_shape(from, to);
}

static SEXP list2(SEXP a, SEXP b) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(list, 0, a);
  SET_VECTOR_ELT(list, 1, b);
  UNPROTECT(1);
  return list;
}

// Has R say, in the words of its version, that an array of one element is recycled.
static void deprecated_recycling(int array_first) {
  SEXP one = PROTECT(Rf_ScalarInteger(0)), two = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(two)[0] = INTEGER(two)[1] = 0;
  SEXP dim = PROTECT(Rf_ScalarInteger(1));
  Rf_setAttrib(one, R_DimSymbol, dim);
  SEXP call = PROTECT(Rf_lang3(Rf_install("+"), array_first ? one : two, array_first ? two : one));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(4);
}

// op: the row's name. most: whether all attributes are kept (arithmetic) or only the shape (comparison, logic).
// NULL where an operand is not for the device; the caller then asks base R.
SEXP C_binary(SEXP op, SEXP most, SEXP x, SEXP y, SEXP call) {
  if (!takes(x) || !takes(y)) return R_NilValue;
  R_xlen_t nx = Rf_xlength(x), ny = Rf_xlength(y);
  int xarray = Rf_isArray(x), yarray = Rf_isArray(y), xts = is_ts(x), yts = is_ts(y);
  int xshape = 1, yshape = 1, arithmetic = Rf_asLogical(most);
  // in arithmetic a matrix of one element beside a vector counts as a vector; R deprecates it
  if (xarray != yarray && arithmetic) {
    if (xarray && nx == 1 && ny != 1) xarray = xshape = 0;
    if (yarray && ny == 1 && nx != 1) yarray = yshape = 0;
    if ((!xshape && ny > 0) || (!yshape && nx > 0)) deprecated_recycling(!xshape);
  }
  SEXP dims = R_NilValue;
  if (xarray && yarray) {
    dims = Rf_getAttrib(x, R_DimSymbol);
    if (!same_values(dims, Rf_getAttrib(y, R_DimSymbol))) vg_say("stop_as_base", "non-conformable arrays");
  } else if (xarray && (ny != 0 || nx == 0)) {
    dims = Rf_getAttrib(x, R_DimSymbol);
  } else if (yarray && (nx != 0 || ny == 0)) {
    dims = Rf_getAttrib(y, R_DimSymbol);
  }
  PROTECT(dims);
  SEXP series = R_NilValue;
  if (xts && yts) {
    // base R takes the time that both have
    if (!same_values(Rf_getAttrib(x, R_TspSymbol), Rf_getAttrib(y, R_TspSymbol))) {
      UNPROTECT(1);
      return R_NilValue;
    }
    series = x;
  } else if (xts || yts) {
    if (xts ? nx < ny : ny < nx) vg_say("stop_as_base", "time-series/vector length mismatch");
    series = xts ? x : y;
  }
  if (nx > 0 && ny > 0 && (nx > ny ? nx % ny : ny % nx) != 0)
    vg_say("warn_as_base", "longer object length is not a multiple of shorter object length");

  SEXP operands = PROTECT(list2(x, y));
  SEXP out = PROTECT(settled(vg_record(op, operands, call)));
  R_xlen_t n = Rf_xlength(out);
  if (arithmetic) {
    if (ny == n) Rf_copyMostAttrib(y, out);
    if (nx == n) Rf_copyMostAttrib(x, out);  // second, so that x's win
  }
  SEXP which = (xarray || yarray) ? R_DimNamesSymbol : R_NamesSymbol;
  SEXP xnames = PROTECT(xshape ? Rf_getAttrib(x, which) : R_NilValue);
  SEXP ynames = PROTECT(yshape ? Rf_getAttrib(y, which) : R_NilValue);
  if (dims != R_NilValue) {
    Rf_setAttrib(out, R_DimSymbol, dims);
    if (xarray && xnames != R_NilValue) Rf_setAttrib(out, R_DimNamesSymbol, xnames);
    else if (yarray && ynames != R_NilValue) Rf_setAttrib(out, R_DimNamesSymbol, ynames);
  } else if (which == R_NamesSymbol) {
    if (xnames != R_NilValue && Rf_xlength(xnames) == n) Rf_setAttrib(out, R_NamesSymbol, xnames);
    else if (ynames != R_NilValue && Rf_xlength(ynames) == n) Rf_setAttrib(out, R_NamesSymbol, ynames);
  }
  if (series != R_NilValue) Rf_setAttrib(out, R_TspSymbol, Rf_getAttrib(series, R_TspSymbol));
  classify(out);
  UNPROTECT(5);
  return out;
}

// One array operand. keep: 0 nothing, 1 the shape, 2 all attributes.
SEXP C_unary(SEXP op, SEXP keep, SEXP x, SEXP call) {
  SEXP operands = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(operands, 0, x);
  SEXP out = PROTECT(settled(vg_record(op, operands, call)));
  int k = Rf_asInteger(keep);
  if (k == 2) copy_all(x, out);
  else if (k == 1) copy_shape(x, out);
  classify(out);
  UNPROTECT(2);
  return out;
}

// Several operands, recycled without a word, as the Math and distribution functions do: all attributes
// are those of the first operand that is as long as the result. NULL as for C_binary.
SEXP C_recycled(SEXP op, SEXP operands, SEXP call) {
  R_xlen_t count = XLENGTH(operands);
  for (R_xlen_t k = 0; k < count; k++)
    if (!takes(VECTOR_ELT(operands, k))) return R_NilValue;
  SEXP out = PROTECT(settled(vg_record(op, operands, call)));
  R_xlen_t n = Rf_xlength(out);
  for (R_xlen_t k = 0; k < count; k++) {
    SEXP x = VECTOR_ELT(operands, k);
    if (Rf_xlength(x) == n) {
      copy_all(x, out);
      break;
    }
  }
  classify(out);
  UNPROTECT(1);
  return out;
}

// All attributes of `from` on `to`, a new array of the same length.
SEXP C_copy_attributes(SEXP from, SEXP to) {
  copy_all(from, to);
  classify(to);
  return to;
}
