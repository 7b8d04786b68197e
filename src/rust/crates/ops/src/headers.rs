//! The texts of `kernels/`, for NVRTC to include.

include!(concat!(env!("OUT_DIR"), "/headers.rs"));
