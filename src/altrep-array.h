// The ALTREP classes of arrays.
#pragma once
#include "r_api.h"

void vg_register_arrays(DllInfo *dll);
SEXP vg_new(int type);                        // a vector without class whose external pointer is empty yet; unprotected
SEXP vg_new_classed(int type);                // the same with the class attribute of a vector without dim
SEXP vg_new_recorded(int type, SEXP cell);    // a vector without class on a lazy cell; unprotected
int vg_is_shared(SEXP x);                     // whether R counts more than one reference to x
int vg_is_ours(SEXP x);                       // whether x is a vector of these classes, or base R's wrapper around one
// The handle of such a vector or wrapper; NULL for other objects, and if the handle was freed or cannot be made.
void *vg_handle_of(SEXP x);
// The data1 of a vector of these classes, not of a wrapper: an external pointer or a lazy cell. A null pointer for
// other objects.
SEXP vg_data_of(SEXP x);
void vg_learn_wrapper(SEXP x);                // remembers the ALTREP class of x, a wrapper that base R has made
SEXP vg_saved_dtype(SEXP x);                  // attribute gpu_dtype of x or of the vector in a wrapper, or R_NilValue

// Rust: lazy cells (lazy.rs).
void vg_give_handle(SEXP x);                  // gives a recorded vector its handle; leaves a condition on failure
R_xlen_t vg_recorded_length(SEXP cell);
// The address of a number's value in its lazy cell; NULL if the cell is something else. vg_number_for() also gives NULL
// if the dtype differs from x's.
const void *vg_number_for(SEXP x, SEXP cell);
const void *vg_recorded_number(SEXP cell);

// Rust (altrep.rs): the work of the methods. Functions that fail leave a condition pending.
void *vg_host_pointer(void *handle, int writable);  // the host copy, or NULL; `writable` marks it as written
void *vg_host_fetch(void *handle, int writable);    // copies all elements to the host; NULL on failure
int vg_is_ordinary(void *handle);                   // whether R sees a plain vector without class (ordinary.rs)
int vg_is_lossy(void *handle);                      // whether the host copy has NA for int64 that no double represents
void vg_warn_of_lost(void *handle, R_xlen_t reader); // at most one warning per reader number in a row
// Copies elements that are on the host already; 0 if they are not, or if an NA among them may stand for an int64.
int vg_region_cached(void *handle, R_xlen_t from, R_xlen_t n, void *out);
int vg_region(void *handle, R_xlen_t from, R_xlen_t n, void *out); // 0 on failure, 2 if int64 elements became NA
int vg_element_at(void *handle, R_xlen_t place, void *out); // 0 on failure, -1 if it must be taken by subsetting
void *vg_handle_duplicate(void *handle);            // NULL: R copies the elements itself
// NULL if R's type implies the dtype, and on failure, which leaves a condition. May upload what R has written.
const char *vg_handle_dtype(void *handle);
void vg_handle_describe(void *handle, char *out, int size);
double vg_handle_bytes(void *handle);
