//! What R calls, one file a subject, named as the R file that calls it (`R/reduce.R`: `reduce.rs`).

pub mod array;
pub mod chunked;
pub mod compile;
pub mod compute;
pub mod cuda_graph;
pub mod devices;
pub mod dlpack;
pub mod entry;
pub mod files;
pub mod index;
pub mod kernel;
pub mod linear;
pub mod module;
pub mod operators;
pub mod pinned;
pub mod pointer;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod shape;
pub mod streams;
pub mod strided;
pub mod timing;
pub mod torch;
