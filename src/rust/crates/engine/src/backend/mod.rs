//! The interface of a device. The layers above do not know which device an array is on.

use std::sync::Arc;

use self::basis::Growth;
use self::dense::{Many, Multiplied, Product, Task};
use self::fourier::Transform;
use self::gram::Gram;
use self::segments::{Order, Sampled, Segments, Sparse, SparseProduct, Triangle, Turned};
use self::streams::Streams;
use crate::kernel::{Arguments, Function, Geometry, Module, Signature};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::staging::{Ahead, Filling};
use crate::plan::{Bound, Plan};
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scan::Scan;
use verdigris_ops::OpId;

pub mod basis;
pub mod cpu;
#[cfg(not(target_os = "macos"))]
pub mod cuda;
pub mod dense;
#[cfg(test)]
pub(crate) mod differential_order;
pub mod fourier;
pub mod gram;
pub mod segments;
pub mod span;
pub mod streams;
#[cfg(not(target_os = "macos"))]
mod trace;

/// A reduction's value on the host: up to two elements of the reduction's result type, and its status bits.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub value: [u8; 32],
    pub status: u32,
}

/// Work on buffers that is being queued: see `Backend::touching`.
pub trait Touching {}

/// The value of a reduction that may not have run yet.
pub trait Deferred: Send + Sync {
    /// Waits for it.
    fn outcome(&self) -> Result<Outcome>;

    /// Its first bytes in memory of the device, without waiting.
    fn buffer(&self, bytes: usize) -> Result<Arc<Buffer>>;
}

/// Bytes held on a device, as `gpu_memory()` shows them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Memory {
    /// In buffers that are alive.
    pub live: u64,
    /// Kept by the pool for later use.
    pub cached: u64,
    /// What arrays may hold: the user's limit, else the whole device.
    pub limit: u64,
    /// Free on the whole device, for everyone.
    pub free: u64,
    pub total: u64,
}

/// The array that an assignment to a part of it gives a second buffer: contiguous, its extents, and the part of each
/// axis.
pub struct Base<'a> {
    pub view: &'a View,
    pub dim: &'a [usize],
    pub axes: &'a [Axis],
}

/// A device. Work is queued on its current stream, in order; only `download`, `reduce` to the host and `synchronize`
/// wait.
pub trait Backend: Send + Sync {
    fn device(&self) -> Device;

    /// A buffer of `bytes` bytes, not initialised.
    fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>>;

    /// Host to device; returns when `source` may be changed again.
    fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()>;

    /// As `upload`, with elements of `wire`, one of the dtypes in which R stores them, converted to `dtype` on the way.
    /// The bits of the cast that found what does not fit; None where the device had better convert: nothing was copied.
    fn upload_as(&self, source: &[u8], wire: DType, target: &Buffer, dtype: DType) -> Result<Option<u32>>;

