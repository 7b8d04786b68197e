// The structs are those of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), written down again.
#include <stdlib.h>
#include <string.h>
#include <verdigris.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif

typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } DataType;
typedef struct {
  void *data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;
typedef struct Legacy {
  Tensor tensor;
  void *context;
  void (*deleter)(struct Legacy *);
} Legacy;
typedef struct Versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct Versioned *);
  uint64_t flags;
  Tensor tensor;
} Versioned;

static int n_deleted = 0;

// A tensor of this package: both forms, its memory, its shape.
typedef struct {
  Versioned versioned;
  Legacy legacy;
  int64_t shape[64], strides[64];
  double *data;
} Own;

static void delete_own(Own *own) {
  n_deleted++;
  free(own->data);
  free(own);
}
static void delete_versioned(Versioned *t) { delete_own(t->context); }
static void delete_legacy(Legacy *t) { delete_own(t->context); }

static Own *new_own(int rows, int columns) {
  Own *own = calloc(1, sizeof(Own));
  const int n = rows * columns;
  own->data = malloc(sizeof(double) * (n > 0 ? n : 1));
  for (int k = 0; k < n; k++) own->data[k] = k;
  own->shape[0] = rows;
  own->shape[1] = columns;
  own->strides[0] = columns;
  own->strides[1] = 1;
  Tensor tensor = {own->data, {1, 0}, 2, {2, 64, 1}, own->shape, own->strides, 0};
  own->versioned = (Versioned){1, 0, own, delete_versioned, 0, tensor};
  own->legacy = (Legacy){tensor, own, delete_legacy};
  return own;
}

static void *form(Own *own, int versioned) { return versioned ? (void *)&own->versioned : (void *)&own->legacy; }

static Tensor *tensor_in(void *p, int versioned) {
    return versioned ? &((Versioned *)p)->tensor : &((Legacy *)p)->tensor; }

static void drop(void *p, int versioned) {
  if (versioned) {
    Versioned *t = p;
    if (t->deleter) t->deleter(t);
  } else {
    Legacy *t = p;
    if (t->deleter) t->deleter(t);
  }
}

static SEXP give(SEXP rows, SEXP columns, SEXP versioned, SEXP copy) {
  const int v = Rf_asLogical(versioned);
  Own *own = new_own(Rf_asInteger(rows), Rf_asInteger(columns));
  SEXP x = verdigris_import(form(own, v), v, Rf_asInteger(copy));
  if (x == NULL) {
    delete_own(own);
    verdigris_raise();
  }
  return x;
}

// Calls f with each element's address, the first index fastest.
static void walk(Tensor *t, void (*f)(double *, void *), void *with) {
  int64_t index[64] = {0};
  for (int k = 0; k < t->ndim; k++)
    if (t->shape[k] == 0) return;
  for (;;) {
    char *at = (char *)t->data + t->byte_offset;
    for (int k = 0; k < t->ndim; k++) at += index[k] * t->strides[k] * (int64_t)sizeof(double);
    f((double *)at, with);
    int k = 0;
    while (k < t->ndim && ++index[k] == t->shape[k]) index[k++] = 0;
    if (k == t->ndim) return;
  }
}

static void add(double *x, void *sum) { *(double *)sum += *x; }
static void twice(double *x, void *unused) { *x *= 2; }

static SEXP sums(SEXP x, SEXP versioned) {
  const int v = Rf_asLogical(versioned);
  void *tensor = verdigris_export(x, v, 0, VERDIGRIS_WAIT);
  if (tensor == NULL) verdigris_raise();
  double sum = 0;
  walk(tensor_in(tensor, v), add, &sum);
  drop(tensor, v);
  return Rf_ScalarReal(sum);
}

static SEXP double_it(SEXP x) {
  void *tensor = verdigris_export(x, 1, 1, VERDIGRIS_WAIT);
  if (tensor == NULL) verdigris_raise();
  walk(tensor_in(tensor, 1), twice, NULL);
  drop(tensor, 1);
  return R_NilValue;
}

static SEXP take_back(SEXP x, SEXP times) {
  const int n = Rf_asInteger(times);
  SEXP y = x;
  for (int k = 0; k < n; k++) {
    PROTECT(y);
    void *tensor = verdigris_export(y, k % 2, 0, VERDIGRIS_NO_WAIT);
    UNPROTECT(1);
    if (tensor == NULL) verdigris_raise();
    y = verdigris_import(tensor, k % 2, VERDIGRIS_NEVER_COPY);
    if (y == NULL) {
      drop(tensor, k % 2);
      verdigris_raise();
    }
  }
  return y;
}

static SEXP through_capsule(SEXP x, SEXP versioned) {
  const int v = Rf_asLogical(versioned);
  void *tensor = verdigris_export(x, v, 0, VERDIGRIS_WAIT);
  if (tensor == NULL) verdigris_raise();
  SEXP capsule = verdigris_capsule(tensor, v);
  if (capsule == NULL) {
    drop(tensor, v);
    verdigris_raise();
  }
  return capsule;
}

static SEXP takes(SEXP capsule, SEXP versioned) {
  const int v = Rf_asLogical(versioned);
  void *tensor = verdigris_take(capsule, v);
  if (tensor == NULL) verdigris_raise();
  drop(tensor, v);
  return Rf_ScalarLogical(1);
}

