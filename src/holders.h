// Detects C functions that may keep a Dataptr address across calls of R.
#pragma once
#include "r_api.h"

enum { VG_RETURNS = 8 };
typedef struct {
  uintptr_t slot, value; // stack address of a return address, and the return address
} vg_return;
typedef struct {
  uintptr_t end; // end of the holder's frame
  uintptr_t count;
  vg_return returns[VG_RETURNS]; // of the holder and its callers
} vg_holding;
void vg_init_holders(void);
// The C function to which this frame of Dataptr returns an address; NULL if none may keep it. Valid until the next
// call.
const vg_holding *vg_holder(const void *frame);
int vg_is_held(const vg_holding *holding);                   // whether that function may still be running
void vg_handle_hold(void *handle, const vg_holding *holder); // Rust: notes the holder; copies `holder`
SEXP C_learn_call(void);
SEXP C_learn_external(SEXP call, SEXP op, SEXP args, SEXP rho);
