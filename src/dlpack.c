// Frequent calls that export memory, each one .External2: C takes the arguments from the function's frame, where
// .Call() would make R evaluate and copy a list of them. Less frequent cases are handled in R (R/interop-dlpack.R,
// R/interop-torch.R).
#include "dlpack.h"
#include "attributes.h"
#include "dots.h"
#include "entry.h"
#include "helpers.h"
#include "torch_bridge.h"

// Rust.
SEXP vg_dlpack_export(SEXP x, SEXP versioned, SEXP stream, SEXP writable);
SEXP vg_dlpack_import(SEXP capsule, SEXP copy);
SEXP vg_torch_export(SEXP x);
SEXP vg_torch_import(SEXP x);
SEXP vg_upload(SEXP x, SEXP dtype, SEXP device, SEXP call);

static SEXP x_symbol, versioned_symbol, stream_symbol, writable_symbol, capsule_symbol, copy_symbol;
static SEXP dtype_symbol, device_symbol, detach_symbol;
static SEXP tensor_symbol; // the name of a class
static SEXP other_export_call, other_import_call, other_tensor_call, start_call;

void vg_init_dlpack(void) {
  x_symbol = Rf_install("x");
  versioned_symbol = Rf_install("versioned");
  stream_symbol = Rf_install("stream");
  writable_symbol = Rf_install("writable");
  capsule_symbol = Rf_install("capsule");
  copy_symbol = Rf_install("copy");
  dtype_symbol = Rf_install("dtype");
  device_symbol = Rf_install("device");
  detach_symbol = Rf_install("detach");
  tensor_symbol = Rf_install("torch_tensor");
  other_export_call = vg_preserved("as_dlpack_other(x, versioned, stream, writable)");
  other_import_call = vg_preserved("from_dlpack_other(capsule, copy)");
  other_tensor_call = vg_preserved("take_tensor(x, dtype, device, detach)");
  start_call = vg_preserved("start_torch()");
}

// as_dlpack(x, versioned, stream, writable)
SEXP C_as_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = Rf_eval(x_symbol, rho), versioned = Rf_eval(versioned_symbol, rho);
  SEXP stream = Rf_eval(stream_symbol, rho), writable = Rf_eval(writable_symbol, rho);
  SEXP capsule = vg_returned(vg_dlpack_export(x, versioned, stream, writable));
  return capsule == R_NilValue ? Rf_eval(other_export_call, rho) : capsule;
}

// from_dlpack(capsule, copy)
SEXP C_from_dlpack(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP capsule = Rf_eval(capsule_symbol, rho), copy = Rf_eval(copy_symbol, rho);
  SEXP x = vg_returned(vg_dlpack_import(capsule, copy));
  return x == R_NilValue ? Rf_eval(other_import_call, rho) : x;
}

// as_torch(x)
SEXP C_as_torch(SEXP call, SEXP op, SEXP args, SEXP rho) {
  if (!vg_torch_started()) Rf_eval(start_call, rho);
  return vg_returned(vg_torch_export(Rf_eval(x_symbol, rho)));
}

static int is_unset(SEXP symbol, SEXP rho) { return Rf_eval(symbol, rho) == R_NilValue; }

// The first of an object's classes; a symbol's name where it is that, since R has each string once.
static SEXP first_class(SEXP x) {
  SEXP classes = Rf_getAttrib(x, R_ClassSymbol);
  return TYPEOF(classes) == STRSXP && XLENGTH(classes) > 0 ? STRING_ELT(classes, 0) : NA_STRING;
}

// In as_gpu(x, dtype, device, ...): whether x is memory that is there already, an array's or a tensor's, and is taken
// as it is. R's search for the method costs more than taking it.
SEXP C_is_there(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = Rf_eval(x_symbol, rho);
  if (!Rf_isObject(x)) return Rf_ScalarLogical(FALSE);
  int known = vg_has_own_class(x) || (first_class(x) == PRINTNAME(tensor_symbol) && vg_torch_started());
  int plain = known && vg_dots_length(rho) == 0 && is_unset(dtype_symbol, rho) && is_unset(device_symbol, rho);
  return Rf_ScalarLogical(plain);
}

// as_gpu() of that
SEXP C_as_there(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = Rf_eval(x_symbol, rho);
  return vg_returned(vg_has_own_class(x) ? vg_upload(x, R_NilValue, R_NilValue, R_NilValue) : vg_torch_import(x));
}

// as_gpu(x, dtype, device, detach) of a tensor
SEXP C_from_torch(SEXP call, SEXP op, SEXP args, SEXP rho) {
  if (!vg_torch_started()) Rf_eval(start_call, rho);
  SEXP detach = Rf_eval(detach_symbol, rho);
  int plain = TYPEOF(detach) == LGLSXP && XLENGTH(detach) == 1 && LOGICAL_ELT(detach, 0) == FALSE;
  if (!plain || !is_unset(dtype_symbol, rho) || !is_unset(device_symbol, rho)) return Rf_eval(other_tensor_call, rho);
  return vg_returned(vg_torch_import(Rf_eval(x_symbol, rho)));
}
