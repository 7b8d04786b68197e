// Reads the arguments of a method from its frame. R 4.6 has functions for this; before, promises are read directly.
#include "dots.h"

// A promise may refer to a variable that is a promise. The depth limit ends cycles, such as in function(x = x).
enum { DEEPEST = 100 };

static SEXP known_variable(SEXP symbol, SEXP env, int depth);

#if R_VERSION >= R_Version(4, 6, 0)

int vg_is_missing(SEXP symbol, SEXP rho) { return R_GetBindingType(symbol, rho) == R_BindingTypeMissing; }

int vg_dots_length(SEXP rho) { return R_DotsExist(rho) ? R_DotsLength(rho) : 0; }

int vg_dots_named(SEXP rho) { return vg_dots_length(rho) > 0 && R_DotsNames(rho) != R_NilValue; }

int vg_dots_kind(int k, SEXP rho) {
  switch (R_GetDotType(k, rho)) {
  case R_DotTypeMissing: return VG_EMPTY;
  case R_DotTypeValue: return VG_VALUE;
  default: return VG_PROMISE;
  }
}

SEXP vg_dots_value(int k, SEXP rho) { return R_DotsElt(k, rho); }

int vg_dots_all(SEXP rho, int most, SEXP *names, SEXP *values) {
  int n = vg_dots_length(rho);
  if (n > most) return -1;
  SEXP all = PROTECT(n > 0 ? R_DotsNames(rho) : R_NilValue);
  for (int k = 0; k < n; k++) {
    if (R_GetDotType(k + 1, rho) == R_DotTypeMissing) {
      UNPROTECT(1);
      return -1;
    }
    // the argument's symbol keeps the CHARSXP alive
    SEXP name = all == R_NilValue ? R_BlankString : STRING_ELT(all, k);
    names[k] = name == R_BlankString ? NULL : name;
    values[k] = R_DotsElt(k + 1, rho);
  }
  UNPROTECT(1);
  return n;
}

static SEXP known_expression(SEXP code, SEXP env, int depth) {
  if (TYPEOF(code) == SYMSXP) return known_variable(code, env, depth + 1);
  return TYPEOF(code) == LANGSXP || TYPEOF(code) == PROMSXP || TYPEOF(code) == BCODESXP ? NULL : code;
}

static SEXP known_variable(SEXP symbol, SEXP env, int depth) {
  for (; depth < DEEPEST && env != R_EmptyEnv; env = R_ParentEnv(env)) {
    switch (R_GetBindingType(symbol, env)) {
    case R_BindingTypeUnbound: continue;
    case R_BindingTypeValue:
    case R_BindingTypeForced: return R_getVar(symbol, env, FALSE);
    case R_BindingTypeDelayed:
      return known_expression(R_DelayedBindingExpression(symbol, env), R_DelayedBindingEnvironment(symbol, env), depth);
    default: return NULL;
    }
  }
  return NULL;
}

SEXP vg_dot_known(int k, SEXP rho) {
  switch (R_GetDotType(k, rho)) {
  case R_DotTypeMissing: return NULL;
  case R_DotTypeDelayed: return known_expression(R_DotDelayedExpression(k, rho), R_DotDelayedEnvironment(k, rho), 0);
  default: return R_DotsElt(k, rho);
  }
}

#else

int vg_is_missing(SEXP symbol, SEXP rho) { return Rf_findVarInFrame(rho, symbol) == R_MissingArg; }

static SEXP dots_of(SEXP rho) {
  SEXP dots = Rf_findVarInFrame(rho, R_DotsSymbol);
  return TYPEOF(dots) == DOTSXP ? dots : R_NilValue;
}

int vg_dots_length(SEXP rho) { return Rf_length(dots_of(rho)); }

int vg_dots_named(SEXP rho) {
  for (SEXP dots = dots_of(rho); dots != R_NilValue; dots = CDR(dots)) {
    if (TAG(dots) != R_NilValue) return 1;
  }
  return 0;
}

static SEXP element(int k, SEXP rho) {
  SEXP dots = dots_of(rho);
  while (--k > 0) dots = CDR(dots);
  return CAR(dots);
}

int vg_dots_kind(int k, SEXP rho) {
  SEXP value = element(k, rho);
  return value == R_MissingArg ? VG_EMPTY : TYPEOF(value) == PROMSXP ? VG_PROMISE : VG_VALUE;
}

SEXP vg_dots_value(int k, SEXP rho) {
  SEXP value = element(k, rho);
  // the value needs no protection: the promise keeps it
  return TYPEOF(value) == PROMSXP ? Rf_eval(value, rho) : value;
}

int vg_dots_all(SEXP rho, int most, SEXP *names, SEXP *values) {
  int n = 0;
  for (SEXP dots = dots_of(rho); dots != R_NilValue; dots = CDR(dots), n++) {
    if (n == most || CAR(dots) == R_MissingArg) return -1;
    names[n] = TAG(dots) == R_NilValue ? NULL : PRINTNAME(TAG(dots));
    values[n] = CAR(dots);
  }
  for (int k = 0; k < n; k++) {
    if (TYPEOF(values[k]) == PROMSXP) values[k] = Rf_eval(values[k], rho);
  }
  return n;
}

static SEXP known_value(SEXP value, int depth) {
  while (TYPEOF(value) == PROMSXP) {
    if (PRVALUE(value) != R_UnboundValue) return PRVALUE(value);
    SEXP code = PREXPR(value); // itself a promise if an argument was passed on
    if (TYPEOF(code) == SYMSXP) return known_variable(code, PRENV(value), depth + 1);
    if (TYPEOF(code) == LANGSXP || TYPEOF(code) == BCODESXP) return NULL;
    value = code;
  }
  return value == R_MissingArg ? NULL : value;
}

static SEXP known_variable(SEXP symbol, SEXP env, int depth) {
  if (depth == DEEPEST) return NULL;
  while (env != R_EmptyEnv && !R_existsVarInFrame(env, symbol)) env = ENCLOS(env);
  if (env == R_EmptyEnv || R_BindingIsActive(symbol, env)) return NULL;
  return known_value(Rf_findVarInFrame3(env, symbol, TRUE), depth);
}

SEXP vg_dot_known(int k, SEXP rho) { return known_value(element(k, rho), 0); }

#endif

SEXP vg_known(SEXP symbol, SEXP env) { return known_variable(symbol, env, 0); }
