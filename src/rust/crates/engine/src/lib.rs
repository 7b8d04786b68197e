//! Lazy, fused arrays on the cpu and on CUDA devices. Nothing here knows R.
//!
//! Each layer uses only the ones before it (checked by `tests/layers.rs`): [`memory`] (buffers, limits), [`plan`] (the
//! program of one kernel), [`kernel`] (user-written kernels), [`backend`] (the interface of a device, and its
//! implementations `cpu` and `cuda`), [`graph`] (recorded operations and their evaluation), [`array`] (the handle and
//! its operations), [`device`] (streams, CUDA graphs, copies, profiles), [`interop`] (other libraries' memory, and
//! files), [`team`] (collectives between processes).
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
pub mod team;
#[cfg(test)]
mod testing;
