//! Counters of launches, copies and the like since the process began, for benchmarks and for tests, which assert that a
//! computation is one kernel or that a read copies nothing. They are relaxed atomics of the whole process, so that
//! counting costs nearly nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
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
/// Those among them that were launched as graphs of one kernel (`backend/cuda/launch/relaunch.rs`).
pub static RELAUNCHES: Counter = Counter::new();
/// Bytes copied from the host to a device's buffers, and back.
pub static BYTES_UP: Counter = Counter::new();
pub static BYTES_DOWN: Counter = Counter::new();
/// Sources that NVRTC has compiled, and those that were found compiled on the disk.
pub static COMPILED: Counter = Counter::new();
pub static CACHE_HITS: Counter = Counter::new();
/// Assignments to parts of arrays that were written in place.
pub static IN_PLACE: Counter = Counter::new();

static PEAK: AtomicU64 = AtomicU64::new(0);

/// Notes how many bytes arrays hold on a device.
pub fn note_live(bytes: u64) {
    PEAK.fetch_max(bytes, Ordering::Relaxed);
}

/// The most bytes that arrays have held on one device since the last call of this.
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
