//! DLPack: arrays that leave for, or come from, other libraries in this process, without a copy.
//!
//! The structs, their allocation and their deleters are dlpark's; storage, layouts and the order of
//! work on a device are ours. Where dlpark's safe interface would take a tensor before it has been
//! checked (an import that fails must leave the capsule to its owner), the structs of `dlpark::ffi` are read.

use std::ffi::CStr;

use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::ffi::{DLPackVersion, DLTensor};
use dlpark::metadata::Dynamic;
use dlpark::tensor::TensorRef;
use dlpark::{AllocationDeleter, DlpackFlags, Managed, ManagedTensorBase};

use crate::array::{Array, Operand};
use crate::backend;
use crate::buffer::{Buffer, Device, View};
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::layout::Layout;
use crate::ops::id;
use crate::reduction::Reduction;
use std::sync::Arc;

/// A managed tensor in transit, in either form of the ABI. Owned by whoever holds it: see `delete`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raw {
    /// `DLManagedTensor`, in capsules called `dltensor`.
    Legacy(*mut DLManagedTensor),
    /// `DLManagedTensorVersioned` (DLPack 1.0 and later), in capsules called `dltensor_versioned`.
    Versioned(*mut DLManagedTensorVersioned),
}

/// What a tensor says of itself.
#[derive(Clone, Debug)]
pub struct Description {
    pub device: String,
    pub dtype: String,
    pub shape: Vec<i64>,
    /// In elements; row-major ones where the tensor leaves them out.
    pub strides: Vec<i64>,
    /// Of the first element.
    pub address: u64,
    /// None in the form without a version.
    pub version: Option<(u32, u32)>,
    pub read_only: bool,
}

/// What to do about data that could be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Copying {
    /// Share; copy what cannot be shared.
    #[default]
    IfNeeded,
    Always,
    /// An error where the data cannot be shared.
    Never,
}

impl Raw {
    pub const LEGACY: &'static CStr = c"dltensor";
    pub const VERSIONED: &'static CStr = c"dltensor_versioned";

    /// The name of the capsule that such a tensor travels in.
    pub const fn name(self) -> &'static CStr {
        match self {
            Raw::Legacy(_) => Raw::LEGACY,
            Raw::Versioned(_) => Raw::VERSIONED,
        }
    }

    /// The tensor of a capsule; None where the name is another or the pointer is null.
    pub fn from_capsule(name: &CStr, pointer: *mut std::ffi::c_void) -> Option<Raw> {
        if pointer.is_null() {
            None
        } else if name == Raw::LEGACY {
            Some(Raw::Legacy(pointer.cast()))
        } else if name == Raw::VERSIONED {
            Some(Raw::Versioned(pointer.cast()))
        } else {
            None
        }
    }

    pub fn pointer(self) -> *mut std::ffi::c_void {
        match self {
            Raw::Legacy(p) => p.cast(),
            Raw::Versioned(p) => p.cast(),
        }
    }

    /// Calls the producer's deleter.
    ///
    /// # Safety
    /// The tensor is whole, and nothing uses it afterwards.
    pub unsafe fn delete(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Raw::Legacy(p) => ManagedTensorBase::drop_raw(p),
                Raw::Versioned(p) => ManagedTensorBase::drop_raw(p),
            }
        }
    }

    /// The tensor, once it is known to be of a version that we can read.
    ///
    /// # Safety
    /// The tensor is whole, and lives for `'a`.
    unsafe fn tensor<'a>(self) -> Result<(&'a DLTensor, Option<DLPackVersion>, DlpackFlags)> {
        // SAFETY: the caller's promise; of another major version only the version is read, which all of them begin with.
        unsafe {
            match self {
                Raw::Legacy(p) => Ok((&(*p).dl_tensor, None, DlpackFlags::empty())),
                Raw::Versioned(p) => {
                    let version = (*p).version;
                    if !version.is_compatible_with(DLPackVersion::CURRENT) {
                        return Err(Error::new(
                            Kind::Argument,
                            format!(
                                "the capsule follows DLPack {}.{}, and verdigris reads DLPack {}",
                                version.major,
                                version.minor,
                                DLPackVersion::CURRENT.major
                            ),
                        )
                        .advise("Ask the producer for an older version, such as with `max_version = (1, 0)`."));
                    }
                    Ok((&(*p).dl_tensor, Some(version), (*p).flags))
                }
            }
        }
    }

    /// # Errors
    /// `Argument`, where the tensor contradicts itself or is of a version that we do not know.
    ///
    /// # Safety
    /// The tensor is whole.
    pub unsafe fn describe(self) -> Result<Description> {
        // SAFETY: the caller's promise.
        let (tensor, version, flags) = unsafe { self.tensor()? };
        // SAFETY: as above.
        let checked = unsafe { TensorRef::from_raw(tensor) }.map_err(malformed)?;
        Ok(Description {
            device: device_name(checked.device()),
            dtype: dtype_name(checked.dtype()),
            shape: checked.shape().to_vec(),
            strides: checked.strides_or_compact().map_err(malformed)?.into_owned(),
            address: (checked.data_ptr() as u64).wrapping_add(checked.byte_offset()),
            version: version.map(|v| (v.major, v.minor)),
            read_only: flags.contains(DlpackFlags::READ_ONLY),
        })
    }
}

