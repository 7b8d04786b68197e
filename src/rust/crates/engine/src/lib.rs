//! Lazy, fused arrays on the cpu and on CUDA devices. Nothing here knows of R.
//!
//! Each layer uses those before it and none behind it (`tests/layers.rs`): [`memory`] (buffers, and what devices hold),
//! [`plan`] (what one kernel computes), [`kernel`] (kernels that users write), [`backend`] (what a device can do:
//! `cpu`, `cuda`), [`graph`] (recorded operations and when they are computed), [`array`] (the handle and all that is
//! done with it), [`device`] (streams, graphs, copies and profiles that users ask for), [`interop`] (memory of others,
//! and files).
#![deny(unsafe_op_in_unsafe_fn)]

pub mod array;
pub mod backend;
pub mod device;
mod disk;
pub mod graph;
pub mod interop;
pub mod kernel;
pub mod memory;
pub mod plan;
#[cfg(test)]
mod testing;
