//! Kernels that people write, and the modules that they come in: sources and binaries, what is known of their
//! signatures, and calls checked against these.
//!
//! Compiling, loading and launching is the backend's work (`Backend::launch`).

mod arguments;
mod binary;
mod module;
mod parse;
mod ptx;
mod signature;
mod tokens;
mod value;

pub use arguments::{Arguments, Geometry, USUAL};
pub use binary::{is_mangled, Format};
pub use module::{Code, Function, Module, PerDevice, Spec};
pub use parse::Global;
pub use signature::{Element, Parameter, Passing, Signature};
pub(crate) use value::bytes as value_bytes;

#[cfg(test)]
mod tests;
