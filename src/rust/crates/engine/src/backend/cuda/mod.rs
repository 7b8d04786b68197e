//! CUDA devices.
//!
//! Each layer uses only those before it: [`driver`] (the libraries' functions, kernels and page-locked memory as the
//! driver knows them), [`codegen`] (CUDA C of plans), [`context`] (a device, its streams, memory and copies),
//! [`compile`] (from text to loaded kernels), [`launch`], [`interpret`] (plans that need no compiler), [`tiers`] (which
//! kernel runs a plan), `ops` (operations with kernels of their own, or a library's), [`prebuilt_list`] (the kernels in
//! the package), [`user`] (user-written kernels).

pub mod codegen;
pub mod compile;
pub mod context;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod differential_grouped;
#[cfg(test)]
mod differential_segments;
#[cfg(test)]
mod differential_tree;
pub mod driver;
pub mod interpret;
pub mod launch;
mod ops;
pub use ops::communicator;
pub use ops::preload::allow as preload_libraries;
pub mod prebuilt_list;
pub mod tiers;
pub mod user;

use std::sync::Arc;

use self::context::core::Core;
use self::context::device::Cuda;
use self::context::stream_state::LOST;
use self::context::{exchange, streams};
use self::ops::{
    basis, blas, dense, fourier, gather, gram, grouped, mask, product, rank, reduce, scan, search, segments,
    segments_multiply, solver, sort, store, unique,
};

use self::tiers::run;

use super::basis::BasisStep;
use super::dense::{BatchedFactoring, Multiplied, Product, Task};
use super::fourier::{Direction, Transform};
use super::gram::{Gram, PlannedGram};
use super::segments::{Order, Sampled, Segments, Sparse, SparseProduct, Transposed, TriangularSystem};
use super::streams::Streams;
use super::{Backend, Base, Deferred, Launch, Memory, Outcome, Ranked, Touching};
use crate::kernel::{Function, Module};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::staging::{AsyncUpload, UploadSource};
use crate::memory::Source;
use crate::plan::{Bound, Plan};
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scan::Scan;

/// The backend of a device.
///
/// # Errors
/// `Device`, `Library` or `Fork` if the device cannot be used.
pub fn backend(ordinal: u32) -> Result<&'static dyn Backend> {
    let cuda = Cuda::of(ordinal)?;
    ops::preload::begin(cuda);
    Ok(cuda)
}

