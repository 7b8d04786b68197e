//! Memory that other libraries in the process share with us: DLPack.
//!
//! What may live here: taking in and giving out device memory. Nothing here allocates or computes; that
//! is the backends' work.

pub mod dlpack;
