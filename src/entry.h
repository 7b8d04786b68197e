// The end of every entry (rust/src/entries/entry.rs is its beginning).
#pragma once
#include "conditions.h"
#include "dispatch.h"
#include "handlers.h"
#include <R_ext/GraphicsEngine.h> // R_interrupts_pending

// Rust (preserve.rs): functions of users that are called when their memory is released.
extern int vg_freed;                 // nonzero where there are any
SEXP vg_next_freed(void);

SEXP vg_tell_freed(SEXP result);     // calls them; returns `result`

SEXP vg_entry_returned(SEXP result); // vg_returned(), for Rust

void vg_take_interrupt(SEXP result); // of one that came while Rust ran, as R does after what may not be interrupted

// What the Rust body has left to do is done.
static inline SEXP vg_returned(SEXP result) {
  if (vg_call_site_wanted != NULL) result = vg_site_recorded(result, NULL, R_NilValue);
  if (vg_pending) vg_raise_pending(result);
  vg_looked_up = 0;
  if (R_interrupts_pending) vg_take_interrupt(result);
  return vg_freed ? vg_tell_freed(result) : result;
}
