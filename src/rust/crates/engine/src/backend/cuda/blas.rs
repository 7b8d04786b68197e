//! Matrix products by cuBLAS, with our own declarations: a status is a plain number.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use super::device::lock;
use super::library::{self, Library};
use super::Cuda;
use crate::backend::Product;
use crate::buffer::Buffer;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};

type Create = unsafe extern "C" fn(*mut usize) -> u32;
type SetStream = unsafe extern "C" fn(usize, usize) -> u32;
type SetMathMode = unsafe extern "C" fn(usize, u32) -> u32;
/// `cublasGemmEx_64`: handle, the two operations, m, n, k, alpha, A, B, beta, C, compute type, algorithm.
#[rustfmt::skip]
type Gemm = unsafe extern "C" fn(
    usize, u32, u32, i64, i64, i64, *const c_void,
    u64, u32, i64, u64, u32, i64,
    *const c_void, u64, u32, i64, u32, i32,
) -> u32;

/// `CUBLAS_DEFAULT_MATH` (no TF32) with `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`: half types add in float32.
const MATH: u32 = 16;
/// `CUBLAS_GEMM_DEFAULT`.
const ALGORITHM: i32 = -1;

/// A device's cuBLAS, bound to the device's stream. One thread uses it at a time.
#[derive(Clone, Copy)]
struct Handle {
    handle: usize,
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
    let mut handle = 0;
    // SAFETY: the device's context is current; the stream is one of it and never destroyed.
    unsafe {
        check(create(&mut handle), "cublasCreate")?;
        check(set_stream(handle, cuda.stream), "cublasSetStream")?;
        check(set_math(handle, MATH), "cublasSetMathMode")?;
    }
    Ok(Handle { handle, gemm })
}

/// `cublasStatus_t`.
fn check(status: u32, function: &str) -> Result<()> {
    let (kind, name) = match status {
        0 => return Ok(()),
        1 => (Kind::Library, "not initialised; is the library for this driver?"),
        3 => (Kind::Memory, "out of device memory"),
        7 => (Kind::Launch, "invalid value"),
        8 => (Kind::Library, "this cuBLAS does not serve the device"),
        11 => (Kind::Launch, "mapping error"),
        13 => (Kind::Launch, "execution failed"),
        14 => (Kind::Launch, "internal error"),
        15 => (Kind::Library, "not supported"),
        16 => (Kind::Library, "licence error"),
        _ => (Kind::Launch, "unknown status"),
    };
    let error = Error::new(kind, format!("`{function}` failed: {name} ({status})"));
    Err(match kind {
        Kind::Memory => error.advise("Free arrays with `gpu_free()`, or `rm()` and `gc()`."),
        _ => error.advise("`gpu_sitrep()` shows which cuBLAS is in use."),
    })
}

/// `cudaDataType_t` of the elements and `cublasComputeType_t`; half types compute in float32.
fn types(dtype: DType) -> Option<(u32, u32)> {
    const COMPUTE_32F: u32 = 68;
    const COMPUTE_64F: u32 = 70;
    Some(match dtype {
        DType::Float16 => (2, COMPUTE_32F),
        DType::BFloat16 => (14, COMPUTE_32F),
        DType::Float32 => (0, COMPUTE_32F),
        DType::Float64 => (1, COMPUTE_64F),
        DType::Complex64 => (4, COMPUTE_32F),
        DType::Complex128 => (5, COMPUTE_64F),
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
            u32::from(transpose_a),
            u32::from(transpose_b),
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
            ALGORITHM,
        )
    };
    check(status, "cublasGemmEx")?;
    Ok(true)
}
