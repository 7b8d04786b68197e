//! Fourier transforms by cuFFT. A cuFFT plan holds tables in device memory and takes milliseconds to make, so recent
//! ones are cached. Workspace is allocated for each transform. Functions are declared to return `u32` statuses (see
//! `functions`).

use std::ffi::{c_int, c_longlong};
use std::sync::{Arc, Mutex};

use cudarc::cufft::sys::{cufftHandle, cufftType_t};

use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::driver::api::{CUdeviceptr, Stream};
use crate::backend::cuda::driver::functions::functions;
use crate::backend::cuda::driver::library::{self, Library};
use crate::backend::fourier::{Direction, Transform};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

functions! {
    /// `libcufft`, but for `cufftXtExec`, whose header cudarc does not have.
    Cufft of cudarc::cufft::sys {
        create = cufftCreate(*mut cufftHandle);
        set_auto_allocation = cufftSetAutoAllocation(cufftHandle, c_int);
        // plan, rank, extents; embedding extents, stride and distance of input and output; type, batch, workspace size
        make_plan = cufftMakePlanMany64(
            cufftHandle, c_int, *mut c_longlong, *mut c_longlong, c_longlong, c_longlong,
            *mut c_longlong, c_longlong, c_longlong, cufftType_t, c_longlong, *mut usize);
        set_stream = cufftSetStream(cufftHandle, Stream);
        set_work_area = cufftSetWorkArea(cufftHandle, CUdeviceptr);
        destroy = cufftDestroy(cufftHandle);
    }
}

/// `cufftXtExec`: plan, input, output, direction.
type Exec = unsafe extern "C" fn(cufftHandle, CUdeviceptr, CUdeviceptr, c_int) -> u32;

/// `CUFFT_FORWARD`, `CUFFT_INVERSE`.
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

/// The key of a cached plan.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Key {
    direction: Direction,
    dtype: DType,
    /// Unused ones are 1.
    lengths: [usize; 3],
    rank: usize,
    inner: usize,
    count: usize,
    room: usize,
}

struct Plan {
    handle: cufftHandle,
    workspace: usize,
    functions: Cufft,
    cuda: &'static Cuda,
}

/// The most plans that are cached for a device. Lists are in order of use, the most recent last.
const KEPT: usize = 32;
static PLANS: PerDevice<Plans> = PerDevice::new();
type Plans = Mutex<Vec<(Key, Arc<Plan>)>>;

impl Drop for Plan {
    fn drop(&mut self) {
        // in a forked child, or with a broken context, cuFFT must not be called
        let Ok(_entered) = self.cuda.enter() else { return };
        // SAFETY: destroyed once; the library waits for the device before it frees the tables.
        self.cuda.outside(|| unsafe { (self.functions.destroy)(self.handle) });
    }
}

/// Turns a `cufftResult` into an error.
fn check(status: u32, function: &str) -> Result<()> {
    let (kind, name) = match status {
        0 => return Ok(()),
        1 => (Kind::Launch, "invalid plan"),
        2 => (Kind::Memory, "out of device memory"),
        3 => (Kind::Launch, "invalid type"),
        4 => (Kind::Launch, "invalid value"),
        5 => (Kind::Launch, "internal error"),
        6 => (Kind::Launch, "execution failed"),
        7 => (Kind::Library, "not initialised; does the library match the driver?"),
        8 => (Kind::Shape, "the length is not supported"),
        14 | 16 => (Kind::Library, "not supported"),
        17..=20 => (Kind::Library, "a library that cuFFT needs is missing or has failed"),
        _ => (Kind::Launch, "unknown status"),
    };
    let error = Error::new(kind, format!("`{function}` failed: {name} ({status})"));
    Err(match kind {
        Kind::Memory => error.advise("Free arrays with `gpu_free()`, or `rm()` and `gc()`."),
        _ => error.advise("`gpu_sitrep()` shows which cuFFT is in use."),
    })
}

fn kind_of(direction: Direction, dtype: DType) -> cufftType_t {
    let single = matches!(dtype, DType::Float32 | DType::Complex64);
    match direction {
        Direction::Forward | Direction::Inverse if single => cufftType_t::CUFFT_C2C,
        Direction::Forward | Direction::Inverse => cufftType_t::CUFFT_Z2Z,
        Direction::RealToHalf if single => cufftType_t::CUFFT_R2C,
        Direction::RealToHalf => cufftType_t::CUFFT_D2Z,
        Direction::HalfToReal if single => cufftType_t::CUFFT_C2R,
        Direction::HalfToReal => cufftType_t::CUFFT_Z2D,
    }
}

