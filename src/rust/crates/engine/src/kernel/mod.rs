//! User-written kernels and their modules: sources and binaries, the known parts of their signatures, and the check of
//! calls against these.
//!
//! Compiling, loading and launching are the backend's work (`Backend::launch`).

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
