// External pointers that own a Rust value.
#pragma once
#include "r_api.h"

// The first fields of every value that an external pointer owns (`external_ptr::Header` in Rust).
typedef struct {
  void (*drop)(void *);
  R_xlen_t length; // of the R vector on this value
  int state;
  int kind;
  void *host;      // host copy of an ordinary vector that was read, else NULL
  int is_written;  // whether R has asked for a writable address of the host copy
} vg_header;

enum { VG_ALIVE, VG_DEAD, VG_USED }; // states; USED: a finalizer has used it after its own finalizer ran

// Rust.
extern int vg_any_dead;              // nonzero if pointers are dead
int vg_forked(void);
void vg_leave_freed(int array);      // leaves the error "finalized" pending, of an array or of another vector

void vg_init_finalizers(void);
SEXP vg_new_pointer(SEXP tag, SEXP kept);
void vg_register(SEXP pointer);
SEXP vg_kept_with(SEXP pointer);
void vg_keep_with(SEXP pointer, SEXP kept);
void *vg_value_of(SEXP pointer);
R_xlen_t vg_length_of(SEXP pointer);
SEXP vg_next_dead(void);
SEXP vg_dead_after(SEXP pointer);
int vg_in_finalizer(void);

// The value; NULL if it was freed or never set.
static inline vg_header *vg_peek(SEXP pointer) {
  void *at = R_ExternalPtrAddr(pointer);
  return (uintptr_t)at & 1 ? NULL : (vg_header *)at;
}

// The same for code that uses the value: a dead value is marked as used.
static inline void *vg_value(SEXP pointer) {
  vg_header *value = vg_peek(pointer);
  if (value != NULL && value->state == VG_DEAD) value->state = VG_USED;
  return value;
}
