//! The host pool: memory of arrays on the cpu device, and of host copies, through which R reads arrays of any device.
//!
//! Freed blocks are kept for the next allocation of about the same size, since fresh pages cost more (a page fault and
//! a clearing each) than the copy that fills them. A block that a CUDA device transfers to is page-locked at its second
//! use, so that the device then writes it directly. Locking a fresh block would cost more than filling it through the
//! staging ring (800 MB: 50 ms to touch and lock, 34 ms through the ring).

use std::alloc::{alloc, dealloc, Layout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::memory::buffer::Device;
use crate::memory::staging::Shared;
use crate::memory::{self, human, Collect};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::parallel;

/// Smaller blocks are left to the allocator, which keeps free lists of them. It returns the pages of larger ones to the
/// system.
const LARGE: usize = 1 << 16;
/// Blocks from this size on are aligned to pages, so that they can be page-locked.
const PAGES: usize = 1 << 20;
/// The size of a transparent huge page, which the system clears at once.
const HUGE_PAGE: usize = 2 << 20;
/// Without a CUDA device in use, at most this many bytes are kept, or a sixteenth of the machine's memory if that is
/// more.
const MOST_BYTES: u64 = 512 << 20;

/// Page-locked bytes, in use or kept.
static PINNED: AtomicU64 = AtomicU64::new(0);
/// Bytes of blocks allocated since the last collection, and of those among them that needed fresh pages.
static ASKED: AtomicU64 = AtomicU64::new(0);
static FRESH: AtomicU64 = AtomicU64::new(0);
/// From these amounts allocated, and allocated freshly, garbage probably holds blocks that could have been reused.
const LIKELY: u64 = 64 << 20;
const MISSED: u64 = 8 << 20;
/// Bytes that may be kept if a CUDA device is in use.
static FOR_CUDA: AtomicU64 = AtomicU64::new(0);

/// Freed blocks that are kept for reuse.
static KEPT: Mutex<Kept> = Mutex::new(Kept { classes: BTreeMap::new(), bytes: 0, freed: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Kept blocks by size; those of one size in the order of freeing, each with the number of its freeing.
struct Kept {
    classes: BTreeMap<usize, VecDeque<(u64, Raw)>>,
    bytes: u64,
    freed: u64,
}

impl Kept {
    fn keep(&mut self, raw: Raw) {
        self.bytes += raw.bytes();
        self.freed += 1;
        self.classes.entry(raw.layout.size()).or_default().push_back((self.freed, raw));
    }

    /// Takes the block of this size that was freed last; of large ones preferably a page-locked one.
    fn take(&mut self, size: usize) -> Option<Raw> {
        let blocks = self.classes.get_mut(&size)?;
        let at = if size < PAGES { None } else { blocks.iter().rposition(|(_, raw)| raw.is_pinned()) };
        let (_, raw) = match at {
            Some(at) => blocks.remove(at),
            None => blocks.pop_back(),
        }?;
        self.bytes -= raw.bytes();
        Some(raw)
    }

    /// Takes the block that was freed first.
    fn oldest(&mut self) -> Option<Raw> {
        let first = |blocks: &VecDeque<(u64, Raw)>| blocks.front().map_or(u64::MAX, |(turn, _)| *turn);
        let (_, blocks) = self.classes.iter_mut().min_by_key(|(_, blocks)| first(blocks))?;
        let (_, raw) = blocks.pop_front()?;
        self.bytes -= raw.bytes();
        Some(raw)
    }
}

struct Raw {
    address: *mut u8,
    layout: Layout,
    /// The ordinal of the device whose driver has locked the pages; `UNPINNED` if none.
    pinned: AtomicU32,
}

const UNPINNED: u32 = u32::MAX;

// SAFETY: plain memory, which any thread may free.
unsafe impl Send for Raw {}

/// How a backend locks pages of host memory, so that its driver transfers them directly.
pub struct PageLock {
    /// Arguments: device ordinal, address, bytes. Returns false if the driver cannot lock them.
    pub pin: fn(u32, *mut u8, usize) -> bool,
    pub unpin: fn(u32, *mut u8),
}

static PAGE_LOCK: OnceLock<PageLock> = OnceLock::new();

/// Called by a backend before it opens its first device.
pub fn set_page_lock(lock: PageLock) {
    let _ = PAGE_LOCK.set(lock);
}

impl Raw {
    fn fresh(bytes: usize) -> Option<Raw> {
        // page-aligned if it may be page-locked
        let align = match bytes {
            _ if bytes >= 2 * HUGE_PAGE => HUGE_PAGE,
            PAGES.. => 4096,
            _ => 64,
        };
        let layout = Layout::from_size_align(bytes, align).ok()?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc(layout) };
        if address.is_null() {
            return None;
        }
        if align == HUGE_PAGE {
            advise_huge(address, bytes);
        }
        Some(Raw { address, layout, pinned: AtomicU32::new(UNPINNED) })
    }

    fn bytes(&self) -> u64 {
        self.layout.size() as u64
    }

    fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Relaxed) != UNPINNED
    }

    /// Locks the pages, if the limit allows it and the driver can.
    fn pin(&self, ordinal: u32) {
        let limit = memory::pinned_limit(memory::machine() / 4).unwrap_or(0);
        if !self.is_pinned()
            && PINNED.load(Ordering::Relaxed).saturating_add(self.bytes()) <= limit
            && PAGE_LOCK.get().is_some_and(|lock| (lock.pin)(ordinal, self.address, self.layout.size()))
        {
            self.pinned.store(ordinal, Ordering::Relaxed);
            PINNED.fetch_add(self.bytes(), Ordering::Relaxed);
        }
    }

    fn unpin(&self) {
        let ordinal = self.pinned.swap(UNPINNED, Ordering::Relaxed);
        if ordinal != UNPINNED {
            if let Some(lock) = PAGE_LOCK.get() {
                (lock.unpin)(ordinal, self.address);
            }
            PINNED.fetch_sub(self.bytes(), Ordering::Relaxed);
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.unpin();
        // SAFETY: `Raw::fresh` allocated it with this layout, and it is freed once.
        unsafe { dealloc(self.address, self.layout) }
    }
}

/// The size of the block for an allocation: rounded up to eight steps an octave, so that blocks can serve allocations
/// of similar sizes. Pages beyond the requested bytes are never touched.
fn class(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 16).max(64);
    bytes.div_ceil(step) * step
}

