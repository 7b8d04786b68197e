//! Lazy, fused arrays on the cpu and on CUDA devices.
//!
//! Data flows one way: an operation on [`array::Array`]s is recorded as an [`expr::Node`]; what needs
//! a value asks for a [`plan::Plan`], and a [`backend::Backend`] runs it into a [`buffer::Buffer`].
//! Nothing here knows of R. A module uses only those listed before it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod array;
pub mod backend;
pub mod buffer;
pub mod builder;
pub mod call_site;
pub mod codes;
mod copies;
pub mod counters;
pub mod devices;
mod disk;
pub mod dtype;
mod epilogue;
pub mod error;
pub mod evaluate;
pub mod exact;
pub mod explain;
pub mod expr;
pub mod few;
pub mod fork;
mod gather;
pub mod graph;
pub mod grow;
pub mod host;
pub mod interop;
pub mod interrupt;
mod join;
pub mod kernel;
pub mod kernel_call;
pub mod layout;
pub mod linear;
pub mod memory;
pub mod nvtx;
pub mod ops;
pub mod plan;
pub mod profile;
pub mod queued;
pub mod reduction;
pub mod routine;
pub mod scalar;
pub mod scan;
pub mod select;
mod span;
pub mod spill;
pub mod strided;
#[cfg(test)]
mod testing;
pub mod transfer;
mod views;
pub mod warning;
pub mod write;
