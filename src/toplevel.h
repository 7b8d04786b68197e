// R code that Rust may call.
#pragma once
#include "r_api.h"

int vg_toplevel(void (*run)(void *), void *data);
void vg_collect_garbage(int all);
double vg_processor_seconds(void);
void vg_call_text(SEXP call, char *out, int size);
