//! Matrix products by cuBLAS: cudarc's types and constants, and functions whose status is a plain number (see `api`).

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use cudarc::cublas::sys::{
    cublasComputeType_t, cublasContext, cublasGemmAlgo_t, cublasMath_t, cublasOperation_t, cublasStatus_t, cudaDataType,
};

use super::api::{self, CUdeviceptr, Opaque, Shared, Stream};
use super::device::lock;
use super::library::{self, Library};
use super::Cuda;
use crate::backend::Product;
use crate::buffer::Buffer;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};

impl Opaque for cublasContext {}
/// `cublasHandle_t`.
type Context = Shared<cublasContext>;

type Create = unsafe extern "C" fn(*mut Context) -> u32;
type SetStream = unsafe extern "C" fn(Context, Stream) -> u32;
type SetMathMode = unsafe extern "C" fn(Context, cublasMath_t) -> u32;
/// `cublasGemmEx_64`: handle, the two operations, m, n, k, alpha, A, B, beta, C, compute type, algorithm.
#[rustfmt::skip]
type Gemm = unsafe extern "C" fn(
    Context, cublasOperation_t, cublasOperation_t, i64, i64, i64, *const c_void,
    CUdeviceptr, cudaDataType, i64, CUdeviceptr, cudaDataType, i64,
    *const c_void, CUdeviceptr, cudaDataType, i64, cublasComputeType_t, cublasGemmAlgo_t,
) -> u32;

/// `CUBLAS_DEFAULT_MATH` (no TF32), which is 0, with this flag: half types add in float32.
const MATH: cublasMath_t = cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;

/// A device's cuBLAS, bound to the device's stream. One thread uses it at a time.
#[derive(Clone, Copy)]
struct Handle {
    handle: Context,
    gemm: Gemm,
}

/// By ordinal. Never destroyed: at the end of the process the driver may be gone before us.
static HANDLES: Mutex<Option<HashMap<u32, Handle>>> = Mutex::new(None);

fn make(cuda: &Cuda) -> Result<Handle> {
    let cublas = library::load(Library::Cublas)?;
    // SAFETY: the types are those of cublas_v2.h, with the status as a number.
    let (create, set_stream, set_math, gemm) = unsafe {
        (
            cublas.symbol::<Create>("cublasCreate_v2")?,
            cublas.symbol::<SetStream>("cublasSetStream_v2")?,
            cublas.symbol::<SetMathMode>("cublasSetMathMode")?,
            cublas.symbol::<Gemm>("cublasGemmEx_64")?,
        )
    };
    let mut handle = Context::NULL;
    // SAFETY: the device's context is current; the stream is one of it and never destroyed.
    unsafe {
        check(create(&mut handle), "cublasCreate")?;
        check(set_stream(handle, cuda.stream), "cublasSetStream")?;
        check(set_math(handle, MATH), "cublasSetMathMode")?;
    }
    Ok(Handle { handle, gemm })
}

api::codes! {
    /// `cublasStatus_t`.
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
            (Kind::Library, "not initialised; is the library for this driver?")
        }
        Some(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED) => (Kind::Memory, "out of device memory"),
        Some(cublasStatus_t::CUBLAS_STATUS_INVALID_VALUE) => (Kind::Launch, "invalid value"),
        Some(cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH) => (Kind::Library, "this cuBLAS does not serve the device"),
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

fn operation(transpose: bool) -> cublasOperation_t {
    if transpose {
        cublasOperation_t::CUBLAS_OP_T
    } else {
        cublasOperation_t::CUBLAS_OP_N
    }
}

/// The type of the elements, and the one to compute in; half types compute in float32.
fn types(dtype: DType) -> Option<(cudaDataType, cublasComputeType_t)> {
    use cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F};
    Some(match dtype {
        DType::Float16 => (cudaDataType::CUDA_R_16F, CUBLAS_COMPUTE_32F),
        DType::BFloat16 => (cudaDataType::CUDA_R_16BF, CUBLAS_COMPUTE_32F),
        DType::Float32 => (cudaDataType::CUDA_R_32F, CUBLAS_COMPUTE_32F),
        DType::Float64 => (cudaDataType::CUDA_R_64F, CUBLAS_COMPUTE_64F),
        DType::Complex64 => (cudaDataType::CUDA_C_32F, CUBLAS_COMPUTE_32F),
        DType::Complex128 => (cudaDataType::CUDA_C_64F, CUBLAS_COMPUTE_64F),
        _ => return None,
    })
}

/// One, or zero, as cuBLAS reads a factor of this type.
fn factor(dtype: DType, value: f64) -> [u8; 16] {
    let mut out = [0u8; 16];
    match dtype {
        DType::Float64 | DType::Complex128 => out[..8].copy_from_slice(&value.to_ne_bytes()),
        _ => out[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
    }
    out
}

pub fn multiply(cuda: &Cuda, product: &Product<'_>, output: &Arc<Buffer>) -> Result<bool> {
    let Product { a, b, transpose_a, transpose_b, m, n, k } = *product;
    let dtype = a.dtype;
    let Some((data, compute)) = types(dtype) else { return Ok(false) };
    if b.dtype != dtype {
        return Err(Error::new(Kind::DType, format!("a product of {dtype} and {}", b.dtype)));
    }
    if a.len() != m * k || b.len() != k * n || output.bytes != m * n * dtype.size() {
        return Err(Error::new(
            Kind::Shape,
            format!("a product of {m} x {k} by {k} x {n} was given {} and {} elements", a.len(), b.len()),
        ));
    }
    if m == 0 || n == 0 {
        return Ok(true);
    }
    if k == 0 {
        // all bits zero is 0 in every type
        return cuda.fill(output.address, 0, output.bytes).map(|()| true);
    }
    let _entered = cuda.enter()?;
    let mut handles = lock(&HANDLES);
    let handles = handles.get_or_insert_with(HashMap::new);
    let ordinal = cuda.properties.ordinal;
    let Handle { handle, gemm } = match handles.get(&ordinal) {
        Some(&known) => known,
        None => *handles.entry(ordinal).or_insert(make(cuda)?),
    };
    let (one, zero) = (factor(dtype, 1.0), factor(dtype, 0.0));
    let (lda, ldb) = (if transpose_a { k } else { m }, if transpose_b { n } else { k });
    // SAFETY: the matrices have as many elements as the extents say (checked above) and live on this device;
    // they are freed, if at all, on the same stream. The factors are of the compute type and read before the return.
    let status = unsafe {
        gemm(
            handle,
            operation(transpose_a),
            operation(transpose_b),
            m as i64,
            n as i64,
            k as i64,
            one.as_ptr().cast(),
            a.address(),
            data,
            lda as i64,
            b.address(),
            data,
            ldb as i64,
            zero.as_ptr().cast(),
            output.address,
            data,
            m as i64,
            compute,
            cublasGemmAlgo_t::CUBLAS_GEMM_DFALT,
        )
    };
    check(status, "cublasGemmEx")?;
    Ok(true)
}
