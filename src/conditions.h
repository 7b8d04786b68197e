// Rust leaves a condition pending; C raises it when no Rust frame is alive.
#pragma once
#include "r_api.h"

extern int vg_pending;               // Rust: nonzero while a condition is pending
extern SEXP vg_call_site_wanted;     // Rust: the cell whose tag is to hold the call that recorded it, or NULL
SEXP vg_raise_pending(SEXP result);  // raises it; returns `result` if there were only warnings

// Rust (r/conditions.rs): the parts of the pending condition. Strings are UTF-8 and not terminated by NUL.
int vg_error_present(void);
const char *vg_error_text(int field, int index, int *bytes); // 0 kind, 1 message, 2 detail, 3 source, 4 advice
int vg_warning_count(void);
void vg_warnings_settle(int suppressed);
const char *vg_warning_text(int index, int *bytes);
const char *vg_warning_class(int index);
SEXP vg_warning_call(int index);
void vg_condition_clear(void);

// The value of C_warning_fate() (handlers.c) where suppressWarnings() takes the warnings.
enum { VG_SUPPRESSED = 1 };

// Raises what a Rust function has left pending; else returns its result.
static inline SEXP vg_checked(SEXP result) { return vg_pending ? vg_raise_pending(result) : result; }
