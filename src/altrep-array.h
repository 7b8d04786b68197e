// The ALTREP classes of arrays.
#pragma once
#include "r_api.h"

void vg_register_arrays(DllInfo *dll);
SEXP vg_new(int type);                        // a class-less vector whose pointer is to own a handle; unprotected
SEXP vg_new_classed(int type);                // the same with the class of a vector
SEXP vg_new_recorded(int type, SEXP cell);    // a class-less vector of a lazy cell; unprotected
int vg_is_shared(SEXP x);                     // whether R counts more than one reference
int vg_is_ours(SEXP x);                       // whether one of our vectors, also through base's wrappers
// Its handle, also through base's wrappers; NULL where not ours, and where it was freed or cannot be made.
void *vg_handle_of(SEXP x);
// The first part of one of our vectors: its handle's external pointer, or a lazy cell; NULL, the pointer, where not
// ours.
SEXP vg_data_of(SEXP x);
void vg_learn_wrapper(SEXP x);                // x is wrapped by base: remember the class of the wrapper
SEXP vg_written_dtype(SEXP x);                // attribute gpu_dtype, also of what a wrapper holds, or NULL

// Rust: lazy cells (lazy.rs).
void vg_give_handle(SEXP x);                  // makes the handle of a vector that was recorded
R_xlen_t vg_recorded_length(SEXP cell);
const void *vg_number_for(SEXP x, SEXP cell);       // the same, of a number that has x's dtype
const void *vg_recorded_number(SEXP cell);          // of one that has its value in it; else NULL

// Rust: the methods' work (altrep.rs). Those that may fail leave a condition.
void *vg_host_pointer(void *handle, int writable);  // the host copy, NULL where there is none; notes a writer
void *vg_host_fetch(void *handle, int writable);    // brings everything; NULL on failure
int vg_is_ordinary(void *handle);                   // whether R sees an ordinary vector, without a class
int vg_is_lossy(void *handle);                      // whether int64 is NA in the host copy, since no double holds it
void vg_warn_of_lost(void *handle, R_xlen_t reader);
int vg_region_cached(void *handle, R_xlen_t from, R_xlen_t n, void *out);
int vg_region(void *handle, R_xlen_t from, R_xlen_t n, void *out); // 0 on failure, 2 where int64 became NA
int vg_element_at(void *handle, R_xlen_t place, void *out); // 0 on failure, -1 where it does not serve
void *vg_handle_duplicate(void *handle);            // NULL: let R copy
const char *vg_handle_dtype(void *handle);          // NULL where R's type says it all
void vg_handle_describe(void *handle, char *out, int size);
double vg_handle_bytes(void *handle);
