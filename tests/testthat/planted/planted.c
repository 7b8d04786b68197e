// Preloaded into R by test-prop-planted.R: makes the k-th call of R's allocating functions by the package fail, or be
// interrupted as at the end of a collection.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <R_ext/Altrep.h>
#include <R_ext/Utils.h>

extern int R_interrupts_pending;

static int left = 0, mode = 0, calls = 0, active = 0;

// Whether the package's library has called, not R or another package.
static int is_ours(void *from) {
  Dl_info info;
  return dladdr(from, &info) && info.dli_fname && strstr(info.dli_fname, "verdigris.so");
}

static void pass(void *from) {
  if (!active || !is_ours(from)) return;
  calls++;
  if (--left != 0) return;
  if (mode == 0) Rf_error("planted: no memory");
  R_interrupts_pending = 1;
  R_CheckUserInterrupt();
}

// mode 0: an error; 1: an interrupt.
void planted_arm(int *k, int *how) {
  left = *k;
  mode = *how;
  calls = 0;
  active = 1;
}

void planted_disarm(int *counted) {
  active = 0;
  *counted = calls;
}

// Where R would look for an interrupt sooner or later.
void planted_check(void) { R_CheckUserInterrupt(); }

#define FORWARD(type, name, declared, ...)                                                         \
  type name declared {                                                                             \
    static type(*real) declared = NULL;                                                            \
    if (!real) real = (type(*) declared)dlsym(RTLD_NEXT, #name);                                   \
    pass(__builtin_return_address(0));                                                             \
    return real(__VA_ARGS__);                                                                      \
  }

FORWARD(SEXP, Rf_allocVector, (SEXPTYPE type, R_xlen_t n), type, n)
FORWARD(SEXP, Rf_cons, (SEXP a, SEXP b), a, b)
FORWARD(SEXP, Rf_lcons, (SEXP a, SEXP b), a, b)
FORWARD(SEXP, Rf_mkChar, (const char *text), text)
FORWARD(SEXP, Rf_mkCharLenCE, (const char *text, int n, cetype_t code), text, n, code)
FORWARD(SEXP, Rf_mkString, (const char *text), text)
FORWARD(SEXP, Rf_ScalarReal, (double x), x)
FORWARD(SEXP, Rf_ScalarInteger, (int x), x)
FORWARD(SEXP, Rf_ScalarString, (SEXP x), x)
FORWARD(SEXP, Rf_ScalarComplex, (Rcomplex x), x)
FORWARD(SEXP, Rf_coerceVector, (SEXP x, SEXPTYPE type), x, type)
FORWARD(SEXP, Rf_shallow_duplicate, (SEXP x), x)
FORWARD(SEXP, Rf_install, (const char *name), name)
FORWARD(SEXP, Rf_eval, (SEXP x, SEXP where), x, where)
FORWARD(SEXP, R_MakeExternalPtr, (void *at, SEXP tag, SEXP kept), at, tag, kept)
FORWARD(SEXP, R_new_altrep, (R_altrep_class_t class, SEXP data1, SEXP data2), class, data1, data2)
FORWARD(SEXP, Rf_setAttrib, (SEXP x, SEXP name, SEXP value), x, name, value)
FORWARD(const char *, Rf_translateCharUTF8, (SEXP x), x)

// R makes memory for the elements of compact vectors alone
#define FORWARD_ELEMENTS(type, name)                                                               \
  type name(SEXP x) {                                                                              \
    static type (*real)(SEXP) = NULL;                                                              \
    if (!real) real = (type(*)(SEXP))dlsym(RTLD_NEXT, #name);                                      \
    if (ALTREP(x)) pass(__builtin_return_address(0));                                              \
    return real(x);                                                                                \
  }

FORWARD_ELEMENTS(const int *, INTEGER_RO)
FORWARD_ELEMENTS(const double *, REAL_RO)
FORWARD_ELEMENTS(int *, INTEGER)

void R_RegisterCFinalizerEx(SEXP x, R_CFinalizer_t run, Rboolean at_exit) {
  static void (*real)(SEXP, R_CFinalizer_t, Rboolean) = NULL;
  if (!real) real = (void (*)(SEXP, R_CFinalizer_t, Rboolean))dlsym(RTLD_NEXT, "R_RegisterCFinalizerEx");
  pass(__builtin_return_address(0));
  real(x, run, at_exit);
}

void R_PreserveObject(SEXP x) {
  static void (*real)(SEXP) = NULL;
  if (!real) real = (void (*)(SEXP))dlsym(RTLD_NEXT, "R_PreserveObject");
  pass(__builtin_return_address(0));
  real(x);
}
