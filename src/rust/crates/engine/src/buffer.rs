//! Device memory and what views it.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::dtype::DType;
use crate::layout::Layout;

/// Where a buffer lives and work on it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    Cpu,
    /// The ordinal of a CUDA device.
    Cuda(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}

/// A piece of memory, freed when its owner is dropped.
///
/// The content is written once, by the operation that made the buffer, and not changed afterwards,
/// unless a kernel or a foreign framework was given the address (`share`).
pub struct Buffer {
    pub device: Device,
    /// The address on the device; a host address where the device is the cpu. 0 where empty.
    pub address: u64,
    pub bytes: usize,
    shared: AtomicBool,
    fixed: AtomicBool,
    read_only: bool,
    // Dropping it frees the memory: a pool's block, or a foreign tensor's deleter.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Buffer {
    pub fn new(device: Device, address: u64, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        Buffer {
            device,
            address,
            bytes,
            shared: AtomicBool::new(false),
            fixed: AtomicBool::new(false),
            read_only: false,
            _owner: owner,
        }
    }

    /// Whether not even a kernel may write: a foreign library said so.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// Notes that the values belong to this address: a graph writes there each time that it runs.
    pub fn fix(&self) {
        self.fixed.store(true, Ordering::Release);
    }

    pub fn is_fixed(&self) -> bool {
        self.fixed.load(Ordering::Acquire)
    }

    /// Notes that someone outside holds the address and may write.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }
}

/// Elements of a type in a buffer.
#[derive(Clone)]
pub struct View {
    pub buffer: Arc<Buffer>,
    pub dtype: DType,
    pub layout: Layout,
}

impl View {
    pub fn contiguous(buffer: Arc<Buffer>, dtype: DType, n: usize) -> View {
        View { buffer, dtype, layout: Layout::contiguous(n) }
    }

    pub fn len(&self) -> usize {
        self.layout.len()
    }

    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The address of the first element (offset folded in).
    pub fn address(&self) -> u64 {
        self.buffer.address + (self.layout.offset() * self.dtype.size()) as u64
    }
}
