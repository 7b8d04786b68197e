// The ALTREP classes of arrays (docs/altrep.md).
//
// A vector's data1 is an external pointer to a Handle in Rust, or, as long as the vector has no handle, its lazy cell
// (rust/src/array/lazy.rs). When the handle is made, the lazy cell moves to data2. The methods call Rust functions that
// return a status; conditions are raised here, when no Rust frame is alive.
#include <string.h>
#include "altrep-array.h"
#include "altrep-classes.h"
#include "attributes.h"
#include "conditions.h"
#include "dispatch.h"
#include "finalizers.h"
#include "helpers.h"
#include "holders.h"
#include "unwind.h"

static SEXP wrappers[4];      // ALTREP classes of base R's wrappers (wrap_real ...), by vg_place_of(); set by .onLoad
static SEXP access_symbol;

static int is_recorded(SEXP x) { return TYPEOF(R_altrep_data1(x)) == LISTSXP; }

// Set while try_handle() calls Dataptr only to have the handle made.
static int making_handle_only = 0;

// The handle; a vector that is only recorded gets one here. NULL on failure, or if the value was freed. Making a handle
// allocates, and callers of Elt methods do not expect a garbage collection. R's API cannot switch the collector off,
// but R does so itself while a Dataptr method runs.
static void *try_handle(SEXP x) {
  if (is_recorded(x)) {
    making_handle_only = 1;
    (void)DATAPTR_RO(x);
    if (is_recorded(x)) return NULL;
  }
  return vg_value(R_altrep_data1(x));
}

// The handle, or an error.
static void *handle(SEXP x) {
  if (vg_lookup_pending) vg_refuse_operator();
  void *h = try_handle(x);
  if (h != NULL) return h;
  if (!vg_pending) vg_leave_freed(1);
  vg_raise_pending(R_NilValue);
  Rf_errorcall(R_NilValue, "%s", "verdigris: an array has no values");
}

SEXP vg_data_of(SEXP x) {
  if (!ALTREP(x) || vg_place_of(TYPEOF(x)) < 0 || !R_altrep_inherits(x, class_of(TYPEOF(x)))) return NULL;
  return R_altrep_data1(x);
}

// The vector of this package that x is, or that base R's wrappers around x hold; a null pointer if there is none.
static SEXP ours(SEXP x) {
  while (ALTREP(x)) {
    int place = vg_place_of(TYPEOF(x));
    if (place < 0) return NULL;
    if (R_altrep_inherits(x, class_of(TYPEOF(x)))) return x;
    if (wrappers[place] == NULL || ALTREP_CLASS(x) != wrappers[place]) return NULL;
    x = R_altrep_data1(x);
  }
  return NULL;
}

// R's reference count is an upper bound. A function for Rust, since MAYBE_SHARED is a macro in some versions of R.
int vg_is_shared(SEXP x) { return MAYBE_SHARED(x); }

int vg_is_ours(SEXP x) { return ours(x) != NULL; }

void *vg_handle_of(SEXP x) {
  SEXP vector = ours(x);
  return vector == NULL ? NULL : try_handle(vector);
}

// R serialises a wrapper as a wrapper, so gpu_dtype may be an attribute of the vector inside.
SEXP vg_saved_dtype(SEXP x) {
  SEXP dtype = Rf_getAttrib(x, vg_dtype_symbol);
  for (int place; dtype == R_NilValue && ALTREP(x) && (place = vg_place_of(TYPEOF(x))) >= 0 &&
                  wrappers[place] != NULL && ALTREP_CLASS(x) == wrappers[place];) {
    x = R_altrep_data1(x);
    dtype = Rf_getAttrib(x, vg_dtype_symbol);
  }
  return dtype;
}

void vg_learn_wrapper(SEXP x) {
  int place = vg_place_of(TYPEOF(x));
  if (place >= 0 && ALTREP(x)) wrappers[place] = ALTREP_CLASS(x); // R never frees an ALTREP class
}

static SEXP new_vector(int type, SEXP data) {
  return R_new_altrep(class_of(type), data, R_NilValue);
}

SEXP vg_new(int type) {
  SEXP pointer = PROTECT(vg_new_pointer(R_NilValue, NULL));
  SEXP x = new_vector(type, pointer);
  UNPROTECT(1);
  return x;
}

SEXP vg_new_classed(int type) {
  SEXP x = PROTECT(vg_new(type));
  x = vg_set_class(x, 0);
  UNPROTECT(1);
  return x;
}

SEXP vg_new_recorded(int type, SEXP cell) { return new_vector(type, cell); }

