//! Host memory of arrays: large blocks are kept for the next array of about their size, since fresh pages
//! cost more (a fault and a clearing each) than the arithmetic that fills them.

use std::alloc::{alloc, dealloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crate::counters;
use crate::error::{Error, Kind, Result};

/// Blocks below it come from the allocator's own lists.
const LARGE: usize = 1 << 20;
/// A page that the system clears at once, where it has such pages.
const HUGE_PAGE: usize = 2 << 20;
/// Bytes that are kept at most, and blocks.
const MOST_BYTES: usize = 512 << 20;
const MOST_BLOCKS: usize = 32;

/// Bytes in arrays.
pub static LIVE: AtomicU64 = AtomicU64::new(0);

/// Memory that was freed, oldest first.
static KEPT: Mutex<Vec<Raw>> = Mutex::new(Vec::new());

struct Raw {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory, which any thread may free.
unsafe impl Send for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `Block::new`, and freed once.
        unsafe { dealloc(self.address, self.layout) }
    }
}

/// Memory that a buffer owns.
pub struct Block {
    raw: Option<Raw>,
}

// SAFETY: the block gives no access to the memory but its address.
unsafe impl Sync for Block {}

impl Block {
    pub fn new(bytes: usize) -> Result<Block> {
        let raw = match kept(bytes) {
            Some(raw) => raw,
            None => fresh(bytes)
                .or_else(|| {
                    trim();
                    fresh(bytes)
                })
                .ok_or_else(|| {
                    Error::new(Kind::Memory, format!("cannot allocate {bytes} bytes of host memory"))
                        .advise("Free arrays with `rm()` and `gc()`, or work on the data in pieces.")
                })?,
        };
        let size = raw.layout.size() as u64;
        counters::note_live(LIVE.fetch_add(size, Ordering::Relaxed) + size);
        Ok(Block { raw: Some(raw) })
    }

    pub fn address(&self) -> u64 {
        self.raw.as_ref().map_or(0, |raw| raw.address as u64)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        LIVE.fetch_sub(raw.layout.size() as u64, Ordering::Relaxed);
        if raw.layout.size() < LARGE || raw.layout.size() > MOST_BYTES {
            return;
        }
        let mut dropped = Vec::new(); // freed after the lock
        if let Ok(mut blocks) = KEPT.lock() {
            blocks.push(raw);
            while blocks.len() > MOST_BLOCKS || total(&blocks) > MOST_BYTES {
                dropped.push(blocks.remove(0));
            }
        }
    }
}

fn total(blocks: &[Raw]) -> usize {
    blocks.iter().map(|raw| raw.layout.size()).sum()
}

/// A kept block of this size, or up to an eighth larger.
fn kept(bytes: usize) -> Option<Raw> {
    if bytes < LARGE {
        return None;
    }
    let mut blocks = KEPT.lock().ok()?;
    let fits = |raw: &Raw| (bytes..=bytes + bytes / 8).contains(&raw.layout.size());
    let at = blocks.iter().rposition(fits)?;
    Some(blocks.remove(at))
}

fn fresh(bytes: usize) -> Option<Raw> {
    let align = if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { 64 };
    let layout = Layout::from_size_align(bytes, align).ok()?;
    // SAFETY: the caller asks for one byte or more.
    let address = unsafe { alloc(layout) };
    if address.is_null() {
        return None;
    }
    if align == HUGE_PAGE {
        advise_huge(address, bytes);
    }
    Some(Raw { address, layout })
}

#[cfg(target_os = "linux")]
fn advise_huge(address: *mut u8, bytes: usize) {
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
    }
    const MADV_HUGEPAGE: i32 = 14;
    // SAFETY: the range is whole pages of our own; a refusal changes nothing.
    unsafe { madvise(address.cast(), bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: *mut u8, _: usize) {}

/// Bytes that are kept for reuse.
pub fn cached() -> u64 {
    KEPT.lock().map_or(0, |blocks| total(&blocks) as u64)
}

/// Gives kept memory back.
pub fn trim() {
    if let Ok(mut blocks) = KEPT.lock() {
        blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_serves_the_next_of_its_size() {
        let block = Block::new(3 * LARGE + 7).unwrap();
        let address = block.address();
        drop(block);
        assert!(cached() >= 3 * LARGE as u64);
        let again = Block::new(3 * LARGE).unwrap();
        assert_eq!(again.address(), address);
    }
}
