//! What a reduction on the cpu device reduces, and the accumulators into which it does.

use std::ffi::c_void;

use super::blocks::Schedule;
use crate::memory::buffer::Device;
use crate::memory::fallible;
use crate::memory::host_pool::Block;
use crate::memory::staging::Shared;
use verdigris_ops::error::Result;
use verdigris_ops::loops::Folding;
use verdigris_ops::loops::BLOCK;
use verdigris_ops::reduction::Groups;

/// Accumulators in a row, as raw memory that is aligned for any of them.
pub(super) struct Accumulators {
    memory: Block,
    size: usize,
}

impl Accumulators {
    /// # Errors
    /// `Memory`.
    pub fn new(f: &Folding, n: usize) -> Result<Accumulators> {
        // SAFETY: reports a size.
        let size = unsafe { (f.size)() } as usize;
        let bytes = fallible::product([n, size])?;
        let mut a = Accumulators { memory: Block::new(bytes, Device::Cpu)?, size };
        for from in (0..n).step_by(BLOCK) {
            // SAFETY: there is room for n accumulators.
            unsafe { (f.start)(a.at(from), BLOCK.min(n - from) as i32) };
        }
        Ok(a)
    }

    pub fn at(&mut self, k: usize) -> *mut c_void {
        // SAFETY: k is within the accumulators that `new` made room for.
        unsafe { self.memory.start().add(k * self.size).cast() }
    }

    /// Bytes of one.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Merges `count` parts of n accumulators each into the first: pairwise, by bit 0 of their numbers first. Part 0 is
    /// at `first`, and each `stride` accumulators behind the one before it.
    pub fn merge_pairwise(&mut self, f: &Folding, first: usize, count: usize, stride: usize, n: usize) {
        let mut by = 1;
        while by < count {
            for k in (0..count - by).step_by(2 * by) {
                let (low, high) = (self.at(first + k * stride), self.at(first + (k + by) * stride));
                // SAFETY: both are n accumulators of this kind.
                unsafe { (f.merge)(low, high, n as i32) };
            }
            by *= 2;
        }
    }

    /// For tasks that have some of the accumulators each to themselves.
    pub fn shared(&mut self) -> Shared {
        Shared(self.memory.start())
    }
}

/// What is reduced, and how.
pub(super) struct Job<'a> {
    pub schedule: &'a Schedule<'a>,
    pub f: &'a Folding,
    pub register: u16,
    pub na_rm: i32,
    pub groups: Groups,
}

impl Job<'_> {
    /// Whether it is worth more than one thread.
    pub fn is_worth(&self) -> bool {
        self.schedule.is_worth(self.groups.count() * self.groups.length)
    }
}
