// Calls of a kernel: function(..., grid, block, shared, n, stream) .External2(C_launch). The closure's environment has
// `pointer`, an external pointer that keeps the parameters' names. C takes the arguments from the frame and orders them
// by parameter, which is faster than building lists in R. If they do not match the parameters, a helper in R takes
// over and raises the error.
#include "kernel.h"
#include "conditions.h"
#include "dots.h"
#include "finalizers.h"
#include "helpers.h"

// Rust.
SEXP vg_launch(SEXP pointer, const SEXP *arguments, int count, SEXP grid, SEXP block, SEXP shared, SEXP n, SEXP stream);

enum { MOST = 32 }; // kernels with more parameters are called by the helper in R

static SEXP pointer_symbol, grid_symbol, block_symbol, shared_symbol, n_symbol, stream_symbol, careful_call;

void vg_init_kernel(void) {
  pointer_symbol = Rf_install("pointer");
  grid_symbol = Rf_install("grid");
  block_symbol = Rf_install("block");
  shared_symbol = Rf_install("shared");
  n_symbol = Rf_install("n");
  stream_symbol = Rf_install("stream");
  careful_call = vg_preserved("launch_matched(self, list(...), if (!missing(grid)) grid, if (!missing(block)) block, "
                              "if (!missing(shared)) shared, if (!missing(n)) n, if (!missing(stream)) stream)");
}

static SEXP optional(SEXP symbol, SEXP rho) { return vg_is_missing(symbol, rho) ? R_NilValue : Rf_eval(symbol, rho); }

static int parameter_index(SEXP name, SEXP parameters, int total) {
  for (int k = 0; k < total; k++) {
    if (STRING_ELT(parameters, k) == name) return k;
  }
  return -1;
}

// Orders arguments by parameter: named ones first, then `n`, then the others by position, as match_parameters() in R
// does. Returns 0 if they do not match. `names[k]` is NULL for an argument without name.
static int arrange(SEXP parameters, SEXP n, int count, SEXP *names, SEXP *given, SEXP *arguments) {
  int total = Rf_length(parameters), next = 0;
  if (total > MOST || count > total) return 0;
  for (int k = 0; k < total; k++) arguments[k] = NULL;
  for (int k = 0; k < count; k++) {
    if (names[k] == NULL) continue;
    int index = parameter_index(names[k], parameters, total);
    if (index < 0 || arguments[index] != NULL) return 0;
    arguments[index] = given[k];
  }
  if (count < total && n != R_NilValue) {
    int index = parameter_index(PRINTNAME(n_symbol), parameters, total);
    if (index >= 0 && arguments[index] == NULL) arguments[index] = n;
  }
  for (int k = 0; k < count; k++) {
    if (names[k] != NULL) continue;
    while (next < total && arguments[next] != NULL) next++;
    if (next == total) return 0;
    arguments[next] = given[k];
  }
  for (int k = next; k < total; k++) {
    if (arguments[k] == NULL) return 0;
  }
  return 1;
}

SEXP C_launch(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP names[MOST], given[MOST], arguments[MOST]; // the frame keeps them alive
  SEXP pointer = Rf_eval(pointer_symbol, rho), parameters = vg_kept_with(pointer);
  int count = -1;
  if (vg_peek(pointer) != NULL && TYPEOF(parameters) == STRSXP) count = vg_dots_all(rho, MOST, names, given);
  if (count < 0) return Rf_eval(careful_call, rho);
  SEXP grid = optional(grid_symbol, rho), block = optional(block_symbol, rho), shared = optional(shared_symbol, rho);
  SEXP n = optional(n_symbol, rho), stream = optional(stream_symbol, rho);
  if (!arrange(parameters, n, count, names, given, arguments)) return Rf_eval(careful_call, rho);
  SEXP value = vg_launch(pointer, arguments, Rf_length(parameters), grid, block, shared, n, stream);
  return vg_checked(value);
}
