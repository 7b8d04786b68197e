//! Reading elements for R: through a host copy of all elements, or through a window of elements from the last one read.
//!
//! R reads NA for an int64 that no double represents. Each R function that does so is warned, once while it runs: C
//! checks `is_lossy` for the host copy and the result of `read` for elements, and calls `warn_of_lost`.

use std::rc::Rc;

use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

use super::Handle;
use crate::array::foreign_stream;
use crate::array::host_copy::{self, Block};

/// State of element-wise reads: the first few are single transfers, later ones fill a window, and after a few windows
/// all elements are copied.
#[derive(Default)]
pub(super) struct Window {
    reads: usize,
    from: usize,
    n: usize,
    bytes: Vec<u8>,
}

/// Reads that are single transfers.
const SINGLE_READS: usize = 4;
/// Elements in a window.
const WINDOW: usize = 16 * 1024;
/// Windows before all elements are copied.
const WINDOW_READS: usize = 8;

impl Handle {
    /// The host copy if there is one that is up to date. `writable` marks it as written.
    pub fn host(&self, writable: bool) -> Option<*mut u8> {
        if self.has_host() {
            self.fetched(writable)
        } else {
            None
        }
    }

    /// The host copy after a successful `fetch`.
    pub fn fetched(&self, writable: bool) -> Option<*mut u8> {
        let host = self.host.borrow();
        let block = host.as_ref()?;
        if writable {
            self.dirty.set(true);
            block.stamp.set(block.stamp.get() + 1);
            if self.ordinary {
                self.let_go();
            }
        }
        Some(block.start())
    }

    /// Makes the host copy, or updates it at its old address.
    pub fn fetch(&self) -> Result<()> {
        self.check()?;
        if self.has_host() {
            return Ok(());
        }
        let array = self.array_unsynced();
        foreign_stream::before_read(&array)?;
        if let Some(block) = self.host.borrow().as_ref() {
            // SAFETY: the block was made for this handle's length; R is not running meanwhile.
            block.lossy.set(unsafe { host_copy::read_quietly(&array, 0, self.len, block.start())? });
            self.note_read(&array, block);
            self.stale.set(false);
            return Ok(());
        }
        if let Some(block) = self.made()? {
            self.forget();
            self.host.replace(Some(Rc::new(block)));
            return Ok(());
        }
        let block = Block::new(self.host_bytes(), array.device())?;
        let sibling = self.rare.borrow_mut().as_mut().and_then(|rare| rare.sibling.take());
        let sibling = sibling.and_then(|(weak, stamp)| weak.upgrade().filter(|block| block.stamp.get() == stamp));
        // SAFETY: the block has room for the elements, and no one else knows it yet.
        unsafe {
            match sibling {
                Some(from) => {
                    std::ptr::copy_nonoverlapping(from.start(), block.start(), self.host_bytes());
                    block.lossy.set(from.lossy.get());
                }
                None => block.lossy.set(host_copy::read_quietly(&array, 0, self.len, block.start())?),
            }
        }
        self.forget();
        self.note_read(&array, &block);
        self.host.replace(Some(Rc::new(block)));
        Ok(())
    }

    /// Warns R function number `reader` that it has read int64 elements as NA, unless it was the last one warned.
    pub fn warn_of_lost(&self, reader: isize) {
        if self.rare(|rare| std::mem::replace(&mut rare.warned, reader)) != reader {
            host_copy::warn_lost();
        }
    }

    /// Whether the host copy has NA for int64 elements that no double represents.
    pub fn is_lossy(&self) -> bool {
        self.host.borrow().as_ref().is_some_and(|block| block.lossy.get())
    }

    /// Copies elements from the host copy or the window. False if they are in neither, or if an NA among them may stand
    /// for an int64, in which case `out` is written all the same.
    ///
    /// # Safety
    /// There is space for `n` elements at `out`.
    pub unsafe fn cached(&self, from: usize, n: usize, out: *mut u8) -> bool {
        let size = host_copy::r_size(self.array.borrow().dtype());
        // SAFETY: R asks within the length; the window's part is checked.
        unsafe {
            if let Some(block) = self.host.borrow().as_ref().filter(|block| self.is_current(block)) {
                std::ptr::copy_nonoverlapping(block.start().add(from * size), out, n * size);
                return !block.lossy.get() || !has_nan(out, n);
            }
            if self.array.borrow().is_shared() {
                return false;
            }
            let rare = self.rare.borrow();
            let Some(window) = rare.as_ref().map(|rare| &rare.window) else { return false };
            if from < window.from || from + n > window.from + window.n {
                return false;
            }
            let start = window.bytes.as_ptr().add((from - window.from) * size);
            std::ptr::copy_nonoverlapping(start, out, n * size);
            self.array.borrow().dtype() != DType::Int64 || !has_nan(out, n)
        }
    }

