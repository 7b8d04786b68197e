//! Lazy, fused arrays on the cpu and on CUDA devices.
//!
//! Data flows one way: an operation on [`array::Array`]s is recorded as an [`expr::Node`]; what needs
//! a value asks for a [`plan::Plan`], and a [`backend::Backend`] runs it into a [`buffer::Buffer`].
//! Nothing here knows of R. A module uses only those listed before it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod error;
pub mod dtype;
pub mod scalar;
pub mod layout;
pub mod buffer;
pub mod ops;
pub mod reduction;
pub mod expr;
pub mod plan;
pub mod warning;
pub mod backend;
pub mod devices;
pub mod array;
pub mod select;
pub mod interop;
pub mod kernel;
