// Finds the handler for warnings of a recorded operation. The operation warns when it is computed, and by then the
// handlers that enclosed its call may be gone. So an operation that may warn looks for the innermost handler when it is
// recorded (docs/decisions/018-warnings-find-their-handlers.md). R's API does not expose the handler stack, so the call
// stack is searched for frames of tryCatch(), withCallingHandlers() and suppressWarnings(). The result is cached by the
// frame that called the operation, since that frame usually calls more of them.
#include <string.h>
#include "handlers.h"
#include "altrep-array.h"
#include "conditions.h"
#include "helpers.h"
#include "target.h"
#include "unwind.h"

extern int vg_call_site_light;  // Rust: nonzero if the operation cannot warn; its call is wanted only if light
int vg_call_is_light(SEXP call);
SEXP vg_compute_now(SEXP x);    // Rust: computes an array, and waits for its warnings

// What to do about the warnings: give them when the operation is computed, suppress them, or compute at once so that
// the handler gets them. CONTINUE: no handler so far, look further out. The values are those of frame_verdict() in R.
enum { LATER = 0, NEVER = VG_SUPPRESSED, NOW = 2, CONTINUE = 3 };

#if R_VERSION >= R_Version(4, 5, 0)
#define BODY_OF(f) R_ClosureBody(f)
#define HOME_OF(f) R_ClosureEnv(f)
#define PARENT(env) R_ParentEnv(env)
#else
#define BODY_OF(f) BODY(f)
#define HOME_OF(f) CLOENV(f)
#define PARENT(env) ENCLOS(env)
#endif

static SEXP depth_call, below_call, second_call, sys_frame, sys_function, sys_call, missing_call, warn_symbol,
  silent_symbol, classes_symbol, generic_symbol;

// Functions of base R are recognised by their bodies: sys.function() returns a copy of the closure with the same body.
enum { EVAL, CATCHING, CALLING, SUPPRESS, SIGNALLING, WATCHED = SIGNALLING + 5 };
static const char *watched[] = {"eval", "tryCatch", "withCallingHandlers", "suppressWarnings",
                                "signalCondition", "withRestarts", "stop", "warning", ".handleSimpleError"};
static SEXP bodies[WATCHED];

// Cached results, for operations that a frame's code calls.
#define KEPT 8
typedef struct {
  uintptr_t stack; // C stack address at the call; tells the frame's own code from code evaluated in it; 0: unknown
  int depth;       // number of the frame, as for sys.frame(); 0: entry not valid
  int evaluated;   // whether the code is evaluated by eval(): then the frame of eval() is part of the key
  int disposition;
} Found;
static Found found[KEPT];
static SEXP frames; // two weak references for each entry; strong ones would keep the user's data alive
static int next = 0;

static SEXP function_of(const char *name) {
  SEXP function = PROTECT(Rf_eval(Rf_install(name), R_BaseEnv));
  R_PreserveObject(function);
  UNPROTECT(1);
  return function;
}

void vg_init_handlers(void) {
  generic_symbol = Rf_install(".Generic");
  // calls hold the functions themselves and plain numbers, so that evaluating them looks nothing up
  sys_frame = function_of("sys.frame");
  sys_function = function_of("sys.function");
  sys_call = function_of("sys.call");
  depth_call = Rf_lang1(function_of("sys.nframe"));
  R_PreserveObject(depth_call);
  SEXP *above[] = {&below_call, &second_call};
  for (int k = 0; k < 2; k++) {
    SEXP number = PROTECT(Rf_ScalarInteger(-1 - k));
    *above[k] = Rf_lang2(sys_frame, number);
    R_PreserveObject(*above[k]);
    UNPROTECT(1);
  }
  for (int k = 0; k < WATCHED; k++) bodies[k] = BODY_OF(function_of(watched[k]));
  missing_call = vg_preserved("missing(classes)");
  classes_symbol = Rf_install("classes");
  warn_symbol = Rf_install("warn");
  silent_symbol = Rf_install(".verdigris_silent");
  frames = Rf_allocVector(VECSXP, 2 * KEPT);
  R_PreserveObject(frames);
}

// sys.frame(k), sys.function(k) or sys.call(k).
static SEXP of_frame(SEXP function, int k, SEXP rho) {
  SEXP number = PROTECT(Rf_ScalarInteger(k));
  SEXP call = PROTECT(Rf_lang2(function, number));
  SEXP value = Rf_eval(call, rho);
  UNPROTECT(2);
  return value;
}

