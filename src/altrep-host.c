// ALTREP vectors whose elements are in a block of the host pool, so that reading a large array needs no second copy.
// They have no class attribute. R reads and writes them in place, and saves and copies them as plain vectors.
//
// A vector's data1 is an external pointer to an Owned<Vector> in Rust (rust/src/array/host_vector.rs). The struct below
// mirrors its first fields.
#include <string.h>
#include "altrep-classes.h"
#include "altrep-host.h"
#include "entry.h"
#include "finalizers.h"

typedef struct {
  vg_header header;
  void *start;
} Vector;

static Vector *vector(SEXP x) {
  Vector *v = vg_value(R_altrep_data1(x));
  if (v != NULL) return v;
  vg_leave_freed(0);
  vg_raise_pending(R_NilValue);
  Rf_errorcall(R_NilValue, "%s", "verdigris: a vector has no values");
}

SEXP vg_new_vector(int type) {
  SEXP pointer = PROTECT(vg_new_pointer(R_NilValue, NULL));
  SEXP x = R_new_altrep(class_of(type), pointer, R_NilValue);
  UNPROTECT(1);
  return x;
}

SEXP vg_collect_into(SEXP x, SEXP out); // Rust

// Copies an array's elements into a vector that R allocates. Allocated here, since R code would have it filled with
// zeros first.
SEXP C_collect_ordinary(SEXP x) {
  SEXP out = PROTECT(Rf_allocVector(TYPEOF(x), XLENGTH(x)));
  SEXP done = vg_collect_into(x, out);
  UNPROTECT(1);
  return vg_returned(done);
}

static R_xlen_t length_method(SEXP x) { return vg_length_of(R_altrep_data1(x)); }
static void *dataptr_method(SEXP x, Rboolean writable) { return vector(x)->start; }
static const void *dataptr_or_null_method(SEXP x) {
  Vector *v = vg_value(R_altrep_data1(x));
  return v == NULL ? NULL : v->start;
}

static Rboolean inspect_method(SEXP x, int pre, int deep, int pvec, void (*subtree)(SEXP, int, int, int)) {
  Rprintf(" read from a GPU array [%lld]\n", (long long)length_method(x));
  return TRUE;
}

#define ACCESS(name, type)                                                                         \
  static type name##_elt(SEXP x, R_xlen_t i) { return ((type *)vector(x)->start)[i]; }             \
  static R_xlen_t name##_get_region(SEXP x, R_xlen_t i, R_xlen_t n, type *out) {                   \
    Vector *v = vector(x);                                                                         \
    R_xlen_t length = v->header.length;                                                             \
    if (i >= length || n <= 0) return 0;                                                           \
    if (n > length - i) n = length - i;                                                            \
    memcpy(out, (type *)v->start + i, (size_t)n * sizeof(type));                                   \
    return n;                                                                                      \
  }
ACCESS(logical, int)
ACCESS(integer, int)
ACCESS(real, double)
ACCESS(complex, Rcomplex)

void vg_register_host_vectors(DllInfo *dll) {
  VG_MAKE_CLASS("host", logical)
  VG_MAKE_CLASS("host", integer)
  VG_MAKE_CLASS("host", real)
  VG_MAKE_CLASS("host", complex)
}
