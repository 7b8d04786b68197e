//! Products of matrices and triangular solves by cuBLAS. Types and constants are cudarc's; the functions are declared
//! to return `u32` statuses (see `functions`).

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublas::sys::{
    cublasComputeType_t, cublasContext, cublasDiagType_t, cublasGemmAlgo_t, cublasMath_t, cublasStatus_t,
};
pub use cudarc::cublas::sys::{cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cudaDataType};

use super::handles::Handles;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{CUdeviceptr, CUstream_flags, Opaque, Shared, Stream};
use crate::backend::cuda::driver::functions::functions;
use crate::backend::cuda::driver::library::{self, Library};
use crate::backend::dense::{holds, stored_extents, Matrix, Precision, Product};
use crate::memory::buffer::Buffer;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

impl Opaque for cublasContext {}
/// `cublasHandle_t`.
type Context = Shared<cublasContext>;

/// Handle, triangle, operation, n, k, alpha, A, beta, C.
#[rustfmt::skip]
type Syrk = unsafe extern "C" fn(
    Context, cublasFillMode_t, cublasOperation_t, i64, i64, *const c_void, CUdeviceptr, i64, *const c_void, CUdeviceptr, i64,
) -> u32;
/// Handle, side, triangle, operation, diagonal, m, n, alpha, A, B.
#[rustfmt::skip]
type Trsm = unsafe extern "C" fn(
    Context, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, i64, i64, *const c_void,
    CUdeviceptr, i64, CUdeviceptr, i64,
) -> u32;

/// Declares the functions of cuBLAS. All types' variants of syrk, and of trsm, share one declaration.
macro_rules! table {
    ($($syrk:ident = $syrk_name:ident, $trsm:ident = $trsm_name:ident;)*) => {
        functions! {
            /// `libcublas`.
            Cublas of cudarc::cublas::sys {
                create = cublasCreate_v2(*mut Context);
                set_stream = cublasSetStream_v2(Context, Stream);
                set_math_mode = cublasSetMathMode(Context, cublasMath_t);
                // handle, the two operations, m, n, k, alpha, A, B, beta, C (each with its type and leading
                // dimension), compute type, algorithm
                multiply = cublasGemmEx_64(
                    Context, cublasOperation_t, cublasOperation_t, i64, i64, i64, *const c_void,
                    CUdeviceptr, cudaDataType, i64, CUdeviceptr, cudaDataType, i64,
                    *const c_void, CUdeviceptr, cudaDataType, i64, cublasComputeType_t, cublasGemmAlgo_t);
                // as `multiply`, with a stride for each matrix, and the number of products
                multiply_batched = cublasGemmStridedBatchedEx_64(
                    Context, cublasOperation_t, cublasOperation_t, i64, i64, i64, *const c_void,
                    CUdeviceptr, cudaDataType, i64, i64, CUdeviceptr, cudaDataType, i64, i64,
                    *const c_void, CUdeviceptr, cudaDataType, i64, i64, i64, cublasComputeType_t, cublasGemmAlgo_t);
                $($syrk = $syrk_name(
                    Context, cublasFillMode_t, cublasOperation_t, i64, i64, *const c_void, CUdeviceptr, i64,
                    *const c_void, CUdeviceptr, i64);
                $trsm = $trsm_name(
                    Context, cublasSideMode_t, cublasFillMode_t, cublasOperation_t, cublasDiagType_t, i64, i64,
                    *const c_void, CUdeviceptr, i64, CUdeviceptr, i64);)*
            }
        }
    };
}

table! {
    syrk_f32 = cublasSsyrk_v2_64, trsm_f32 = cublasStrsm_v2_64;
    syrk_f64 = cublasDsyrk_v2_64, trsm_f64 = cublasDtrsm_v2_64;
    syrk_c64 = cublasCsyrk_v2_64, trsm_c64 = cublasCtrsm_v2_64;
    syrk_c128 = cublasZsyrk_v2_64, trsm_c128 = cublasZtrsm_v2_64;
}

