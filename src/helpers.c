// Calls of R code from C: helpers in the package's namespace, and calls that are parsed once.
#include "helpers.h"
#include <R_ext/Parse.h>

static SEXP namespace_env = NULL;

void vg_set_namespace(SEXP env) {
  namespace_env = env;
  R_PreserveObject(env);
}

int vg_is_namespace(SEXP env) { return env == namespace_env; }

// Calls a function of the package's namespace with two values. They are evaluated as part of the call.
SEXP vg_eval_helper(const char *name, SEXP first, SEXP second) {
  if (namespace_env == NULL) Rf_errorcall(R_NilValue, "%s", "verdigris is not loaded completely");
  PROTECT(first);
  PROTECT(second);
  SEXP call = PROTECT(Rf_lang3(Rf_install(name), first, second));
  SEXP result = Rf_eval(call, namespace_env);
  UNPROTECT(3);
  return result;
}

// Raises an error or a warning with base R's text and the user's call, by a helper in R such as stop_as_base().
void vg_say(const char *helper, const char *message) {
  SEXP text = PROTECT(Rf_mkString(message));
  vg_eval_helper("say", PROTECT(Rf_mkString(helper)), text);
  UNPROTECT(2);
}

// Parses a call and preserves it for good.
SEXP vg_preserved(const char *code) {
  ParseStatus status;
  SEXP text = PROTECT(Rf_mkString(code));
  SEXP parsed = PROTECT(R_ParseVector(text, 1, &status, R_NilValue));
  SEXP call = VECTOR_ELT(parsed, 0);
  R_PreserveObject(call);
  UNPROTECT(2);
  return call;
}
