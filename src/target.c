// Decides whether an assignment function may write to its first argument in place.
//
// `x[i] <- v` calls `[<-`(`*tmp*`, i, value = v). Before the call R duplicates a shared vector, so that only the
// variable refers to it. Inside the method the reference count includes its own arguments, so it cannot be used. But
// the vector stays unshared as long as no code runs that could make another reference: v is evaluated already, i is
// not. So the code of subscripts is examined before it is evaluated. Allowed are constants, variables with a value, and
// calls of base R's functions that only compute.
#include "target.h"
#include "altrep-array.h"
#include "attributes.h"
#include "dots.h"
#include "helpers.h"

// Limits on the calls examined, and on their nesting.
enum { MOST_CALLS = 32, DEEPEST = 16 };

static SEXP tmp_symbol, x_symbol, value_symbol;
static const char *const pure_names[] = {"+", "-", "*", "/", "^", "%%", "%/%", ":", "(", "!", "&", "|", "==", "!=",
  "<", ">", "<=", ">=", "c", "length", "seq_len", "is.na", "["};
enum { PURE = sizeof pure_names / sizeof *pure_names };
static SEXP pure[PURE];

void vg_init_target(void) {
  for (int k = 0; k < PURE; k++) pure[k] = Rf_install(pure_names[k]);
  tmp_symbol = Rf_install("*tmp*");
  x_symbol = Rf_install("x");
  value_symbol = Rf_install("value");
}

// ---- arguments -------------------------------------------------------------------------------------

// What is known of a variable or argument: a value that is no promise, a forced promise, or a promise not forced yet.
enum { UNKNOWN, VALUE, FORCED, DELAYED };
typedef struct {
  int kind;
  SEXP value;     // for VALUE and FORCED
  SEXP code, env; // for DELAYED; FORCED has only the code
} binding;

static const binding unknown = {UNKNOWN, NULL, NULL, NULL};

static binding of_kind(int kind, SEXP value, SEXP code, SEXP env) {
  binding b = {kind, value, code, env};
  return b;
}

#if R_VERSION >= R_Version(4, 6, 0)

static binding variable(SEXP symbol, SEXP env) {
  switch (R_GetBindingType(symbol, env)) {
  case R_BindingTypeValue: return of_kind(VALUE, R_getVar(symbol, env, FALSE), NULL, NULL);
  case R_BindingTypeForced:
    return of_kind(FORCED, R_getVar(symbol, env, FALSE), R_ForcedBindingExpression(symbol, env), NULL);
  case R_BindingTypeDelayed:
    return of_kind(DELAYED, NULL, R_DelayedBindingExpression(symbol, env), R_DelayedBindingEnvironment(symbol, env));
  default: return unknown;
  }
}

static binding dot(int k, SEXP rho) {
  switch (R_GetDotType(k, rho)) {
  case R_DotTypeValue: return of_kind(VALUE, R_DotsElt(k, rho), NULL, NULL);
  case R_DotTypeForced: return of_kind(FORCED, R_DotsElt(k, rho), R_DotForcedExpression(k, rho), NULL);
  case R_DotTypeDelayed:
    return of_kind(DELAYED, NULL, R_DotDelayedExpression(k, rho), R_DotDelayedEnvironment(k, rho));
  default: return unknown;
  }
}

static SEXP parent(SEXP env) { return R_ParentEnv(env); }

static int is_bound(SEXP symbol, SEXP env) { return R_GetBindingType(symbol, env) != R_BindingTypeUnbound; }

#else

static binding of_value(SEXP value) {
  binding b = of_kind(VALUE, value, NULL, NULL);
  while (TYPEOF(b.value) == PROMSXP) {
    SEXP promise = b.value, code = PREXPR(promise);
    if (PRVALUE(promise) == R_UnboundValue) return of_kind(DELAYED, NULL, code, PRENV(promise));
    // a promise's code is a promise if an argument was passed on
    while (TYPEOF(code) == PROMSXP) code = PREXPR(code);
    b.kind = FORCED;
    b.code = code;
    b.value = PRVALUE(promise);
  }
  return b.value == R_MissingArg || b.value == R_UnboundValue ? unknown : b;
}

static SEXP parent(SEXP env) { return ENCLOS(env); }

static int is_bound(SEXP symbol, SEXP env) { return R_existsVarInFrame(env, symbol); }

static binding variable(SEXP symbol, SEXP env) {
  if (!is_bound(symbol, env) || R_BindingIsActive(symbol, env)) return unknown;
  return of_value(Rf_findVarInFrame3(env, symbol, TRUE));
}

static binding dot(int k, SEXP rho) {
  SEXP dots = Rf_findVarInFrame(rho, R_DotsSymbol);
  while (--k > 0) dots = CDR(dots);
  return of_value(CAR(dots));
}

