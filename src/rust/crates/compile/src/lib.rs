//! Compiles R functions to routines. Nothing here knows of devices.
//!
//! From the bottom up: [`syntax`] is R's parse tree; a [`Routine`] is structured code over registers; [`compile`] gives
//! each expression a type and R's semantics; [`grad`] differentiates a routine.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod compile;
mod cost;
mod failed;
pub mod grad;
mod intern;
mod routine;
mod show;
pub mod syntax;

pub use failed::Failed;
pub use intern::{fingerprint, intern, Interned};
pub use routine::*;
