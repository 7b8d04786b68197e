//! The texts of `kernels/`, which NVRTC includes.

include!(concat!(env!("OUT_DIR"), "/headers.rs"));
