// Exchange of tensors with torch for R (torch_bridge.cpp). Functions that Rust calls are declared in rust/src/r/mod.rs.
#pragma once
#include "r_api.h"

#ifdef __cplusplus
extern "C" {
#endif
int vg_torch_started(void);
SEXP C_torch_start(SEXP path, SEXP sample, SEXP cuda);
#ifdef __cplusplus
}
#endif
