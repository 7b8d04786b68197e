// Registers the functions that R can call. Most are defined in Rust (rust/src/entries); those that apply base R's rules
// around a call of Rust are in C.
#include "altrep-array.h"
#include "altrep-host.h"
#include "attributes.h"
#include "callables.h"
#include "class-tests.h"
#include "dlpack.h"
#include "entry.h"
#include "finalizers.h"
#include "handlers.h"
#include "holders.h"
#include "kernel.h"
#include "masks.h"
#include "operators.h"
#include "subset.h"
#include "summary.h"
#include "target.h"
#include "torch_bridge.h"
#include "unwind.h"
#include <R_ext/BLAS.h>
#include <string.h>

// Rust.
void vg_init(void);
void vg_register_blas(DL_FUNC gemm, DL_FUNC gemv, DL_FUNC syrk);
int vg_entries(R_CallMethodDef *out); // entries/mod.rs: returns their number; copies them unless `out` is NULL

static const R_CallMethodDef entries[] = {
    {"C_unary", (DL_FUNC)C_unary, 4},
    {"C_holds_array", (DL_FUNC)C_holds_array, 1},
    {"C_collect_ordinary", (DL_FUNC)C_collect_ordinary, 1},
    {"C_torch_start", (DL_FUNC)C_torch_start, 3},
    {"C_learn_call", (DL_FUNC)C_learn_call, 0},
    {"C_take", (DL_FUNC)C_take, 3},
    {"C_put", (DL_FUNC)C_put, 4},
    {"C_masked", (DL_FUNC)C_masked, 1},
    {"C_mask_assign", (DL_FUNC)C_mask_assign, 2},
    {"C_inherits", (DL_FUNC)C_inherits, 2},
    {"C_front_classes", (DL_FUNC)C_front_classes, 1},
    {"C_any_inherit", (DL_FUNC)C_any_inherit, 2},
    {"C_is_int64", (DL_FUNC)C_is_int64, 1},
    {"C_method_of_array", (DL_FUNC)C_method_of_array, 1},
    {"C_method_beside", (DL_FUNC)C_method_beside, 1},
    {"C_other_method_called", (DL_FUNC)C_other_method_called, 0},
    {NULL, NULL, 0}};

static const R_ExternalMethodDef externals[] = {
    {"C_binary", (DL_FUNC)C_binary, 0}, {"C_elementwise", (DL_FUNC)C_elementwise, 3},
    {"C_launch", (DL_FUNC)C_launch, 0}, {"C_evaluate", (DL_FUNC)C_evaluate, 0}, {"C_summary", (DL_FUNC)C_summary, 0},
    {"C_subset", (DL_FUNC)C_subset, 0}, {"C_subset2", (DL_FUNC)C_subset2, 0}, {"C_replace", (DL_FUNC)C_replace, 0},
    {"C_replace_element", (DL_FUNC)C_replace_element, 0}, {"C_replace_at", (DL_FUNC)C_replace_at, 2},
    {"C_as_dlpack", (DL_FUNC)C_as_dlpack, 0}, {"C_from_dlpack", (DL_FUNC)C_from_dlpack, 0},
    {"C_as_torch", (DL_FUNC)C_as_torch, 0}, {"C_from_torch", (DL_FUNC)C_from_torch, 0},
    {"C_needs_no_conversion", (DL_FUNC)C_needs_no_conversion, 0}, {"C_as_gpu_direct", (DL_FUNC)C_as_gpu_direct, 0},
    {"C_learn_external", (DL_FUNC)C_learn_external, 0}, {"C_known", (DL_FUNC)C_known, 1},
    {"C_recycled", (DL_FUNC)C_recycled, 3}, {"C_warning_fate", (DL_FUNC)C_warning_fate, 0}, {NULL, NULL, 0}};

// R_registerRoutines() takes a single list, so Rust's and C's entries are joined.
static void register_entries(DllInfo *dll) {
  int of_rust = vg_entries(NULL);
  R_CallMethodDef *all = (R_CallMethodDef *)R_alloc(of_rust + sizeof entries / sizeof *entries, sizeof *all);
  vg_entries(all);
  memcpy(all + of_rust, entries, sizeof entries);
  R_registerRoutines(dll, NULL, all, NULL, externals);
}

void R_init_verdigris(DllInfo *dll) {
  register_entries(dll);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  vg_init_holders();
  vg_init_unwind();
  vg_init_finalizers();
  vg_init_attributes();
  vg_register_arrays(dll);
  vg_init_handlers();
  vg_init_operators();
  vg_init_summary();
  vg_init_dlpack();
  vg_init_subset();
  vg_init_target();
  vg_init_kernel();
  vg_init_masks();
  vg_register_host_vectors(dll);
  vg_register_callables();
  vg_register_blas((DL_FUNC)F77_NAME(dgemm), (DL_FUNC)F77_NAME(dgemv), (DL_FUNC)F77_NAME(dsyrk));
  vg_init();
}
