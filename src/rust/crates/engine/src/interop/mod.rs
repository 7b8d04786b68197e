//! Exchange with other libraries and programs: memory in this process by DLPack, raw pointers and array interfaces;
//! files in the safetensors format, and files of raw elements.
//!
//! Only the export and import of arrays belong here. Computing and device functions belong to the backends.

use crate::array::{fact_cache, Array};
use verdigris_ops::error::Result;

pub mod array_interface;
pub mod dlpack;
pub mod files;
pub mod host_memory;
pub mod json;
pub mod pointer;
pub mod raw_file;
mod region;
pub mod safetensors;

/// Whether a value is missing; bools of other libraries have no NA. Waits for the device.
fn any_na(array: &Array) -> Result<bool> {
    fact_cache::are_complete(std::slice::from_ref(array)).map(|complete| !complete)
}
