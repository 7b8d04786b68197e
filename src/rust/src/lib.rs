//! The bridge: R values to engine values and back. It is thin: the work is done in the engine.
//!
//! Three layers, the lowest first. Imports run downwards, and in no circle: `crates/engine/tests/layers.rs` fails
//! otherwise.
//!
//! - `r`: R's API. Calls that may jump, conditions, ordinary values, external pointers, finalizers, garbage collection,
//!   options.
//! - `array`: arrays as R vectors. Handles, host copies, lazy cells, conversion, attributes, ALTREP.
//! - `entries`: the functions that `.Call` reaches, defined and registered by `entries!`.
//!
//! R's API is used on the main thread only, and no frame with something to drop may be alive where R jumps: see
//! `r::protect`.
#![deny(unsafe_op_in_unsafe_fn)]

mod array;
mod entries;
mod r;