fn malformed(error: dlpark::tensor::Error) -> Error {
    Error::new(Kind::Argument, format!("the DLPack tensor is malformed: {error}"))
}

// ---- out -----------------------------------------------------------------------------------------

/// What a tensor that left keeps alive: its deleter drops this, on any thread.
struct Keep(Option<Arc<Buffer>>);

impl Drop for Keep {
    fn drop(&mut self) {
        let Some(buffer) = self.0.take() else { return };
        // the deleter is a C function: a panic must not leave it
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // The consumer's work on the default stream may still read; our stream frees the memory after it. One
            // that works on other streams has to wait for them before it deletes: DLPack does not say which they are.
            if buffer.device != Device::Cpu {
                let _ = backend::of(buffer.device).and_then(|b| b.acquire());
            }
            drop(buffer);
        }));
    }
}

/// Gives an array out: computes it, and describes its memory, which stays alive until the deleter is called.
///
/// `dim` is the array's shape. A view goes out with its strides, without a copy. `stream` is a stream of
/// the consumer (`CUstream`; 1 is the legacy default stream) that is made to wait for the values, `Some(0)`
/// counting as 1; None waits here. The tensor says that it is read-only: R's values do not change under R's feet.
///
/// # Errors
/// `DType` for a logical array with NA, which DLPack's bool cannot say.
pub fn export(array: &Array, dim: &[usize], versioned: bool, stream: Option<u64>) -> Result<Raw> {
    if dim.iter().product::<usize>() != array.len() {
        return Err(Error::new(Kind::Shape, "the dimensions do not fit the array's length"));
    }
    if array.dtype() == DType::Bool8 && any_na(array)? {
        return Err(Error::new(Kind::DType, "a logical array with NA cannot leave as DLPack's bool")
            .advise("Replace the NAs first, such as with `ifelse(is.na(x), FALSE, x)`.")
            .advise("Or give integers: `gpu_cast(x, \"int32\")` has NA as the smallest integer."));
    }
    let mut view = array.settle()?;
    let strides = match strides(&view.layout, dim) {
        Some(strides) => strides,
        None => {
            view = array.contiguous()?;
            column_major(dim)
        }
    };
    view.buffer.share();
    backend::of(array.device())?.release(stream)?;
    Ok(if versioned {
        Raw::Versioned(managed(&view, dim, &strides)?)
    } else {
        Raw::Legacy(managed(&view, dim, &strides)?)
    })
}

fn managed<M: ManagedTensorBase>(view: &View, dim: &[usize], strides: &[i64]) -> Result<*mut M> {
    let failure = |e: &dyn std::fmt::Display| Error::new(Kind::Shape, format!("DLPack cannot describe the array: {e}"));
    let shape = dim.to_vec();
    let mut tensor = Dynamic::new(shape, strides.to_vec())
        .prepare_as::<M>()
        .map_err(|e| failure(&e))?
        .initialize(Box::new(Keep(Some(view.buffer.clone()))));
    tensor
        .set_data(if view.is_empty() { std::ptr::null_mut() } else { view.address() as *mut _ })
        .set_device(match view.buffer.device {
            Device::Cpu => DLDevice::CPU,
            Device::Cuda(i) => DLDevice::cuda(i as i32),
        })
        .set_dtype(data_type(view.dtype));
    tensor.set_flags(DlpackFlags::READ_ONLY).map_err(|e| failure(&e))?;
    // SAFETY: data, shape and strides describe the view, whose memory `Keep` holds.
    Ok(unsafe { tensor.finish() }.into_raw())
}