impl Cublas {
    fn syrk(&self, dtype: DType) -> Result<Syrk> {
        by_type(dtype, [self.syrk_f32, self.syrk_f64, self.syrk_c64, self.syrk_c128])
    }

    fn trsm(&self, dtype: DType) -> Result<Trsm> {
        by_type(dtype, [self.trsm_f32, self.trsm_f64, self.trsm_c64, self.trsm_c128])
    }
}

/// `CUBLAS_DEFAULT_MATH` (0: no TF32) with this flag: products of half types accumulate in float32.
const MATH: cublasMath_t = cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;

/// A cuBLAS handle, bound to one stream of a device. Used by one thread at a time.
#[derive(Clone, Copy)]
struct Handle {
    handle: Context,
    functions: Cublas,
}

static HANDLES: Handles<Handle> = Handles::new();

/// Makes the handle of the device's current stream, and multiplies once in float64 and once in float32, because cuBLAS
/// loads its kernels at their first use. These products run on a stream of their own, since the device's may have work
/// queued, or be recording a graph.
pub(super) fn prepare(cuda: &Cuda) -> Result<()> {
    const N: i64 = 128;
    let _entered = cuda.enter()?;
    let stream_state = cuda.stream_state();
    let (Handle { handle, functions }, _held) = HANDLES.of_stream(cuda, stream_state, make)?;
    let (mut stream, mut memory) = (Stream::NULL, 0);
    let (flags, bytes) = (CUstream_flags::CU_STREAM_NON_BLOCKING as u32, 3 * (N * N) as usize * 8);
    // SAFETY: each writes a handle. Stream and memory are never freed: that would wait for all work of the device.
    unsafe {
        cuda.check((cuda.driver.stream_create)(&mut stream, flags, 0), "cuStreamCreateWithPriority")?;
        cuda.check((cuda.driver.allocate)(&mut memory, bytes), "cuMemAlloc")?;
        check((functions.set_stream)(handle, stream), "cublasSetStream")?;
    }
    let mut done = Ok(());
    for dtype in [DType::Float64, DType::Float32] {
        let (unit, zero) = (factor(dtype, 1.0), factor(dtype, 0.0));
        let matrix = |k: u64| GemmOperand { address: memory + k * bytes as u64 / 3, leading: N, stride: 0 };
        let gemm = Gemm {
            operations: [operation(false); 2],
            extents: [N; 3],
            factors: [unit.pointer(), zero.pointer()],
            a: matrix(0),
            b: matrix(1),
            out: matrix(2),
            data: data_type(dtype).expect("a type of products"),
            compute: compute_type(dtype, Precision::Float32),
        };
        // SAFETY: the three matrices are within the memory just allocated; their values do not matter.
        done = done.and(check(unsafe { gemm.single(&functions, handle) }, "cublasGemmEx"));
    }
    // SAFETY: live streams of this context. The handle is bound to its own stream again.
    let (waited, set) =
        unsafe { ((cuda.driver.stream_synchronize)(stream), (functions.set_stream)(handle, stream_state.handle())) };
    check(set, "cublasSetStream")?;
    cuda.check(waited, "cuStreamSynchronize").and(done)
}

fn make(_: &Cuda, stream: Stream) -> Result<Handle> {
    // SAFETY: this is cuBLAS.
    let functions = unsafe { Cublas::find(library::load(Library::Cublas)?)? };
    let mut handle = Context::NULL;
    // SAFETY: the device's context is current; the stream is one of it and never destroyed.
    unsafe {
        check((functions.create)(&mut handle), "cublasCreate")?;
        check((functions.set_stream)(handle, stream), "cublasSetStream")?;
        check((functions.set_math_mode)(handle, MATH), "cublasSetMathMode")?;
    }
    Ok(Handle { handle, functions })
}

/// Picks a value by dtype, from values in the order of LAPACK's letters: S, D, C, Z.
pub fn by_type<T: Copy>(dtype: DType, [f32, f64, c64, c128]: [T; 4]) -> Result<T> {
    Ok(match dtype {
        DType::Float32 => f32,
        DType::Float64 => f64,
        DType::Complex64 => c64,
        DType::Complex128 => c128,
        other => return Err(Error::new(Kind::DType, format!("linear algebra has no {other}"))),
    })
}