// ---- the forge -----------------------------------------------------------------------------------

static Own *last = NULL;

static SEXP field(SEXP fields, const char *name) {
  SEXP names = Rf_getAttrib(fields, R_NamesSymbol);
  for (R_xlen_t k = 0; k < XLENGTH(fields); k++)
    if (strcmp(CHAR(STRING_ELT(names, k)), name) == 0) return VECTOR_ELT(fields, k);
  return NULL;
}

static SEXP forge(SEXP fields, SEXP versioned) {
  const int v = Rf_asLogical(versioned);
  Own *own = new_own(1, 8);
  Tensor t = own->versioned.tensor;
  SEXP f;
  t.ndim = 1;
  own->shape[0] = 8;
  own->strides[0] = 1;
#define NUMBER(name, to, type) if ((f = field(fields, name))) to = (type)Rf_asReal(f)
#define ADDRESS(name, to) if ((f = field(fields, name))) to = (void *)(uintptr_t)Rf_asReal(f)
  if ((f = field(fields, "shape"))) {
    t.ndim = Rf_length(f);
    for (int k = 0; k < t.ndim && k < 64; k++) own->shape[k] = (int64_t)REAL(f)[k];
  }
  if ((f = field(fields, "strides")))
    for (int k = 0; k < Rf_length(f) && k < 64; k++) own->strides[k] = (int64_t)REAL(f)[k];
  NUMBER("device", t.device.type, int32_t);
  NUMBER("id", t.device.id, int32_t);
  NUMBER("ndim", t.ndim, int32_t);
  NUMBER("code", t.dtype.code, uint8_t);
  NUMBER("bits", t.dtype.bits, uint8_t);
  NUMBER("lanes", t.dtype.lanes, uint16_t);
  NUMBER("offset", t.byte_offset, uint64_t);
  ADDRESS("data", t.data);
  ADDRESS("shape_at", t.shape);
  ADDRESS("strides_at", t.strides);
  NUMBER("major", own->versioned.major, uint32_t);
  NUMBER("minor", own->versioned.minor, uint32_t);
  NUMBER("flags", own->versioned.flags, uint64_t);
  if ((f = field(fields, "fill"))) memset(own->data, Rf_asInteger(f), 8 * sizeof(double));
  own->versioned.tensor = own->legacy.tensor = t;
  last = own;
  void *tensor = form(own, v);
  if (field(fields, "tensor_at")) { // a capsule that points elsewhere: nobody owns what was made
    ADDRESS("tensor_at", tensor);
    delete_own(own);
    last = NULL;
    n_deleted--;
    if (tensor == NULL) return R_MakeExternalPtr(NULL, Rf_install(v ? "dltensor_versioned" : "dltensor"), R_NilValue);
  }
  if ((f = field(fields, "tag"))) return R_MakeExternalPtr(tensor, f, R_NilValue);
  // without verdigris's finalizer where the tensor is none: it would be called
  if (field(fields, "tensor_at")) return R_MakeExternalPtr(tensor, Rf_install(v ? "dltensor_versioned" : "dltensor"),
      R_NilValue);
  SEXP capsule = verdigris_capsule(tensor, v);
  if (capsule == NULL) verdigris_raise();
  return capsule;
}

static SEXP deleted(void) {
  const int n = n_deleted;
  n_deleted = 0;
  return Rf_ScalarInteger(n);
}

static SEXP elements(void) {
  SEXP out = Rf_allocVector(REALSXP, 8);
  memcpy(REAL(out), last->data, 8 * sizeof(double));
  return out;
}

static SEXP write_element(SEXP k, SEXP value) {
  last->data[Rf_asInteger(k) - 1] = Rf_asReal(value);
  return R_NilValue;
}

static SEXP reserved(void) {
#ifdef _WIN32
  return Rf_ScalarReal(0);
#else
  static void *page = NULL;
  if (page == NULL) page = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Rf_ScalarReal(page == MAP_FAILED ? 0 : (double)(uintptr_t)page);
#endif
}

static SEXP raise_twice(void) {
  char text[64], after[8];
  void *none = verdigris_export(R_NilValue, 1, 0, VERDIGRIS_WAIT);
  verdigris_message(text, sizeof text);
  void *tensor = verdigris_export(Rf_ScalarReal(1), 1, 0, VERDIGRIS_WAIT);
  verdigris_message(after, sizeof after);
  verdigris_raise();
  drop(tensor, 1);
  SEXP out = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(out, 0, Rf_mkChar(none == NULL ? text : "no failure"));
  SET_STRING_ELT(out, 1, Rf_mkChar(after));
  UNPROTECT(1);
  return out;
}

#define ENTRY(name, n) {#name, (DL_FUNC)name, n}
static const R_CallMethodDef entries[] = {
    ENTRY(give, 4), ENTRY(sums, 2), ENTRY(double_it, 1), ENTRY(take_back, 2), ENTRY(through_capsule, 2),
        ENTRY(takes, 2),
    ENTRY(forge, 2), ENTRY(deleted, 0), ENTRY(elements, 0), ENTRY(write_element, 2), ENTRY(reserved, 0),
        ENTRY(raise_twice, 0),
    {NULL, NULL, 0}};

void R_init_exchanger(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
}
