//! Counters of launches, copies and the like since the process started, for benchmarks and tests, which assert for
//! instance that a computation is one kernel or that a read copies nothing. They are process-wide relaxed atomics, so
//! counting costs almost nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// A monotonic counter.
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Kernels queued on CUDA devices, and plans that the cpu device has run.
pub static LAUNCHES: Counter = Counter::new();
/// Those of them that were launched as graphs of one kernel (`backend/cuda/launch/relaunch.rs`).
pub static RELAUNCHES: Counter = Counter::new();
/// Bytes copied from the host to devices, and from devices to the host.
pub static BYTES_UP: Counter = Counter::new();
pub static BYTES_DOWN: Counter = Counter::new();
/// Sources compiled by NVRTC, and sources whose compiled kernel was found in the disk cache.
pub static COMPILED: Counter = Counter::new();
pub static CACHE_HITS: Counter = Counter::new();
/// Assignments to parts of arrays that were done in place.
pub static IN_PLACE: Counter = Counter::new();

static PEAK: AtomicU64 = AtomicU64::new(0);

/// Notes the number of bytes that arrays hold on a device.
pub fn note_live(bytes: u64) {
    PEAK.fetch_max(bytes, Ordering::Relaxed);
}

/// The most bytes that arrays have held on one device since the last call of this function.
pub fn take_peak() -> u64 {
    PEAK.swap(0, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds_up() {
        let counter = Counter::new();
        counter.add(2);
        counter.add(3);
        assert_eq!(counter.get(), 5);
    }
}
