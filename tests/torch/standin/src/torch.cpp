// R tensors laid out as torch for R's: an external pointer to a class whose only member is a std::shared_ptr<void>.
#include <cstring>
#include <memory>
#include <string>
#include <vector>
#include <dlfcn.h>
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <R_ext/Rdynload.h>
#include "lantern.h"

namespace {

struct Tensor {
  std::shared_ptr<void> held;
};

decltype(&lantern_tensor) make;
decltype(&lantern_delete) drop;
decltype(&lantern_ndim) ndim;
decltype(&lantern_shape) shape_of;
decltype(&lantern_dtype) dtype_of;
decltype(&lantern_address) address_of;
decltype(&lantern_value) value_of;
decltype(&lantern_change) change;
decltype(&lantern_live) live;

template <typename F> void find(void *library, F *f, const char *name) { *f = reinterpret_cast<F>(dlsym(library, name));
}

void finalize(SEXP x) {
  delete static_cast<Tensor *>(R_ExternalPtrAddr(x));
  R_ClearExternalPtr(x);
}

void *of(SEXP x) { return static_cast<Tensor *>(R_ExternalPtrAddr(x))->held.get(); }

} // namespace

extern "C" {

void delete_tensor(void *x) { drop(x); }

SEXP operator_sexp_tensor(const Tensor *self) {
  SEXP x = PROTECT(R_MakeExternalPtr(new Tensor(*self), R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(x, finalize, FALSE);
  SEXP classes = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(classes, 0, Rf_mkChar("torch_tensor"));
  SET_STRING_ELT(classes, 1, Rf_mkChar("R7"));
  Rf_setAttrib(x, R_ClassSymbol, classes);
  UNPROTECT(2);
  return x;
}

static SEXP wrap(void *made) {
  if (!made) Rf_error("libtorch refused");
  Tensor tensor{std::shared_ptr<void>(made, drop)}; // of the library that is in use now
  return operator_sexp_tensor(&tensor);
}

SEXP C_start(SEXP path) {
  void *library = dlopen(CHAR(STRING_ELT(path, 0)), RTLD_NOW | RTLD_LOCAL);
  if (!library) Rf_error("%s", dlerror());
  find(library, &make, "lantern_tensor");
  find(library, &drop, "lantern_delete");
  find(library, &ndim, "lantern_ndim");
  find(library, &shape_of, "lantern_shape");
  find(library, &dtype_of, "lantern_dtype");
  find(library, &address_of, "lantern_address");
  find(library, &value_of, "lantern_value");
  find(library, &change, "lantern_change");
  find(library, &live, "lantern_live");
  return R_NilValue;
}

SEXP C_tensor(SEXP values, SEXP dim, SEXP dtype) {
  if (!make) Rf_error("Lantern is not loaded.");
  std::vector<int64_t> shape(REAL(dim), REAL(dim) + XLENGTH(dim));
  return wrap(make(REAL(values), shape.data(), static_cast<int>(shape.size()), CHAR(STRING_ELT(dtype, 0))));
}

SEXP C_live() { return Rf_ScalarReal(live()); }

SEXP C_describe(SEXP x) {
  const int n = ndim(of(x));
  std::vector<int64_t> shape(n), strides(n);
  shape_of(of(x), shape.data(), strides.data());
  const char *names[] = {"shape", "strides", "dtype", "address", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(REALSXP, n));
  for (int k = 0; k < n; k++) {
    REAL(VECTOR_ELT(out, 0))[k] = static_cast<double>(shape[k]);
    REAL(VECTOR_ELT(out, 1))[k] = static_cast<double>(strides[k]);
  }
  SET_VECTOR_ELT(out, 2, Rf_mkString(dtype_of(of(x))));
  SET_VECTOR_ELT(out, 3, Rf_ScalarReal(static_cast<double>(reinterpret_cast<uintptr_t>(address_of(of(x))))));
  UNPROTECT(1);
  return out;
}

SEXP C_values(SEXP x) {
  const int n = ndim(of(x));
  std::vector<int64_t> shape(n), strides(n), at(n);
  shape_of(of(x), shape.data(), strides.data());
  R_xlen_t length = 1;
  for (int64_t extent : shape) length *= extent;
  SEXP out = PROTECT(Rf_allocVector(REALSXP, length));
  for (R_xlen_t i = 0; i < length; i++) {
    R_xlen_t rest = i;
    int64_t place = 0;
    for (int k = 0; k < n; k++) {
      place += rest % shape[k] * strides[k];
      rest /= shape[k];
    }
    REAL(out)[i] = value_of(of(x), place);
  }
  if (n > 1) {
    SEXP dim = PROTECT(Rf_allocVector(INTSXP, n));
    for (int k = 0; k < n; k++) INTEGER(dim)[k] = static_cast<int>(shape[k]);
    Rf_setAttrib(out, R_DimSymbol, dim);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return out;
}

SEXP C_change(SEXP x, SEXP what, SEXP arguments) {
  return wrap(change(of(x), CHAR(STRING_ELT(what, 0)), REAL(arguments), static_cast<int>(XLENGTH(arguments))));
}

static const R_CallMethodDef entries[] = {
    {"C_start", (DL_FUNC)C_start, 1},   {"C_tensor", (DL_FUNC)C_tensor, 3}, {"C_live", (DL_FUNC)C_live, 0},
    {"C_describe", (DL_FUNC)C_describe, 1}, {"C_values", (DL_FUNC)C_values, 1}, {"C_change", (DL_FUNC)C_change, 3},
    {NULL, NULL, 0}};

void R_init_torch(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_RegisterCCallable("torch", "operator_sexp_tensor", (DL_FUNC)operator_sexp_tensor);
  R_RegisterCCallable("torch", "delete_tensor", (DL_FUNC)delete_tensor);
}

} // extern "C"