#endif

SEXP vg_argument_code(SEXP symbol, SEXP rho) {
#if R_VERSION >= R_Version(4, 6, 0)
  binding b = variable(symbol, rho);
#else
  binding b = of_value(Rf_findVarInFrame3(rho, symbol, TRUE)); // no argument is an active binding
#endif
  return b.kind == UNKNOWN ? NULL : b.kind == VALUE ? b.value : b.code;
}

// ---- code that makes no reference to the target ----------------------------------------------------

typedef struct {
  int calls, depth;
} budget;

static int is_code(SEXP x) { return TYPEOF(x) == SYMSXP || TYPEOF(x) == LANGSXP || TYPEOF(x) == BCODESXP; }

static int is_pure(SEXP code, SEXP env, int is_operand, budget *left);

// Whether a base R function applied to the value runs no unknown method: the value has no class, or is an array, whose
// methods make no references.
static int is_plain(SEXP value) {
  switch (TYPEOF(value)) {
  case NILSXP: case LGLSXP: case INTSXP: case REALSXP: case CPLXSXP: case STRSXP:
    return !Rf_isObject(value) || vg_data_of(value) != NULL;
  default: return 0;
  }
}

static int is_pure_binding(binding b, int is_operand, budget *left) {
  switch (b.kind) {
  case FORCED:
    return !is_operand || is_plain(b.value);
  case VALUE: return !is_operand || is_plain(b.value);
  case DELAYED: return is_pure(b.code, b.env, is_operand, left);
  default: return 0;
  }
}

// Whether a function name looked up in env is found in base R.
static int is_base(SEXP symbol, SEXP env) {
  for (; env != R_BaseEnv && env != R_BaseNamespace; env = parent(env)) {
    if (env == R_EmptyEnv || is_bound(symbol, env)) return 0;
  }
  return 1;
}

static int is_pure_function(SEXP symbol, SEXP env) {
  for (int k = 0; k < PURE; k++) {
    if (pure[k] == symbol) return is_base(symbol, env);
  }
  return 0;
}

// Whether evaluating the code can make no reference to the target. `is_operand`: whether the value goes to a function,
// which might dispatch on its class.
static int is_pure(SEXP code, SEXP env, int is_operand, budget *left) {
  if (left->depth == 0) return 0;
  left->depth--;
  int yes = 0;
  switch (TYPEOF(code)) {
  case SYMSXP:
    if (code == R_MissingArg || code == R_DotsSymbol) break;
    while (env != R_EmptyEnv && !is_bound(code, env)) env = parent(env);
    if (env != R_EmptyEnv) yes = is_pure_binding(variable(code, env), is_operand, left);
    break;
  case LANGSXP:
    if (left->calls == 0 || TYPEOF(CAR(code)) != SYMSXP || !is_pure_function(CAR(code), env)) break;
    left->calls--;
    yes = 1;
    for (SEXP args = CDR(code); yes && args != R_NilValue; args = CDR(args)) yes = is_pure(CAR(args), env, 1, left);
    break;
#if R_VERSION < R_Version(4, 6, 0)
  case PROMSXP: yes = is_pure_binding(of_value(code), is_operand, left); break;
#else
  case PROMSXP: break;
#endif
  case BCODESXP: break;
  default: yes = !is_operand || is_plain(code);
  }
  left->depth++;
  return yes;
}

// Whether evaluating an argument of the method can make no reference to the target. An argument that was computed by
// code already may have made one.
static int is_quiet(binding b, SEXP rho) {
  budget left = {MOST_CALLS, DEEPEST};
  if (b.kind == FORCED && is_code(b.code)) return 0;
  return is_pure_binding(b, 0, &left);
}

int vg_is_target(SEXP x, SEXP i, SEXP rho) {
  // not a wrapper, and no class in front of the array's own, whose method may have kept x
  if (vg_data_of(x) == NULL) return 0;
  if (!vg_has_own_class(x)) return 0;
  binding target = variable(x_symbol, rho);
  if (target.kind != FORCED || target.value != x || target.code != tmp_symbol) return 0;
  // R passes `value` as a value it has computed; unevaluated code means that the user called the method directly
  binding value = variable(value_symbol, rho);
  if (value.kind == UNKNOWN || (value.kind == DELAYED && is_code(value.code))) return 0;
  if (i != NULL && !is_quiet(variable(i, rho), rho)) return 0;
  int n = vg_dots_length(rho);
  for (int k = 1; k <= n; k++) {
    if (vg_dots_kind(k, rho) != VG_EMPTY && !is_quiet(dot(k, rho), rho)) return 0;
  }
  return 1;
}
