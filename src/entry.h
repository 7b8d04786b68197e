// What happens at the end of every entry; rust/src/entries/entry.rs has the beginning.
#pragma once
#include "conditions.h"
#include "dispatch.h"
#include "handlers.h"
#include <R_ext/GraphicsEngine.h> // R_interrupts_pending

// Rust (r/preserve.rs): the `on_free` functions that users gave with memory that has been released since.
extern int vg_freed;                 // nonzero if there are any
SEXP vg_next_freed(void);

SEXP vg_tell_freed(SEXP result);     // calls them; returns `result`

SEXP vg_entry_returned(SEXP result); // vg_returned() as a symbol that Rust can link to

void vg_take_interrupt(SEXP result); // raises an interrupt that arrived while Rust ran and interrupts were suspended

// Does what the Rust body of an entry has left to do: stores the call site, raises the pending condition, takes an
// interrupt, and calls `on_free` functions.
static inline SEXP vg_returned(SEXP result) {
  if (vg_call_site_wanted != NULL) result = vg_finish_recording(result, NULL, R_NilValue);
  if (vg_pending) vg_raise_pending(result);
  vg_lookup_pending = 0;
  if (R_interrupts_pending) vg_take_interrupt(result);
  return vg_freed ? vg_tell_freed(result) : result;
}