    /// Reads elements that `cached` did not have. Returns whether int64 elements became NA.
    ///
    /// # Safety
    /// There is space for `n` elements at `out`.
    pub unsafe fn read(&self, from: usize, n: usize, out: *mut u8) -> Result<bool> {
        self.check()?;
        let array = self.array_unsynced();
        if !self.ordinary && array.is_shared() && !self.is_lossy() {
            foreign_stream::before_read(&array)?;
            // SAFETY: the caller's promise.
            return unsafe { host_copy::read_quietly(&array, from, n, out) };
        }
        if self.is_made() || self.is_lossy() {
            self.fetch()?;
            // SAFETY: the caller's promise.
            return unsafe { self.cached_or_lost(from, n, out) };
        }
        let reads = self.rare(|rare| {
            rare.window.reads += 1;
            rare.window.reads
        });
        if n >= WINDOW || reads <= SINGLE_READS {
            // SAFETY: the caller's promise.
            return unsafe { host_copy::read_quietly(&array, from, n, out) };
        }
        if reads > SINGLE_READS + WINDOW_READS || self.len <= WINDOW {
            self.fetch()?;
        } else {
            self.slide(from)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.cached_or_lost(from, n, out) }
    }

    /// As `cached`, after the elements were fetched. Returns whether an NA among them stands for an int64.
    ///
    /// # Safety
    /// As for `cached`.
    unsafe fn cached_or_lost(&self, from: usize, n: usize, out: *mut u8) -> Result<bool> {
        // SAFETY: the caller's promise.
        if unsafe { self.cached(from, n, out) } {
            return Ok(false);
        }
        host_copy::loses(&self.array_unsynced(), from, n)
    }

    /// Copies one element of a computed array that is neither in the host copy nor in the window. Unlike `read()` it
    /// never fetches all elements.
    ///
    /// # Safety
    /// There is space for one element at `out`.
    pub unsafe fn element(&self, index: usize, out: *mut u8) -> Result<()> {
        self.check()?;
        let array = self.array_unsynced();
        if array.is_shared() {
            // no window: the other library may write at any time
            foreign_stream::before_read(&array)?;
            // SAFETY: the caller's promise.
            return unsafe { host_copy::read(&array, index, 1, out) };
        }
        drop(array);
        let reads = self.rare(|rare| {
            rare.window.reads = (rare.window.reads + 1).min(SINGLE_READS + 1);
            rare.window.reads
        });
        // no transfer on the cpu device
        if reads <= SINGLE_READS || self.device() == Device::Cpu {
            // SAFETY: the caller's promise.
            return unsafe { host_copy::read(&self.array_unsynced(), index, 1, out) };
        }
        self.slide(index)?;
        // SAFETY: the caller's promise.
        if unsafe { self.cached(index, 1, out) } {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { host_copy::read(&self.array_unsynced(), index, 1, out) }
    }

    /// Moves the window so that it starts at `from`.
    fn slide(&self, from: usize) -> Result<()> {
        let array = self.array_unsynced();
        let mut window = self.rare(|rare| std::mem::take(&mut rare.window));
        let reads = window.reads;
        window.n = 0; // empty if the read fails
        window.bytes.resize(WINDOW * host_copy::r_size(array.dtype()), 0);
        let count = WINDOW.min(self.len - from);
        // SAFETY: resized to hold them; a Vec<u8> from the system's allocator is aligned to 16 at this size.
        unsafe { host_copy::read_quietly(&array, from, count, window.bytes.as_mut_ptr())? };
        (window.from, window.n, window.reads) = (from, count, reads);
        self.rare(|rare| rare.window = window);
        Ok(())
    }
}

/// # Safety
/// There are `n` doubles at `start`.
unsafe fn has_nan(start: *const u8, n: usize) -> bool {
    // SAFETY: the caller's promise; R's memory for doubles is aligned, and read as such.
    (0..n).any(|k| unsafe { start.cast::<f64>().add(k).read_unaligned() }.is_nan())
}
