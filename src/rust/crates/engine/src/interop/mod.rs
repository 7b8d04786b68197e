//! What other libraries and programs share with us: memory in this process by DLPack, raw pointers and array interfaces, files in
//! the safetensors format.
//!
//! What may live here: taking in and giving out arrays. Nothing here computes or knows a device's own functions; that is the
//! backends' work.

pub mod array_interface;
pub mod dlpack;
pub mod files;
pub mod host_memory;
pub mod json;
mod place;
pub mod pointer;
pub mod safetensors;
