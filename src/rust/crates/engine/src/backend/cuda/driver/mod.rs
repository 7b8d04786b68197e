//! CUDA's libraries: found and loaded by [`library`]; [`api`] declares the driver's functions.

pub mod api;
pub mod library;
