//! Counters of the launches in the launch thread's ring (`launch::submit`). Any other driver call must first wait until
//! the ring is empty, so that the driver receives work in the order in which it was queued.

use std::sync::atomic::{AtomicU64, Ordering};

use super::devices::owns_cuda;

/// Keeps a value on cache lines of its own, against false sharing.
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub T);

/// The number of launches written to the ring so far, and of those made from it.
pub(crate) static SUBMITTED: CachePadded<AtomicU64> = CachePadded(AtomicU64::new(0));
pub(crate) static LAUNCHED: CachePadded<AtomicU64> = CachePadded(AtomicU64::new(0));

/// Whether the ring is empty.
pub(crate) fn is_idle() -> bool {
    let submitted = SUBMITTED.0.load(Ordering::Acquire);
    LAUNCHED.0.load(Ordering::Acquire) >= submitted
}

/// Waits until the launch thread has made all launches in the ring. Returns at once in a forked child, which has no
/// launch thread.
#[inline]
pub(crate) fn flush() {
    let submitted = SUBMITTED.0.load(Ordering::Acquire);
    let mut turns = 0;
    while LAUNCHED.0.load(Ordering::Acquire) < submitted && owns_cuda() {
        // on a busy machine the launch thread may need this processor to proceed
        turns += 1;
        if turns % 1024 == 0 {
            std::thread::yield_now()
        } else {
            std::hint::spin_loop()
        }
    }
}
