//! The bridge: what R calls, how arrays are R vectors, how conditions get out. Thin: work is the engine's.
//!
//! An entry is declared in `../../entries.h` and defined here by `entry!`. R's API is used on the main
//! thread only, and no frame with something to drop may be alive where R jumps: see `guard`.
#![deny(unsafe_op_in_unsafe_fn)]

mod abroad;
mod address;
mod altrep;
mod attributes;
mod capsule;
mod chunked;
mod compute;
mod conditions;
mod convert;
mod device;
mod devices;
mod dlpack;
mod entries;
mod files;
mod finalized;
mod graphs;
mod guard;
mod handle;
mod host;
mod index;
mod join;
mod kernel;
mod linear;
mod module;
mod operators;
mod options;
mod owned;
mod owners;
mod pending;
mod pinned;
mod pointer;
mod pressure;
mod r;
mod random;
mod recipe;
mod reductions;
mod routine;
mod scans;
mod site;
mod streams;
mod strided;
mod timing;
mod torch;
mod values;
mod vectors;
