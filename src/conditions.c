// Raises in R the condition that Rust has left pending.
#include <string.h>
#include "conditions.h"
#include "attributes.h"
#include "helpers.h"
#include "unwind.h"

static SEXP text_of(const char *text, int bytes) {
  return text == NULL ? NA_STRING : Rf_mkCharLenCE(text, bytes, CE_UTF8);
}

// list(kind, message, detail, source, advice), or NULL.
static SEXP take_error(void) {
  if (!vg_error_present()) return R_NilValue;
  static const char *names[] = {"kind", "message", "detail", "source", "advice", ""};
  SEXP error = PROTECT(Rf_mkNamed(VECSXP, names));
  int bytes = 0, n = 0;
  for (int field = 0; field < 4; field++) {
    const char *text = vg_error_text(field, 0, &bytes);
    if (text != NULL) SET_VECTOR_ELT(error, field, Rf_ScalarString(text_of(text, bytes)));
  }
  while (vg_error_text(4, n, &bytes) != NULL) n++;
  SEXP advice = Rf_allocVector(STRSXP, n);
  SET_VECTOR_ELT(error, 4, advice);
  for (int k = 0; k < n; k++) {
    const char *text = vg_error_text(4, k, &bytes);
    SET_STRING_ELT(advice, k, text_of(text, bytes));
  }
  UNPROTECT(1);
  return error;
}

// The call as the user wrote it. If R has dispatched from C, the call names the method (`+.gpu_array`, or the method of
// a mask, R/base-masks.R) instead of the generic. Arrays that do.call() has put into the call become `...`, since
// printing them would copy them to the host.
static SEXP as_written(SEXP call) {
  char generic[64];
  if (TYPEOF(call) != LANGSXP) return call;
  call = PROTECT(Rf_shallow_duplicate(call));
  for (SEXP arg = CDR(call); arg != R_NilValue; arg = CDR(arg))
    if (Rf_inherits(CAR(arg), "gpu_array")) SETCAR(arg, R_DotsSymbol);
  if (TYPEOF(CAR(call)) == SYMSXP) {
    const char *name = CHAR(PRINTNAME(CAR(call)));
    const char *dot = strrchr(name, '.');
    size_t n = dot == NULL ? 0 : (size_t)(dot - name);
    if (n > 0 && n < sizeof generic && (vg_is_own_class(dot + 1) || strcmp(dot, ".verdigris") == 0)) {
      memcpy(generic, name, n);
      generic[n] = '\0';
      SETCAR(call, Rf_install(generic));
    }
  }
  UNPROTECT(1);
  return call;
}

// A list of simpleWarning conditions, some with a class of this package in front, each with the call that recorded the
// operation.
static SEXP take_warnings(void) {
  static const char *names[] = {"message", "call", ""};
  int n = vg_warning_count();
  SEXP all = PROTECT(Rf_allocVector(VECSXP, n));
  for (int k = 0; k < n; k++) {
    SEXP one = Rf_mkNamed(VECSXP, names);
    SET_VECTOR_ELT(all, k, one);
    int bytes = 0;
    const char *text = vg_warning_text(k, &bytes);
    SET_VECTOR_ELT(one, 0, Rf_ScalarString(text_of(text, bytes)));
    SET_VECTOR_ELT(one, 1, as_written(vg_warning_call(k)));
    const char *own = vg_warning_class(k);
    int first = own != NULL;
    SEXP class = PROTECT(Rf_allocVector(STRSXP, first + 3));
    if (own != NULL) SET_STRING_ELT(class, 0, Rf_mkChar(own));
    SET_STRING_ELT(class, first, Rf_mkChar("simpleWarning"));
    SET_STRING_ELT(class, first + 1, Rf_mkChar("warning"));
    SET_STRING_ELT(class, first + 2, Rf_mkChar("condition"));
    Rf_setAttrib(one, R_ClassSymbol, class);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return all;
}

// list(error, warnings).
static SEXP take_condition(void *unused) {
  SEXP taken = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(taken, 0, take_error());
  SET_VECTOR_ELT(taken, 1, take_warnings());
  UNPROTECT(1);
  return taken;
}

static void clear_condition(void *unused) { vg_condition_clear(); }

SEXP vg_raise_pending(SEXP result) {
  vg_call_site_wanted = NULL; // an error makes it obsolete
  if (vg_is_jumping()) {
    vg_condition_clear();
    vg_continue_jump();
  }
  PROTECT(result);
  // Warnings that suppressWarnings() takes may come again, of another reader; others are raised once.
  if (vg_warning_count() > 0)
    vg_warnings_settle(Rf_asInteger(vg_eval_helper("warning_fate", R_NilValue, R_NilValue)) == VG_SUPPRESSED);
  // cleared even if R runs out of memory here, so that the next entry does not raise it
  SEXP taken = PROTECT(R_ExecWithCleanup(take_condition, NULL, clear_condition, NULL));
  SEXP error = VECTOR_ELT(taken, 0), warnings = VECTOR_ELT(taken, 1);
  for (R_xlen_t k = 0; k < XLENGTH(warnings); k++) {
    SEXP call = PROTECT(Rf_lang2(Rf_install("warning"), VECTOR_ELT(warnings, k)));
    Rf_eval(call, R_BaseEnv);
    UNPROTECT(1);
  }
  if (error != R_NilValue) {
    if (strcmp(CHAR(STRING_ELT(VECTOR_ELT(error, 0), 0)), "interrupt") == 0) vg_raise_wait_error();
    vg_eval_helper("raise", error, R_NilValue);
    Rf_errorcall(R_NilValue, "%s", "verdigris: raise() returned");
  }
  UNPROTECT(2);
  return result;
}
