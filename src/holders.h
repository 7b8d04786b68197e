// C code that may keep an address over calls of R.
#pragma once
#include "r_api.h"

enum { VG_RETURNS = 8 };
typedef struct {
  uintptr_t slot, value; // where a return address stands, and what it is
} vg_return;
typedef struct {
  uintptr_t end; // of its frame
  uintptr_t count;
  vg_return returns[VG_RETURNS]; // its own and its callers'
} vg_holding;
void vg_init_holders(void);
// The C function that was given an address by this frame of Dataptr; NULL where none may keep it.
const vg_holding *vg_holder(const void *frame);
int vg_is_held(const vg_holding *holding);                   // whether that one may still run
void vg_handle_hold(void *handle, const vg_holding *holder); // Rust: notes it; a copy
SEXP C_learn_call(void);
SEXP C_learn_external(SEXP call, SEXP op, SEXP args, SEXP rho);
