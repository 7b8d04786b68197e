//! The interface of a device. The layers above do not know which device an array is on.

use std::sync::Arc;

use self::basis::BasisStep;
use self::dense::{BatchedFactoring, Multiplied, Product, Task};
use self::fourier::Transform;
use self::gram::{Gram, PlannedGram};
use self::segments::{Order, Sampled, Segments, Sparse, SparseProduct, Transposed, TriangularSystem};
use self::streams::Streams;
use crate::kernel::{Arguments, Function, Geometry, Module, Signature};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::staging::{AsyncUpload, UploadSource};
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

/// The guard of `Backend::touching`, which lives until the work is queued.
pub trait Touching {}

/// The value of a reduction that may not have run yet.
pub trait Deferred: Send + Sync {
    /// Waits for the value.
    fn outcome(&self) -> Result<Outcome>;

    /// Copies the value's first `bytes` bytes to a new buffer of the device, without waiting.
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

/// The array whose elements `Backend::put` copies around the part that it writes: contiguous, with the extents `dim`.
/// `axes` say which part is written.
pub struct Base<'a> {
    pub view: &'a View,
    pub dim: &'a [usize],
    pub axes: &'a [Axis],
}

/// A device. Methods queue work on its current stream, in order, and return. A method waits if it returns values to the
/// host, or a result whose size depends on values: `download`, `reduce`, `mask`, `ranks`, `firsts`, `factor`,
/// `factor_batch` and `synchronize`, and `scan` for sums of integers.
pub trait Backend: Send + Sync {
    fn device(&self) -> Device;

    /// A buffer of `bytes` bytes, not initialised.
    fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>>;

    /// Host to device; returns when `source` may be changed again.
    fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()>;

    /// As `upload`, for elements that R stores as `wire`, converted to `dtype` on the way. Returns the warning bits of
    /// the cast; `None`, with nothing copied, if the caller should upload the elements and cast them on the device.
    fn upload_as(&self, source: &[u8], wire: DType, target: &Buffer, dtype: DType) -> Result<Option<u32>>;

    /// Starts a copy to a new buffer that overlaps with work queued from here on. With `convert` (from, to) elements
    /// are converted if the table has such a cast.
    ///
    /// # Safety
    /// The source must live, and not be written, until the result is taken or dropped.
    unsafe fn upload_ahead(
        &'static self,
        source: UploadSource,
        convert: Option<(DType, DType)>,
    ) -> Result<Box<dyn AsyncUpload>>;

    /// Device to host; waits for the work queued before.
    fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()>;

    /// Device to device, the same device.
    fn copy(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, to: usize, bytes: usize) -> Result<()>;

    /// As `upload`, but returns when the copy is queued. False, with nothing done, if that is not possible.
    ///
    /// # Safety
    /// The source must live, and not be written, until the copy is done.
    unsafe fn upload_queued(&self, _source: &[u8], _target: &Arc<Buffer>, _offset: usize) -> Result<bool> {
        Ok(false)
    }

