//! Factorisations by cuSOLVER's 64-bit functions. Modes and statuses are integers here (see `functions`); the other
//! types are cuBLAS's, which cuSOLVER's header shares.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::blas::{
    cublasFillMode_t as Triangle, cublasOperation_t as Operation, cublasSideMode_t as Side, cudaDataType as Data,
    data_type, letter, operation,
};
use super::handles::Handles;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{CUdeviceptr, Opaque, Shared, Stream};
use crate::backend::cuda::driver::library::{self, Library, Loaded};
use crate::backend::dense::{real, Method, Task, Vectors};
use crate::memory::buffer::Buffer;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// What `cusolverDnHandle_t` and `cusolverDnParams_t` point to.
#[derive(Clone, Copy)]
pub enum SolverContext {}
impl Opaque for SolverContext {}
type Context = Shared<SolverContext>;

/// `cusolverEigMode_t`: without and with vectors.
const EIG_MODE: [u32; 2] = [0, 1];

type Create = unsafe extern "C" fn(*mut Context) -> u32;
type SetStream = unsafe extern "C" fn(Context, Stream) -> u32;
type Sizes = (*mut usize, *mut usize);
/// Device workspace and its bytes, host workspace and its bytes, info.
type Work = (CUdeviceptr, usize, *mut c_void, usize, CUdeviceptr);

/// A cuSOLVER handle, bound to one stream of a device. Used by one thread at a time.
#[derive(Clone, Copy)]
struct Handle {
    handle: Context,
    params: Context,
    library: &'static Loaded,
}

static HANDLES: Handles<Handle> = Handles::new();

/// Makes the handle of the device's current stream.
pub(super) fn prepare(cuda: &Cuda) -> Result<()> {
    let _entered = cuda.enter()?;
    HANDLES.of(cuda, make).map(drop)
}

fn make(_: &Cuda, stream: Stream) -> Result<Handle> {
    let library = library::load(Library::Cusolver)?;
    // SAFETY: the types are those of cusolverDn.h, with the status as a number.
    let (create, create_params, set_stream) = unsafe {
        (
            library.symbol::<Create>("cusolverDnCreate")?,
            library.symbol::<Create>("cusolverDnCreateParams")?,
            library.symbol::<SetStream>("cusolverDnSetStream")?,
        )
    };
    let (mut handle, mut params) = (Context::NULL, Context::NULL);
    // SAFETY: the device's context is current; the stream is one of it and never destroyed.
    unsafe {
        check(create(&mut handle), "cusolverDnCreate")?;
        check(create_params(&mut params), "cusolverDnCreateParams")?;
        check(set_stream(handle, stream), "cusolverDnSetStream")?;
    }
    Ok(Handle { handle, params, library })
}

/// Turns a `cusolverStatus_t` into an error.
fn check(status: u32, function: &str) -> Result<()> {
    let (kind, name) = match status {
        0 => return Ok(()),
        1 => (Kind::Library, "not initialised; does the library match the driver?"),
        2 => (Kind::Memory, "out of device memory"),
        3 => (Kind::Launch, "invalid value"),
        4 => (Kind::Library, "this cuSOLVER does not support the device"),
        6 => (Kind::Launch, "execution failed"),
        7 => (Kind::Launch, "internal error"),
        9 => (Kind::Library, "not supported"),
        _ => (Kind::Launch, "unknown status"),
    };
    let error = Error::new(kind, format!("`{function}` failed: {name} ({status})"));
    Err(match kind {
        Kind::Memory => error.advise("Free arrays with `gpu_free()`, or `rm()` and `gc()`."),
        _ => error.advise("`gpu_sitrep()` shows which cuSOLVER is in use."),
    })
}

/// The workspace of a cuSOLVER call; it lives until `info` has been read.
struct Workspace {
    device: Arc<Buffer>,
    host: Vec<u8>,
    info: Arc<Buffer>,
}

impl Workspace {
    fn new(cuda: &Cuda, device: usize, host: usize) -> Result<Workspace> {
        let info = cuda.allocate(size_of::<c_int>())?;
        cuda.fill(info.address, 0, info.bytes)?;
        Ok(Workspace { device: cuda.allocate(device)?, host: crate::memory::fallible::filled(0, host)?, info })
    }

    fn work(&mut self) -> Work {
        let host = self.host.as_mut_ptr().cast();
        (self.device.address, self.device.bytes, host, self.host.len(), self.info.address)
    }