/// The letter of a type in the names of LAPACK's functions.
pub fn letter(dtype: DType) -> Result<char> {
    by_type(dtype, ['S', 'D', 'C', 'Z'])
}

crate::backend::cuda::driver::status::codes! {
    /// The `cublasStatus_t` of a status.
    code: cublasStatus_t {
        CUBLAS_STATUS_SUCCESS
        CUBLAS_STATUS_NOT_INITIALIZED
        CUBLAS_STATUS_ALLOC_FAILED
        CUBLAS_STATUS_INVALID_VALUE
        CUBLAS_STATUS_ARCH_MISMATCH
        CUBLAS_STATUS_MAPPING_ERROR
        CUBLAS_STATUS_EXECUTION_FAILED
        CUBLAS_STATUS_INTERNAL_ERROR
        CUBLAS_STATUS_NOT_SUPPORTED
        CUBLAS_STATUS_LICENSE_ERROR
    }
}

fn check(status: u32, function: &str) -> Result<()> {
    let (kind, name) = match code(status) {
        Some(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => return Ok(()),
        Some(cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED) => {
            (Kind::Library, "not initialised; does the library match the driver?")
        }
        Some(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED) => (Kind::Memory, "out of device memory"),
        Some(cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE) => (Kind::Launch, "invalid value"),
        Some(cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH) => (Kind::Library, "this cuBLAS does not support the device"),
        Some(cublasStatus_t::CUBLAS_STATUS_MAPPING_ERROR) => (Kind::Launch, "mapping error"),
        Some(cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED) => (Kind::Launch, "execution failed"),
        Some(cublasStatus_t::CUBLAS_STATUS_INTERNAL_ERROR) => (Kind::Launch, "internal error"),
        Some(cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED) => (Kind::Library, "not supported"),
        Some(cublasStatus_t::CUBLAS_STATUS_LICENSE_ERROR) => (Kind::Library, "licence error"),
        _ => (Kind::Launch, "unknown status"),
    };
    let error = Error::new(kind, format!("`{function}` failed: {name} ({status})"));
    Err(match kind {
        Kind::Memory => error.advise("Free arrays with `gpu_free()`, or `rm()` and `gc()`."),
        _ => error.advise("`gpu_sitrep()` shows which cuBLAS is in use."),
    })
}

pub fn operation(transpose: bool) -> cublasOperation_t {
    if transpose {
        cublasOperation_t::CUBLAS_OP_T
    } else {
        cublasOperation_t::CUBLAS_OP_N
    }
}

/// The `cudaDataType` of a dtype; `None` for integers and logicals.
pub fn data_type(dtype: DType) -> Option<cudaDataType> {
    Some(match dtype {
        DType::Float16 => cudaDataType::CUDA_R_16F,
        DType::BFloat16 => cudaDataType::CUDA_R_16BF,
        DType::Float32 => cudaDataType::CUDA_R_32F,
        DType::Float64 => cudaDataType::CUDA_R_64F,
        DType::Complex64 => cudaDataType::CUDA_C_32F,
        DType::Complex128 => cudaDataType::CUDA_C_64F,
        _ => return None,
    })
}

/// The type in which products accumulate: float32 for half types.
fn compute_type(dtype: DType, precision: Precision) -> cublasComputeType_t {
    match (dtype, precision) {
        (DType::Float64 | DType::Complex128, _) => cublasComputeType_t::CUBLAS_COMPUTE_64F,
        (DType::Float32 | DType::Complex64, Precision::Tf32) => cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        (DType::Float32 | DType::Complex64, Precision::BFloat16) => cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
        _ => cublasComputeType_t::CUBLAS_COMPUTE_32F,
    }
}

/// The bytes of a scalar (alpha or beta) of any type. cuBLAS reads complex scalars by instructions that fault on
/// addresses that are not multiples of 16.
#[repr(align(16))]
struct Factor([u8; 16]);

impl Factor {
    fn pointer(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// `value` as a scalar in the compute type of products of `dtype`; its imaginary part is 0.
fn factor(dtype: DType, value: f64) -> Factor {
    let mut out = [0u8; 16];
    match dtype {
        DType::Float64 | DType::Complex128 => out[..8].copy_from_slice(&value.to_ne_bytes()),
        _ => out[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
    }
    Factor(out)
}

/// A matrix of a product, with its leading dimension, and the distance to the next matrix of a batch, in elements.
#[derive(Clone, Copy)]
struct GemmOperand {
    address: CUdeviceptr,
    leading: i64,
    stride: i64,
}

/// The arguments that single and batched products share.
struct Gemm {
    operations: [cublasOperation_t; 2],
    extents: [i64; 3],
    /// alpha and beta.
    factors: [*const c_void; 2],
    a: GemmOperand,
    b: GemmOperand,
    out: GemmOperand,
    data: cudaDataType,
    compute: cublasComputeType_t,
}

impl Gemm {
    const ALGORITHM: cublasGemmAlgo_t = cublasGemmAlgo_t::CUBLAS_GEMM_DFALT;

    /// # Safety
    /// The matrices have the elements that the extents require, on the handle's device; the factors' pointers are
    /// valid.
    #[rustfmt::skip]
    unsafe fn single(&self, functions: &Cublas, handle: Context) -> u32 {
        let Gemm { operations: [op_a, op_b], extents: [m, n, k], factors: [alpha, beta], a, b, out, data, compute } = *self;
        // SAFETY: the caller's promise.
        unsafe {
            (functions.multiply)(
                handle, op_a, op_b, m, n, k, alpha, a.address, data, a.leading, b.address, data, b.leading,
                beta, out.address, data, out.leading, compute, Gemm::ALGORITHM,
            )
        }
    }

    /// # Safety
    /// As for `single`, for `count` products.
    #[rustfmt::skip]
    unsafe fn batched(&self, functions: &Cublas, handle: Context, count: i64) -> u32 {
        let Gemm { operations: [op_a, op_b], extents: [m, n, k], factors: [alpha, beta], a, b, out, data, compute } = *self;
        // SAFETY: the caller's promise.
        unsafe {
            (functions.multiply_batched)(
                handle, op_a, op_b, m, n, k, alpha, a.address, data, a.leading, a.stride, b.address, data, b.leading,
                b.stride, beta, out.address, data, out.leading, out.stride, count, compute, Gemm::ALGORITHM,
            )
        }
    }
}

/// Whether a view holds `count` matrices of `rows × columns`, which begin `next` elements apart.
pub(super) fn fits_as(matrix: &Matrix, rows: usize, columns: usize, count: usize, next: usize) -> bool {
    let last = matrix.view.len().checked_sub((count - 1) * next);
    let stored = stored_extents(matrix.transposed, rows, columns);
    last.is_some_and(|elements| holds(elements, matrix.leading, stored))
}

/// Queues a product, by gemm, batched gemm, or syrk if only the upper triangle is wanted. False if cuBLAS does not
/// multiply the dtype.
pub fn multiply(cuda: &Cuda, product: &Product<'_>, output: &Arc<Buffer>) -> Result<bool> {
    let &Product { a, b, m, n, k, batch, upper, precision, .. } = product;
    let dtype = a.view.dtype;
    let Some(data) = data_type(dtype) else { return Ok(false) };
    if b.view.dtype != dtype {
        return Err(Error::new(Kind::DType, format!("a product of {dtype} and {}", b.view.dtype)));
    }
    if output.bytes != m * n * batch.count * dtype.size() {
        return Err(Error::new(Kind::Shape, format!("a product of {m} x {n} was given {} bytes", output.bytes)));
    }
    if m * n * batch.count == 0 {
        return Ok(true);
    }
    if k == 0 {
        // all bits zero is 0 in every type
        return cuda.fill(output.address, 0, output.bytes).map(|()| true);
    }
    if !fits_as(a, m, k, batch.count, batch.a) || !fits_as(b, k, n, batch.count, batch.b) {
        return Err(Error::new(
            Kind::Shape,
            format!("a product of {m} x {k} by {k} x {n} was given {} and {} elements", a.view.len(), b.view.len()),
        ));
    }
    let _entered = cuda.enter()?;
    let (Handle { handle, functions }, _held) = HANDLES.of(cuda, make)?;
    let (unit, zero) = (factor(dtype, 1.0), factor(dtype, 0.0));
    let (unit, zero) = (unit.pointer(), zero.pointer());
    let (first, second) = (a.view.address(), b.view.address());
    let (rows, columns, inner) = (m as i64, n as i64, k as i64);
    let (lda, ldb) = (a.leading as i64, b.leading as i64);
    let (op_a, op_b) = (operation(a.transposed), operation(b.transposed));
    if upper {
        let syrk = functions.syrk(dtype)?;
        let triangle = cublasFillMode_t::CUBLAS_FILL_MODE_UPPER;
        // SAFETY: as below.
        let status = unsafe { syrk(handle, triangle, op_a, rows, inner, unit, first, lda, zero, output.address, rows) };
        return check(status, "cublasXsyrk").map(|()| true);
    }
    let gemm = Gemm {
        operations: [op_a, op_b],
        extents: [rows, columns, inner],
        factors: [unit, zero],
        a: GemmOperand { address: first, leading: lda, stride: batch.a as i64 },
        b: GemmOperand { address: second, leading: ldb, stride: batch.b as i64 },
        out: GemmOperand { address: output.address, leading: rows, stride: (m * n) as i64 },
        data,
        compute: compute_type(dtype, precision),
    };
    // SAFETY: the matrices have as many elements as the extents say (checked above) and live on this device; they are
    // freed, if at all, on the same stream. The factors are of the compute type and read before the return.
    if batch.count == 1 {
        return check(unsafe { gemm.single(&functions, handle) }, "cublasGemmEx").map(|()| true);
    }
    // SAFETY: as above, for each of the pairs.
    check(unsafe { gemm.batched(&functions, handle, batch.count as i64) }, "cublasGemmStridedBatchedEx").map(|()| true)
}

/// Queues a triangular solve: `b` (`n × columns`) becomes the solution of `r x = b`, or of `t(r) x = b` if `transpose`.
#[allow(clippy::too_many_arguments)]
pub fn triangular(
    cuda: &Cuda,
    dtype: DType,
    r: &Matrix,
    upper: bool,
    transpose: bool,
    n: usize,
    b: &Buffer,
    columns: usize,
) -> Result<()> {
    if r.view.dtype != dtype || !fits_as(r, n, n, 1, 0) || b.bytes != n * columns * dtype.size() {
        return Err(Error::new(Kind::Shape, format!("a triangle of {n} rows and {} bytes", b.bytes)));
    }
    let _entered = cuda.enter()?;
    let (Handle { handle, functions }, _held) = HANDLES.of(cuda, make)?;
    let trsm = functions.trsm(dtype)?;
    // the upper triangle of a matrix that is stored transposed is below the diagonal in memory
    let triangle = if upper != r.transposed {
        cublasFillMode_t::CUBLAS_FILL_MODE_UPPER
    } else {
        cublasFillMode_t::CUBLAS_FILL_MODE_LOWER
    };
    let (left, full) = (cublasSideMode_t::CUBLAS_SIDE_LEFT, cublasDiagType_t::CUBLAS_DIAG_NON_UNIT);
    let unit = factor(dtype, 1.0);
    // SAFETY: both matrices have as many elements as the extents say (checked above) and live on this device.
    let status = unsafe {
        trsm(
            handle,
            left,
            triangle,
            operation(transpose != r.transposed),
            full,
            n as i64,
            columns as i64,
            unit.pointer(),
            r.view.address(),
            r.leading as i64,
            b.address,
            n as i64,
        )
    };
    check(status, "cublasXtrsm")
}

#[cfg(test)]
mod tests {
    #[test]
    fn declarations_are_cudarcs() {
        assert_eq!(super::Cublas::differences(), [""; 0]);
    }
}
