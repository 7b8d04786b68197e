// Calls of R code from C.
#pragma once
#include "r_api.h"

void vg_set_namespace(SEXP env);     // sets the package's namespace, which has the helpers
int vg_is_namespace(SEXP env);       // whether env is that namespace
SEXP vg_eval_helper(const char *name, SEXP first, SEXP second);
void vg_say(const char *helper, const char *message);
SEXP vg_preserved(const char *code); // parses a call and preserves it for good
