//! Stream order for memory shared with other libraries. On the cpu device there is nothing to order: all work has ended
//! when a call returns.
//!
//! On a GPU other libraries work on the default stream, or on streams that wait for it. Our stream waits for the
//! default stream before it touches shared memory, and the default stream waits for ours before control returns to R.

use std::cell::Cell;

use verdigris_engine::array::Array;
use verdigris_engine::backend;
use verdigris_engine::memory::buffer::{any_shared, Device};
use verdigris_ops::error::Result;

thread_local! {
    /// The device whose shared memory the entry under way has touched.
    static TOUCHED: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The legacy default stream of CUDA.
const DEFAULT: u64 = 1;

/// Before work on an array is queued.
pub fn touch(array: &Array) -> Result<()> {
    let device = array.device();
    if any_shared() && device != Device::Cpu && TOUCHED.get() != Some(device) && array.is_contested() {
        after();
        backend::of(device)?.acquire()?;
        TOUCHED.set(Some(device));
    }
    Ok(())
}

/// Before a read that waits for its end.
pub fn before_read(array: &Array) -> Result<()> {
    if any_shared() && array.device() != Device::Cpu && array.is_contested() {
        backend::of(array.device())?.acquire()?;
    }
    Ok(())
}

/// At the end of an entry.
pub fn after() {
    if let Some(device) = TOUCHED.take() {
        // a device that is broken says so where it is used
        let _ = backend::of(device).and_then(|backend| backend.release(Some(DEFAULT)));
    }
}