static int is_kept(int k, int second, SEXP frame) {
  SEXP weak = VECTOR_ELT(frames, 2 * k + second);
  return weak != R_NilValue && R_WeakRefKey(weak) == frame;
}

static void keep(int k, SEXP frame, SEXP second, Found what) {
  found[k].depth = 0; // invalid until both references are set: R may jump
  SET_VECTOR_ELT(frames, 2 * k, R_MakeWeakRef(frame, R_NilValue, R_NilValue, FALSE));
  if (what.evaluated) SET_VECTOR_ELT(frames, 2 * k + 1, R_MakeWeakRef(second, R_NilValue, R_NilValue, FALSE));
  found[k] = what;
}

// Whether a frame of tryCatch() or withCallingHandlers() has established a handler for this package's warnings.
static int takes_warnings(SEXP frame) {
  static const char *ours[] = {"warning", "simpleWarning", "condition", "verdigris_warning_precision"};
  SEXP classes = vg_argument_code(classes_symbol, frame);
  if (classes == NULL || TYPEOF(classes) != STRSXP) return 0; // not assigned before the handlers are established
  for (R_xlen_t i = 0; i < XLENGTH(classes); i++)
    for (int k = 0; k < 4; k++)
      if (strcmp(CHAR(STRING_ELT(classes, i)), ours[k]) == 0) return 1;
  return 0;
}

// The disposition of warnings by frame k, a call of eval(), tryCatch() or withCallingHandlers().
static int verdict(int which, int k, SEXP frame, SEXP rho) {
  if (which != EVAL && !takes_warnings(frame)) return CONTINUE;
  if (which == CALLING && k > 1) {
    SEXP caller = PROTECT(of_frame(sys_function, k - 1, rho));
    int is_suppress = TYPEOF(caller) == CLOSXP && BODY_OF(caller) == bodies[SUPPRESS];
    UNPROTECT(1);
    if (is_suppress) return Rf_asLogical(Rf_eval(missing_call, of_frame(sys_frame, k - 1, rho))) ? NEVER : NOW;
  }
  SEXP number = PROTECT(Rf_ScalarInteger(k));
  int said = Rf_asInteger(vg_eval_helper("frame_verdict", number, R_NilValue));
  UNPROTECT(1);
  return said;
}

// Whether to skip a frame: it belongs to a function of this package, or to an S4 generic (whose environment has
// .Generic), which only called its method.
static int is_passing(SEXP frame) {
  SEXP home = frame == R_EmptyEnv ? frame : PARENT(frame);
  return vg_is_namespace(home) || (home != R_EmptyEnv && R_existsVarInFrame(home, generic_symbol));
}

// The disposition of warnings of an operation called from frame `last`; `rho` is a frame inside it. `frame` and
// `function` are the environment and closure of frame `last` if known, else R_NilValue. The result is cached for the
// first frame of a user's function at or outside frame `least`.
static int find_handler(SEXP rho, int last, int least, SEXP frame, SEXP function) {
  int disposition = CONTINUE, handling = 0, level = 0;
  SEXP kept = R_NilValue;
  PROTECT_INDEX at_kept, at_frame, at_function;
  PROTECT_WITH_INDEX(kept, &at_kept);
  PROTECT_WITH_INDEX(frame, &at_frame);
  PROTECT_WITH_INDEX(function, &at_function);
  for (int k = last; k >= 1 && disposition == CONTINUE; k--, frame = function = R_NilValue) {
    if (frame == R_NilValue) REPROTECT(frame = of_frame(sys_frame, k, rho), at_frame);
    for (int j = 0; j < KEPT && disposition == CONTINUE; j++)
      if (found[j].depth == k && !found[j].evaluated && is_kept(j, 0, frame)) disposition = found[j].disposition;
    if (disposition != CONTINUE || is_passing(frame)) continue;
    if (function == R_NilValue) REPROTECT(function = of_frame(sys_function, k, rho), at_function);
    if (TYPEOF(function) != CLOSXP) continue;
    if (HOME_OF(function) == R_BaseNamespace) {
      int which = 0;
      while (which < WATCHED && BODY_OF(function) != bodies[which]) which++;
      if (which <= CALLING) disposition = verdict(which, k, frame, rho);
      // a handler may be running; R disables the handlers inside its own while it runs
      else if (which != SUPPRESS && which < WATCHED && level == 0) handling = 1;
    } else if (level == 0 && k <= least) {
      REPROTECT(kept = frame, at_kept);
      level = k;
    }
  }
  if (disposition == CONTINUE) disposition = LATER;
  if (level > 0) keep(next++ % KEPT, kept, R_NilValue, (Found){0, level, 0, disposition});
  UNPROTECT(3);
  return handling && disposition == NEVER ? NOW : disposition;
}

