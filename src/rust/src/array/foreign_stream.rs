//! Stream order for memory shared with other libraries. The cpu device needs none: its work is done when a call
//! returns.
//!
//! On a GPU other libraries work on the default stream, or on streams that wait for it. This package's stream waits for
//! the default stream before it touches shared memory, and the default stream waits for it before control returns to R.

use std::cell::Cell;

use verdigris_engine::array::Array;
use verdigris_engine::backend;
use verdigris_engine::memory::buffer::{any_shared, Device};
use verdigris_ops::error::Result;

thread_local! {
    /// The device whose shared memory the running entry has touched.
    static TOUCHED: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The handle of CUDA's legacy default stream.
const DEFAULT: u64 = 1;

/// Makes later work wait for the default stream if the array's memory needs ordering. Call before queueing work on it.
pub fn touch(array: &Array) -> Result<()> {
    let device = array.device();
    if any_shared() && device != Device::Cpu && TOUCHED.get() != Some(device) && array.needs_ordering() {
        after();
        backend::of(device)?.acquire()?;
        TOUCHED.set(Some(device));
    }
    Ok(())
}

/// The same before a read that waits for its end: the default stream need not wait for it.
pub fn before_read(array: &Array) -> Result<()> {
    if any_shared() && array.device() != Device::Cpu && array.needs_ordering() {
        backend::of(array.device())?.acquire()?;
    }
    Ok(())
}

/// Makes the default stream wait for the entry's work on shared memory. Called at the end of every entry.
pub fn after() {
    if let Some(device) = TOUCHED.take() {
        // a failed device reports its error when it is used next
        let _ = backend::of(device).and_then(|backend| backend.release(Some(DEFAULT)));
    }
}
