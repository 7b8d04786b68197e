//! CUDA's libraries: found and loaded by [`library`]; [`api`] declares the driver's functions, [`devices`] asks it what
//! there is, [`kernel`], [`host_memory`] and [`submitted`] are what the layers above share of launches.

pub mod api;
pub mod devices;
pub mod host_memory;
pub mod kernel;
pub mod library;
pub mod status;
pub mod submitted;