impl Backend for Cuda {
    fn device(&self) -> Device {
        Core::device(self)
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>> {
        self.allocate(bytes)
    }

    fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.uploaded(target))?;
        self.upload(source, target, offset)
    }

    fn upload_as(&self, source: &[u8], wire: DType, target: &Buffer, dtype: DType) -> Result<Option<u32>> {
        let _ordered = self.ordered(|t| _ = t.uploaded(target))?;
        self.upload_as(source, wire, target, dtype)
    }

    unsafe fn upload_ahead(
        &'static self,
        source: UploadSource,
        convert: Option<(DType, DType)>,
    ) -> Result<Box<dyn AsyncUpload>> {
        self.upload_ahead(source, convert)
    }

    fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.address(source.address, false))?;
        if self.mode() & LOST != 0 {
            source.check_lost()?;
        }
        self.download(source, offset, target)?;
        self.take_pending_error()
    }

    unsafe fn upload_queued(&self, source: &[u8], target: &Arc<Buffer>, offset: usize) -> Result<bool> {
        let _ordered = self.ordered(|t| _ = t.write(target))?;
        // SAFETY: the caller's promise.
        unsafe { self.upload_queued(source, target, offset) }
    }

    unsafe fn download_queued(&self, source: &Arc<Buffer>, offset: usize, target: &mut [u8]) -> Result<bool> {
        let _ordered = self.ordered(|t| _ = t.read(source))?;
        // SAFETY: the caller's promise.
        unsafe { self.download_queued(source, offset, target) }
    }

    fn copy(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, to: usize, bytes: usize) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.read(source).write(target))?;
        self.copy(source, from, target, to, bytes)
    }

    fn run(&self, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.bound(bound).writes(outputs))?;
        store::store(self, plan, bound, outputs)
    }

    fn put(&self, plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<bool> {
        let _ordered = self.ordered(|t| {
            _ = t.bound(bound).write(&part.buffer);
            if let Some(base) = base {
                _ = t.view(base.view);
            }
        })?;
        run::put(self, plan, bound, part, base)
    }

    fn reduce(&self, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
        let _ordered = self.ordered(|t| _ = t.bound(bound))?;
        reduce::whole(self, plan, bound, reduction, na_rm)
    }

    fn reduce_later(
        &self,
        plan: &Plan,
        bound: &Bound,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Box<dyn Deferred>>> {
        let _ordered = self.ordered(|t| _ = t.bound(bound))?;
        reduce::later(self, plan, bound, reduction, na_rm)
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
        let _ordered = self.ordered(|t| _ = t.bound(bound).writes(outputs))?;
        reduce::groups(self, plan, bound, reduction, na_rm, groups, outputs)
    }

    fn scan(&self, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<bool> {
        let _ordered = self.ordered(|t| _ = t.bound(bound).write(output))?;
        scan::run(self, plan, bound, scan, output)
    }

    fn scatter(&self, target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.write(target).view(positions).view(values))?;
        gather::scatter(self, target, dtype, n, positions, values)
    }

    fn mask(&self, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
        let _ordered = self.ordered(|t| _ = t.bound(bound))?;
        mask::mask(self, plan, bound, keep_na)
    }

    fn sort(&self, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
        let _ordered = self.ordered(|t| _ = t.view(values))?;
        sort::sort(self, values, decreasing, with_positions)
    }

    fn ranks(&self, values: &View, ranks: &[usize]) -> Result<Option<Ranked>> {
        let _ordered = self.ordered(|t| _ = t.view(values))?;
        rank::ranks(self, values, ranks)
    }

    fn count_bins(&self, values: &View, low: i64, bins: usize) -> Result<Arc<Buffer>> {
        let _ordered = self.ordered(|t| _ = t.view(values))?;
        grouped::count(self, values, low, bins)
    }

    fn reduce_coded(
        &self,
        values: &View,
        codes: &View,
        groups: usize,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Arc<Buffer>>> {
        let _ordered = self.ordered(|t| _ = t.view(values).view(codes))?;
        grouped::reduce(self, values, codes, groups, reduction, na_rm)
    }

    fn firsts(&self, values: &View, between: Option<(i64, i64)>) -> Result<Option<View>> {
        let _ordered = self.ordered(|t| _ = t.view(values))?;
        unique::firsts(self, values, between)
    }

    fn search(&self, values: &View, table: &View, strictly: bool) -> Result<Arc<Buffer>> {
        let _ordered = self.ordered(|t| _ = t.view(values).view(table))?;
        search::search(self, values, table, strictly)
    }

    fn multiply(&self, product: &Product<'_>, output: &Arc<Buffer>) -> Result<Multiplied> {
        let _ordered = self.ordered(|t| _ = t.view(&product.a.view).view(&product.b.view).write(output))?;
        let done = product::multiply(self, product, output)? || {
            // cuBLAS has its stream already, but `stream()` must be called for each use: it flushes the launch thread's
            // ring and counts the work
            let _timed = self.timed("library", self.stream(), 0, || "cuBLAS product".into());
            blas::multiply(self, product, output)?
        };
        Ok(match done {
            false => Multiplied::Nothing,
            // neither kernel gives exactly symmetric results, so the caller mirrors the upper triangle
            true if product.is_self_product => Multiplied::UpperTriangle,
            true => Multiplied::Whole,
        })
    }

    fn factor(&self, dtype: DType, task: &Task<'_>) -> Result<i32> {
        let _ordered = self.ordered(|t| t.task(task))?;
        let _timed = self.timed("library", self.stream(), 0, || "cuSOLVER factorisation".into());
        match task {
            Task::Triangular { r, upper, transpose, n, b, columns } => {
                blas::triangular(self, dtype, r, *upper, *transpose, *n, b, *columns).map(|()| 0)
            }
            task => solver::factor(self, dtype, task),
        }
    }

    fn serves_batch(&self, _factoring: Factoring, m: usize, n: usize) -> bool {
        m.max(n) <= dense::MOST
    }

    fn factor_batch(&self, batch: &BatchedFactoring<'_>) -> Result<Option<usize>> {
        let _ordered = self.ordered(|t| {
            if let Some((b, _)) = batch.b {
                t.view(b);
            }
            t.view(batch.a).writes(batch.outputs).write(batch.status);
        })?;
        dense::factor_batch(self, batch)
    }

    fn fourier(&self, transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()> {
        let _ordered = self.ordered(|t| {
            let t = t.write(output);
            _ = if transform.direction == Direction::HalfToReal { t.write(&input.buffer) } else { t.view(input) };
        })?;
        let _timed = self.timed("library", self.stream(), 0, || "cuFFT transform".into());
        fourier::run(self, transform, input, output)
    }

    fn segment_order(&self, a: &Sparse<'_>, columns: usize) -> Result<Order> {
        let _ordered = self.ordered(|t| _ = t.sparse(a))?;
        segments::order(self, a, columns)
    }

    fn segment_products(
        &self,
        a: &Sparse<'_>,
        b: &View,
        order: Order,
        columns: usize,
        output: &Arc<Buffer>,
    ) -> Result<Order> {
        let _ordered = self.ordered(|t| _ = t.sparse(a).view(b).write(output))?;
        segments::products(self, a, b, order, columns, output)
    }

    fn segment_reduce(
        &self,
        segments: &Segments<'_>,
        values: &View,
        reduction: Reduction,
        na_rm: bool,
        output: &Arc<Buffer>,
    ) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.view(segments.offsets).view(values).write(output))?;
        segments::reduce(self, segments, values, reduction, na_rm, output)
    }

    fn segment_expand(&self, segments: &Segments<'_>, output: &Arc<Buffer>) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.view(segments.offsets).write(output))?;
        segments::expand(self, segments, output)
    }

    fn segment_transpose(&self, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Transposed> {
        let _ordered = self.ordered(|t| _ = t.view(segments.offsets).view(positions))?;
        segments::transpose(self, segments, positions, extent)
    }

    fn segment_multiply(&self, a: &Sparse<'_>, b: &Sparse<'_>, dtype: DType) -> Result<SparseProduct> {
        let _ordered = self.ordered(|t| _ = t.sparse(a).sparse(b))?;
        segments_multiply::multiply(self, a, b, dtype)
    }

    fn segment_sampled(&self, job: &Sampled<'_>, output: &Arc<Buffer>) -> Result<()> {
        let _ordered = self.ordered(|t| {
            _ = t
                .view(job.segments.offsets)
                .view(job.positions)
                .view(job.by_position)
                .view(job.by_segment)
                .write(output);
        })?;
        segments::sampled(self, job, output)
    }

    fn segment_solve(&self, job: &TriangularSystem<'_>, output: &Arc<Buffer>) -> Result<()> {
        let _ordered = self.ordered(|t| _ = t.sparse(&job.matrix).view(job.b).write(output))?;
        segments::solve(self, job, output)
    }

    fn extend_basis(&self, job: &BasisStep<'_>) -> Result<()> {
        let _ordered =
            self.ordered(|t| _ = t.view(job.vector).write(&job.basis.buffer).write(&job.coefficients.buffer))?;
        basis::extend(self, job)
    }

    fn gram(&self, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool> {
        let views = || job.columns.iter().flatten().chain(job.scale).chain(job.sums);
        let _ordered = self.ordered(|t| {
            views().for_each(|view| _ = t.view(view));
            t.write(output);
        })?;
        gram::gram(self, job, output)
    }

    fn planned_gram(&self, job: &PlannedGram<'_>, stored: [&Arc<Buffer>; 2], output: &Arc<Buffer>) -> Result<bool> {
        let views = || job.columns.iter().flatten().chain(job.before);
        let _ordered = self.ordered(|t| {
            views().for_each(|view| _ = t.view(view));
            stored.iter().for_each(|buffer| _ = t.write(buffer));
            t.bound(job.bound).write(output);
        })?;
        gram::planned(self, job, stored, output)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        user::launch(self, launch)
    }

    fn parameters(&self, function: &Function) -> Result<Vec<usize>> {
        user::parameters(self, function)
    }

    fn global(&self, module: &Module, name: &str) -> Result<Arc<Buffer>> {
        user::global(self, module, name)
    }

    fn variables(&self, module: &Module) -> Result<Option<Arc<Buffer>>> {
        user::variables(self, module)
    }

    fn clear(&self, buffer: &Buffer) -> Result<()> {
        self.fill(buffer.address, 0, buffer.bytes)
    }

    fn synchronize(&self) -> Result<()> {
        self.wait_all()
    }

    fn tracks(&self) -> bool {
        self.mode() != 0
    }

    fn touching<'a>(&'a self, touched: &[(&'a Arc<Buffer>, bool)]) -> Result<Option<Box<dyn Touching + 'a>>> {
        let ordered = self.ordered(|t| {
            for &(buffer, writes) in touched {
                _ = if writes { t.write(buffer) } else { t.read(buffer) };
            }
        })?;
        Ok(ordered.map(|ordered| Box::new(ordered) as Box<dyn Touching + 'a>))
    }

    fn streams(&'static self) -> Option<Box<dyn Streams>> {
        Some(Box::new(streams::OfDevice(self)))
    }

    fn release(&self, stream: Option<u64>) -> Result<()> {
        exchange::release(self, stream)
    }

    fn acquire(&self) -> Result<()> {
        exchange::acquire(self)
    }

    fn reaches(&self, address: u64, bytes: usize) -> Result<()> {
        exchange::reaches(self, address, bytes)
    }

    fn memory(&self) -> Result<Memory> {
        self.memory()
    }

    fn trim(&self) -> Result<()> {
        Source::trim(self)
    }
}
