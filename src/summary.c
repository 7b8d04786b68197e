// gpu_compute() and the Summary group. These calls are frequent, so each is one .External2: C takes the arguments from
// the frame, without the argument list that .Call() would make. Less frequent cases go to helpers in R.
#include "summary.h"
#include "conditions.h"
#include "dots.h"
#include "helpers.h"

// Rust.
SEXP vg_compute_one(SEXP x);
SEXP vg_reduce(SEXP name, SEXP x, SEXP na_rm);

static SEXP out_symbol, name_symbol, na_rm_symbol, several_call, parts_call, leaves_out_call, explain_call;

void vg_init_summary(void) {
  out_symbol = Rf_install("out");
  name_symbol = Rf_install("name");
  na_rm_symbol = Rf_install("na.rm");
  several_call = vg_preserved("compute_several(..., out = out, call = sys.call())");
  parts_call = vg_preserved("reduce_parts(name, list(...), na.rm)");
  leaves_out_call = vg_preserved("leaves_out(name, na.rm)");
  explain_call = vg_preserved("explain_status(name, value, ..1, sys.call())");
}

// The value of `...` if it is a single GPU array; otherwise a null pointer.
static SEXP only_array(SEXP rho) {
  if (vg_dots_length(rho) != 1 || vg_dots_kind(1, rho) == VG_EMPTY) return NULL;
  SEXP x = vg_dots_value(1, rho);
  return Rf_inherits(x, "gpu_array") ? x : NULL;
}

// gpu_compute(..., out = NULL).
SEXP C_evaluate(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = only_array(rho);
  if (x == NULL || Rf_eval(out_symbol, rho) != R_NilValue) return Rf_eval(several_call, rho);
  vg_compute_one(x);
  if (vg_pending) vg_raise_pending(R_NilValue);
  return x;
}

// A method of the Summary group, function(..., na.rm = FALSE); `name` is in its environment.
SEXP C_summary(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = only_array(rho);
  if (x == NULL) return Rf_eval(parts_call, rho);
  SEXP na_rm = Rf_eval(na_rm_symbol, rho);
  int flag = TYPEOF(na_rm) == LGLSXP && XLENGTH(na_rm) == 1 ? LOGICAL_ELT(na_rm, 0) : NA_LOGICAL;
  int leave_out = flag != NA_LOGICAL ? flag : Rf_asLogical(Rf_eval(leaves_out_call, rho));
  SEXP name = Rf_eval(name_symbol, rho);
  if ((TYPEOF(x) == REALSXP || TYPEOF(x) == CPLXSXP) && XLENGTH(x) > 0 && CHAR(STRING_ELT(name, 0))[0] == 'a') {
    // any() and all()
    vg_say("warn_as_base", TYPEOF(x) == REALSXP ? "coercing argument of type 'double' to logical"
                                                : "coercing argument of type 'complex' to logical");
  }
  SEXP value = vg_reduce(name, x, Rf_ScalarLogical(leave_out));
  if (vg_pending) vg_raise_pending(value);
  if (TYPEOF(value) != VECSXP) return value;
  PROTECT(value);
  SEXP explain = PROTECT(Rf_shallow_duplicate(explain_call));
  SETCAR(CDDR(explain), value);
  value = Rf_eval(explain, rho);
  UNPROTECT(2);
  return value;
}

// Whether a list or a nested list has a GPU array as an element. In C, since every unlist() calls it.
static int holds_array(SEXP list) {
  R_xlen_t n = XLENGTH(list);
  for (R_xlen_t k = 0; k < n; k++) {
    SEXP x = VECTOR_ELT(list, k);
    if (TYPEOF(x) == VECSXP ? holds_array(x) : Rf_inherits(x, "gpu_array")) return 1;
  }
  return 0;
}

SEXP C_holds_array(SEXP x) {
  return Rf_ScalarLogical(TYPEOF(x) == VECSXP && holds_array(x));
}
