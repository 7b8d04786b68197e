// Exchanging arrays with the R package verdigris from another package's C, C++ or Rust, without linking to it.
//
// In DESCRIPTION: `LinkingTo: verdigris` for this header and `Imports: verdigris`, which must be loaded before one of
// these functions is called (importFrom(verdigris, as_dlpack) in NAMESPACE does that). A tensor is a
// DLManagedTensorVersioned, or, where `versioned` is 0, a DLManagedTensor, of dlpack.h
// (https://github.com/dmlc/dlpack), passed as `void *`. The vignette `dlpack` explains how an R package exports or
// imports tensors.
//
// Call these on R's thread only. No function but verdigris_raise() jumps, so they can be called with C++ or Rust frames
// on the stack. A failure returns NULL; verdigris_message() and verdigris_raise() report the last one.
#ifndef VERDIGRIS_H
#define VERDIGRIS_H

#include <stddef.h>
#include <stdint.h>

#include <Rinternals.h>
#include <R_ext/Rdynload.h>

#ifdef __cplusplus
extern "C" {
#endif

// What `copy` of verdigris_import() says.
enum { VERDIGRIS_NEVER_COPY = 0, VERDIGRIS_ALWAYS_COPY = 1, VERDIGRIS_COPY_IF_NEEDED = 2 };

// What `stream` of verdigris_export() says instead of a stream: wait here until the values are there; or wait for
// nothing.
enum { VERDIGRIS_WAIT = 0, VERDIGRIS_NO_WAIT = -1 };

#define VERDIGRIS_CALLABLE_(type, name, parameters)                                                          \
  typedef type(*verdigris_##name##_t) parameters;                                                            \
  static inline verdigris_##name##_t verdigris_##name##_found_(void) {                                       \
    static verdigris_##name##_t function = NULL;                                                             \
    if (function == NULL)                                                                                    \
      function = (verdigris_##name##_t)(void (*)(void))R_GetCCallable("verdigris", "verdigris_" #name);      \
    return function;                                                                                         \
  }

VERDIGRIS_CALLABLE_(int, version, (void))
VERDIGRIS_CALLABLE_(int, is_array, (SEXP))
VERDIGRIS_CALLABLE_(void *, export, (SEXP, int, int, int64_t))
VERDIGRIS_CALLABLE_(SEXP, import, (void *, int, int))
VERDIGRIS_CALLABLE_(SEXP, capsule, (void *, int))
VERDIGRIS_CALLABLE_(void *, take, (SEXP, int))
VERDIGRIS_CALLABLE_(void, message, (char *, int))
VERDIGRIS_CALLABLE_(void, raise, (void))

// The version of this interface: 1. It goes up when a function changes; new functions do not change it.
// R_GetCCallable() raises an R error where verdigris is not loaded, so call this one first, where that may jump.
static inline int verdigris_version(void) { return verdigris_version_found_()(); }

// Whether x is one of verdigris's arrays.
static inline int verdigris_is_array(SEXP x) { return verdigris_is_array_found_()(x); }

// A tensor over the memory of an array, of a double, integer, complex or raw vector, or of an integer64, with the shape
// of its `dim`, column-major or strided. The caller owns it, and calls its deleter once, on any thread; the memory
// lives until then. Vectors that are no arrays are exported as they are, read-only. `writable`: whether the caller will
// write, which R then sees; otherwise it must not. `stream`: a CUDA stream that is made to wait for the values, or one
// of the two constants above. NULL on failure.
static inline void *verdigris_export(SEXP x, int versioned, int writable, int64_t stream) {
  return verdigris_export_found_()(x, versioned, writable, stream);
}

// An array over a tensor's memory, which is verdigris's from then on: its deleter is called when R has collected the
// array, or at once, if the data were copied. NULL on failure; then the tensor is still the caller's. Protect the
// result.
static inline SEXP verdigris_import(void *tensor, int versioned, int copy) {
  return verdigris_import_found_()(tensor, versioned, copy);
}

// A capsule, an R object that owns a tensor until someone takes it; R's collector calls the deleter if nobody does.
// NULL on failure; then the tensor is still the caller's. Protect the result.
static inline SEXP verdigris_capsule(void *tensor, int versioned) {
  return verdigris_capsule_found_()(tensor, versioned);
}

// The tensor of a capsule, which is the caller's from then on, and marks the capsule as used. NULL on failure: it was
// used, it is no capsule, or it holds the other form.
static inline void *verdigris_take(SEXP capsule, int versioned) { return verdigris_take_found_()(capsule, versioned); }

// Why the last of the functions above failed: text in UTF-8, truncated to `size` bytes with its NUL, "" where it did not
// fail.
static inline void verdigris_message(char *out, int size) { verdigris_message_found_()(out, size); }

// Raises that as an R error, of class verdigris_error_<kind>; returns where nothing has failed.
static inline void verdigris_raise(void) { verdigris_raise_found_()(); }

#ifdef __cplusplus
}
#endif

#endif
