// Operators on an array and an object of another class, in R before 4.3. The active bindings of R/ops-dispatch.R call
// these functions when R looks up a method.
#include "dispatch.h"
#include "helpers.h"

int vg_lookup_pending = 0;

// `last_method`: the method that the last lookup for an array returned. `last_method_for`: the arrays' own method for
// the operator. `pending_method`: the method that was looked up for another class and not called since. The bindings
// keep all three alive.
static SEXP last_method = NULL, last_method_for = NULL, pending_method = NULL;

// If both operands are arrays, both lookups return the same method. `pending_method` may be left over from an operation
// on other classes, whose methods R found incompatible and did not call; called with arrays, it calls the arrays'
// method.
SEXP C_method_of_array(SEXP ours) {
  if (!vg_lookup_pending || last_method_for != ours) last_method = pending_method != NULL ? pending_method : ours;
  vg_lookup_pending = 1;
  last_method_for = ours;
  pending_method = NULL;
  return last_method;
}

SEXP C_method_beside(SEXP method) {
  if (vg_lookup_pending) return last_method;
  if (method != R_NilValue) pending_method = method;
  return method;
}

SEXP C_other_method_called(void) {
  pending_method = NULL;
  return R_NilValue;
}

void vg_refuse_operator(void) {
  vg_lookup_pending = 0;
  vg_eval_helper("refuse_operator", R_NilValue, R_NilValue);
}
