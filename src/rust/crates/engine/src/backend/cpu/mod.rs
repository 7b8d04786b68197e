//! The cpu device: plans evaluated in blocks that stay in cache, on all cores.
//!
//! The arithmetic is in the compiled loops of the operation table; this folder only drives them.

mod accumulators;
mod assign;
mod basis;
pub mod blas;
mod blocks;
mod counting_sort;
mod dense;
mod fourier;
mod gather;
mod gram;
mod grouped;
mod memory;
mod multiply;
mod ranks;
mod reading;
mod reduce;
mod reduce_tree;
pub mod routine;
mod scan;
mod segments;
mod sort;
mod sort_keys;
mod unique;
mod walk;

pub(crate) use assign::set;
pub(crate) use gather::{join_rows, take_axes};

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::basis::BasisStep;
use super::dense::{BatchedFactoring, Multiplied, Product};
use super::fourier::Transform;
use super::gram::Gram;
use super::segments::{Order, Sampled, Segments, Sparse, SparseProduct, Transposed, TriangularSystem};
use super::{Backend, Base, Memory, Outcome, Ranked};
use crate::backend::span;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::counters;
use crate::memory::host_pool;
use crate::memory::staging::{AsyncUpload, CompletedUpload, Shared, UploadSource};
use crate::plan::{Bound, Plan};
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::loops::convert::Converter;
use verdigris_ops::parallel::parallel;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scan::Scan;
use verdigris_ops::table::Rule;
use verdigris_ops::OpId;

struct Cpu;

pub fn backend() -> &'static dyn Backend {
    &Cpu
}

/// A buffer's memory as bytes.
///
/// # Safety
/// The buffer must be on the cpu device, and no one may write this part meanwhile.
pub(super) unsafe fn bytes(buffer: &Buffer, from: usize, len: usize) -> &[u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; the range is checked against the buffer.
    unsafe { std::slice::from_raw_parts((buffer.address as *const u8).add(check(buffer, from, len)), len) }
}

/// A buffer's memory as writable bytes.
///
/// # Safety
/// The buffer must be on the cpu device, and no one else may use this part meanwhile.
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

/// Bytes, or elements, that one task copies.
const PIECE: usize = 1 << 20;

/// Copies the bytes that both slices have, on all cores where that pays.
fn move_bytes(source: &[u8], target: &mut [u8]) -> Result<()> {
    let out = Shared(target.as_mut_ptr());
    parallel(source.len().min(target.len()), PIECE, |from, to| {
        // SAFETY: within both, which do not overlap, and no other task has this part.
        unsafe {
            let (to_read, to_write) = (source.as_ptr().add(from), out.at(from));
            let copy = |(at, size)| std::ptr::copy_nonoverlapping(to_read.add(at), to_write.add(at), size);
            memory::fetched(to_write, to - from).for_each(copy);
        }
    })
}

impl Backend for Cpu {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>> {
        memory::allocate(bytes)
    }

    fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()> {
        counters::BYTES_UP.add(source.len() as u64);
        // SAFETY: a buffer is written before anyone else sees it.
        move_bytes(source, unsafe { bytes_mut(target, offset, source.len()) })
    }

    fn upload_as(&self, source: &[u8], wire: DType, target: &Buffer, dtype: DType) -> Result<Option<u32>> {
        let Some(converter) = Converter::new(wire, dtype) else { return Ok(None) };
        let n = source.len() / converter.from;
        counters::BYTES_UP.add((n * converter.to) as u64);
        // SAFETY: a buffer is written before anyone else sees it.
        let out = Shared(unsafe { bytes_mut(target, 0, n * converter.to) }.as_mut_ptr());
        let bits = AtomicU32::new(0);
        parallel(n, PIECE, |from, to| {
            // SAFETY: within both, and no other task has this part.
            let found = unsafe {
                let to_write = out.at(from * converter.to);
                converter.run(source.as_ptr().add(from * converter.from), to_write, to - from)
            };
            bits.fetch_or(found, Ordering::Relaxed);
        })?;
        Ok(Some(bits.into_inner()))
    }

    unsafe fn upload_ahead(
        &'static self,
        source: UploadSource,
        convert: Option<(DType, DType)>,
    ) -> Result<Box<dyn AsyncUpload>> {
        let converter = convert.and_then(|(wire, dtype)| Converter::new(wire, dtype));
        let source = match converter {
            Some(converter) => source.converted(converter),
            None => source,
        };
        let buffer = self.allocate(source.bytes())?;
        // SAFETY: a buffer is written before anyone else sees it.
        let out = Shared(unsafe { bytes_mut(&buffer, 0, source.bytes()) }.as_mut_ptr());
        if source.stop().is_some() {
            return reading::start(source, buffer, out);
        }
        let bits = AtomicU32::new(0);
        // A background thread would gain nothing: the copy already uses all cores.
        parallel(source.bytes(), PIECE, |from, to| {
            // SAFETY: within the buffer, and no other task has this part; pieces are whole elements.
            if let Ok(found) = unsafe { source.fill(from, to - from, out.at(from)) } {
                bits.fetch_or(found, Ordering::Relaxed);
            }
        })?;
        Ok(Box::new(CompletedUpload(buffer, bits.into_inner())))
    }

    fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()> {
        counters::BYTES_DOWN.add(target.len() as u64);
        // SAFETY: a finished buffer is not written.
        move_bytes(unsafe { bytes(source, offset, target.len()) }, target)
    }

    fn copy(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, to: usize, len: usize) -> Result<()> {
        // SAFETY: as for upload and download; the two are different buffers.
        move_bytes(unsafe { bytes(source, from, len) }, unsafe { bytes_mut(target, to, len) })
    }

    fn run(&self, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
        #[cfg(not(target_os = "macos"))]
        super::trace::elementwise(plan);
        counters::LAUNCHES.add(1);
        let _span = span::on_host(|| plan.key());
        blocks::run(plan, bound, outputs)
    }

    fn put(&self, plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<bool> {
        #[cfg(not(target_os = "macos"))]
        super::trace::elementwise(plan);
        counters::LAUNCHES.add(1);
        let _span = span::on_host(|| plan.key());
        assign::put(plan, bound, part, base).map(|()| true)
    }

    fn reduce(&self, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
        #[cfg(not(target_os = "macos"))]
        super::trace::reduction(plan, reduction, na_rm, Groups::whole(bound.n));
        counters::LAUNCHES.add(1);
        let _span = span::on_host(|| format!("{} of {}", reduction.name(), plan.key()));
        let mut value = [0u8; 32];
        let status = reduce::groups(plan, bound, reduction, na_rm, Groups::whole(bound.n), &mut value)?;
        Ok(Outcome { value, status })
    }

    fn reduce_groups(
        &self,
        plan: &Plan,
        bound: &Bound,
        reduction: Reduction,
        na_rm: bool,
        groups: Groups,
        outputs: &[Arc<Buffer>],
    ) -> Result<()> {
        #[cfg(not(target_os = "macos"))]
        super::trace::reduction(plan, reduction, na_rm, groups);
        counters::LAUNCHES.add(1);
        let _span = span::on_host(|| format!("{} of {}", reduction.name(), plan.key()));
        let into = |output: &Arc<Buffer>| {
            // SAFETY: the output is written before anyone else sees it.
            let out = unsafe { bytes_mut(output, 0, output.bytes) };
            reduce::groups(plan, bound, reduction, na_rm, groups, out).map(|_| ())
        };
        match plan.epilogue.as_ref().zip(bound.epilogue.as_ref()) {
            None => into(&outputs[0]),
            Some((after, given)) => {
                let (outputs, results) = match outputs {
                    [outputs @ .., results] if after.over_elements => (outputs, results.clone()),
                    _ => (outputs, self.allocate(after.results_size(groups))?),
                };
                into(&results)?;
                blocks::run(&after.plan, &given.with(after.results, results), outputs)
            }
        }
    }

    fn scan(&self, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<bool> {
        #[cfg(not(target_os = "macos"))]
        super::trace::scan(plan, scan);
        let _span = span::on_host(|| format!("{} of {}", scan.name(), plan.key()));
        // SAFETY: the output is written before anyone else sees it.
        scan::run(plan, bound, scan, unsafe { bytes_mut(output, 0, output.bytes) })
    }

    fn scatter(&self, target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) -> Result<()> {
        let _span = span::on_host(|| "scatter".into());
        gather::scatter(target, dtype, n, positions, values);
        Ok(())
    }

    fn mask(&self, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
        #[cfg(not(target_os = "macos"))]
        super::trace::mask(plan, keep_na);
        let _span = span::on_host(|| format!("subset of {}", plan.key()));
        gather::mask(self, plan, bound, keep_na)
    }

    fn sort(&self, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
        let _span = span::on_host(|| "sort".into());
        sort::sort(self, values, decreasing, with_positions)
    }

    fn order(&self, values: &View, decreasing: bool) -> Result<Option<View>> {
        sort::order(self, values, decreasing).map(Some)
    }

    fn count_bins(&self, values: &View, low: i64, bins: usize) -> Result<Arc<Buffer>> {
        let out = self.allocate((bins + 1) * 8)?;
        // SAFETY: the output is written before anyone else sees it; buffers are aligned to 64 bytes.
        let counts = unsafe { std::slice::from_raw_parts_mut(out.address as *mut i64, bins + 1) };
        grouped::count(values, low, bins, counts)?;
        Ok(out)
    }

    fn reduce_coded(
        &self,
        values: &View,
        codes: &View,
        groups: usize,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Arc<Buffer>>> {
        let columns = values.len().checked_div(codes.len()).unwrap_or(1);
        let out = self.allocate(columns * groups * reduction.result(values.dtype.class()).size())?;
        // SAFETY: the output is written before anyone else sees it.
        grouped::reduce(values, codes, groups, reduction, na_rm, unsafe { bytes_mut(&out, 0, out.bytes) })?;
        Ok(Some(out))
    }

    fn ranks(&self, values: &View, ranks: &[usize]) -> Result<Option<Ranked>> {
        ranks::ranks(self, values, ranks)
    }

    fn matches(&self, values: &View, table: &View) -> Result<Option<Arc<Buffer>>> {
        if table.len() > i32::MAX as usize {
            return Ok(None);
        }
        let out = self.allocate(values.len() * 4)?;
        unique::matches(values, table, &out)?;
        Ok(Some(out))
    }

    fn firsts(&self, values: &View, _between: Option<(i64, i64)>) -> Result<Option<View>> {
        if values.len() > i32::MAX as usize {
            return Ok(None);
        }
        let positions = unique::firsts(values)?;
        let out = self.allocate(positions.len() * 4)?;
        self.upload(sort_keys::bytes_of(&positions), &out, 0)?;
        Ok(Some(View::contiguous(out, DType::Int32, positions.len())))
    }

    fn search(&self, values: &View, table: &View, strictly: bool) -> Result<Arc<Buffer>> {
        let out = self.allocate(values.len() * 4)?;
        grouped::search(values, table, strictly, &out)?;
        Ok(out)
    }

    fn keeps_at_once(&self, row: OpId, bytes: usize) -> bool {
        // Shorter results take less time to compute than to store, and longer ones leave the cache.
        (32 << 10..=1 << 20).contains(&bytes) && row.row().rule != Rule::Source && !row.is_plain()
    }

    fn multiply(&self, product: &Product<'_>, output: &Arc<Buffer>) -> Result<Multiplied> {
        Ok(if multiply::multiply(product, output)? { Multiplied::Whole } else { Multiplied::Nothing })
    }

    fn serves_batch(&self, factoring: Factoring, m: usize, n: usize) -> bool {
        dense::takes(factoring, m, n)
    }

    fn factor_batch(&self, batch: &BatchedFactoring<'_>) -> Result<Option<usize>> {
        let _span = span::on_host(|| format!("{} {:?} of {} x {}", batch.count, batch.factoring, batch.m, batch.n));
        dense::factor_batch(batch)
    }

    fn fourier(&self, transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()> {
        let _span = span::on_host(|| "Fourier transform".into());
        fourier::run(transform, input, output)
    }

    fn segment_order(&self, _: &Sparse<'_>, _: usize) -> Result<Order> {
        Ok(Order::ByRows)
    }

    fn segment_products(
        &self,
        a: &Sparse<'_>,
        b: &View,
        _: Order,
        columns: usize,
        output: &Arc<Buffer>,
    ) -> Result<Order> {
        let _span = span::on_host(|| "sparse product".into());
        segments::products(a, b, columns, output).map(|()| Order::ByColumns)
    }

    fn segment_reduce(
        &self,
        segments: &Segments<'_>,
        values: &View,
        reduction: Reduction,
        na_rm: bool,
        output: &Arc<Buffer>,
    ) -> Result<()> {
        let _span = span::on_host(|| format!("{} of segments", reduction.name()));
        // SAFETY: the output is written before anyone else sees it.
        segments::reduce(segments, values, reduction, na_rm, unsafe { bytes_mut(output, 0, output.bytes) })
    }

    fn segment_expand(&self, segments: &Segments<'_>, output: &Arc<Buffer>) -> Result<()> {
        segments::expand(segments, output)
    }

    fn segment_transpose(&self, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Transposed> {
        let _span = span::on_host(|| "sparse transpose".into());
        segments::transpose(self, segments, positions, extent)
    }

    fn segment_multiply(&self, a: &Sparse<'_>, b: &Sparse<'_>, dtype: DType) -> Result<SparseProduct> {
        let _span = span::on_host(|| "product of sparse matrices".into());
        segments::multiply(self, a, b, dtype)
    }

    fn segment_sampled(&self, job: &Sampled<'_>, output: &Arc<Buffer>) -> Result<()> {
        let _span = span::on_host(|| "sampled product".into());
        segments::sampled(job, output)
    }

    fn segment_solve(&self, job: &TriangularSystem<'_>, output: &Arc<Buffer>) -> Result<()> {
        let _span = span::on_host(|| "sparse triangular solve".into());
        segments::solve(job, output)
    }

    fn extend_basis(&self, job: &BasisStep<'_>) -> Result<()> {
        let _span = span::on_host(|| "basis".into());
        basis::extend(job)
    }

    fn gram(&self, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool> {
        let _span = span::on_host(|| "cross products".into());
        gram::gram(job, output).map(|()| true)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> Result<Memory> {
        let total = crate::memory::machine();
        let limit = crate::memory::refresh_limit(Device::Cpu, total)?;
        Ok(Memory {
            live: crate::memory::account(Device::Cpu).live(),
            cached: host_pool::cached(),
            limit,
            free: 0,
            total: 0,
        })
    }

    fn trim(&self) -> Result<()> {
        host_pool::trim();
        Ok(())
    }
}