    /// As `download`, but returns when the copy is queued. False, with nothing done, if that is not possible.
    ///
    /// # Safety
    /// The target must live, and not be used, until the copy is done.
    unsafe fn download_queued(&self, _source: &Arc<Buffer>, _offset: usize, _target: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    /// Computes an elementwise plan. Output `k` is written to `outputs[k]`, contiguous.
    fn run(&self, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()>;

    /// Computes an elementwise plan of one output into the elements of the view `part`, which no input of the plan may
    /// overlap. With a base, the rest of the view's buffer gets the base's elements. False, with nothing done, if the
    /// device has no kernel for that.
    fn put(&self, plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<bool>;

    /// Reduces all of a plan's values, and waits for the result.
    fn reduce(&self, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome>;

    /// As `reduce`, but does not wait for the value. `None` if the device gains nothing by that, or has no slot free.
    fn reduce_later(
        &self,
        _plan: &Plan,
        _bound: &Bound,
        _reduction: Reduction,
        _na_rm: bool,
    ) -> Result<Option<Box<dyn Deferred>>> {
        Ok(None)
    }

    /// Reduces within groups. `outputs` is one buffer of the reduction's result type, or those of the plan's epilogue,
    /// followed by a buffer for the results if the epilogue is over the elements. There are no status bits.
    fn reduce_groups(
        &self,
        plan: &Plan,
        bound: &Bound,
        reduction: Reduction,
        na_rm: bool,
        groups: Groups,
        outputs: &[Arc<Buffer>],
    ) -> Result<()>;

    /// Whether a kernel should store a row's values, of `bytes` bytes, when it first computes them and they may be
    /// needed again, because computing them again takes longer.
    fn keeps_at_once(&self, _row: OpId, _bytes: usize) -> bool {
        false
    }

    /// Scans a plan's values into a contiguous buffer of its output's dtype. Returns whether a sum did not fit; that
    /// one and all later ones are NA. Only sums of integers can overflow; they wait for the answer.
    fn scan(&self, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<bool>;

    /// `target[positions[k]] = values[k mod length]`. Of equal positions the last wins; positions out of bounds are
    /// ignored.
    fn scatter(&self, target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) -> Result<()>;

    /// Selects by a mask, the plan's first output (bool8): the elements of the second output where the mask is TRUE,
    /// and NA where it is NA if `keep_na`. Without a second output the result has the positions (int64, from 0; -1 for
    /// NA). Waits for the length of the result.
    fn mask(&self, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View>;

    /// Sorts values stably, NA and NaN last. If `with_positions`, also returns the positions (from 0, of
    /// `position_dtype`) that they had. The view is contiguous.
    fn sort(&self, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)>;

    /// Only the positions of `sort`, counted from 1 as R wants them; `None` if the caller should use `sort`.
    fn order(&self, _values: &View, _decreasing: bool) -> Result<Option<View>> {
        Ok(None)
    }

    /// The elements at ranks (from 0) among those that are not missing; `None` if the caller should sort.
    fn ranks(&self, _values: &View, _ranks: &[usize]) -> Result<Option<Ranked>> {
        Ok(None)
    }

    /// Counts the elements that equal each of `bins` integers from `low` on and, last, those that equal none: int64.
    /// For real dtypes other than half types.
    fn count_bins(&self, values: &View, low: i64, bins: usize) -> Result<Arc<Buffer>>;

    /// Reduces the elements of each group to one value. `codes` (int32) gives the group of each element, 1 to `groups`;
    /// other codes are ignored. Values are of their class's natural dtype. `None` if the caller should sort, because
    /// there are too many groups for this method. The values may be several columns, each as long as the codes.
    fn reduce_coded(
        &self,
        values: &View,
        codes: &View,
        groups: usize,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Arc<Buffer>>>;

    /// The first position (int32, from 0, ascending) of each distinct value that is not missing; 0 and -0 are the same.
    /// Values are of their class's natural dtype. `None` if a sort is faster. `between`: the smallest and the largest
    /// value of integers, if known.
    fn firsts(&self, values: &View, between: Option<(i64, i64)>) -> Result<Option<View>>;

    /// The position (int32, from 1) of the first occurrence of each value in a table; 0 if it is missing or does not
    /// occur. Both are of one dtype, the natural one of its class. `None` if the caller should search a sorted table.
    fn matches(&self, _values: &View, _table: &View) -> Result<Option<Arc<Buffer>>> {
        Ok(None)
    }

    /// For each value the number of elements of a table that are less than or equal to it, or less if `strictly`:
    /// int32, NA for missing values. The table is sorted and has no missing elements. Both are of one dtype, the
    /// natural one of its class.
    fn search(&self, values: &View, table: &View, strictly: bool) -> Result<Arc<Buffer>>;

    /// A product of matrices, or a batch of products.
    fn multiply(&self, product: &Product<'_>, output: &Arc<Buffer>) -> Result<Multiplied>;

    /// Factors a matrix, or solves with a factorisation. Returns LAPACK's `info`: 0, or where it failed. Waits for it
    /// if the task can fail.
    fn factor(&self, _dtype: DType, _task: &Task<'_>) -> Result<i32> {
        Err(Error::new(Kind::Device, format!("on {} the host's LAPACK factors matrices", self.device())))
    }

    /// Whether `factor_batch` takes matrices of this size.
    fn serves_batch(&self, factoring: Factoring, m: usize, n: usize) -> bool;

    /// Factors each of many small matrices. Waits, and returns the first that has failed; its status says how.
    fn factor_batch(&self, batch: &BatchedFactoring<'_>) -> Result<Option<usize>>;

    /// Fourier transforms of contiguous elements, into a buffer; `HalfToReal` may overwrite its input. Fails with
    /// `Library` if the device needs a library that is missing.
    fn fourier(&self, transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()>;

    /// The order of a dense matrix of so many columns with which `segment_products` is fastest. May wait.
    fn segment_order(&self, a: &Sparse<'_>, columns: usize) -> Result<Order>;

    /// The product of a sparse matrix, whose segments are its rows, and a dense one in the order of `segment_order`.
    /// Returns the order in which the result is stored. The order of additions depends on the sparse matrix's structure
    /// alone.
    fn segment_products(
        &self,
        a: &Sparse<'_>,
        b: &View,
        order: Order,
        columns: usize,
        output: &Arc<Buffer>,
    ) -> Result<Order>;

    /// Reduces each segment of elements, which are of their class's natural dtype, to a value of the reduction's result
    /// type.
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

    /// Regroups the elements by position, from 0 to `extent` - 1, instead of by segment. Elements of one position stay
    /// in their order.
    fn segment_transpose(&self, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Transposed>;

    /// The product of two sparse matrices, stored by columns, with one dtype of offsets and one of values. Sums that
    /// are 0 stay in the result. A sum adds its terms in the order of the second matrix's elements.
    fn segment_multiply(&self, a: &Sparse<'_>, b: &Sparse<'_>, dtype: DType) -> Result<SparseProduct>;

    /// For each element the inner product of two dense rows: that of its position and that of its segment.
    fn segment_sampled(&self, job: &Sampled<'_>, output: &Arc<Buffer>) -> Result<()>;

    /// Solves a triangular system whose matrix is stored by columns.
    fn segment_solve(&self, job: &TriangularSystem<'_>, output: &Arc<Buffer>) -> Result<()>;

    /// Writes the next column of an orthonormal basis, and its numbers.
    fn extend_basis(&self, job: &BasisStep<'_>) -> Result<()>;

    /// Cross products of columns, as a matrix, followed by sums; false if the device has no kernel for it.
    fn gram(&self, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool>;

    /// As `gram`, in one pass that also computes the plan, and stores the predictor and the factors. False if the device
    /// has no kernel for it, or not yet.
    fn planned_gram(&self, _job: &PlannedGram<'_>, _stored: [&Arc<Buffer>; 2], _output: &Arc<Buffer>) -> Result<bool> {
        Ok(false)
    }

    /// Queues a kernel of a user's module.
    fn launch(&self, _launch: &Launch<'_>) -> Result<()> {
        Err(no_kernels(self.device()))
    }

    /// Bytes of each parameter of a kernel, as the driver reports them: for compiled code without a signature.
    fn parameters(&self, _function: &Function) -> Result<Vec<usize>> {
        Err(no_kernels(self.device()))
    }

    /// The memory of a module's global variable, which the module owns: freeing the buffer does nothing.
    fn global(&self, _module: &Module, _name: &str) -> Result<Arc<Buffer>> {
        Err(no_kernels(self.device()))
    }

    /// A token buffer that orders access to a module's globals across streams: its kernels read the token, a copy from
    /// or to a global writes it. `None` for a module without globals.
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

    /// To be called before work is queued by other means than this trait: makes that work wait for what other streams
    /// do with these buffers (each with whether it is written). The caller keeps the returned guard until the work is
    /// queued.
    fn touching<'a>(&'a self, _touched: &[(&'a Arc<Buffer>, bool)]) -> Result<Option<Box<dyn Touching + 'a>>> {
        Ok(None)
    }

    /// The device's streams; `None` if work is done when a call returns.
    fn streams(&'static self) -> Option<Box<dyn Streams>> {
        None
    }

    /// Makes a stream of another library wait for the work queued so far; if that is `None`, the host waits.
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
    /// `Device` if it cannot; `Argument` if the memory is shorter.
    fn reaches(&self, _address: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> Result<Memory>;

    /// Waits for queued work, and gives cached memory back to the system.
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
    /// `None` if a rank is not less than the number of elements that are not missing.
    pub values: Option<View>,
    /// The number of missing elements.
    pub missing: usize,
}

fn no_kernels(device: Device) -> Error {
    Error::new(Kind::Device, format!("kernels run on CUDA devices, not on {device}"))
        .advise("Move the arrays with `as_gpu(x, device = \"cuda\")`.")
}

/// A launch of a user's kernel, checked against its signature.
pub struct Launch<'a> {
    pub function: &'a Function,
    pub signature: &'a Signature,
    pub geometry: &'a Geometry,
    /// Threads that are needed: decides the number of blocks if the geometry leaves it open.
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

/// Waits for all devices that this process has used, and gives their cached memory back to the system.
///
/// # Errors
/// Those of the devices.
pub fn trim_all() -> Result<()> {
    #[cfg(not(target_os = "macos"))]
    for cuda in cuda::context::device::Cuda::in_use() {
        cuda.trim()?;
    }
    cpu::backend().trim()
}

/// A copy of contiguous elements into a buffer of another device, at the byte offset `at`.
pub struct AcrossDevices<'a> {
    pub source: &'a View,
    pub target: &'a Arc<Buffer>,
    pub at: usize,
}

/// Queues copies between CUDA devices of this process. They run concurrently, after the work that both devices' streams
/// have now. False, with nothing done, if a copy must go through the host.
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

/// A copy of elements on a GPU that other processes of this host can read until it is dropped.
pub struct ExportedCopy {
    /// What names the memory to other processes.
    pub handle: [u8; 64],
    _memory: Arc<Buffer>,
}

/// Copies contiguous elements of a CUDA device for other processes of this host, and waits. None for the cpu device, and
/// where the device cannot share memory, has none left for the copy, or records a graph.
///
/// # Errors
/// Those of the device.
pub fn export_copy(view: &View) -> Result<Option<ExportedCopy>> {
    #[cfg(not(target_os = "macos"))]
    return cuda::context::ipc::export_copy(view);
    #[cfg(target_os = "macos")]
    {
        let _ = view;
        Ok(None)
    }
}

/// Fills a buffer from another process's `ExportedCopy` of at least as many bytes, on this or another GPU, and waits.
/// False, with nothing done, where this process cannot open it.
///
/// # Errors
/// Those of the device.
pub fn import_copy(handle: &[u8; 64], target: &Arc<Buffer>) -> Result<bool> {
    #[cfg(not(target_os = "macos"))]
    return cuda::context::ipc::import_copy(handle, target);
    #[cfg(target_os = "macos")]
    {
        let _ = (handle, target);
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

/// The CUDA C of a routine, for display; `None` if this build has no CUDA.
pub fn routine_source(routine: &verdigris_compile::Routine) -> Option<String> {
    #[cfg(not(target_os = "macos"))]
    return Some(cuda::codegen::routine::define(routine, &cuda::codegen::routine::name(routine, 0)));
    #[cfg(target_os = "macos")]
    return (routine.results.is_empty()).then(String::new);
}
