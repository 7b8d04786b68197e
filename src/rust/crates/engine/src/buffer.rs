//! Device memory and what views it.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
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
/// unless a kernel or someone outside was given the address (`share`, `Lent`).
pub struct Buffer {
    pub device: Device,
    /// The address on the device; a host address where the device is the cpu. 0 where empty.
    pub address: u64,
    pub bytes: usize,
    /// Whether someone outside holds the address for as long as the buffer lives.
    shared: AtomicBool,
    fixed: AtomicBool,
    read_only: bool,
    /// Those outside who hold it for a time, and how many of them may write.
    lent: AtomicU32,
    lent_to_write: AtomicU32,
    // Dropping it frees the memory: a pool's block, or a foreign tensor's deleter.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Buffers that are shared, and holds on buffers: where there is none, nobody asks the buffers.
static ABROAD: AtomicUsize = AtomicUsize::new(0);

/// Whether any buffer may be shared: one load.
pub fn any_shared() -> bool {
    ABROAD.load(Ordering::Relaxed) > 0
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
            lent: AtomicU32::new(0),
            lent_to_write: AtomicU32::new(0),
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

    /// Notes that someone outside holds the address from now on, and, unless the buffer is read-only, may write.
    pub fn share(&self) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            ABROAD.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether someone outside holds the address: nothing that was read of the content holds for long.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent.load(Ordering::Acquire) > 0
    }

    /// Those outside who hold it for a time; each of them has a reference to it.
    pub fn lent(&self) -> usize {
        self.lent.load(Ordering::Acquire) as usize
    }

    /// Whether our work on it and work of someone outside are to be kept in order: he may write to it, or it is his. Who was promised that
    /// it does not change, and only reads, needs no order.
    pub fn is_contested(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent_to_write.load(Ordering::Acquire) > 0
    }

    /// Whether someone outside may write at any time: what is computed from the content is computed at once.
    pub fn is_volatile(&self) -> bool {
        self.shared.load(Ordering::Acquire) && !self.read_only || self.lent_to_write.load(Ordering::Acquire) > 0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if *self.shared.get_mut() {
            ABROAD.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A buffer that someone outside holds, for as long as this lives. Dropped on any thread.
pub struct Lent {
    buffer: Arc<Buffer>,
    writes: bool,
}

impl Lent {
    /// `writes`: whether he may write.
    pub fn new(buffer: Arc<Buffer>, writes: bool) -> Lent {
        ABROAD.fetch_add(1, Ordering::AcqRel);
        buffer.lent.fetch_add(1, Ordering::AcqRel);
        buffer.lent_to_write.fetch_add(u32::from(writes), Ordering::AcqRel);
        Lent { buffer, writes }
    }

    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.buffer.lent_to_write.fetch_sub(u32::from(self.writes), Ordering::AcqRel);
        self.buffer.lent.fetch_sub(1, Ordering::AcqRel);
        ABROAD.fetch_sub(1, Ordering::AcqRel);
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
