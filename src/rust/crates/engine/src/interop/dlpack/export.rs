//! DLPack exports: arrays, and host memory of R vectors, as managed tensors.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;

use dlpark::ffi::DLDevice;
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, ManagedTensorBase};

use super::{data_type, Raw};
use crate::array::strided::{self, column_major};
use crate::array::Array;
use crate::backend;
use crate::interop::any_na;
use crate::memory::buffer::{Device, ExternalBorrow};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// How a consumer's reads are ordered after the work that computes an exported array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// This thread waits, during the export.
    Wait,
    /// A stream of the consumer waits (`CUstream`; 1 is the legacy default stream, and 0 is taken as 1).
    Stream(u64),
    /// Nothing waits: the consumer synchronises by itself.
    Nobody,
}

impl Order {
    /// Makes the consumer's stream wait for the work queued on the device, or waits on this thread.
    pub fn arrange(self, device: Device) -> Result<()> {
        match self {
            Order::Wait => backend::of(device)?.release(None),
            Order::Stream(stream) => backend::of(device)?.release(Some(stream)),
            Order::Nobody => Ok(()),
        }
    }
}

/// The terms of an export.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub versioned: bool,
    pub order: Order,
    /// Whether the consumer may write.
    pub writable: bool,
}

thread_local! {
    /// Whether the next tensor to be released here was imported again by this engine.
    static OWN_RETURN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the tensor to be released next was imported by an array of this engine, whose queued work is done.
pub(super) fn note_own_return() {
    OWN_RETURN.set(true);
}

/// What an exported tensor keeps alive. Its deleter drops this, on any thread.
pub(super) struct Keep {
    lent: Option<ExternalBorrow>,
}

impl Keep {
    /// Whether these bytes are within the array's memory.
    pub fn holds(&self, device: Device, address: u64, bytes: usize) -> bool {
        self.lent.as_ref().is_some_and(|lent| {
            let buffer = lent.buffer();
            let (end, last) = (buffer.address + buffer.bytes as u64, address.checked_add(bytes as u64));
            buffer.device == device && address >= buffer.address && last.is_some_and(|last| last <= end)
        })
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        let own_return = OWN_RETURN.take();
        let Some(lent) = self.lent.take() else { return };
        // The deleter is a C function: a panic must not unwind out of it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // The consumer's work on the default stream may still read the memory; this engine frees it in stream order
            // after that work. A consumer that works on other streams must synchronise them before it calls the
            // deleter, as DLPack does not name them.
            let device = lent.buffer().device;
            if device != Device::Cpu && !own_return {
                let _ = backend::of(device).and_then(|b| b.acquire());
            }
            drop(lent);
        }));
    }
}

/// As `export_as` for a read-only consumer. If `stream` is None, the call waits.
///
/// # Errors
/// As `export_as`.
pub fn export(array: &Array, dim: &[usize], versioned: bool, stream: Option<u64>) -> Result<Raw> {
    let order = stream.map_or(Order::Wait, Order::Stream);
    export_as(array, dim, Terms { versioned, order, writable: false })
}

/// Exports an array: computes it, and describes its memory, which stays alive until the deleter is called.
///
/// `dim` is the array's shape. A view is exported with its strides, without a copy. The tensor is marked read-only
/// unless the terms allow the consumer to write; the caller must then make sure that no operation recorded earlier
/// reads the array's memory later.
///
/// # Errors
/// `DType` for a logical array with NA, which DLPack's bool cannot represent; for a writable export `Shape` where
/// elements overlap, and `Argument` where the producer shared the memory read-only.
pub fn export_as(array: &Array, dim: &[usize], terms: Terms) -> Result<Raw> {
    if dim.iter().product::<usize>() != array.len() {
        return Err(Error::new(Kind::Shape, "the dimensions do not fit the array's length"));
    }
    if array.dtype() == DType::Bool8 && any_na(array)? {
        return Err(Error::new(Kind::DType, "a logical array with NA cannot be exported as bool")
            .advise("Replace the NAs first, such as with `ifelse(is.na(x), FALSE, x)`.")
            .advise("Or export integers: `gpu_cast(x, \"int32\")` stores NA as the smallest integer."));
    }
    let mut view = array.evaluate()?;
    let strides = match strided::strides_of(&view.layout, dim) {
        Some(strides) => strides,
        None => {
            view = array.contiguous()?;
            column_major(dim)
        }
    };
    if terms.writable {
        if view.buffer.is_read_only() {
            return Err(Error::new(Kind::Argument, "`x` is in memory that its owner has shared as read-only")
                .advise("`x + 0` has memory of its own."));
        }
        if strided::overlaps(&view.layout) {
            return Err(Error::new(Kind::Shape, "elements of `x` overlap in memory, so it cannot be written to")
                .advise("`x + 0` has memory of its own."));
        }
    }
    terms.order.arrange(array.device())?;
    let address = if view.is_empty() { 0 } else { view.address() };
    let device = view.buffer.device;
    let keep = Keep { lent: Some(ExternalBorrow::new(view.buffer, terms.writable)) };
    managed(terms, Memory { address, device, dtype: view.dtype }, dim, &strides, keep)
}

/// The first element's address, device and dtype.
struct Memory {
    address: u64,
    device: Device,
    dtype: DType,
}

fn managed(terms: Terms, memory: Memory, dim: &[usize], strides: &[i64], keep: Keep) -> Result<Raw> {
    let raw = if terms.versioned {
        Raw::Versioned(filled(terms, memory, dim, strides, keep)?)
    } else {
        Raw::Legacy(filled(terms, memory, dim, strides, keep)?)
    };
    // SAFETY: the tensor is complete.
    raw.own_deleter().store(unsafe { raw.owner() }.0, Ordering::Relaxed);
    Ok(raw)
}

fn filled<M: ManagedTensorBase>(
    terms: Terms,
    memory: Memory,
    dim: &[usize],
    strides: &[i64],
    keep: Keep,
) -> Result<*mut M> {
    let failure = |e: &dyn std::fmt::Display| Error::new(Kind::Shape, format!("DLPack cannot describe the array: {e}"));
    let mut tensor = Dynamic::new(dim, strides).prepare_as::<M>().map_err(|e| failure(&e))?.initialize(Box::new(keep));
    tensor
        .set_data(memory.address as *mut _)
        .set_device(match memory.device {
            Device::Cpu => DLDevice::CPU,
            Device::Cuda(i) => DLDevice::cuda(i as i32),
        })
        .set_dtype(data_type(memory.dtype));
    if !terms.writable {
        tensor.set_flags(DlpackFlags::READ_ONLY).map_err(|e| failure(&e))?;
    }
    // SAFETY: data, shape and strides describe memory that `Keep` holds.
    Ok(unsafe { tensor.finish() }.into_raw())
}
