// Operators beside another class, in R before 4.3: R/ops-dispatch.R says what the bindings do that call this.
#include "dispatch.h"
#include "helpers.h"

int vg_looked_up = 0;

// What was given for the last array, the method of arrays that it stands for, and the method that was looked up for
// another class and not called since. All are held by the bindings.
static SEXP given = NULL, given_for = NULL, theirs = NULL;

// Where the first operand is an array too, both get the same. `theirs` may then be left over from operands without an
// array whose methods R found incompatible; called with arrays it hands over to ours.
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