fn any_na(array: &Array) -> Result<bool> {
    let na = Array::apply(id::IS_NA, &[Operand::Array(array.clone())], None)?;
    if na.is_empty() {
        return Ok(false);
    }
    let (_, outcome) = na.reduce(Reduction::Any, false)?;
    Ok(outcome.value[0] != 0)
}

/// Strides of each dimension, in elements; an extent of one gets the stride that column-major order would give.
fn strides(layout: &Layout, dim: &[usize]) -> Option<Vec<i64>> {
    if layout.is_empty() {
        return Some(column_major(dim));
    }
    let mut strides: Vec<i64> = layout.strides_for(dim)?.into_iter().map(|s| s as i64).collect();
    for k in 0..dim.len() {
        if dim[k] == 1 {
            strides[k] = if k == 0 { 1 } else { strides[k - 1] * dim[k - 1] as i64 };
        }
    }
    Some(strides)
}

fn column_major(dim: &[usize]) -> Vec<i64> {
    let mut next = 1;
    dim.iter()
        .map(|&extent| {
            let stride = next;
            next *= extent.max(1) as i64;
            stride
        })
        .collect()
}

fn data_type(dtype: DType) -> DLDataType {
    match dtype {
        DType::Bool8 => DLDataType::BOOL,
        DType::Int8 => DLDataType::I8,
        DType::UInt8 => DLDataType::U8,
        DType::Int16 => DLDataType::I16,
        DType::Int32 => DLDataType::I32,
        DType::Int64 => DLDataType::I64,
        // dlpark names these two only with its feature `half`
        DType::Float16 => DLDataType::scalar(DLDataTypeCode::FLOAT, 16),
        DType::BFloat16 => DLDataType::scalar(DLDataTypeCode::BFLOAT, 16),
        DType::Float32 => DLDataType::F32,
        DType::Float64 => DLDataType::F64,
        DType::Complex64 => DLDataType::C64,
        DType::Complex128 => DLDataType::C128,
    }
}

// ---- in ------------------------------------------------------------------------------------------

/// A producer's tensor as the owner of a buffer: dropping it calls the producer's deleter.
struct Foreign {
    deleter: Option<AllocationDeleter>,
    device: Device,
    process: u32,
    /// The stream in whose order the producer uses memory that it gets back; None where it may be any.
    stream: Option<u64>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let deleter = self.deleter.take();
        if self.process != std::process::id() {
            // a forked child: the parent's memory is the parent's to free
            std::mem::forget(deleter);
            return;
        }
        // What we queued may still read the memory, and the producer may give it to others at once.
        // A device that is broken or gone runs nothing any more.
        if self.device != Device::Cpu {
            let _ = backend::of(self.device).and_then(|b| b.release(self.stream));
        }
        drop(deleter);
    }
}

/// Where a tensor's elements lie, checked.
struct Place {
    device: Device,
    dtype: DType,
    dim: Vec<usize>,
    /// The lowest address that an element has, and the bytes from there to the end of the last.
    address: u64,
    bytes: usize,
    layout: Layout,
    aligned: bool,
}

/// Takes a tensor in: an array over the producer's memory, and its shape. The producer's deleter is called
/// when the last view of that memory is gone, or here, if the data were copied.
///
/// The same element has the same index on both sides, so row-major memory becomes a strided view. The producer's
/// work must be done or queued on the device's default stream (or on one that waits for it).
///
/// # Errors
/// `Device`, `DType`, `Argument`, for what an array cannot be; the tensor is still the caller's then.
///
/// # Safety
/// The tensor is whole, the caller's to give away, and describes memory that may be read until it is deleted.
pub unsafe fn import(raw: Raw, copying: Copying) -> Result<(Array, Vec<usize>)> {
    // SAFETY: the caller's promise.
    unsafe { import_on(raw, copying, None) }
}

