//! Arrays as R vectors: handles, lazy cells, conversion of values, attributes, host copies.

pub mod altrep;
pub mod attributes;
pub mod convert;
pub mod device;
pub mod foreign_stream;
pub mod handle;
pub mod host_copy;
pub mod host_vector;
pub mod lazy;
pub mod pending;
