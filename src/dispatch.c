// Operators beside another class, in R before 4.3: R/ops-dispatch.R says what the bindings do that call this.
#include "dispatch.h"
#include "helpers.h"

int vg_looked_up = 0;

// What was given for the last array, and the method that was looked up for another class and not called since. Both
// are held by the bindings.
static SEXP given = NULL, theirs = NULL;

SEXP C_method_of_array(SEXP ours) {
  vg_looked_up = 1;
  given = theirs != NULL ? theirs : ours;
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