    /// Waits for the function's end, and returns LAPACK's `info`.
    fn info(self, cuda: &Cuda, function: &str) -> Result<i32> {
        let mut bytes = [0u8; 4];
        if let Err(error) = cuda.download(&self.info, 0, &mut bytes) {
            // the wait was interrupted: queued work may still use the host workspace, so it is leaked
            std::mem::forget(self.host);
            return Err(error);
        }
        let info = i32::from_ne_bytes(bytes);
        if info < 0 {
            return Err(Error::new(Kind::Launch, format!("`{function}` failed: argument {} is wrong", -info)));
        }
        Ok(info)
    }
}

/// Calls `cusolverDnNAME` with the arguments between the handles and the workspace, after `_bufferSize` has returned
/// the sizes of the workspace. The first list has the arguments of `_bufferSize`, the second those of the function;
/// both with their types.
macro_rules! call {
    ($cuda:ident, $solver:ident, $name:literal, [$($size:expr => $size_type:ty),* $(,)?], [$($arg:expr => $type:ty),* $(,)?] $(, $more:expr => $more_type:ty)?) => {{
        let Handle { handle, params, library } = $solver;
        // SAFETY: the types are those of cusolverDn.h, with the status as a number.
        let (ask, run) = unsafe {
            (
                library.symbol::<unsafe extern "C" fn(Context, Context, $($size_type,)* *mut usize, *mut usize) -> u32>(
                    concat!("cusolverDn", $name, "_bufferSize"))?,
                library.symbol::<unsafe extern "C" fn(
                    Context, Context, $($type,)* CUdeviceptr, usize, *mut c_void, usize, CUdeviceptr $(, $more_type)?) -> u32>(
                    concat!("cusolverDn", $name))?,
            )
        };
        let (mut device, mut host) = (0usize, 0usize);
        let sizes: Sizes = (&mut device, &mut host);
        // SAFETY: the matrices are as large as the extents say, which the caller has checked; nothing is written but
        // the sizes.
        check(unsafe { ask(handle, params, $($size,)* sizes.0, sizes.1) }, concat!("cusolverDn", $name, "_bufferSize"))?;
        let mut workspace = Workspace::new($cuda, device, host)?;
        let work = workspace.work();
        // SAFETY: as above; everything lives until the info is read, which waits for the function's end.
        check(
            unsafe { run(handle, params, $($arg,)* work.0, work.1, work.2, work.3, work.4 $(, $more)?) },
            concat!("cusolverDn", $name),
        )?;
        workspace.info($cuda, concat!("cusolverDn", $name))
    }};
}

/// Fails unless buffers have the sizes that the extents require.
fn need(holds: bool) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::new(Kind::Shape, "a factorisation was given a buffer of another size"))
}

