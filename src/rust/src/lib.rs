//! The bridge: R values to engine values and back. It is thin: the work is done in the engine.
//!
//! Three layers, the lowest first. A module imports only from its own layer and those below, without cycles;
//! `crates/engine/tests/layers.rs` checks this.
//!
//! - `r`: R's API. Calls that may jump, conditions, ordinary values, external pointers, finalizers, garbage collection,
//!   options.
//! - `array`: arrays as R vectors. Handles, host copies, lazy cells, conversion, attributes, ALTREP.
//! - `entries`: the functions that R calls by `.Call`, defined and registered by `entries!`.
//!
//! R's API is used on the main thread only. R must not jump over a frame that has something to drop: see `r::protect`.
#![deny(unsafe_op_in_unsafe_fn)]

mod array;
mod entries;
mod r;
