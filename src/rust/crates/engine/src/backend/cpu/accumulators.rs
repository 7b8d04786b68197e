//! The accumulators of a reduction on the cpu device, and the description of a reduction.

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

/// An array of accumulators in raw memory, aligned for any kind of them.
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
            // SAFETY: there is space for n accumulators.
            unsafe { (f.start)(a.at(from), BLOCK.min(n - from) as i32) };
        }
        Ok(a)
    }

    pub fn at(&mut self, k: usize) -> *mut c_void {
        // SAFETY: k is within the accumulators that `new` allocated.
        unsafe { self.memory.start().add(k * self.size).cast() }
    }

    /// Bytes of one accumulator.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Merges `count` parts of n accumulators each into the first part, in pairs: neighbours first, then neighbours of
    /// the merged parts. Part 0 starts at `first`, and each part starts `stride` accumulators after the one before it.
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

    /// The memory, for tasks that each use a range of accumulators of their own.
    pub fn shared(&mut self) -> Shared {
        Shared(self.memory.start())
    }
}

/// A reduction: the plan, its accumulators' functions, and the groups.
pub(super) struct Job<'a> {
    pub schedule: &'a Schedule<'a>,
    pub f: &'a Folding,
    pub register: u16,
    pub na_rm: i32,
    pub groups: Groups,
}

impl Job<'_> {
    /// Whether the reduction is worth more than one thread.
    pub fn is_worth(&self) -> bool {
        self.schedule.is_worth(self.groups.count() * self.groups.length)
    }
}
