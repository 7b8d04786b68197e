// Frequent calls that exchange memory with other libraries. Each is one .External2, so that C takes the arguments from
// the caller's frame, without the argument list that .Call() would make. Other cases are left to R code
// (R/interop-dlpack.R, R/interop-torch.R).
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
static SEXP tensor_symbol; // the class name as a symbol
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

// The first class of an object. R caches CHARSXPs, so it can be compared with a PRINTNAME by address.
static SEXP first_class(SEXP x) {
  SEXP classes = Rf_getAttrib(x, R_ClassSymbol);
  return TYPEOF(classes) == STRSXP && XLENGTH(classes) > 0 ? STRING_ELT(classes, 0) : NA_STRING;
}

// Called in as_gpu(x, dtype, device, ...): whether x is an array or a torch tensor that needs no conversion. Such calls
// go to C_as_gpu_direct(), since S3 dispatch would take longer than the work itself.
SEXP C_needs_no_conversion(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = Rf_eval(x_symbol, rho);
  if (!Rf_isObject(x)) return Rf_ScalarLogical(FALSE);
  int known = vg_has_own_class(x) || (first_class(x) == PRINTNAME(tensor_symbol) && vg_torch_started());
  int plain = known && vg_dots_length(rho) == 0 && is_unset(dtype_symbol, rho) && is_unset(device_symbol, rho);
  return Rf_ScalarLogical(plain);
}

// as_gpu(x) if C_needs_no_conversion() is TRUE
SEXP C_as_gpu_direct(SEXP call, SEXP op, SEXP args, SEXP rho) {
  SEXP x = Rf_eval(x_symbol, rho);
  return vg_returned(vg_has_own_class(x) ? vg_upload(x, R_NilValue, R_NilValue, R_NilValue) : vg_torch_import(x));
}

// as_gpu(x, dtype, device, detach) for a torch tensor
SEXP C_from_torch(SEXP call, SEXP op, SEXP args, SEXP rho) {
  if (!vg_torch_started()) Rf_eval(start_call, rho);
  SEXP detach = Rf_eval(detach_symbol, rho);
  int plain = TYPEOF(detach) == LGLSXP && XLENGTH(detach) == 1 && LOGICAL_ELT(detach, 0) == FALSE;
  if (!plain || !is_unset(dtype_symbol, rho) || !is_unset(device_symbol, rho)) return Rf_eval(other_tensor_call, rho);
  return vg_returned(vg_torch_import(Rf_eval(x_symbol, rho)));
}
