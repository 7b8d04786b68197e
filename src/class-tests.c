// What an object is, for methods that ask it of every argument: R's inherits() is a closure, which takes as long as
// recording an operation.
#include "class-tests.h"
#include "altrep-array.h"
#include "conditions.h"
#include <string.h>

// The same as inherits(x, classes).
static int inherits_any(SEXP x, SEXP classes) {
  if (!Rf_isObject(x)) return 0;
  for (R_xlen_t k = 0; k < XLENGTH(classes); k++)
    if (Rf_inherits(x, CHAR(STRING_ELT(classes, k)))) return 1;
  // only R knows the superclasses of an S4 instance
  if (!Rf_isS4(x) || TYPEOF(x) == LANGSXP || TYPEOF(x) == SYMSXP) return 0;
  SEXP call = PROTECT(Rf_lang3(Rf_install("inherits"), x, classes));
  int is = Rf_asLogical(Rf_eval(call, R_BaseEnv));
  UNPROTECT(1);
  return is == TRUE;
}

SEXP C_inherits(SEXP x, SEXP classes) { return Rf_ScalarLogical(inherits_any(x, classes)); }

SEXP C_any_inherit(SEXP list, SEXP classes) {
  for (R_xlen_t k = 0; k < XLENGTH(list); k++)
    if (inherits_any(VECTOR_ELT(list, k), classes)) return Rf_ScalarLogical(TRUE);
  return Rf_ScalarLogical(FALSE);
}

SEXP C_is_int64(SEXP x) {
  if (TYPEOF(x) != REALSXP) return Rf_ScalarLogical(FALSE);
  void *handle = vg_handle_of(x);
  if (vg_pending) vg_raise_pending(R_NilValue);
  const char *dtype = handle == NULL ? NULL : vg_handle_dtype(handle);
  if (vg_pending) vg_raise_pending(R_NilValue);
  if (dtype != NULL) return Rf_ScalarLogical(strcmp(dtype, "int64") == 0);
  if (Rf_inherits(x, "integer64")) return Rf_ScalarLogical(TRUE);
  // an array that readRDS() returned, not yet uploaded
  if (handle != NULL || !Rf_inherits(x, "gpu_array")) return Rf_ScalarLogical(FALSE);
  SEXP saved = vg_saved_dtype(x);
  int is = TYPEOF(saved) == STRSXP && XLENGTH(saved) == 1 && strcmp(CHAR(STRING_ELT(saved, 0)), "int64") == 0;
  return Rf_ScalarLogical(is);
}
