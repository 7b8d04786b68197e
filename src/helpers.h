// R code that C calls.
#pragma once
#include "r_api.h"

void vg_set_namespace(SEXP env);     // where the helpers in R are found
int vg_is_namespace(SEXP env);       // whether it is the package's
SEXP vg_eval_helper(const char *name, SEXP first, SEXP second);
void vg_say(const char *helper, const char *message);
SEXP vg_preserved(const char *code); // a call, parsed and kept for good
