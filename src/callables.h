// C callables for other packages (inst/include/verdigris.h).
#pragma once
#include "r_api.h"

void vg_register_callables(void);

// Rust: entries/dlpack.rs, and the error kept for the caller (r/conditions.rs)
void *vg_foreign_export(SEXP x, int versioned, int writable, int64_t stream);
SEXP vg_foreign_import(void *tensor, int versioned, int copy);
SEXP vg_foreign_capsule(void *tensor, int versioned);
void *vg_foreign_take(SEXP capsule, int versioned);
int vg_foreign_is_array(SEXP x);
void vg_leave_jump(void);
int vg_error_keep(void);
int vg_error_recall(void);
void vg_error_kept(char *out, int size);
