// A call of a kernel: function(..., grid = NULL, block = NULL, shared = 0, n = NULL) .External2(C_launch), whose `pointer` is
// around it, and holds the names of its parameters. C takes the arguments from the frame, where R would make a list and match names; what is not the
// plain case goes to a helper in R.
#include "bridge.h"

SEXP vg_kernel_call(SEXP pointer, SEXP arguments, SEXP grid, SEXP block, SEXP shared, SEXP n);

static SEXP pointer_symbol, grid_symbol, block_symbol, shared_symbol, n_symbol, careful_call;

void vg_init_launch(void) {
  pointer_symbol = Rf_install("pointer");
  grid_symbol = Rf_install("grid");
  block_symbol = Rf_install("block");
  shared_symbol = Rf_install("shared");
  n_symbol = Rf_install("n");
  careful_call = vg_preserved("launch_matched(self, list(...), grid, block, shared, n)");
}

SEXP C_launch(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP pointer = Rf_eval(pointer_symbol, rho), parameters = R_ExternalPtrProtected(pointer);
  int count = vg_dots_length(rho);
  int plain = R_ExternalPtrAddr(pointer) != NULL && TYPEOF(parameters) == STRSXP && XLENGTH(parameters) == count && !vg_dots_named(rho);
  for (int k = 1; plain && k <= count; k++) plain = vg_dots_kind(k, rho) != VG_EMPTY;
  if (!plain) return Rf_eval(careful_call, rho);
  SEXP arguments = PROTECT(Rf_allocVector(VECSXP, count));
  for (int k = 0; k < count; k++) SET_VECTOR_ELT(arguments, k, vg_dots_value(k + 1, rho));
  SEXP grid = PROTECT(Rf_eval(grid_symbol, rho)), block = PROTECT(Rf_eval(block_symbol, rho));
  SEXP shared = PROTECT(Rf_eval(shared_symbol, rho)), n = PROTECT(Rf_eval(n_symbol, rho));
  SEXP value = vg_kernel_call(pointer, arguments, grid, block, shared, n);
  UNPROTECT(5);
  return vg_pending ? vg_settle(value) : value;
}
