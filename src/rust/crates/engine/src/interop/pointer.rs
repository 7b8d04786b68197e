//! Raw addresses: memory of another library as an array.

use std::any::Any;
use std::sync::Arc;

use super::host_memory;
use super::region::Region;
use crate::array::strided;
use crate::array::Array;
use crate::backend;
use crate::memory::buffer::{Device, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// The caller's description of the memory.
pub struct Given {
    /// The address of the first element.
    pub address: u64,
    pub dim: Vec<usize>,
    /// In elements; None for column-major order.
    pub strides: Option<Vec<i64>>,
    pub dtype: DType,
    pub device: Device,
    pub read_only: bool,
    /// The first byte and the length of the allocation that contains the address, if known.
    pub within: Option<(u64, usize)>,
}

/// Makes an array over memory at an address, after all possible checks: that the memory exists, on that device, and is
/// as large as extents and strides require. `owner` is called once nothing can fail any more; its result is dropped
/// with the last array that uses the memory.
///
/// # Errors
/// `Argument`, `Shape`, `Device`, `DType` for an address, extents or a dtype that the memory cannot have.
///
/// # Safety
/// The memory holds elements of the dtype, and lives until the owner is dropped.
pub unsafe fn from_pointer(given: Given, owner: impl FnOnce() -> Box<dyn Any + Send + Sync>) -> Result<Array> {
    let Given { address, dim, strides, dtype, device, read_only, within } = given;
    let strides = strides.unwrap_or_else(|| strided::column_major(&dim));
    if strides.len() != dim.len() {
        return Err(Error::new(
            Kind::Shape,
            format!("there are {} strides for {} dimensions", strides.len(), dim.len()),
        ));
    }
    let region = Region::new(device, dtype, dim, &strides, address)?;
    let backend = backend::of(device)?;
    if !region.aligned {
        return Err(region.misaligned());
    }
    if let Some((start, bytes)) = within {
        let end = start.saturating_add(bytes as u64);
        if region.bytes > 0 && (region.address < start || region.address.saturating_add(region.bytes as u64) > end) {
            return Err(Error::new(
                Kind::Shape,
                format!("the elements extend beyond the {bytes} bytes of the pointer"),
            )
            .advise("`dim` and `strides` count elements of `dtype` from the pointer's first one on."));
        }
    }
    region.exists()?;
    let mut writable = true;
    if let (Device::Cpu, Some((reads, writes))) = (device, host_memory::access(region.address, region.bytes)) {
        if !reads {
            return Err(Error::new(
                Kind::Argument,
                format!("the {} bytes from {:#x} on cannot be read by this process", region.bytes, region.address),
            ));
        }
        writable = writes;
    }
    if dtype == DType::Bool8 {
        backend.acquire()?;
        region.validated_view()?;
    }
    let mut buffer = region.buffer(owner());
    if read_only || !writable {
        buffer.set_read_only();
    }
    buffer.share();
    Ok(Array::from_view(View { buffer: Arc::new(buffer), dtype: region.dtype, layout: region.layout }))
}
