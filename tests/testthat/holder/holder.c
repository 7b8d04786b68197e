// C code that keeps the address of a vector's elements while it calls R, in the ways found in packages
// (test-prop-held.R).
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

// a function of its own asks, as C++ classes do
static __attribute__((noinline)) void *address_of(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP: return LOGICAL(x);
  case INTSXP: return INTEGER(x);
  case CPLXSXP: return COMPLEX(x);
  default: return REAL(x);
  }
}

static void put(SEXP x, void *address, int k, double value) {
  switch (TYPEOF(x)) {
  case LGLSXP: ((int *)address)[k] = value != 0; break;
  case INTSXP: ((int *)address)[k] = (int)value; break;
  case CPLXSXP: ((Rcomplex *)address)[k].r = value; break;
  default: ((double *)address)[k] = value;
  }
}

static SEXP run(SEXP f) {
  SEXP call = PROTECT(Rf_lang1(f));
  SEXP out = Rf_eval(call, R_GlobalEnv);
  UNPROTECT(1);
  return out;
}

// Writes before, between and after two calls of f.
static SEXP write_around(SEXP x, void *address, SEXP f) {
  put(x, address, 0, 50);
  run(f);
  put(x, address, 1, 60);
  run(f);
  put(x, address, 2, 70);
  return x;
}

SEXP hold(SEXP x, SEXP f) { return write_around(x, address_of(x), f); }

SEXP hold_external(SEXP args) {
  SEXP x = CADR(args), f = CADDR(args);
  return write_around(x, address_of(x), f);
}

// as cpp11 asks R for anything
typedef struct {
  SEXP x;
  void *address;
} Asked;

static SEXP ask(void *data) {
  Asked *asked = data;
  asked->address = address_of(asked->x);
  return R_NilValue;
}

static void clean(void *data, Rboolean jump) { (void)data; (void)jump; }

SEXP hold_unwind(SEXP x, SEXP f) {
  Asked asked = {x, NULL};
  SEXP token = PROTECT(R_MakeUnwindCont());
  R_UnwindProtect(ask, &asked, clean, NULL, token);
  write_around(x, asked.address, f);
  UNPROTECT(1);
  return x;
}

SEXP hold_two(SEXP x, SEXP y, SEXP f) {
  void *a = address_of(x), *b = address_of(y);
  put(x, a, 0, 50);
  put(y, b, 0, 51);
  run(f);
  put(x, a, 1, 60);
  put(y, b, 1, 61);
  run(f);
  return R_NilValue;
}

// the difference quotient of each element, by a function that reads x where R finds it
SEXP quotients(SEXP x, SEXP f) {
  double *at = REAL(x);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, XLENGTH(x)));
  double base = Rf_asReal(run(f));
  for (R_xlen_t k = 0; k < XLENGTH(x); k++) {
    double old = at[k];
    at[k] = old + 0.5;
    REAL(out)[k] = (Rf_asReal(run(f)) - base) / 0.5;
    at[k] = old;
  }
  UNPROTECT(1);
  return out;
}

SEXP write_once(SEXP x, SEXP k, SEXP value) {
  put(x, address_of(x), Rf_asInteger(k), Rf_asReal(value));
  return R_NilValue;
}
