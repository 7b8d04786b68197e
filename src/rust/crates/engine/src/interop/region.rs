//! The region of another library's memory that an array would use (device, dtype, extents, strides, address), with
//! those checks that need only numbers.

use std::any::Any;
use std::sync::Arc;

use super::host_memory;
use crate::array::strided;
use crate::memory::buffer::{origin_of, Buffer, Device, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Layout;

/// The greatest extent that R's `dim` can hold.
const GREATEST: usize = i32::MAX as usize;

pub(super) struct Region {
    pub device: Device,
    pub dtype: DType,
    pub dim: Vec<usize>,
    /// The lowest address of an element, and the bytes from there to the end of the highest element.
    pub address: u64,
    pub bytes: usize,
    pub layout: Layout,
    pub aligned: bool,
}

impl Region {
    /// `first` is the address of the first element; strides are in elements.
    pub fn new(device: Device, dtype: DType, dim: Vec<usize>, strides: &[i64], first: u64) -> Result<Region> {
        if dim.len() > 1 && dim.iter().any(|&extent| extent > GREATEST) {
            return Err(Error::new(Kind::Shape, "an extent is above 2147483647, which R's `dim` cannot hold"));
        }
        if strided::count(&dim)? == 0 {
            let layout = Layout::contiguous(0);
            return Ok(Region { device, dtype, dim, address: 0, bytes: 0, layout, aligned: true });
        }
        if first == 0 {
            return Err(Error::new(Kind::Argument, "there are elements, but the address of the data is null"));
        }
        let size = dtype.size();
        let (below, above) = strided::reach(&dim, strides)?;
        let bytes = (below + above + 1).checked_mul(size).ok_or_else(strided::too_large)?;
        let address = first.checked_sub((below * size) as u64).ok_or_else(strided::too_large)?;
        address.checked_add(bytes as u64).ok_or_else(strided::too_large)?;
        let layout = strided::layout(below, &dim, strides);
        Ok(Region { device, dtype, layout, dim, address, bytes, aligned: address.is_multiple_of(alignment(dtype)) })
    }

    /// Checks that the memory exists: host memory is looked up here, device memory by the backend.
    pub fn exists(&self) -> Result<()> {
        if self.device != Device::Cpu {
            return if self.bytes > 0 {
                crate::backend::of(self.device)?.reaches(self.address, self.bytes)
            } else {
                Ok(())
            };
        }
        if host_memory::is_mapped(self.address, self.bytes) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Argument,
            format!(
                "the data would be the {} bytes from {:#x} on, which are not memory of this process",
                self.bytes, self.address
            ),
        ))
    }

    pub fn misaligned(&self) -> Error {
        Error::new(
            Kind::Argument,
            format!("the data start at {:#x}, which is not aligned for {}", self.address, self.dtype),
        )
        .advise("Copy them before they are exported, so that they are aligned.")
    }

    /// A buffer over the region. If the region is memory of this engine, the buffer becomes an alias of the original
    /// one.
    pub fn buffer(&self, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        let mut buffer = Buffer::new(self.device, self.address, self.bytes, owner);
        if let Some(origin) = origin_of(self.device, self.address, self.bytes) {
            buffer.set_origin(&origin);
        }
        if self.dtype == DType::Bool8 {
            buffer.set_bools();
        }
        buffer
    }

    /// A view of a buffer that holds the span. Bools are validated, because a 2 would be NA.
    pub fn view(&self, buffer: Arc<Buffer>) -> Result<View> {
        let view = View { buffer, dtype: self.dtype, layout: self.layout.clone() };
        if self.dtype == DType::Bool8 {
            strided::refuse_other_bools(&view, 1)?;
        }
        Ok(view)
    }

    /// As `view`, over a temporary buffer that does not own the memory.
    pub fn validated_view(&self) -> Result<View> {
        self.view(Arc::new(self.buffer(Box::new(()))))
    }
}

/// The alignment that loads and kernels need. The cpu device loads a complex number as two numbers; kernels check for
/// themselves whether they can use 16-byte loads.
fn alignment(dtype: DType) -> u64 {
    match dtype {
        DType::Complex64 => 4,
        DType::Complex128 => 8,
        other => other.size() as u64,
    }
}
