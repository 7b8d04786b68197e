//! Spilling: when a device is full, values are moved to the host, and moved back when they are needed.
//!
//! A computed node is spilled only if nothing else refers to its buffer. Buffers that a plan or a view refers to are in
//! use and stay. So do values that a running evaluation has requested but not yet bound to its plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::backend;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::host_pool;
use crate::memory::LARGE;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::layout::Layout;

/// Bytes of values that are spilled to the host.
static SPILLED: AtomicU64 = AtomicU64::new(0);

/// A logical clock, advanced each time a large value is used.
static CLOCK: AtomicU64 = AtomicU64::new(1);
/// The evaluations in progress, on all threads.
static UNDER_WAY: Mutex<UnderWay> = Mutex::new(UnderWay { count: 0, since: u64::MAX });

pub(crate) struct UnderWay {
    count: usize,
    /// Values used at this tick or later are in use.
    pub since: u64,
}

pub(crate) fn under_way() -> MutexGuard<'static, UnderWay> {
    UNDER_WAY.lock().unwrap_or_else(|p| p.into_inner())
}

/// Advances the clock, and returns the tick.
pub fn tick() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// While a `Used` exists, requested values are not spilled. A plan is made under one, until it holds the views.
pub struct Used(());

impl Used {
    pub fn new() -> Used {
        let mut all = under_way();
        if all.count == 0 {
            all.since = CLOCK.load(Ordering::Relaxed);
        }
        all.count += 1;
        Used(())
    }
}

impl Default for Used {
    fn default() -> Used {
        Used::new()
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let mut all = under_way();
        all.count -= 1;
        if all.count == 0 {
            all.since = u64::MAX;
        }
    }
}

/// Bytes of values that are spilled to the host.
pub fn spilled() -> u64 {
    SPILLED.load(Ordering::Relaxed)
}

/// A copy of a node's buffer on the host.
pub struct Spilled {
    dtype: DType,
    layout: Layout,
    device: Device,
    bytes: usize,
    host: host_pool::Block,
}

impl Spilled {
    /// Copies the whole buffer of a view to the host.
    pub fn new(view: &View) -> Result<Spilled> {
        let (device, bytes) = (view.buffer.device, view.buffer.bytes);
        let host = host_pool::Block::new(bytes, device)?;
        // SAFETY: the block has this many bytes, and no one else knows it.
        let out = unsafe { std::slice::from_raw_parts_mut(host.start(), bytes) };
        backend::of(device)?.download(&view.buffer, 0, out)?;
        SPILLED.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Spilled { dtype: view.dtype, layout: view.layout.clone(), device, bytes, host })
    }

    /// Copies the buffer back to the device.
    pub fn restore(&self) -> Result<View> {
        let backend = backend::of(self.device)?;
        let buffer = backend.allocate(self.bytes)?;
        // SAFETY: `new` has filled as many bytes.
        backend.upload(unsafe { std::slice::from_raw_parts(self.host.start(), self.bytes) }, &buffer, 0)?;
        Ok(View { buffer, dtype: self.dtype, layout: self.layout.clone() })
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        SPILLED.fetch_sub(self.bytes as u64, Ordering::Relaxed);
    }
}

/// Whether a buffer is large enough, and may be replaced by another: not if another library or a CUDA graph has its
/// address.
pub fn is_eligible(buffer: &Buffer) -> bool {
    buffer.bytes >= LARGE && !buffer.is_address_pinned() && !buffer.is_shared() && !buffer.is_read_only()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::buffer_from;

    #[test]
    fn memory_that_others_hold_stays() {
        let buffer = buffer_from(&vec![0; LARGE], Device::Cpu).unwrap();
        assert!(is_eligible(&buffer));
        buffer.share();
        assert!(!is_eligible(&buffer));
    }
}