/// A block of host memory. Dropping it keeps the memory for reuse.
pub struct Block {
    raw: Option<Raw>,
}

// SAFETY: the block only exposes the address of its memory.
unsafe impl Sync for Block {}

impl Block {
    /// Uninitialised memory that `device` will write or read, aligned to 64 bytes.
    ///
    /// # Errors
    /// `Memory` if the system has none left.
    pub fn new(bytes: usize, device: Device) -> Result<Block> {
        if bytes < LARGE {
            return Raw::fresh(bytes.max(16)).map(|raw| Block { raw: Some(raw) }).ok_or_else(|| refusal(bytes));
        }
        let size = class(bytes);
        if let Device::Cuda(_) = device {
            let most = memory::pinned_limit(memory::machine() / 4)?.min(memory::machine() / 8);
            FOR_CUDA.store(most, Ordering::Relaxed);
        }
        let asked = ASKED.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
        if let Some(raw) = kept().take(size) {
            match device {
                Device::Cuda(ordinal) if size >= PAGES => raw.pin(ordinal),
                _ => {}
            }
            return Ok(Block { raw: Some(raw) });
        }
        let missed = FRESH.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
        if asked >= LIKELY && missed >= MISSED {
            memory::request_gc();
        }
        let fresh = || Raw::fresh(size);
        fresh()
            .or_else(|| {
                trim();
                fresh()
            })
            .or_else(|| {
                memory::collect(Collect::Full);
                trim();
                fresh()
            })
            .map(|raw| Block { raw: Some(raw) })
            .ok_or_else(|| refusal(bytes))
    }

    /// Zeroed memory; page-locked for a CUDA device, ordinary memory for the cpu device.
    ///
    /// # Errors
    /// `Memory` if the limit of page-locked memory would be exceeded, or the system refuses to lock this much.
    pub fn page_locked(bytes: usize, device: Device) -> Result<Block> {
        let Device::Cuda(ordinal) = device else {
            let block = Block::new(bytes, device)?;
            clear(block.start(), bytes)?;
            return Ok(block);
        };
        let block = Block::new(bytes.max(PAGES), device)?;
        // Several threads fault fresh pages in faster than the driver does.
        clear(block.start(), bytes)?;
        let Some(raw) = block.raw.as_ref() else { return Ok(block) };
        raw.pin(ordinal);
        if raw.is_pinned() {
            return Ok(block);
        }
        // Kept blocks may be page-locked too; free them.
        trim();
        raw.pin(ordinal);
        if raw.is_pinned() {
            return Ok(block);
        }
        let limit = memory::pinned_limit(memory::machine() / 4)?;
        let held = PINNED.load(Ordering::Relaxed);
        Err(if held.saturating_add(raw.bytes()) > limit {
            Error::new(
                Kind::Memory,
                format!(
                    "at most {} may be page-locked; {} are, and {} are requested",
                    human(limit),
                    human(held),
                    human(raw.bytes())
                ),
            )
            .advise("Option `verdigris.pinned_limit` sets the limit, in bytes; `gpu_free(x)` unlocks a pinned vector.")
        } else {
            Error::new(Kind::Memory, format!("the driver cannot lock {} of the host's memory", human(raw.bytes())))
                .advise("`ulimit -l` shows how much a process may lock.")
        })
    }

