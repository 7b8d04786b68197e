//! DLPack imports: managed tensors of other libraries as arrays.

use std::sync::Arc;

use dlpark::ffi::{DLDevice, DLDeviceType, DLTensor};
use dlpark::tensor::TensorRef;
use dlpark::{AllocationDeleter, DlpackFlags, Managed};

use super::export::note_own_return;
use super::{data_type, device_name, dtype_name, malformed, Copying, Raw};
use crate::array::strided;
use crate::array::Array;
use crate::backend;
use crate::interop::region::Region;
use crate::memory::buffer::{Device, View, Watch};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::fork;
use verdigris_ops::raw_slice;

/// A producer's tensor, as the owner of a buffer. Dropping it calls the producer's deleter.
struct Foreign {
    deleter: Option<AllocationDeleter>,
    device: Device,
    /// `fork::depth()` at the time of the import.
    depth: u32,
    /// Whether this engine exported the tensor.
    ours: bool,
    /// The stream in whose order the producer reuses the memory; None if that may be any stream.
    stream: Option<u64>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let deleter = self.deleter.take();
        if self.depth != fork::depth() {
            // In a forked child the memory still belongs to the parent, which frees it.
            std::mem::forget(deleter);
            return;
        }
        // Queued work of this engine may still read the memory, and the producer may reuse it at once. Errors are
        // ignored: a device that is broken or gone runs nothing any more.
        if self.device != Device::Cpu {
            let _ = backend::of(self.device).and_then(|b| b.release(self.stream));
        }
        if self.ours {
            note_own_return();
        }
        drop(deleter);
    }
}

/// Imports a tensor as an array over the producer's memory; also returns its shape. The producer's deleter is called
/// when the last view of the memory is dropped, or during the import if the data are copied.
///
/// An element has the same index on both sides, so row-major memory becomes a strided view. The producer's work must be
/// done, or queued on the device's default stream or on a stream that waits for it. Code that uses the array calls
/// `Backend::acquire` first, as for all memory that others write to.
///
/// `Device`, `DType`, `Shape`, `Argument`, for tensors that cannot become an array; the caller then still owns the
/// tensor.
///
/// # Safety
/// The tensor is complete and owned by the caller, and describes memory that may be read until it is deleted.
pub unsafe fn import(raw: Raw, copying: Copying) -> Result<(Array, Vec<usize>)> {
    // SAFETY: the caller's promise.
    unsafe { import_on(raw, copying, None, None) }
}

/// As `import`, for a library in this process that has just described its own memory and uses it in the order of one
/// stream. Releasing the memory then does not wait, and the driver is not asked whether device memory exists. `watch`
/// is called before each use, and never after the tensor is deleted.
///
/// # Errors
/// As `import`.
///
/// # Safety
/// As `import`.
pub unsafe fn import_on(
    raw: Raw,
    copying: Copying,
    stream: Option<u64>,
    watch: Option<Watch>,
) -> Result<(Array, Vec<usize>)> {
    // SAFETY: the caller's promise.
    let (tensor, _, flags) = unsafe { raw.tensor()? };
    // SAFETY: as above.
    let region = unsafe { inspect(tensor)? };
    let backend = backend::of(region.device)?;
    // Memory that this engine exported lives as long as the tensor.
    // SAFETY: the caller's promise.
    let kept = unsafe { raw.kept() };
    let ours = kept.is_some_and(|kept| kept.holds(region.device, region.address, region.bytes));
    if !(ours || stream.is_some() && region.device != Device::Cpu) {
        region.exists()?;
    }
    if !region.aligned {
        if copying == Copying::Never || region.device != Device::Cpu {
            return Err(region.misaligned());
        }
        // Copies the whole span, elements and gaps, to aligned memory.
        let buffer = backend.allocate(region.bytes)?;
        // SAFETY: host memory that the consumer may read.
        let bytes = unsafe { raw_slice::slice(region.address as *const u8, region.bytes) };
        backend.upload(bytes, &buffer, 0)?;
        let array = Array::from_view(region.view(buffer)?);
        // SAFETY: the caller's promise; nothing points to it any more.
        unsafe { raw.delete() };
        return Ok((array, region.dim));
    }
    // Validates the values while the caller still owns the tensor.
    if copying == Copying::Always && !flags.contains(DlpackFlags::IS_COPIED) {
        backend.acquire()?;
        let array = Array::duplicate(&region.validated_view()?)?;
        backend.release(stream)?;
        // SAFETY: the caller's promise. The copy is done, or is ordered before the producer's next work.
        unsafe { raw.delete() };
        return Ok((array, region.dim));
    }
    if region.dtype == DType::Bool8 {
        backend.acquire()?;
        region.validated_view()?;
    }

    // SAFETY: the caller gives the tensor away, and its version was checked.
    let deleter = unsafe {
        match raw {
            Raw::Legacy(p) => Managed::from_raw(p).map(Managed::into_deleter),
            Raw::Versioned(p) => Managed::from_raw(p).map(Managed::into_deleter),
        }
    }
    .map_err(|e| Error::new(Kind::Argument, e.to_string()))?;
    let owner = Foreign { deleter: Some(deleter), device: region.device, depth: fork::watch(), ours, stream };
    let mut buffer = region.buffer(Box::new(owner));
    if flags.contains(DlpackFlags::READ_ONLY) {
        buffer.set_read_only();
    }
    if let Some(watch) = watch {
        buffer.set_watch(watch);
    }
    buffer.share();
    let view = View { buffer: Arc::new(buffer), dtype: region.dtype, layout: region.layout };
    Ok((Array::from_view(view), region.dim))
}

/// # Safety
/// As `import`.
unsafe fn inspect(tensor: &DLTensor) -> Result<Region> {
    // SAFETY: the caller's promise.
    let checked = unsafe { TensorRef::from_raw(tensor) }.map_err(malformed)?;
    let device = match checked.device() {
        DLDevice { device_type: DLDeviceType::CPU | DLDeviceType::CUDAHOST, .. } => Device::Cpu,
        DLDevice { device_type: DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED, device_id } if device_id >= 0 => {
            Device::Cuda(device_id as u32)
        }
        other => {
            return Err(Error::new(Kind::Device, format!("the tensor is on {}", device_name(other)))
                .advise("verdigris accepts host memory, pinned host memory and memory of CUDA devices."));
        }
    };
    let Some(dtype) = DType::ALL.into_iter().find(|&d| data_type(d).matches(checked.dtype())) else {
        return Err(Error::new(Kind::DType, format!("arrays cannot hold {}", dtype_name(checked.dtype())))
            .advise("Cast it before you export it, such as to int32, int64, float32 or float64."));
    };
    let dim: Vec<usize> = checked.shape().iter().map(|&d| d as usize).collect();
    let strides = checked.strides_or_compact().map_err(malformed)?;
    let first = match checked.data_ptr() as u64 {
        0 => 0,
        start => start.checked_add(checked.byte_offset()).ok_or_else(strided::too_large)?,
    };
    Region::new(device, dtype, dim, &strides, first)
}
