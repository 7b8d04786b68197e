//! Operations with kernels of their own or from a library: reductions, scans, sorts, lookups, products, factorisations,
//! Fourier transforms.

pub mod basis;
pub mod blas;
pub mod communicator;
pub mod dense;
pub mod fourier;
pub mod gather;
pub mod gram;
pub mod grouped;
mod handles;
pub mod mask;
pub mod preload;
pub mod product;
pub mod rank;
pub mod reduce;
pub mod scan;
pub mod search;
pub mod segments;
pub mod segments_multiply;
pub mod solver;
pub mod sort;
pub mod store;
pub mod unique;