// ---- access to the host copy ---------------------------------------------------------------------

// The value of option verdigris.host_access: "inform", "allow" or "error". With "error", implicit reads of more than
// one element fail.
static const char *access_rule(void) {
  SEXP rule = Rf_GetOption1(access_symbol);
  if (rule == R_NilValue) return "inform";
  if (TYPEOF(rule) == STRSXP && XLENGTH(rule) == 1) {
    const char *said = CHAR(STRING_ELT(rule, 0));
    if (strcmp(said, "inform") == 0 || strcmp(said, "allow") == 0 || strcmp(said, "error") == 0) return said;
  }
  vg_eval_helper("refuse_access_rule", R_NilValue, R_NilValue);
  return "inform";
}

static void signal_access(const char *helper, void *h) {
  SEXP length = PROTECT(Rf_ScalarReal((double)((vg_header *)h)->length));
  SEXP bytes = PROTECT(Rf_ScalarReal(vg_handle_bytes(h)));
  vg_eval_helper(helper, length, bytes);
  UNPROTECT(2);
}

// Raises the error of option "error", before elements are read.
static void check_access(void *h) {
  if (vg_is_ordinary(h) || ((vg_header *)h)->length <= 1) return;
  if (strcmp(access_rule(), "error") == 0) signal_access("refuse_host_access", h);
}

// Signals the message about a large copy to the host. Called when the host copy is set, so that a handler may use the
// array.
static void inform(void *h) {
  if (vg_is_ordinary(h) || ((vg_header *)h)->length <= 1000000) return;
  if (strcmp(access_rule(), "inform") == 0) signal_access("inform_host_access", h);
}

// A number that changes whenever the R function that reads is not the one that read last. That function's environment
// is held by a weak reference: R clears the reference before it reuses the address.
static R_xlen_t reader_number(void) {
  static SEXP last = NULL;
  static R_xlen_t number = 0;
  SEXP environment = PROTECT(vg_eval_helper("reading_frame", R_NilValue, R_NilValue));
  if (last == NULL) {
    last = Rf_cons(R_NilValue, R_NilValue);
    R_PreserveObject(last);
  }
  if (CAR(last) == R_NilValue || R_WeakRefKey(CAR(last)) != environment) {
    SETCAR(last, R_MakeWeakRef(environment, R_NilValue, R_NilValue, FALSE));
    number++;
  }
  UNPROTECT(1);
  return number;
}

// Warns that int64 elements without an exact double are read as NA: once per call of an R function that reads them.
static void warn_of_lost(void *h) {
  vg_warn_of_lost(h, reader_number());
  if (vg_pending) vg_raise_pending(R_NilValue);
}

static R_xlen_t length_method(SEXP x) {
  SEXP data = R_altrep_data1(x);
  return TYPEOF(data) == LISTSXP ? vg_recorded_length(data) : vg_length_of(data);
}

// C code that asks for a writable address may write until its function returns, so the handle notes that function. An
// ordinary vector does not need this: after the request its host copy alone holds the values.
static void *given_out(void *h, void *host, int writable, const void *frame) {
  const vg_holding *holder = writable && host != NULL && !vg_is_ordinary(h) ? vg_holder(frame) : NULL;
  if (holder != NULL) vg_handle_hold(h, holder);
  return host;
}

// The host address of an ordinary vector that was read before, or NULL. A fast path: R's loops call Elt for each
// element.
static inline void *at_hand(SEXP x, int writable) {
  SEXP data = R_altrep_data1(x);
  if (TYPEOF(data) != EXTPTRSXP) return NULL;
  const vg_header *h = vg_value(data);
  return h == NULL || (writable && !h->is_written) ? NULL : h->host;
}

// The same for the Elt methods. A lazy cell that is a number needs no handle; its address points into the cell, so
// callers must not keep it.
static inline const void *element_at_hand(SEXP x) {
  return is_recorded(x) ? vg_recorded_number(R_altrep_data1(x)) : at_hand(x, 0);
}

// R's garbage collector is switched off while this method runs.
static void *dataptr_method(SEXP x, Rboolean writable) {
  static int nothing;
  void *known = at_hand(x, writable);
  if (known != NULL) return known;
  if (is_recorded(x)) vg_give_handle(x);
  if (making_handle_only) {
    making_handle_only = 0;
    return &nothing;
  }
  void *h = handle(x);
  const void *frame = __builtin_frame_address(0);
  void *host = vg_host_pointer(h, writable);
  if (host != NULL) {
    if (TYPEOF(x) == REALSXP && vg_is_lossy(h)) warn_of_lost(h);
    return given_out(h, host, writable, frame);
  }
  check_access(h);
  host = given_out(h, vg_host_fetch(h, writable), writable, frame);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (vg_is_lossy(h)) warn_of_lost(h);
  inform(h);
  return host;
}

