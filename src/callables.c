// C callables for other packages, which look them up by R_GetCCallable and need not link to this package.
// inst/include/verdigris.h documents and calls them.
//
// Only verdigris_raise() raises an R error. The others return NULL on failure, and keep the condition until the caller
// asks for it or calls another of these functions.
#include "callables.h"
#include "conditions.h"
#include "unwind.h"

static int version(void) { return 1; }

static int is_array(SEXP x) { return vg_foreign_is_array(x); }

// The depth of R's protection stack.
static int protected_values(void) {
  PROTECT_INDEX index;
  PROTECT_WITH_INDEX(R_NilValue, &index);
  UNPROTECT(1);
  return index;
}

// Keeps the pending error of a call for its caller. Returns nonzero if there was one. A jump that was dropped may have
// left objects on the protection stack; `values` is the depth at which the call began.
static int keep_error(int values) {
  if (vg_drop_jump()) vg_leave_jump();
  int failed = vg_error_keep();
  if (failed) UNPROTECT(protected_values() - values);
  return failed;
}

static void *export_tensor(SEXP x, int versioned, int writable, int64_t stream) {
  int values = protected_values();
  void *tensor = vg_foreign_export(x, versioned, writable, stream);
  keep_error(values);
  return tensor;
}

static SEXP import_tensor(void *tensor, int versioned, int copy) {
  int values = protected_values();
  SEXP x = vg_foreign_import(tensor, versioned, copy);
  return keep_error(values) ? NULL : x;
}

static SEXP new_capsule(void *tensor, int versioned) {
  int values = protected_values();
  SEXP capsule = vg_foreign_capsule(tensor, versioned);
  return keep_error(values) ? NULL : capsule;
}

static void *take_capsule(SEXP capsule, int versioned) {
  int values = protected_values();
  void *tensor = vg_foreign_take(capsule, versioned);
  keep_error(values);
  return tensor;
}

static void message(char *out, int size) { vg_error_kept(out, size); }

static void raise_error(void) {
  if (vg_error_recall()) vg_raise_pending(R_NilValue);
}

#define REGISTER(name, function) R_RegisterCCallable("verdigris", "verdigris_" name, (DL_FUNC)function)

void vg_register_callables(void) {
  REGISTER("version", version);
  REGISTER("is_array", is_array);
  REGISTER("export", export_tensor);
  REGISTER("import", import_tensor);
  REGISTER("capsule", new_capsule);
  REGISTER("take", take_capsule);
  REGISTER("message", message);
  REGISTER("raise", raise_error);
}
