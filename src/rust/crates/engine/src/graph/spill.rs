//! Spilling: values are moved to the host when a device is full, and brought back when they are needed.
//!
//! A computed node is spilled only if nothing else refers to its buffer. Buffers that a plan or a view refers to are in
//! use and stay; so do values that a running evaluation has requested but not yet put into its plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::backend;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::host_pool;
use crate::memory::LARGE;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::layout::Layout;

/// Bytes on the host in place of a device's.
static SPILLED: AtomicU64 = AtomicU64::new(0);

/// Ticks when large values are asked for.
static CLOCK: AtomicU64 = AtomicU64::new(1);
/// The computations under way, of all threads.
static UNDER_WAY: Mutex<UnderWay> = Mutex::new(UnderWay { count: 0, since: u64::MAX });

pub(crate) struct UnderWay {
    count: usize,
    /// What was asked for from this tick on is in use.
    pub since: u64,
}

pub(crate) fn under_way() -> MutexGuard<'static, UnderWay> {
    UNDER_WAY.lock().unwrap_or_else(|p| p.into_inner())
}

/// The next tick.
pub fn tick() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// While it lives, values that are asked for stay on the device: until a plan holds their views.
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

/// Bytes that are on the host in place of a device's.
pub fn spilled() -> u64 {
    SPILLED.load(Ordering::Relaxed)
}

/// A node's buffer on the host.
pub struct Spilled {
    dtype: DType,
    layout: Layout,
    device: Device,
    bytes: usize,
    host: host_pool::Block,
}

impl Spilled {
    /// Copies a view's whole buffer.
    pub fn new(view: &View) -> Result<Spilled> {
        let (device, bytes) = (view.buffer.device, view.buffer.bytes);
        let host = host_pool::Block::new(bytes, device)?;
        // SAFETY: the block has this many bytes, and no one else knows it.
        let out = unsafe { std::slice::from_raw_parts_mut(host.start(), bytes) };
        backend::of(device)?.download(&view.buffer, 0, out)?;
        SPILLED.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Spilled { dtype: view.dtype, layout: view.layout.clone(), device, bytes, host })
    }

    /// The view, on the device again.
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

/// Whether a buffer is worth it, and can be replaced by another: not what other libraries hold the address of.
pub fn is_eligible(buffer: &Buffer) -> bool {
    buffer.bytes >= LARGE && !buffer.is_fixed() && !buffer.is_shared() && !buffer.is_read_only()
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