/// As `import`, from a producer that uses memory in the order of one stream: giving it back does not wait.
///
/// # Safety
/// As `import`.
pub unsafe fn import_on(raw: Raw, copying: Copying, stream: Option<u64>) -> Result<(Array, Vec<usize>)> {
    // SAFETY: the caller's promise.
    let (tensor, _, flags) = unsafe { raw.tensor()? };
    // SAFETY: as above.
    let place = unsafe { inspect(tensor)? };
    let backend = backend::of(place.device)?;
    if place.bytes > 0 {
        backend.reaches(place.address)?;
    }
    backend.acquire()?;
    if !place.aligned && (copying == Copying::Never || place.device != Device::Cpu) {
        return Err(Error::new(
            Kind::Argument,
            format!("the tensor's data start at {:#x}, which is not aligned for {}", place.address, place.dtype),
        )
        .advise("Copy it before you export it, so that it starts where an element may."));
    }

    // the whole span, elements and gaps, to where it is aligned
    if !place.aligned {
        let buffer = backend.allocate(place.bytes)?;
        // SAFETY: host memory that the producer lets us read.
        let bytes = unsafe { std::slice::from_raw_parts(place.address as *const u8, place.bytes) };
        backend.upload(bytes, &buffer, 0)?;
        let array = Array::from_view(place.view(buffer)?);
        // SAFETY: the caller's promise; nothing points to it any more.
        unsafe { raw.delete() };
        return Ok((array, place.dim));
    }

    // a look at the values while the tensor is still the caller's
    let view = place.view(place.buffer(Box::new(())))?;
    if copying == Copying::Always && !flags.contains(DlpackFlags::IS_COPIED) {
        let array = Array::duplicate(&view)?;
        backend.release(stream)?;
        // SAFETY: the caller's promise; the copy is done, or comes before what the producer does next.
        unsafe { raw.delete() };
        return Ok((array, place.dim));
    }
    drop(view);

    // SAFETY: the caller gives the tensor away, and its version is checked.
    let deleter = unsafe {
        match raw {
            Raw::Legacy(p) => Managed::from_raw(p).map(Managed::into_deleter),
            Raw::Versioned(p) => Managed::from_raw(p).map(Managed::into_deleter),
        }
    }
    .map_err(|e| Error::new(Kind::Argument, e.to_string()))?;
    let owner = Foreign { deleter: Some(deleter), device: place.device, process: std::process::id(), stream };
    let mut buffer = place.buffer(Box::new(owner));
    if let Some(buffer) = Arc::get_mut(&mut buffer) {
        buffer.set_read_only(flags.contains(DlpackFlags::READ_ONLY));
    }
    buffer.share();
    let view = View { buffer, dtype: place.dtype, layout: place.layout };
    Ok((Array::from_view(view), place.dim))
}

impl Place {
    fn buffer(&self, owner: Box<dyn std::any::Any + Send + Sync>) -> Arc<Buffer> {
        Arc::new(Buffer::new(self.device, self.address, self.bytes, owner))
    }

    /// A view of a buffer that holds the span; bools are looked at, since 2 would be NA.
    fn view(&self, buffer: Arc<Buffer>) -> Result<View> {
        let view = View { buffer, dtype: self.dtype, layout: self.layout.clone() };
        if self.dtype == DType::Bool8 && !view.is_empty() {
            let bytes = Array::from_view(View { dtype: DType::UInt8, ..view.clone() });
            let (_, outcome) = bytes.reduce(Reduction::Max, false)?;
            let most = i32::from_ne_bytes(outcome.value[..4].try_into().expect("four bytes"));
            if most > 1 {
                return Err(Error::new(
                    Kind::DType,
                    format!("a bool tensor holds the byte {most}; only 0 and 1 are bools"),
                )
                .advise("Export it as uint8 instead."));
            }
        }
        Ok(view)
    }
}

