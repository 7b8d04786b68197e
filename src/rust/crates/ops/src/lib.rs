//! Element types, the operation tables, and the cpu device's loops. Nothing here knows of arrays or devices.
//!
//! From the bottom up: [`error`], [`dtype`], [`scalar`] and [`layout`] are the vocabulary; [`table`], [`reduction`] and
//! [`scan`] are the tables, each row with its C++ expression; [`rule`] gives result types, and the methods of [`OpId`]
//! what a row costs; [`tree`] is the order in which reductions add; [`parallel`] runs tasks on all cores; [`loops`] are
//! the rows compiled by `build.rs` for the cpu device; [`headers`] are the texts of `kernels/`, which NVRTC compiles
//! for CUDA devices.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod call_site;
mod cost;
pub mod dense;
pub mod dtype;
pub mod error;
pub mod fork;
pub mod headers;
pub mod interrupt;
pub mod layout;
pub mod loops;
mod operation;
pub mod parallel;
pub mod raw_slice;
pub mod reduction;
pub mod rule;
pub mod scalar;
pub mod scan;
pub mod small_vec;
pub mod table;
pub mod tree;

pub use operation::{id, OpId};
pub use table::{
    distributions, Flag, Group, Op, Rule, BESSEL_HEADERS, COMMON_HEADERS, DISTRIBUTION_HEADERS, MOST_OPERANDS,
    RANDOM_HEADERS,
};
