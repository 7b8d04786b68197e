//! Launches that wait in the launch thread's ring (`launch::submit`). All other calls of the driver come behind them,
//! so that the driver sees the order in which work was queued.

use std::sync::atomic::{AtomicU64, Ordering};

use super::devices::at_home;

/// Memory that one thread writes, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub T);

/// Launches that were left to the thread, and those that it has made.
pub(crate) static LEFT: Apart<AtomicU64> = Apart(AtomicU64::new(0));
pub(crate) static MADE: Apart<AtomicU64> = Apart(AtomicU64::new(0));

/// Whether no launch waits to be made.
pub(crate) fn is_idle() -> bool {
    let left = LEFT.0.load(Ordering::Acquire);
    MADE.0.load(Ordering::Acquire) >= left
}

/// Waits until the driver has all launches that were left to the thread.
#[inline]
pub(crate) fn flush() {
    let left = LEFT.0.load(Ordering::Acquire);
    let mut turns = 0;
    while MADE.0.load(Ordering::Acquire) < left && at_home() {
        // where others have the processor, the thread needs it more
        turns += 1;
        if turns % 1024 == 0 {
            std::thread::yield_now()
        } else {
            std::hint::spin_loop()
        }
    }
}
