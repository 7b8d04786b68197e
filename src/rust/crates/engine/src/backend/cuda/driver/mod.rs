//! CUDA's libraries. [`library`] finds and loads them, [`functions`] makes tables of their functions, [`api`] declares
//! the functions of the driver and NVRTC, [`status`] classifies status codes, [`devices`] lists devices. [`kernel`],
//! [`host_memory`] and [`submitted`] are shared by the layers above: loaded kernels, page-locked memory, and the
//! counters of the launch thread.

pub mod api;
pub mod devices;
pub mod functions;
pub mod host_memory;
pub mod kernel;
pub mod library;
pub mod status;
pub mod submitted;
