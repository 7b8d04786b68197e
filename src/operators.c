// Operators and elementwise functions: base R's rules on lengths and attributes.
//
// Rust records the operation (vg_record). The rules on dim, dimnames, names, tsp and other attributes (?Arithmetic,
// ?Comparison, ?Math) are applied here in C, so that R's errors may longjmp: no Rust frame is alive.
#include "operators.h"
#include "altrep-array.h"
#include "attributes.h"
#include "conditions.h"
#include "dispatch.h"
#include "handlers.h"
#include "helpers.h"
#include "target.h"
#include "unwind.h"

// Rust. Results have no attributes, not even a class.
SEXP vg_record(SEXP op, SEXP operands, SEXP call); // call: NULL pointer: C stores it, as for vg_record_here
SEXP vg_record_here(SEXP op, SEXP x, SEXP y);  // y: a null pointer for unary operations

static SEXP on_host_call, own_call, operator_symbol, generic_symbol, row_symbol, most_symbol,
  x_symbol, e1_symbol, e2_symbol;

void vg_init_operators(void) {
  operator_symbol = Rf_install("operator");
  own_call = Rf_ScalarInteger(0);
  R_PreserveObject(own_call);
  generic_symbol = Rf_install(".Generic");
  row_symbol = Rf_install("row");
  x_symbol = Rf_install("x");
  most_symbol = Rf_install("most");
  e1_symbol = Rf_install("e1");
  e2_symbol = Rf_install("e2");
  on_host_call = Rf_lang4(Rf_install("operands_on_host"), Rf_install("f"), Rf_install("e1"), Rf_install("e2"));
  R_PreserveObject(on_host_call);
}

// The call as the user wrote it, from R's name of the function and the operands' code. If that is not known, the
// argument for sys.call() instead.
static SEXP written(SEXP rho, int is_binary) {
  SEXP first = vg_argument_code(is_binary ? e1_symbol : x_symbol, rho), second = NULL;
  if (first == NULL || (is_binary && (second = vg_argument_code(e2_symbol, rho)) == NULL)) return own_call;
  SEXP name = is_binary ? Rf_eval(operator_symbol, rho) : vg_argument_code(generic_symbol, rho);
  if (name == NULL || TYPEOF(name) != STRSXP) return own_call;
  SEXP function = Rf_installChar(STRING_ELT(name, 0));
  return is_binary ? Rf_lang3(function, first, second) : Rf_lang2(function, first);
}

// Records an operation for the method with frame `rho`. The call is built only if Rust wants it: few operations can
// warn.
static SEXP recorded(SEXP op, SEXP x, SEXP y, SEXP rho) {
  SEXP out = vg_record_here(op, x, y);
  if (vg_call_site_wanted == NULL) return vg_checked(out);
  PROTECT(out);
  vg_finish_recording(out, rho, written(rho, y != NULL));
  UNPROTECT(1);
  return vg_checked(out);
}

// Whether an operand can be computed with on a device: numeric, logical or complex, and with no class that gives the
// numbers another meaning, such as factor or Date.
static int takes(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP: case INTSXP: case REALSXP: case CPLXSXP: break;
  default: return 0;
  }
  return !Rf_isObject(x) || Rf_inherits(x, "gpu_array") || Rf_inherits(x, "integer64") || Rf_inherits(x, "ts");
}

static int is_ts(SEXP x) { return Rf_getAttrib(x, R_TspSymbol) != R_NilValue; }

static int same_values(SEXP a, SEXP b) {
  if (TYPEOF(a) != TYPEOF(b) || XLENGTH(a) != XLENGTH(b)) return 0;
  for (R_xlen_t i = 0; i < XLENGTH(a); i++)
    if (TYPEOF(a) == INTSXP ? INTEGER_ELT(a, i) != INTEGER_ELT(b, i) : REAL_ELT(a, i) != REAL_ELT(b, i)) return 0;
  return 1;
}

// The number of time points of a series with this dim and length.
static R_xlen_t times_of(SEXP dims, R_xlen_t n) { return dims == R_NilValue ? n : INTEGER_ELT(dims, 0); }