/// See `Backend::factor`.
pub fn factor(cuda: &Cuda, dtype: DType, task: &Task<'_>) -> Result<i32> {
    let _entered = cuda.enter()?;
    let (solver, _held) = HANDLES.of(cuda, make)?;
    letter(dtype)?;
    let data = |dtype| data_type(dtype).expect("a float or complex dtype");
    let (t, t_real) = (data(dtype), data(real(dtype)));
    let size = dtype.size();
    let real_size = real(dtype).size();
    match *task {
        Task::Lu { a, n, pivots } => {
            need(a.bytes == n * n * size && pivots.bytes == n * 8)?;
            let n = n as i64;
            call!(cuda, solver, "Xgetrf",
                [n => i64, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t => Data],
                [n => i64, n => i64, t => Data, a.address => CUdeviceptr, n => i64, pivots.address => CUdeviceptr, t => Data])
        }
        Task::LuSolve { lu, pivots, n, b, columns, transpose } => {
            need(lu.len() == n * n && lu.dtype == dtype && pivots.len() == n && b.bytes == n * columns * size)?;
            getrs(cuda, solver, t, [lu.address(), pivots.address(), b.address], n as i64, columns as i64, transpose)
        }
        Task::Cholesky { a, n } => {
            need(a.bytes == n * n * size)?;
            let n = n as i64;
            let lower = Triangle::CUBLAS_FILL_MODE_LOWER;
            call!(cuda, solver, "Xpotrf",
                [lower => Triangle, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t => Data],
                [lower => Triangle, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t => Data])
        }
        Task::Qr { a, m, n, tau } => {
            need(a.bytes == m * n * size && tau.bytes == m.min(n) * size)?;
            let (m, n) = (m as i64, n as i64);
            call!(cuda, solver, "Xgeqrf",
                [m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64, t => Data, tau.address => CUdeviceptr, t => Data],
                [m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64, t => Data, tau.address => CUdeviceptr, t => Data])
        }
        Task::QrApply { qr, tau, m, k, c, columns, transpose } => {
            need(qr.len() >= m * k && qr.dtype == dtype && tau.len() >= k && tau.dtype == dtype)?;
            need(c.bytes == m * columns * size)?;
            ormqr(cuda, solver, dtype, [qr.address(), tau.address(), c.address], [m, columns, k], transpose)
        }
        Task::Symmetric { a, n, values, vectors } => {
            need(a.bytes == n * n * size && values.bytes == n * real_size)?;
            let n = n as i64;
            let (mode, lower) = (EIG_MODE[usize::from(vectors)], Triangle::CUBLAS_FILL_MODE_LOWER);
            call!(cuda, solver, "Xsyevd",
                [mode => u32, lower => Triangle, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t_real => Data,
                 values.address => CUdeviceptr, t => Data],
                [mode => u32, lower => Triangle, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t_real => Data,
                 values.address => CUdeviceptr, t => Data])
        }
        Task::General { a, n, values, vectors } => {
            need(a.bytes == n * n * size && values.bytes == 2 * n * size)?;
            need(vectors.is_none_or(|v| v.bytes == n * n * size))?;
            let n = n as i64;
            let (left, right) = (EIG_MODE[0], EIG_MODE[usize::from(vectors.is_some())]);
            let out = vectors.map_or(0, |v| v.address);
            call!(cuda, solver, "Xgeev",
                [left => u32, right => u32, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t => Data,
                 values.address => CUdeviceptr, t => Data, 0 => CUdeviceptr, n => i64, t => Data, out => CUdeviceptr, n => i64, t => Data],
                [left => u32, right => u32, n => i64, t => Data, a.address => CUdeviceptr, n => i64, t => Data,
                 values.address => CUdeviceptr, t => Data, 0 => CUdeviceptr, n => i64, t => Data, out => CUdeviceptr, n => i64, t => Data])
        }
        Task::Svd { a, m, n, d, vectors, method, perturbation: moved } => {
            need(m >= n && a.bytes == m * n * size && d.bytes == n * real_size)?;
            let width = |v: &Vectors<'_>| if v.full { m } else { n };
            need(vectors.is_none_or(|v| v.u.bytes == m * width(&v) * size && v.v.bytes == n * n * size))?;
            let full = vectors.is_some_and(|v| v.full);
            let (u, v) = vectors.map_or((0, 0), |v| (v.u.address, v.v.address));
            let (m, n) = (m as i64, n as i64);
            match method {
                Method::Bidiagonal => {
                    let job = match vectors {
                        None => b'N',
                        Some(_) if full => b'A',
                        Some(_) => b'S',
                    } as c_char;
                    call!(cuda, solver, "Xgesvd",
                        [job => c_char, job => c_char, m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64,
                         t_real => Data, d.address => CUdeviceptr, t => Data, u => CUdeviceptr, m => i64, t => Data, v => CUdeviceptr, n => i64, t => Data],
                        [job => c_char, job => c_char, m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64,
                         t_real => Data, d.address => CUdeviceptr, t => Data, u => CUdeviceptr, m => i64, t => Data, v => CUdeviceptr, n => i64, t => Data])
                }
                Method::Polar => {
                    let (mode, thin) = (EIG_MODE[usize::from(vectors.is_some())], c_int::from(!full));
                    let mut perturbed = 0f64;
                    let info = call!(cuda, solver, "Xgesvdp",
                        [mode => u32, thin => c_int, m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64,
                         t_real => Data, d.address => CUdeviceptr, t => Data, u => CUdeviceptr, m => i64, t => Data, v => CUdeviceptr, n => i64, t => Data],
                        [mode => u32, thin => c_int, m => i64, n => i64, t => Data, a.address => CUdeviceptr, m => i64,
                         t_real => Data, d.address => CUdeviceptr, t => Data, u => CUdeviceptr, m => i64, t => Data, v => CUdeviceptr, n => i64, t => Data],
                        &raw mut perturbed => *mut f64)?;
                    moved.set(perturbed);
                    Ok(info)
                }
            }
        }
        Task::Triangular { .. } => Err(Error::new(Kind::Launch, "triangles are cuBLAS's")),
    }
}

