//! CUDA devices.

pub mod library;

use super::Backend;
use crate::error::{Error, Kind, Result};

pub fn backend(_ordinal: u32) -> Result<&'static dyn Backend> {
    library::driver()?;
    Err(Error::new(Kind::Device, "the cuda backend is not built in yet"))
}