// Whether a vector has no attributes to look up and copy, except maybe the class of an array of no dimensions. 0 also if
// R's API has no fast test. Looking for absent attributes would be half of the cost of recording.
#if R_VERSION < R_Version(4, 5, 0)
static int is_plain(SEXP x) {
  SEXP attributes = ATTRIB(x);
  return attributes == R_NilValue || (TAG(attributes) == R_ClassSymbol && CDR(attributes) == R_NilValue &&
    vg_is_vector_class(CAR(attributes)));
}
#else
static int is_plain(SEXP x) { return 0; }
#endif

// Records a binary operation and sets the result's attributes. `most` is TRUE for arithmetic, which keeps all
// attributes. R_NilValue if base R must compute it on the host.
static SEXP binary(SEXP op, SEXP most, SEXP x, SEXP y, SEXP rho) {
  if (!takes(x) || !takes(y)) return R_NilValue;
  R_xlen_t nx = Rf_xlength(x), ny = Rf_xlength(y);
  if ((nx == ny || nx == 1 || ny == 1) && is_plain(x) && is_plain(y)) {
    SEXP out = PROTECT(recorded(op, x, y, rho));
    vg_set_class(out, 0);
    UNPROTECT(1);
    return out;
  }
  int xarray = Rf_isArray(x), yarray = Rf_isArray(y), xts = is_ts(x), yts = is_ts(y);
  int xshape = 1, yshape = 1, arithmetic = Rf_asLogical(most);
  // in arithmetic with a longer vector, a one-element array is treated as a vector and loses its dimnames; R has
  // deprecated this
  int array = xarray || yarray;
  if (xarray != yarray && arithmetic) {
    if (xarray && nx == 1 && ny != 1) xarray = xshape = 0;
    if (yarray && ny == 1 && nx != 1) yarray = yshape = 0;
    if ((!xshape && ny > 0) || (!yshape && nx > 0)) vg_say("recycled_array", xshape ? "second" : "first");
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
    // base R computes on the intersection of the two time ranges, and names the columns of multiple series by both
    if (xarray || yarray || !same_values(Rf_getAttrib(x, R_TspSymbol), Rf_getAttrib(y, R_TspSymbol))) {
      UNPROTECT(1);
      return R_NilValue;
    }
    series = x;
  } else if (xts || yts) {
    if (xts ? nx < ny : ny < nx) vg_say("stop_as_base", "time-series/vector length mismatch");
    series = xts ? x : y;
  }
  // if tsp does not fit the result, base R raises the error: Rf_setAttrib() does not check tsp for S4 objects
  if (series != R_NilValue) {
    R_xlen_t times = nx == 0 || ny == 0 ? 0 : times_of(dims, nx > ny ? nx : ny);
    if (times != times_of(Rf_getAttrib(series, R_DimSymbol), Rf_xlength(series))) {
      UNPROTECT(1);
      return R_NilValue;
    }
  }
  if (nx > 0 && ny > 0 && (nx > ny ? nx % ny : ny % nx) != 0)
    vg_say("warn_as_base", "longer object length is not a multiple of shorter object length");

  SEXP out = PROTECT(recorded(op, x, y, rho));
  R_xlen_t n = nx == 0 || ny == 0 ? 0 : nx > ny ? nx : ny;
  if (arithmetic) {
    if (ny == n) Rf_copyMostAttrib(y, out);
    // x's is second, so that x's win; but an array's own class is none of its attributes in base R
    SEXP front = PROTECT(ny == n && nx == n && vg_is_fronted(y) && !vg_is_fronted(x) ?
      Rf_getAttrib(y, R_ClassSymbol) : R_NilValue);
    if (nx == n) Rf_copyMostAttrib(x, out);
    if (front != R_NilValue) Rf_setAttrib(out, R_ClassSymbol, front);
    UNPROTECT(1);
  }
  SEXP which = array ? R_DimNamesSymbol : R_NamesSymbol;
  SEXP xnames = PROTECT(xshape ? Rf_getAttrib(x, which) : R_NilValue);
  SEXP ynames = PROTECT(yshape ? Rf_getAttrib(y, which) : R_NilValue);
  if (dims != R_NilValue) {
    Rf_setAttrib(out, R_DimSymbol, dims);
    if (xarray && xnames != R_NilValue) Rf_setAttrib(out, R_DimNamesSymbol, xnames);
    else if (yarray && ynames != R_NilValue) Rf_setAttrib(out, R_DimNamesSymbol, ynames);
  } else if (which == R_NamesSymbol) {
    if (xnames != R_NilValue && Rf_xlength(xnames) == n) Rf_setAttrib(out, R_NamesSymbol, xnames);
    // for empty results of arithmetic base R keeps only the first operand's names
    else if (ynames != R_NilValue && Rf_xlength(ynames) == n && (n > 0 || !arithmetic))
      Rf_setAttrib(out, R_NamesSymbol, ynames);
  }
  if (series != R_NilValue) Rf_setAttrib(out, R_TspSymbol, Rf_getAttrib(series, R_TspSymbol));
  vg_classify_as(out, dims, series != R_NilValue);
  UNPROTECT(4);
  return out;
}