// The disposition of warnings of an operation whose method has frame `rho`. The frames outside a function's frame do
// not change while that frame lives, so a cached result stays valid. Code that eval() evaluates in the frame may have
// other frames outside it, so there the frame of eval() is compared too.
static int disposition_in(SEXP rho, uintptr_t stack) {
  SEXP below = PROTECT(Rf_eval(below_call, rho));
  int depth = 0, k = 0;
  if (below == R_GlobalEnv && (depth = Rf_asInteger(Rf_eval(depth_call, rho))) == 1) {
    UNPROTECT(1);
    return LATER;
  }
  while (k < KEPT && (found[k].stack != stack || !is_kept(k, 0, below))) k++;
  if (k < KEPT && (!found[k].evaluated || is_kept(k, 1, Rf_eval(second_call, rho)))) {
    UNPROTECT(1);
    return found[k].disposition;
  }
  if (depth == 0) depth = Rf_asInteger(Rf_eval(depth_call, rho));
  if (is_passing(below)) {
    int disposition = find_handler(rho, depth - 1, depth - 1, below, R_NilValue);
    UNPROTECT(1);
    return disposition;
  }
  SEXP function = PROTECT(of_frame(sys_function, depth - 1, rho));
  int evaluated = TYPEOF(function) != CLOSXP;
  SEXP second = PROTECT(evaluated ? Rf_eval(second_call, rho) : R_NilValue);
  int disposition = find_handler(rho, depth - 1, depth - 2, below, function);
  keep(k < KEPT ? k : next++ % KEPT, below, second, (Found){stack, depth - 1, evaluated, disposition});
  UNPROTECT(3);
  return disposition;
}

// .External2(C_warning_fate): the same for an operation whose method's frame is not known. Called from a helper in R.
SEXP C_warning_fate(SEXP call, SEXP op, SEXP args, SEXP rho) {
  int last = Rf_asInteger(Rf_eval(depth_call, rho)) - 1;
  return Rf_ScalarInteger(find_handler(rho, last, last, R_NilValue, R_NilValue));
}

// Computes the result, an array or a list of arrays, and raises its warnings.
static void compute_now(SEXP out) {
  if (TYPEOF(out) == VECSXP) {
    for (R_xlen_t k = 0; k < XLENGTH(out); k++) compute_now(VECTOR_ELT(out, k));
  } else if (vg_is_ours(out)) {
    vg_checked(vg_compute_now(out));
  }
}

SEXP vg_finish_recording(SEXP out, SEXP rho, SEXP call) {
  SEXP cell = vg_call_site_wanted;
  int warns = !vg_call_site_light && !(vg_pending && vg_error_present());
  vg_call_site_wanted = NULL;
  if (vg_is_jumping()) vg_raise_pending(R_NilValue);
  PROTECT(call);
  PROTECT(out);
  PROTECT(cell);
  if (rho != NULL && TAG(cell) == R_NilValue) {
    if (TYPEOF(call) == INTSXP) call = of_frame(sys_call, INTEGER_ELT(call, 0), rho);
    if (warns || vg_call_is_light(call)) SET_TAG(cell, call);
  }
  if (warns) {
    int disposition = rho != NULL ? disposition_in(rho, (uintptr_t)&cell)
                                  : Rf_asInteger(vg_eval_helper("warning_fate", R_NilValue, R_NilValue));
    if (disposition == LATER && Rf_asInteger(Rf_GetOption1(warn_symbol)) >= 2) disposition = NOW;
    // no call to mark silent: suppressWarnings() gets them
    if (disposition == NEVER && TAG(cell) == R_NilValue) disposition = NOW;
    if (disposition == NEVER) {
      SEXP silent = PROTECT(Rf_lang2(silent_symbol, TAG(cell)));
      SET_TAG(cell, silent);
      UNPROTECT(1);
    } else if (disposition == NOW) {
      compute_now(out);
    }
  }
  UNPROTECT(3);
  return out;
}
