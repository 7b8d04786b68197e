// Active bindings in package:verdigris for names that mask other functions (R/base-masks.R). The value depends on the
// next function of that name on the search path, which may change at any time.
#include "masks.h"
#include "dots.h"

#if R_VERSION >= R_Version(4, 5, 0)
#define PARENT(env) R_ParentEnv(env)
#define CLOSURE_ENV(f) R_ClosureEnv(f)
// The value of a variable of this environment, without its parents; R_NilValue if there is none.
static SEXP value_in(SEXP env, SEXP symbol) { return R_getVarEx(symbol, env, FALSE, R_NilValue); }
#else
#define PARENT(env) ENCLOS(env)
#define CLOSURE_ENV(f) CLOENV(f)
static SEXP value_in(SEXP env, SEXP symbol) {
  SEXP value = Rf_findVarInFrame3(env, symbol, TRUE);
  if (TYPEOF(value) == PROMSXP) { // a lazy-loaded object
    PROTECT(value);
    value = Rf_eval(value, env);
    UNPROTECT(1);
  }
  return value == R_UnboundValue ? R_NilValue : value;
}
#endif

// Elements of a mask's state, a list that the binding's function keeps: the name as a symbol; package:verdigris; this
// package's namespace; the namespace of the function that this package's replaces, or NULL; the function masked last,
// and its mask; a value assigned to the binding. The last three are NULL at first.
enum { NAME, PACKAGE, OURS, HOME, THEIRS, MASK, ASSIGNED };

static SEXP interposed_symbol, mask_symbol;

void vg_init_masks(void) {
  interposed_symbol = Rf_install(".verdigris");
  mask_symbol = Rf_install("mask");
}

// Whether f is this package's: defined in its namespace, a mask or an interposed function.
static int stands_in_front(SEXP f, SEXP ours) {
  if (TYPEOF(f) != CLOSXP) return 0;
  SEXP env = CLOSURE_ENV(f);
  return env == ours || (TYPEOF(env) == ENVSXP && env != R_BaseNamespace && R_existsVarInFrame(env, interposed_symbol));
}

// Whether env is a copy of the package's exports with active bindings, as attach() makes from R 4.6 on.
static int is_copy(SEXP env, SEXP symbol, SEXP ours) {
  if (env == R_BaseEnv || !R_existsVarInFrame(env, symbol) || !R_BindingIsActive(symbol, env)) return 0;
  return stands_in_front(R_ActiveBindingFunction(symbol, env), ours);
}

// The value of the binding. If the next function on the search path is base R's (the one in `home`), it is this
// package's function; otherwise a mask of that next function.
SEXP C_masked(SEXP state) {
  if (VECTOR_ELT(state, ASSIGNED) != R_NilValue) return VECTOR_ELT(state, ASSIGNED);
  SEXP symbol = VECTOR_ELT(state, NAME), ours = VECTOR_ELT(state, OURS), home = VECTOR_ELT(state, HOME);
  SEXP theirs = R_NilValue;
  for (SEXP env = PARENT(VECTOR_ELT(state, PACKAGE)); env != R_EmptyEnv; env = PARENT(env)) {
    if (is_copy(env, symbol, ours)) continue;
    SEXP value = value_in(env, symbol);
    // like R's lookup of functions, skip other values; also skip this package's functions in an attached copy
    if (!Rf_isFunction(value) || stands_in_front(value, ours)) continue;
    if (env != R_BaseEnv || home != R_BaseNamespace) theirs = value;
    break;
  }
  PROTECT(theirs);
  if (theirs == R_NilValue || (TYPEOF(home) == ENVSXP && theirs == value_in(home, symbol))) {
    UNPROTECT(1);
    return value_in(ours, symbol);
  }
  if (VECTOR_ELT(state, THEIRS) != theirs) {
    // mask() may look the name up itself, through the methods package: let it find the next function
    SET_VECTOR_ELT(state, MASK, theirs);
    SET_VECTOR_ELT(state, THEIRS, theirs);
    SEXP call = PROTECT(Rf_lang3(mask_symbol, PROTECT(Rf_ScalarString(PRINTNAME(symbol))), theirs));
    SET_VECTOR_ELT(state, MASK, Rf_eval(call, ours));
    UNPROTECT(2);
  }
  UNPROTECT(1);
  return VECTOR_ELT(state, MASK);
}

// Assignment to the binding: trace() and others unlock the binding and assign.
SEXP C_mask_assign(SEXP state, SEXP value) {
  SET_VECTOR_ELT(state, ASSIGNED, value);
  return R_NilValue;
}

// .External2(C_known, name): the value of the caller's argument `name` if no code has to run for it, else NULL. For
// "..." a list of these for each element.
SEXP C_known(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP symbol = Rf_install(CHAR(STRING_ELT(CADR(args), 0)));
  if (symbol != R_DotsSymbol) {
    SEXP value = vg_known(symbol, rho);
    return value == NULL ? R_NilValue : value;
  }
  int n = vg_dots_length(rho);
  SEXP all = PROTECT(Rf_allocVector(VECSXP, n));
  for (int k = 0; k < n; k++) {
    SEXP value = vg_dot_known(k + 1, rho);
    if (value != NULL) SET_VECTOR_ELT(all, k, value);
  }
  UNPROTECT(1);
  return all;
}
