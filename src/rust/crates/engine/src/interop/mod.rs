//! Memory that others in the process share with us: DLPack, raw pointers, array interfaces.
//!
//! What may live here: taking in and giving out memory. Nothing here allocates or computes; that is the backends' work.

pub mod array_interface;
pub mod dlpack;
pub mod host_memory;
mod place;
pub mod pointer;
