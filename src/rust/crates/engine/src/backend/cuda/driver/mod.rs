//! CUDA's libraries: [`library`] finds and loads them, [`api`] declares the driver's functions, [`devices`] lists
//! devices; [`kernel`], [`host_memory`] and [`submitted`] are the parts of launches that the layers above share.

pub mod api;
pub mod devices;
pub mod host_memory;
pub mod kernel;
pub mod library;
pub mod status;
pub mod submitted;
