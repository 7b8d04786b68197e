//! The bridge: R values to engine values and back. Thin: work is the engine's.
//!
//! Three layers, the lowest first. Imports run downwards, and in no circle: `crates/engine/tests/layers.rs`
//! fails otherwise.
//!
//! - `r`: R's API. Calls that may jump, conditions, ordinary values, external pointers, finalizers, garbage collection,
//!   options.
//! - `array`: arrays as R vectors. The handle and its host copy, what is recorded and not computed, conversion,
//!   attributes, ALTREP.
//! - `entries`: what `.Call` reaches. An entry is declared in `../../entries.h`, defined by `entry!` and run by
//!   `entries::entry`.
//!
//! R's API is used on the main thread only, and no frame with something to drop may be alive where R jumps: see
//! `r::protect`.
#![deny(unsafe_op_in_unsafe_fn)]

mod array;
mod entries;
mod r;