// .External2(C_binary) in the method of an operator. Its variables are taken from the method's frame and environment,
// since arguments of the call would cost allocations: `row`, the operation; `most`, whether all attributes are kept
// (arithmetic) or only the shape (comparison, logic); the operands `e1` and `e2`; `operator`, R's name; and `f`, base
// R's function for operands that must be computed on the host.
SEXP C_binary(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = PROTECT(Rf_eval(e1_symbol, rho)), y = PROTECT(Rf_eval(e2_symbol, rho));
  vg_lookup_pending = 0;
  SEXP out = binary(Rf_eval(row_symbol, rho), Rf_eval(most_symbol, rho), x, y, rho);
  if (out == R_NilValue) out = Rf_eval(on_host_call, rho);
  UNPROTECT(2);
  return out;
}

// Sets the attributes of a unary result. `keep`: 0 none, 1 the shape, 2 all attributes of x.
static SEXP unary(SEXP out, int keep, SEXP x) {
  PROTECT(out);
  if (keep == 2) vg_copy_attributes(x, out);
  else if (keep == 1) vg_copy_shape(x, out);
  vg_classify(out);
  UNPROTECT(1);
  return out;
}

// .External2(C_elementwise, row, keep, x), in a method with one array operand.
SEXP C_elementwise(SEXP call, SEXP op, SEXP args, SEXP rho) {
  vg_lookup_pending = 0;
  SEXP row = CAR(args = CDR(args)), keep = CAR(args = CDR(args)), x = CAR(CDR(args));
  return unary(recorded(row, x, NULL, rho), Rf_asInteger(keep), x);
}

// The same for callers that pass the call to show in warnings.
SEXP C_unary(SEXP op, SEXP keep, SEXP x, SEXP call) {
  SEXP operands = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(operands, 0, x);
  SEXP out = vg_record(op, operands, call);
  if (vg_call_site_wanted != NULL) vg_finish_recording(out, NULL, R_NilValue);
  out = unary(vg_checked(out), Rf_asInteger(keep), x);
  UNPROTECT(1);
  return out;
}

// .External2(C_recycled, row, operands, whose): several operands, recycled without a warning, as the Math and
// distribution functions do. All attributes are those of the first operand that is as long as the result. `whose` is
// the argument for sys.call(), or NULL to show no call. Returns NULL if base R must compute it on the host.
SEXP C_recycled(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP row = CAR(args = CDR(args)), operands = CAR(args = CDR(args)), whose = CAR(CDR(args));
  R_xlen_t count = XLENGTH(operands);
  for (R_xlen_t k = 0; k < count; k++)
    if (!takes(VECTOR_ELT(operands, k))) return R_NilValue;
  SEXP out = vg_record(row, operands, whose == R_NilValue ? whose : NULL);
  if (vg_call_site_wanted != NULL) vg_finish_recording(out, rho, whose);
  out = PROTECT(vg_checked(out));
  R_xlen_t n = Rf_xlength(out);
  for (R_xlen_t k = 0; k < count; k++) {
    SEXP x = VECTOR_ELT(operands, k);
    if (Rf_xlength(x) == n) {
      vg_copy_attributes(x, out);
      break;
    }
  }
  vg_classify(out);
  UNPROTECT(1);
  return out;
}