    /// Unlocks the pages; the memory stays.
    pub fn unlock(&self) {
        if let Some(raw) = &self.raw {
            raw.unpin();
        }
    }

    pub fn start(&self) -> *mut u8 {
        self.raw.as_ref().map_or(std::ptr::null_mut(), |raw| raw.address)
    }

    /// Bytes of the block: at least those requested.
    pub fn capacity(&self) -> usize {
        self.raw.as_ref().map_or(0, |raw| raw.layout.size())
    }

    pub fn is_pinned(&self) -> bool {
        self.raw.as_ref().is_some_and(Raw::is_pinned)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        let most = FOR_CUDA.load(Ordering::Relaxed).max(MOST_BYTES).max(memory::machine() / 16);
        if raw.layout.size() < LARGE || raw.bytes() > most {
            return;
        }
        let mut dropped = Vec::new(); // freed after the lock is released
        let mut blocks = kept();
        blocks.keep(raw);
        while blocks.bytes > most {
            let Some(oldest) = blocks.oldest() else { break };
            dropped.push(oldest);
        }
        drop(blocks);
    }
}

/// Clears memory, on several threads if it is large.
fn clear(start: *mut u8, bytes: usize) -> Result<()> {
    let start = Shared(start);
    parallel::parallel(bytes, 4 << 20, |from, to| {
        // SAFETY: within the memory, and each thread has a part of its own.
        unsafe { start.at(from).write_bytes(0, to - from) };
    })
}

#[cold]
pub fn refusal(bytes: usize) -> Error {
    Error::new(Kind::Memory, format!("the host cannot allocate {}", human(bytes as u64)))
        .advise("Free vectors with `rm()` and `gc()`, or reduce or subset the array on the device first.")
        .advise("Or work on the data in pieces with `gpu_chunked()`.")
}

/// Whether a block of this size could be taken from the kept ones.
pub fn has_kept(bytes: usize) -> bool {
    bytes >= LARGE && kept().classes.get(&class(bytes)).is_some_and(|blocks| !blocks.is_empty())
}

/// Bytes kept for reuse.
pub fn cached() -> u64 {
    kept().bytes
}

/// Bytes of blocks allocated since the last collection, and of those among them that needed fresh pages.
pub fn asked() -> (u64, u64) {
    (ASKED.load(Ordering::Relaxed), FRESH.load(Ordering::Relaxed))
}

/// Resets the counts of `asked` after a garbage collection.
pub fn collected() {
    ASKED.store(0, Ordering::Relaxed);
    FRESH.store(0, Ordering::Relaxed);
}

/// Bytes that are page-locked, in use or kept.
pub fn pinned() -> u64 {
    PINNED.load(Ordering::Relaxed)
}

/// Frees all kept memory.
pub fn trim() {
    let mut blocks = kept();
    blocks.bytes = 0;
    let dropped = std::mem::take(&mut blocks.classes);
    drop(blocks);
    drop(dropped); // freed after the lock is released
}

#[cfg(target_os = "linux")]
fn advise_huge(address: *mut u8, bytes: usize) {
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
    }
    const MADV_HUGEPAGE: i32 = 14;
    // SAFETY: the range consists of whole pages of the block; a failure has no effect.
    unsafe { madvise(address.cast(), bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: *mut u8, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_serves_the_next_of_its_class() {
        let block = Block::new(3 * LARGE + 7, Device::Cpu).unwrap();
        let address = block.start();
        assert!(block.capacity() >= 3 * LARGE + 7);
        drop(block);
        assert!(cached() >= 3 * LARGE as u64);
        assert!(has_kept(3 * LARGE + 1));
        let again = Block::new(3 * LARGE + 1, Device::Cpu).unwrap();
        assert_eq!(again.start(), address);
    }

    #[test]
    fn classes_waste_an_eighth_at_most() {
        for bytes in [LARGE, LARGE + 1, 3 * LARGE - 5, 800_000_000, (1 << 33) + 1] {
            let size = class(bytes);
            assert!(size >= bytes && size - bytes <= bytes / 8, "{bytes} {size}");
            assert_eq!(class(size), size);
        }
    }
}
