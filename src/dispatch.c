// Operators on an array and an object of another class, in R before 4.3. The active bindings of R/ops-dispatch.R call
// these functions when R looks up a method.
#include "dispatch.h"
#include "helpers.h"

int vg_looked_up = 0;

// `given`: the method that the last lookup for an array returned. `given_for`: the arrays' own method for the operator.
// `theirs`: the method that was looked up for another class and not called since. The bindings keep all three alive.
static SEXP given = NULL, given_for = NULL, theirs = NULL;

// If both operands are arrays, both lookups return the same method. `theirs` may be left over from an operation on
// other classes, whose methods R found incompatible and did not call; called with arrays, it calls the arrays' method.
SEXP C_method_of_array(SEXP ours) {
  if (!vg_looked_up || given_for != ours) given = theirs != NULL ? theirs : ours;
  vg_looked_up = 1;
  given_for = ours;
  theirs = NULL;
  return given;
}

SEXP C_method_beside(SEXP method) {
  if (vg_looked_up) return given;
  if (method != R_NilValue) theirs = method;
  return method;
}

SEXP C_other_method_called(void) {
  theirs = NULL;
  return R_NilValue;
}

void vg_refuse_operator(void) {
  vg_looked_up = 0;
  vg_eval_helper("refuse_operator", R_NilValue, R_NilValue);
}