/// # Safety
/// As `import`.
unsafe fn inspect(tensor: &DLTensor) -> Result<Place> {
    // SAFETY: the caller's promise.
    let checked = unsafe { TensorRef::from_raw(tensor) }.map_err(malformed)?;
    let device = match checked.device() {
        DLDevice { device_type: DLDeviceType::CPU | DLDeviceType::CUDAHOST, .. } => Device::Cpu,
        DLDevice { device_type: DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED, device_id } if device_id >= 0 => {
            Device::Cuda(device_id as u32)
        }
        other => {
            return Err(Error::new(Kind::Device, format!("the tensor is on {}", device_name(other)))
                .advise("verdigris takes host memory, pinned host memory and memory of CUDA devices."));
        }
    };
    let Some(dtype) = DType::ALL.into_iter().find(|&d| data_type(d).matches(checked.dtype())) else {
        return Err(Error::new(Kind::DType, format!("arrays cannot hold {}", dtype_name(checked.dtype())))
            .advise("Cast it before you export it, such as to int32, int64, float32 or float64."));
    };
    let too_large = || Error::new(Kind::Shape, "the tensor's extents and strides are too large");
    let dim: Vec<usize> = checked.shape().iter().map(|&d| d as usize).collect();
    let strides = checked.strides_or_compact().map_err(malformed)?;
    if checked.num_elements() == 0 {
        let layout = Layout::contiguous(0);
        return Ok(Place { device, dtype, dim, address: 0, bytes: 0, layout, aligned: true });
    }
    if checked.data_ptr().is_null() {
        return Err(Error::new(Kind::Argument, "the tensor has elements and no data"));
    }
    // the furthest elements below and above the first, in elements
    let (mut below, mut above) = (0i64, 0i64);
    for (&extent, &stride) in checked.shape().iter().zip(strides.iter()) {
        let reach = (extent - 1).checked_mul(stride).ok_or_else(too_large)?;
        let side = if reach < 0 { &mut below } else { &mut above };
        *side = side.checked_add(reach).ok_or_else(too_large)?;
    }
    let size = dtype.size() as i64;
    let bytes = above.checked_sub(below).and_then(|n| n.checked_add(1)).and_then(|n| n.checked_mul(size));
    let first = (checked.data_ptr() as u64).checked_add(checked.byte_offset()).ok_or_else(too_large)?;
    let address = below.checked_mul(size).and_then(|b| first.checked_add_signed(b)).ok_or_else(too_large)?;
    let steps: Vec<isize> = strides.iter().map(|&s| s as isize).collect();
    Ok(Place {
        device,
        dtype,
        layout: Layout::new(-below as usize, &dim, &steps),
        dim,
        address,
        bytes: bytes.and_then(|b| usize::try_from(b).ok()).ok_or_else(too_large)?,
        aligned: address % alignment(dtype) == 0,
    })
}

/// What loads and kernels need: a complex number is two numbers to the cpu device, and one of its size
/// to the 16-byte loads of a GPU, which check for themselves.
fn alignment(dtype: DType) -> u64 {
    match dtype {
        DType::Complex64 => 4,
        DType::Complex128 => 8,
        other => other.size() as u64,
    }
}

// ---- names, for messages and printing ------------------------------------------------------------

fn device_name(device: DLDevice) -> String {
    let name = match device.device_type {
        DLDeviceType::CPU => return "cpu".into(),
        DLDeviceType::CUDAHOST => return "pinned host memory".into(),
        DLDeviceType::CUDA => "cuda",
        DLDeviceType::CUDAMANAGED => "managed CUDA memory",
        DLDeviceType::ROCM => "rocm",
        DLDeviceType::METAL => "metal",
        DLDeviceType::VULKAN => "vulkan",
        DLDeviceType::ONEAPI => "oneapi",
        other => return format!("a device of type {}", other.0),
    };
    format!("{name}:{}", device.device_id)
}

fn dtype_name(dtype: DLDataType) -> String {
    let lanes = if dtype.lanes == 1 { String::new() } else { format!("x{}", dtype.lanes) };
    let name = match dtype.code {
        DLDataTypeCode::BOOL => "bool",
        DLDataTypeCode::INT => "int",
        DLDataTypeCode::UINT => "uint",
        DLDataTypeCode::FLOAT => "float",
        DLDataTypeCode::BFLOAT => "bfloat",
        DLDataTypeCode::COMPLEX => "complex",
        other => return format!("elements of type code {} with {} bits{lanes}", other.0, dtype.bits),
    };
    format!("{name}{}{lanes}", dtype.bits)
}