static const void *dataptr_or_null_method(SEXP x) {
  const void *known = at_hand(x, 0);
  if (known != NULL) return known;
  void *h = is_recorded(x) ? NULL : try_handle(x);
  return h == NULL ? NULL : vg_host_pointer(h, 0);
}

static void region(SEXP x, R_xlen_t from, R_xlen_t n, void *out) {
  void *h = handle(x);
  if (vg_region_cached(h, from, n, out)) return;
  check_access(h);
  int done = vg_region(h, from, n, out);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (!done) Rf_errorcall(R_NilValue, "%s", "verdigris: a read failed");
  if (done == 2) warn_of_lost(h);
  if (vg_host_pointer(h, 0) != NULL) inform(h);
}

#define ACCESS(name, type)                                                                         \
  static type name##_elt(SEXP x, R_xlen_t i) {                                                     \
    const type *known = element_at_hand(x);                                                        \
    if (known != NULL) return known[i];                                                            \
    type value;                                                                                    \
    region(x, i, 1, &value);                                                                       \
    return value;                                                                                  \
  }                                                                                                \
  static R_xlen_t name##_get_region(SEXP x, R_xlen_t i, R_xlen_t n, type *out) {                   \
    R_xlen_t length = length_method(x);                                                            \
    if (i >= length || n <= 0) return 0;                                                           \
    if (n > length - i) n = length - i;                                                            \
    region(x, i, n, out);                                                                          \
    return n;                                                                                      \
  }
ACCESS(logical, int)
ACCESS(integer, int)
ACCESS(real, double)
ACCESS(complex, Rcomplex)

// Duplicate method; R copies the attributes afterwards. The copy shares the engine's array.
static SEXP duplicate_method(SEXP x, Rboolean deep) {
  void *from = try_handle(x);
  if (from == NULL && vg_pending) handle(x);
  SEXP copy = PROTECT(vg_new(TYPEOF(x))), pointer = R_altrep_data1(copy);
  // A freed vector is copied as such, without an error: R duplicates the call of the very error that reports it.
  void *h = from == NULL ? R_ExternalPtrAddr(R_altrep_data1(x)) : vg_handle_duplicate(from);
  if (h != NULL) R_SetExternalPtrAddr(pointer, h);
  if (vg_is_jumping()) vg_raise_pending(R_NilValue);
  UNPROTECT(1);
  return h == NULL ? NULL : copy;
}

// Returns no state, so that R writes an ordinary vector, which can be read without this package. A dtype that R's type
// does not imply is saved as attribute gpu_dtype. Saving is an explicit read: option verdigris.host_access is ignored.
static SEXP serialized_state_method(SEXP x) {
  void *h = handle(x);
  if (vg_host_pointer(h, 0) == NULL) vg_host_fetch(h, 0);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (vg_is_lossy(h)) warn_of_lost(h);
  const char *dtype = vg_handle_dtype(h);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (dtype != NULL) {
    SEXP value = PROTECT(Rf_mkString(dtype));
    Rf_setAttrib(x, vg_dtype_symbol, value);
    UNPROTECT(1);
  } else if (Rf_getAttrib(x, vg_dtype_symbol) != R_NilValue) {
    Rf_setAttrib(x, vg_dtype_symbol, R_NilValue);
  }
  return NULL;
}

static Rboolean inspect_method(SEXP x, int pre, int deep, int pvec, void (*subtree)(SEXP, int, int, int)) {
  char text[256] = "an array that was finalized";
  void *h = try_handle(x);
  if (h != NULL) vg_handle_describe(h, text, sizeof text);
  if (vg_pending) vg_raise_pending(R_NilValue);
  Rprintf(" %s\n", text);
  return TRUE;
}

// ---- registration --------------------------------------------------------------------------------

#define REGISTER(name)                                                                             \
  VG_MAKE_CLASS("gpu", name)                                                                       \
  R_set_altrep_Duplicate_method(class_##name, duplicate_method);                                   \
  R_set_altrep_Serialized_state_method(class_##name, serialized_state_method);

void vg_register_arrays(DllInfo *dll) {
  access_symbol = Rf_install("verdigris.host_access");
  REGISTER(logical)
  REGISTER(integer)
  REGISTER(real)
  REGISTER(complex)
}