impl Plan {
    fn new(cuda: &'static Cuda, functions: Cufft, key: &Key, transform: &Transform<'_>) -> Result<Plan> {
        let mut handle = 0;
        // SAFETY: writes a handle; the device's context is current.
        check(unsafe { (functions.create)(&mut handle) }, "cufftCreate")?;
        let mut plan = Plan { handle, workspace: 0, functions, cuda };
        // the slowest extent first; the fastest may be padded, or shorter where half a spectrum is stored
        let extents = |fastest: usize| {
            let mut extents = [1 as c_longlong; 3];
            for (k, &n) in transform.lengths.iter().rev().enumerate() {
                extents[k] = n as c_longlong;
            }
            extents[key.rank - 1] = fastest as c_longlong;
            extents
        };
        let mut lengths = extents(transform.lengths[0]);
        let (mut before, mut after) = (extents(transform.line().0), extents(transform.output_stride));
        let rows: usize = transform.lengths[1..].iter().product();
        let (stride, distances) = match transform.inner {
            1 => (1, [transform.line().0 * rows, transform.output_stride * rows]),
            inner => (inner, [1, 1]),
        };
        // SAFETY: the extents have at least `rank` elements; nothing else is written but the workspace's size.
        let status = unsafe {
            check((functions.set_auto_allocation)(handle, 0), "cufftSetAutoAllocation")?;
            (functions.make_plan)(
                handle,
                key.rank as c_int,
                lengths.as_mut_ptr(),
                before.as_mut_ptr(),
                stride as c_longlong,
                distances[0] as c_longlong,
                after.as_mut_ptr(),
                stride as c_longlong,
                distances[1] as c_longlong,
                kind_of(key.direction, key.dtype),
                key.count as c_longlong,
                &mut plan.workspace,
            )
        };
        check(status, "cufftMakePlanMany64")?;
        Ok(plan)
    }
}

/// See `Backend::fourier`.
pub fn run(cuda: &Cuda, transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()> {
    if !transform.fits(input, output) {
        return Err(Error::new(Kind::Shape, "a Fourier transform was given memory of another size"));
    }
    let library = library::load(Library::Cufft)?;
    // SAFETY: this is cuFFT, and the type of `cufftXtExec` is its header's, with the status as a number.
    let (functions, exec) = unsafe { (Cufft::find(library)?, library.symbol::<Exec>("cufftXtExec")?) };
    let _entered = cuda.enter()?;
    // one call for all contiguous transforms, or one for each array of interleaved transforms
    let (count, calls) = if transform.inner == 1 { (transform.outer, 1) } else { (transform.inner, transform.outer) };
    let Transform { direction, lengths, inner, output_stride: room, .. } = *transform;
    let mut key = Key { direction, dtype: input.dtype, lengths: [1; 3], rank: lengths.len(), inner, count, room };
    key.lengths[..lengths.len()].copy_from_slice(lengths);
    // locked until the transforms are queued, since a plan's stream and workspace are state of the plan
    let mut plans = lock(PLANS.of(cuda));
    let plan = match plans.iter().position(|(known, _)| *known == key) {
        Some(at) => {
            let found = plans.remove(at);
            plans.push(found);
            plans[plans.len() - 1].1.clone()
        }
        None => {
            let made = cuda.outside(|| Plan::new(cuda.usable()?, functions, &key, transform))?;
            let made = Arc::new(made);
            if plans.len() == KEPT {
                plans.remove(0);
            }
            plans.push((key, made.clone()));
            made
        }
    };
    if cuda.is_capturing() {
        cuda.hold(Box::new(plan.clone()));
    }
    let workspace = cuda.allocate(plan.workspace.max(1))?;
    let sign = if matches!(direction, Direction::Forward | Direction::RealToHalf) { FORWARD } else { INVERSE };
    let step = input.dtype.size() * inner * lengths.iter().product::<usize>();
    // SAFETY: the stream is of the device's context; the workspace is as large as the plan asked for, and is freed in
    // the stream's order; `fits` has compared input and output with the extents.
    unsafe {
        check((functions.set_stream)(plan.handle, cuda.stream()), "cufftSetStream")?;
        check((functions.set_work_area)(plan.handle, workspace.address), "cufftSetWorkArea")?;
        for k in 0..calls {
            let at = (k * step) as u64;
            check(exec(plan.handle, input.address() + at, output.address + at, sign), "cufftXtExec")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_cudarcs() {
        assert_eq!(Cufft::differences(), [""; 0]);
    }

    #[test]
    fn statuses_say_what_to_do() {
        assert!(check(0, "f").is_ok());
        for (status, kind, word) in [
            (1, Kind::Launch, "plan"),
            (2, Kind::Memory, "memory"),
            (5, Kind::Launch, "internal"),
            (7, Kind::Library, "initialised"),
            (8, Kind::Shape, "length"),
            (16, Kind::Library, "not supported"),
            (17, Kind::Library, "needs"),
            (99, Kind::Launch, "unknown"),
        ] {
            let error = check(status, "cufftXtExec").unwrap_err();
            assert_eq!(error.kind, kind, "{status}");
            assert!(error.message.contains(word) && error.message.contains("cufftXtExec"), "{error}");
            assert!(!error.advice.is_empty());
        }
    }
}
