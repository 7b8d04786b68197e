//! Kernels that people write, and the modules that they come in: sources and binaries, what is known of their
//! signatures, and calls checked against these.
//!
//! Compiling, loading and launching is the backend's work (`Backend::launch`).

mod binary;
mod call;
mod module;
mod parse;
mod ptx;
mod signature;
mod tokens;
mod value;

pub use binary::{is_mangled, Format};
pub(crate) use call::own;
pub use call::{call, counted, Arguments, Geometry, Value, USUAL};
pub use module::{Code, Function, Module, PerDevice, Spec};
pub use parse::Global;
pub use signature::{Element, Parameter, Passing, Signature};

#[cfg(test)]
mod tests;
