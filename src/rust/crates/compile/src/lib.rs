//! Compiles R functions to routines. Nothing here knows of devices.
//!
//! From the ground up: [`syntax`] is what R has parsed; a [`Routine`] is structured code over registers; [`compile`]
//! gives each expression a type and R's meaning; [`grad`] differentiates a routine.
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