    /// Starts a copy to a new buffer that overlaps with work queued from here on. With `convert` (from, to) elements
    /// are converted where the table has such a cast.
    ///
    /// # Safety
    /// The source must live, and not be written, until the result is taken or dropped.
    unsafe fn upload_ahead(&'static self, source: Filling, convert: Option<(DType, DType)>) -> Result<Box<dyn Ahead>>;

    /// Device to host; waits for the work queued before.
    fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()>;

    /// Device to device, the same device.
    fn copy(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, to: usize, bytes: usize) -> Result<()>;

    /// As `upload`, but returns when the copy is queued; returns false, with nothing done, where that is not possible.
    ///
    /// # Safety
    /// The source must live, and not be written, until the copy is done.
    unsafe fn upload_queued(&self, _source: &[u8], _target: &Arc<Buffer>, _offset: usize) -> Result<bool> {
        Ok(false)
    }

    /// As `download`, but returns when the copy is queued; returns false, with nothing done, where that is not
    /// possible.
    ///
    /// # Safety
    /// The target must live, and nobody use it, until the copy is done.
    unsafe fn download_queued(&self, _source: &Arc<Buffer>, _offset: usize, _target: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    /// Computes an elementwise plan. Output `k` is written to `outputs[k]`, contiguous.
    fn run(&self, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()>;

    /// Computes an elementwise plan of one output into the places of a view, of which the plan's inputs hold none.
    /// With a base the view's buffer takes the base's elements in all other places. False where the device has no
    /// kernel for that, and nothing was done.
    fn put(&self, plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<bool>;

    /// Reduces the plan's value over everything, to the host.
    fn reduce(&self, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome>;

    /// As `reduce`, but does not wait for the value; None where the device has nothing to gain by that, or no room for
    /// it.
    fn reduce_later(
        &self,
        _plan: &Plan,
        _bound: &Bound,
        _reduction: Reduction,
        _na_rm: bool,
    ) -> Result<Option<Box<dyn Deferred>>> {
        Ok(None)
    }

    /// Reduces within groups, into a buffer of the reduction's result type, or into those of the plan's epilogue, and
    /// where that is over the elements into one more for the results; there are no status bits.
    fn reduce_groups(
        &self,
        plan: &Plan,
        bound: &Bound,
        reduction: Reduction,
        na_rm: bool,
        groups: Groups,
        outputs: &[Arc<Buffer>],
    ) -> Result<()>;

    /// Whether a kernel should store so many bytes of a row's values the first time it computes them, if they can be
    /// asked for again: computing them takes longer.
    fn keeps_at_once(&self, _row: OpId, _bytes: usize) -> bool {
        false
    }

    /// Scans the plan's value into a buffer of its output's dtype, contiguous. Returns whether a sum did not fit, from
    /// which on all are NA; waits where one may not, which are sums of whole numbers.
    fn scan(&self, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<bool>;

    /// `target[positions[k]] = values[k mod length]`; of equal positions the last wins; a position outside is passed
    /// over.
    fn scatter(&self, target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) -> Result<()>;

    /// Selects by the plan's first output (bool8), a mask: the elements of its second output where the mask is TRUE,
    /// and NA where it is NA and `keep_na`; without a second output the positions (int64, from 0; -1 for NA).
    fn mask(&self, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View>;

    /// The values in order, NA and NaN last, and where `with_positions` the positions (from 0, of `position_dtype`) that
    /// they had; equal ones stay in their order. The view is contiguous.
    fn sort(&self, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)>;

    /// The positions that `sort` gives, alone and counted from 1, as R wants them; None where the caller should sort.
    fn order(&self, _values: &View, _decreasing: bool) -> Result<Option<View>> {
        Ok(None)
    }

    /// The elements at ranks (from 0) among those that are not missing; None where the caller should sort.
    fn ranks(&self, _values: &View, _ranks: &[usize]) -> Result<Option<Ranked>> {
        Ok(None)
    }

    /// How many elements equal each whole number from `low` on, `bins` of them, and, at the end, how many equal none:
    /// int64. Of the dtypes that are real and not half.
    fn count_bins(&self, values: &View, low: i64, bins: usize) -> Result<Arc<Buffer>>;

    /// Reduces the elements of each code (int32, 1 to `groups`; others are ignored) to one value, with elements stored
    /// as their class computes. None where there are too many groups for this method; the caller should sort. On the
    /// cpu device the values may be several columns as long as the codes.
    fn reduce_coded(
        &self,
        values: &View,
        codes: &View,
        groups: usize,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Arc<Buffer>>>;

    /// The first positions (int32, from 0, in order) of values that are not missing; 0 and -0 are the same. Values are
    /// stored as their class computes. None where a sort is faster. `between`: the smallest and the largest value of
    /// integers, if known.
    fn firsts(&self, values: &View, between: Option<(i64, i64)>) -> Result<Option<View>>;

    /// The position in a table (int32, from 1) where each value first occurs, 0 where it does not or is missing. Both
    /// are of one dtype, stored as its class computes. None where the caller should search a sorted table.
    fn matches(&self, _values: &View, _table: &View) -> Result<Option<Arc<Buffer>>> {
        Ok(None)
    }

    /// How many elements of a table in order, which has nothing missing, are at most each value, or less than it:
    /// int32, NA for what is missing. Both are of one dtype, stored as its class computes.
    fn search(&self, values: &View, table: &View, strictly: bool) -> Result<Arc<Buffer>>;

    /// A product of matrices, or several.
    fn multiply(&self, product: &Product<'_>, output: &Arc<Buffer>) -> Result<Multiplied>;

    /// A factorisation, or what is solved with one. LAPACK's `info`, which is waited for: 0, or where it failed.
    fn factor(&self, _dtype: DType, _task: &Task<'_>) -> Result<i32> {
        Err(Error::new(Kind::Device, format!("on {} the host's LAPACK factors matrices", self.device())))
    }

    /// Whether `many` takes matrices of this size.
    fn takes_many(&self, factoring: Factoring, m: usize, n: usize) -> bool;

    /// Computes the same of each of many small matrices. The first that has failed, which is waited for; its status
    /// says how.
    fn many(&self, many: &Many<'_>) -> Result<Option<usize>>;

    /// Fourier transforms of contiguous elements, into a buffer; `HalfToReal` may overwrite its input. `Library` where
    /// the device needs one that is missing.
    fn fourier(&self, transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()>;

    /// The product of a sparse matrix, whose segments are its rows, and a dense one, which is stored row by row; how the
    /// result is stored. A sum's order depends on the elements alone.
    fn segment_products(&self, a: &Sparse<'_>, b: &View, columns: usize, output: &Arc<Buffer>) -> Result<Order>;

    /// Reduces each segment of elements, stored as their class computes, to a value of the reduction's result type.
    fn segment_reduce(
        &self,
        segments: &Segments<'_>,
        values: &View,
        reduction: Reduction,
        na_rm: bool,
        output: &Arc<Buffer>,
    ) -> Result<()>;

    /// The number of each element's segment, from 0: int32.
    fn segment_expand(&self, segments: &Segments<'_>, output: &Arc<Buffer>) -> Result<()>;

    /// The elements by position, of which there are `extent`, instead of by segment, in their order.
    fn segment_transpose(&self, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Turned>;

    /// The product of two sparse matrices by columns, whose offsets and values have one dtype each; sums that are 0 are
    /// kept. None where the caller should expand all products of elements and sort them.
    fn segment_multiply(&self, _a: &Sparse<'_>, _b: &Sparse<'_>, _dtype: DType) -> Result<Option<SparseProduct>> {
        Ok(None)
    }

    /// For each element the product of the rows at its position and at its segment.
    fn segment_sampled(&self, job: &Sampled<'_>, output: &Arc<Buffer>) -> Result<()>;

    /// Solves a triangular system whose matrix is stored by columns.
    fn segment_solve(&self, job: &Triangle<'_>, output: &Arc<Buffer>) -> Result<()>;

    /// Writes the next column of an orthonormal basis, and its numbers.
    fn extend_basis(&self, job: &Growth<'_>) -> Result<()>;

    /// Cross products of columns, as a matrix; false where the device has no kernel for it.
    fn gram(&self, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool>;

    /// Runs a kernel of someone's own module.
    fn launch(&self, _launch: &Launch<'_>) -> Result<()> {
        Err(no_kernels(self.device()))
    }

    /// Bytes of each parameter of a kernel whose code does not say them.
    fn parameters(&self, _function: &Function) -> Result<Vec<usize>> {
        Err(no_kernels(self.device()))
    }

    /// The memory of a module's variable. It is the module's: freeing it does nothing.
    fn global(&self, _module: &Module, _name: &str) -> Result<Arc<Buffer>> {
        Err(no_kernels(self.device()))
    }

    /// A token buffer that orders access to a module's globals across streams: its kernels read the token, a copy from or
    /// to a global writes it. None for a module without globals.
    fn variables(&self, _module: &Module) -> Result<Option<Arc<Buffer>>> {
        Ok(None)
    }

    /// Fills a buffer with zeros.
    fn clear(&self, _buffer: &Buffer) -> Result<()> {
        Err(no_kernels(self.device()))
    }

    /// Waits for all streams.
    fn synchronize(&self) -> Result<()>;

    /// Whether `touching` has anything to do: there are several streams, or a graph is recorded.
    fn tracks(&self) -> bool {
        false
    }

    /// Before work is queued that only its maker knows: it waits for what other streams do with these buffers (each
    /// with whether it is written). What is returned lives until the work is queued.
    fn touching<'a>(&'a self, _touched: &[(&'a Arc<Buffer>, bool)]) -> Result<Option<Box<dyn Touching + 'a>>> {
        Ok(None)
    }

    /// None where work is done when a call returns.
    fn streams(&'static self) -> Option<Box<dyn Streams>> {
        None
    }

    /// Makes a stream of another library wait for the work queued so far; waits here where it is None.
    fn release(&self, _stream: Option<u64>) -> Result<()> {
        Ok(())
    }

    /// Makes work queued from here on wait for what others have queued on the device's default stream.
    fn acquire(&self) -> Result<()> {
        Ok(())
    }

    /// Checks that the device can use memory of another library, and that all of it exists. Not called for host memory.
    ///
    /// # Errors
    /// `Device` where it cannot; `Argument` where the memory ends before.
    fn reaches(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> Result<Memory>;

    /// Gives cached memory back to the system.
    fn trim(&self) -> Result<()>;
}

/// The dtype of positions among `n` elements.
pub const fn position_dtype(n: usize) -> DType {
    if n <= i32::MAX as usize {
        DType::Int32
    } else {
        DType::Int64
    }
}

/// Order statistics.
pub struct Ranked {
    /// None where a rank is not less than the number of elements that are known.
    pub values: Option<View>,
    pub missing: usize,
}

fn no_kernels(device: Device) -> Error {
    Error::new(Kind::Device, format!("kernels run on CUDA devices, not on {device}"))
        .advise("Move the arrays with `as_gpu(x, device = \"cuda\")`.")
}

/// A call of a kernel of a module, checked against its signature.
pub struct Launch<'a> {
    pub function: &'a Function,
    pub signature: &'a Signature,
    pub geometry: &'a Geometry,
    /// Threads that are needed, where the geometry leaves open how many there are.
    pub n: usize,
    pub arguments: &'a Arguments,
    /// The arguments, for messages.
    pub described: &'a dyn Fn() -> String,
}

/// The backend of a device.
///
/// # Errors
/// `Device` where there is none, `Library` where CUDA cannot be loaded, `Fork` in a forked child.
pub fn of(device: Device) -> Result<&'static dyn Backend> {
    match device {
        Device::Cpu => Ok(cpu::backend()),
        #[cfg(not(target_os = "macos"))]
        Device::Cuda(ordinal) => cuda::backend(ordinal),
        #[cfg(target_os = "macos")]
        Device::Cuda(_) => Err(Error::new(Kind::Device, "there is no CUDA on macOS").advise("Use `device = \"cpu\"`.")),
    }
}

/// A copy of contiguous elements into a buffer of another device, from a byte of it on.
pub struct AcrossDevices<'a> {
    pub source: &'a View,
    pub target: &'a Arc<Buffer>,
    pub at: usize,
}

/// Queues copies between CUDA devices of this process, which run at once, in the order of both devices' streams. False,
/// with nothing done, where the host must be between them.
///
/// # Errors
/// Those of the devices.
pub fn copy_across(copies: &[AcrossDevices<'_>]) -> Result<bool> {
    #[cfg(not(target_os = "macos"))]
    return cuda::context::peer::exchange(copies);
    #[cfg(target_os = "macos")]
    {
        let _ = copies;
        Ok(false)
    }
}

/// Compiles a module to find errors. False where there is no compiler.
///
/// # Errors
/// `Compile`, naming the line, with the compiler's log as detail.
pub fn check(module: &Module) -> Result<bool> {
    #[cfg(not(target_os = "macos"))]
    return cuda::user::check(module);
    #[cfg(target_os = "macos")]
    {
        let _ = module;
        Ok(false)
    }
}

/// The CUDA C of a routine, to look at; None where this build has no CUDA.
pub fn routine_source(routine: &verdigris_compile::Routine) -> Option<String> {
    #[cfg(not(target_os = "macos"))]
    return Some(cuda::codegen::routine::define(routine, &cuda::codegen::routine::name(routine, 0)));
    #[cfg(target_os = "macos")]
    return (routine.results.is_empty()).then(String::new);
}
