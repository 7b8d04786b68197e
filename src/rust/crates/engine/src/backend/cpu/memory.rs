//! Memory of the cpu device: buffers from the host pool, counted against the device's limit, and scratch memory of
//! computations.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::memory::buffer::{Buffer, Device};
use crate::memory::host_pool::{self, Block};
use crate::memory::staging::Shared;
use crate::memory::{self, Held, Source};
use verdigris_ops::error::Result;
use verdigris_ops::interrupt::parts;
use verdigris_ops::parallel::parallel_if;

/// A block that counts as the device's while it lives.
struct Owned {
    _block: Block,
    _held: Held,
}

struct Host;

/// From this size on, the available memory is checked first: the system overcommits, and later kills the process that
/// uses the memory.
const ASKED: usize = 1 << 30;

impl Source for Host {
    fn take(&self, bytes: usize) -> Result<Option<u64>> {
        if bytes >= ASKED && !host_pool::has_kept(bytes) && self.left().is_some_and(|left| left < bytes as u64) {
            return Ok(None);
        }
        // The address of the boxed `Block`, not of its memory; `allocate` takes ownership of it.
        Ok(Some(Box::into_raw(Box::new(Block::new(bytes, Device::Cpu)?)) as u64))
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self) -> Result<()> {
        host_pool::trim();
        Ok(())
    }

    fn device(&self) -> Device {
        Device::Cpu
    }

    fn total(&self) -> u64 {
        memory::machine()
    }

    fn cached(&self) -> u64 {
        host_pool::cached()
    }

    fn left(&self) -> Option<u64> {
        memory::available()
    }
}

/// A new buffer, not initialised.
pub fn allocate(bytes: usize) -> Result<Arc<Buffer>> {
    if bytes == 0 {
        return Ok(Arc::new(Buffer::new(Device::Cpu, 0, 0, Box::new(()))));
    }
    // SAFETY: `Host::take` made it by Box::into_raw, for this call alone.
    let block = unsafe { *Box::from_raw(memory::obtain(&Host, bytes)? as *mut Block) };
    let address = block.start() as u64;
    let owner = Owned { _block: block, _held: Held::new(Device::Cpu, bytes as u64) };
    Ok(Arc::new(Buffer::new(Device::Cpu, address, bytes, Box::new(owner))))
}

/// Bytes that one task clears.
const CLEARED: usize = 1 << 20;

/// Fills a buffer with zeros, which are zero bytes in all types.
pub fn clear(output: &Buffer, bytes: usize) -> Result<()> {
    let start = Shared(output.address as *mut u8);
    parallel_if(bytes, CLEARED, bytes > 4 * CLEARED, |from, to| {
        // SAFETY: the buffer has this many bytes, and no other task has this part.
        unsafe {
            let to_write = start.at(from);
            fetched(to_write, to - from).for_each(|(at, size)| to_write.add(at).write_bytes(0, size));
        }
    })
}

/// Buffers from this size on are probably in no cache: R collects garbage late, and a block is reused after many
/// others.
pub const FAR: usize = 1 << 19;

/// Prefetches memory that is about to be written. A simple loop waits for each cache line that is in no cache: the
/// processor reads a line before it changes it, and prefetches less far ahead for writes than for reads.
pub fn fetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(LINE) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a prefetch may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// The parts (offset, bytes) in which memory is copied or cleared. Each part is prefetched just before it is yielded; a
/// single part if that does not pay.
pub fn fetched(start: *const u8, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let (far, part) = if bytes >= FAR { (true, FETCHED) } else { (false, bytes.max(1)) };
    (0..bytes).step_by(part).map(move |at| {
        let size = part.min(bytes - at);
        if far {
            fetch(start.wrapping_add(at), size);
        }
        (at, size)
    })
}

/// Bytes that are prefetched at a time. Larger parts would leave the first-level cache before they are written.
const FETCHED: usize = 1 << 11;

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// A vector for a computation's temporary values, in a block of the host pool that the next computation reuses: a large
/// `Vec` would take fresh pages from the system each time.
pub struct ScratchVec<T> {
    block: Block,
    most: usize,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> ScratchVec<T> {
    /// Empty, with capacity for `most`.
    ///
    /// # Errors
    /// `Memory`.
    pub fn new(most: usize) -> Result<ScratchVec<T>> {
        assert!(align_of::<T>() <= 64, "blocks are aligned to 64 bytes");
        Ok(ScratchVec { block: Block::new(most * size_of::<T>(), Device::Cpu)?, most, len: 0, of: PhantomData })
    }

    /// A vector with capacity for `most`, filled with these items.
    ///
    /// # Errors
    /// `Memory`, `Interrupt`.
    pub fn of(most: usize, items: impl Iterator<Item = T>) -> Result<ScratchVec<T>> {
        let mut scratch = ScratchVec::new(most)?;
        let (mut len, mut items) = (0, items);
        for part in parts(most) {
            for (slot, item) in scratch.slots()[part?].iter_mut().zip(items.by_ref()) {
                slot.write(item);
                len += 1;
            }
        }
        scratch.len = len;
        Ok(scratch)
    }

    /// All slots, written or not.
    pub fn slots(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: the block has space for this many, is aligned, and belongs to this value alone.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().cast(), self.most) }
    }

    /// # Safety
    /// The first `len` slots have been written.
    pub unsafe fn set_len(&mut self, len: usize) {
        self.len = len.min(self.most);
    }
}

impl<T> Deref for ScratchVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` slots were written; the block is aligned.
        unsafe { std::slice::from_raw_parts(self.block.start().cast(), self.len) }
    }
}

impl<T> DerefMut for ScratchVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_left_is_not_taken() {
        if cfg!(target_os = "linux") {
            assert_eq!(Host.take(1 << 46).unwrap(), None);
        }
    }
}
