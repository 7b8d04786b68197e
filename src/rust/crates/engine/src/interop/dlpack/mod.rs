//! DLPack: exchange of arrays with other libraries in this process, without a copy.
//!
//! The structs, their allocation and their deleters are from the crate dlpark; storage, layouts and stream order are
//! handled here. dlpark's safe interface would take ownership of a tensor before it is checked, but a failed import
//! must leave the capsule to its owner. So the checks read the structs of `dlpark::ffi`.

use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicUsize, Ordering};

use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::ffi::{DLPackVersion, DLTensor};
use dlpark::tensor::TensorRef;
use dlpark::{DlpackFlags, ManagedTensorBase};

use self::export::Keep;
use super::host_memory;
use verdigris_ops::dtype::{DType, Number};
use verdigris_ops::error::{Error, Kind, Result};

mod export;
mod import;

pub use export::{export, export_as, Order, Terms};
pub use import::{import, import_on};

/// A managed tensor in transit, in either form of the ABI. Whoever holds it owns the tensor: see `delete`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raw {
    /// `DLManagedTensor`, in capsules called `dltensor`.
    Legacy(*mut DLManagedTensor),
    /// `DLManagedTensorVersioned` (DLPack 1.0 and later), in capsules called `dltensor_versioned`.
    Versioned(*mut DLManagedTensorVersioned),
}

/// The metadata of a tensor.
#[derive(Clone, Debug)]
pub struct Description {
    pub device: String,
    pub dtype: String,
    pub shape: Vec<i64>,
    /// In elements; those of row-major order if the tensor has none.
    pub strides: Vec<i64>,
    /// The address of the first element.
    pub address: u64,
    /// None for the unversioned form.
    pub version: Option<(u32, u32)>,
    pub read_only: bool,
}

/// Whether to copy data that could be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Copying {
    /// Share the memory, and copy only if it cannot be shared.
    #[default]
    IfNeeded,
    Always,
    /// Fail if the memory cannot be shared.
    Never,
}

impl Raw {
    pub const LEGACY: &'static CStr = c"dltensor";
    pub const VERSIONED: &'static CStr = c"dltensor_versioned";

    /// The name of the capsule for such a tensor.
    pub const fn name(self) -> &'static CStr {
        match self {
            Raw::Legacy(_) => Raw::LEGACY,
            Raw::Versioned(_) => Raw::VERSIONED,
        }
    }

    /// The tensor of a capsule; None if the name is not a DLPack one or the pointer is null.
    pub fn from_capsule(name: &CStr, pointer: *mut c_void) -> Option<Raw> {
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

    pub fn pointer(self) -> *mut c_void {
        match self {
            Raw::Legacy(p) => p.cast(),
            Raw::Versioned(p) => p.cast(),
        }
    }

    /// The address of the deleter, and the manager context that it frees.
    ///
    /// # Safety
    /// The tensor must be readable.
    unsafe fn owner(self) -> (usize, *const c_void) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Raw::Legacy(p) => ((*p).deleter.map_or(0, |f| f as usize), (*p).manager_ctx),
                Raw::Versioned(p) => ((*p).deleter.map_or(0, |f| f as usize), (*p).manager_ctx),
            }
        }
    }

    /// The deleter of tensors exported here; 0 before the first export.
    fn own_deleter(self) -> &'static AtomicUsize {
        static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
        &OWN[usize::from(matches!(self, Raw::Versioned(_)))]
    }

    /// The manager context of a tensor that was exported here; None for tensors of others.
    ///
    /// # Safety
    /// The tensor must be readable, and not be deleted during `'a`.
    unsafe fn kept<'a>(self) -> Option<&'a Keep> {
        // SAFETY: the caller's promise.
        let (deleter, kept) = unsafe { self.owner() };
        let ours = deleter != 0 && deleter == self.own_deleter().load(Ordering::Relaxed);
        let there = ours && kept.cast::<Keep>().is_aligned() && host_memory::is_mapped(kept as u64, size_of::<Keep>());
        // SAFETY: a tensor with this deleter has the context that `export` stored.
        there.then(|| unsafe { &*kept.cast::<Keep>() })
    }

    /// Checks that the tensor and its shape are mapped memory of this process; a forged or freed tensor probably fails
    /// here. Must be called before `describe` and `import` for tensors from outside.
    ///
    /// # Errors
    /// `Argument`.
    pub fn probe(self) -> Result<()> {
        let gone = |what: &str, at: u64| {
            Error::new(
                Kind::Argument,
                format!("{what} of the capsule would be at {at:#x}, where this process has no memory"),
            )
            .advise("The capsule is not a DLPack capsule, or its producer is gone.")
        };
        let at = self.pointer() as u64;
        let bytes = match self {
            Raw::Legacy(_) => size_of::<DLManagedTensor>(),
            Raw::Versioned(_) => size_of::<DLManagedTensorVersioned>(),
        };
        if !at.is_multiple_of(8) || !host_memory::is_mapped(at, bytes) {
            return Err(gone("the tensor", at));
        }
        // SAFETY: the memory is readable, and has the tensor's size and alignment. For another major version only the
        // version is read.
        let Ok((tensor, ..)) = (unsafe { self.tensor() }) else { return Ok(()) };
        let Ok(ndim) = usize::try_from(tensor.ndim) else { return Ok(()) };
        // Most producers keep the shape with the tensor, in a page that was just checked.
        const PAGE: u64 = 4096;
        let end = at + bytes as u64;
        for list in [tensor.shape, tensor.strides] {
            let from = list as u64;
            let known = from >= at / PAGE * PAGE && from.saturating_add(8 * ndim as u64) <= end.next_multiple_of(PAGE);
            if from != 0 && (!from.is_multiple_of(8) || !known && !host_memory::is_mapped(from, 8 * ndim)) {
                return Err(gone("the shape", from));
            }
        }
        Ok(())
    }

    /// Calls the producer's deleter.
    ///
    /// # Safety
    /// The tensor must be complete, and not be used afterwards.
    pub unsafe fn delete(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Raw::Legacy(p) => ManagedTensorBase::drop_raw(p),
                Raw::Versioned(p) => ManagedTensorBase::drop_raw(p),
            }
        }
    }

    /// The tensor, if its version can be read.
    ///
    /// # Safety
    /// The tensor must be complete, and live for `'a`.
    unsafe fn tensor<'a>(self) -> Result<(&'a DLTensor, Option<DLPackVersion>, DlpackFlags)> {
        // SAFETY: the caller's promise. For another major version only the version is read, which is first in all of
        // them.
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

    /// The metadata of a tensor.
    ///
    /// # Errors
    /// `Argument`, if the tensor is inconsistent or its version is unknown.
    ///
    /// # Safety
    /// The tensor must be complete.
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

fn data_type(dtype: DType) -> DLDataType {
    let code = match dtype.number() {
        Number::Bool => DLDataTypeCode::BOOL,
        Number::Int => DLDataTypeCode::INT,
        Number::UInt => DLDataTypeCode::UINT,
        Number::Float => DLDataTypeCode::FLOAT,
        Number::BFloat => DLDataTypeCode::BFLOAT,
        Number::Complex => DLDataTypeCode::COMPLEX,
    };
    DLDataType::scalar(code, 8 * dtype.size() as u8)
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