/// `cusolverDnXgetrs`, which takes no workspace.
fn getrs(
    cuda: &Cuda,
    solver: Handle,
    t: Data,
    [lu, pivots, b]: [CUdeviceptr; 3],
    n: i64,
    columns: i64,
    transpose: bool,
) -> Result<i32> {
    #[rustfmt::skip]
    type Getrs = unsafe extern "C" fn(
        Context, Context, Operation, i64, i64, Data, CUdeviceptr, i64, CUdeviceptr, Data, CUdeviceptr, i64, CUdeviceptr,
    ) -> u32;
    let Handle { handle, params, library } = solver;
    // SAFETY: the types are those of cusolverDn.h, with the status as a number.
    let run = unsafe { library.symbol::<Getrs>("cusolverDnXgetrs")? };
    let workspace = Workspace::new(cuda, 0, 0)?;
    let info = workspace.info.address;
    // SAFETY: the matrices are as large as the extents say, which the caller has checked.
    let status = unsafe { run(handle, params, operation(transpose), n, columns, t, lu, n, pivots, t, b, n, info) };
    check(status, "cusolverDnXgetrs")?;
    // `info` only reports wrong arguments, so there is nothing to wait for
    Ok(0)
}

/// `cusolverDn?ormqr`, whose extents are 32-bit and whose workspace counts elements.
fn ormqr(
    cuda: &Cuda,
    solver: Handle,
    dtype: DType,
    [qr, tau, c]: [CUdeviceptr; 3],
    [m, columns, k]: [usize; 3],
    transpose: bool,
) -> Result<i32> {
    #[rustfmt::skip]
    type Ask = unsafe extern "C" fn(
        Context, Side, Operation, c_int, c_int, c_int, CUdeviceptr, c_int, CUdeviceptr, CUdeviceptr, c_int, *mut c_int,
    ) -> u32;
    #[rustfmt::skip]
    type Run = unsafe extern "C" fn(
        Context, Side, Operation, c_int, c_int, c_int, CUdeviceptr, c_int, CUdeviceptr, CUdeviceptr, c_int,
        CUdeviceptr, c_int, CUdeviceptr,
    ) -> u32;
    let letter = match dtype {
        DType::Float32 | DType::Float64 => letter(dtype)?,
        other => return Err(Error::new(Kind::DType, format!("reflectors of {other} are the host's"))),
    };
    let int =
        |x: usize| c_int::try_from(x).map_err(|_| Error::new(Kind::Shape, format!("{x} rows or columns are too many")));
    let (m, columns, k) = (int(m)?, int(columns)?, int(k)?);
    let (left, op) = (Side::CUBLAS_SIDE_LEFT, operation(transpose));
    let Handle { handle, library, .. } = solver;
    // SAFETY: the types are those of cusolverDn.h, with the status as a number.
    let (ask, run) = unsafe {
        (
            library.symbol::<Ask>(&format!("cusolverDn{letter}ormqr_bufferSize"))?,
            library.symbol::<Run>(&format!("cusolverDn{letter}ormqr"))?,
        )
    };
    let mut elements: c_int = 0;
    // SAFETY: the matrices are as large as the extents say, which the caller has checked; only the size is written.
    let status = unsafe { ask(handle, left, op, m, columns, k, qr, m, tau, c, m, &mut elements) };
    check(status, "cusolverDnXormqr_bufferSize")?;
    let workspace = Workspace::new(cuda, usize::try_from(elements).unwrap_or(0) * dtype.size(), 0)?;
    let (work, info) = (workspace.device.address, workspace.info.address);
    // SAFETY: as above; the workspace is freed in stream order.
    let status = unsafe { run(handle, left, op, m, columns, k, qr, m, tau, c, m, work, elements, info) };
    check(status, "cusolverDnXormqr")?;
    // `info` only reports wrong arguments, so there is nothing to wait for
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_what_to_do() {
        assert!(check(0, "f").is_ok());
        for (status, kind, word) in [
            (1, Kind::Library, "initialised"),
            (2, Kind::Memory, "memory"),
            (3, Kind::Launch, "invalid"),
            (4, Kind::Library, "device"),
            (6, Kind::Launch, "execution"),
            (7, Kind::Launch, "internal"),
            (9, Kind::Library, "not supported"),
            (31, Kind::Launch, "unknown"),
        ] {
            let error = check(status, "cusolverDnXgetrf").unwrap_err();
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.contains(word) && error.message.contains("cusolverDnXgetrf"), "{error}");
            assert!(!error.advice.is_empty());
        }
    }
}
