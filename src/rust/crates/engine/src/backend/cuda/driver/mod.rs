//! CUDA's libraries: [`library`] finds and loads them, [`functions`] makes tables of
//! their functions, [`api`] declares the driver's and NVRTC's, [`devices`] lists
//! devices; [`kernel`], [`host_memory`] and [`submitted`] are the parts of launches that the layers above share.

pub mod api;
pub mod devices;
pub mod functions;
pub mod host_memory;
pub mod kernel;
pub mod library;
pub mod status;
pub mod submitted;
