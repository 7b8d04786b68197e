//! The cpu device: plans evaluated in blocks that stay in cache, on all cores.
//!
//! Arithmetic is in the compiled loops of the operation table; this folder only drives them.

mod blocks;
mod loops;
mod memory;
mod parallel;
mod reduce;
mod scan;
mod select;
mod sort;

pub(crate) use select::na_bytes;

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::OnceLock;

use super::{Backend, Memory, Outcome, Product};
use crate::buffer::{Buffer, Device, View};
use crate::counters;
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::{Bound, Plan};
use crate::reduction::{Groups, Reduction};
use crate::scan::Scan;

struct Cpu;

pub fn backend() -> &'static dyn Backend {
    &Cpu
}

/// Whether the thread pool can be used: not in a forked child, where its threads are gone.
pub(crate) fn threads_usable() -> bool {
    static HOME: OnceLock<u32> = OnceLock::new();
    *HOME.get_or_init(std::process::id) == std::process::id()
}

/// A buffer's memory as bytes.
///
/// # Safety
/// The buffer must be on the cpu, and no one may write the part meanwhile.
pub(super) unsafe fn bytes(buffer: &Buffer, from: usize, len: usize) -> &[u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; the range is checked against the buffer.
    unsafe { std::slice::from_raw_parts((buffer.address as *const u8).add(check(buffer, from, len)), len) }
}

/// As `bytes`, to write.
///
/// # Safety
/// The buffer must be on the cpu, and no one may use the part meanwhile.
#[allow(clippy::mut_from_ref)]
pub(super) unsafe fn bytes_mut(buffer: &Buffer, from: usize, len: usize) -> &mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise; the range is checked against the buffer.
    unsafe { std::slice::from_raw_parts_mut((buffer.address as *mut u8).add(check(buffer, from, len)), len) }
}

fn check(buffer: &Buffer, from: usize, len: usize) -> usize {
    assert!(from + len <= buffer.bytes, "a copy stays within its buffer");
    from
}

impl Backend for Cpu {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Ok(Arc::new(Buffer::new(Device::Cpu, 0, 0, Box::new(()))));
        }
        let block = memory::Block::new(bytes)?;
        Ok(Arc::new(Buffer::new(Device::Cpu, block.address(), bytes, Box::new(block))))
    }

    fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()> {
        counters::BYTES_UP.add(source.len() as u64);
        // SAFETY: a buffer is written before anyone else sees it.
        unsafe { bytes_mut(target, offset, source.len()) }.copy_from_slice(source);
        Ok(())
    }

    fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()> {
        counters::BYTES_DOWN.add(target.len() as u64);
        // SAFETY: a finished buffer is not written.
        target.copy_from_slice(unsafe { bytes(source, offset, target.len()) });
        Ok(())
    }

    fn copy(&self, source: &Buffer, from: usize, target: &Buffer, to: usize, len: usize) -> Result<()> {
        // SAFETY: as for upload and download; the two are different buffers.
        unsafe { bytes_mut(target, to, len).copy_from_slice(bytes(source, from, len)) };
        Ok(())
    }

    fn run(&self, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
        #[cfg(not(target_os = "macos"))]
        super::trace::elementwise(plan);
        counters::LAUNCHES.add(1);
        blocks::run(plan, bound, outputs);
        Ok(())
    }

    fn reduce(&self, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
        #[cfg(not(target_os = "macos"))]
        super::trace::reduction(plan, reduction, na_rm, Groups::whole(bound.n));
        counters::LAUNCHES.add(1);
        let mut value = [0u8; 32];
        let status = reduce::groups(plan, bound, reduction, na_rm, Groups::whole(bound.n), &mut value);
        Ok(Outcome { value, status })
    }

    fn reduce_groups(
        &self,
        plan: &Plan,
        bound: &Bound,
        reduction: Reduction,
        na_rm: bool,
        groups: Groups,
        output: &Arc<Buffer>,
    ) -> Result<()> {
        #[cfg(not(target_os = "macos"))]
        super::trace::reduction(plan, reduction, na_rm, groups);
        counters::LAUNCHES.add(1);
        // SAFETY: the output is written before anyone else sees it.
        let out = unsafe { bytes_mut(output, 0, output.bytes) };
        reduce::groups(plan, bound, reduction, na_rm, groups, out);
        Ok(())
    }

    fn scan(&self, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<u32> {
        #[cfg(not(target_os = "macos"))]
        super::trace::scan(plan, scan);
        // SAFETY: the output is written before anyone else sees it.
        Ok(scan::run(plan, bound, scan, unsafe { bytes_mut(output, 0, output.bytes) }))
    }

    fn gather(&self, source: &View, positions: &View, output: &Arc<Buffer>) -> Result<()> {
        select::gather(source, positions, output);
        Ok(())
    }

    fn scatter(&self, target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) -> Result<()> {
        select::scatter(target, dtype, n, positions, values);
        Ok(())
    }

    fn positions(&self, mask: &View, keep_na: bool) -> Result<View> {
        let at = select::positions(mask, keep_na);
        let buffer = self.allocate(at.len() * 8)?;
        // SAFETY: i64 may be read as bytes.
        let raw = unsafe { std::slice::from_raw_parts(at.as_ptr().cast::<u8>(), at.len() * 8) };
        self.upload(raw, &buffer, 0)?;
        Ok(View::contiguous(buffer, DType::Int64, at.len()))
    }

    fn sort(&self, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
        sort::sort(self, values, decreasing, with_positions)
    }

    fn multiply(&self, _: &Product<'_>, _: &Arc<Buffer>) -> Result<bool> {
        // R links the BLAS that its owner chose; the bridge uses that one
        Ok(false)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> Result<Memory> {
        Ok(Memory { live: memory::LIVE.load(Ordering::Relaxed), cached: memory::cached(), free: 0, total: 0 })
    }

    fn trim(&self) -> Result<()> {
        memory::trim();
        Ok(())
    }
}
