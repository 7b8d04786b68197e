//! Fourier transforms on the cpu device, by rustfft and realfft. Lines are distributed over all cores; each line is
//! transformed by one core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

use crate::backend::fourier::{Direction, Transform};
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::parallel::parallel;

/// The approximate number of elements of a task.
const TASK: usize = 1 << 14;

/// Neighbouring lines that are not contiguous are transformed together: up to `NEIGHBOURS` of them, with at most
/// `IN_CACHE` elements.
const NEIGHBOURS: usize = 16;
const IN_CACHE: usize = 1 << 16;

/// # Errors
/// `Interrupt`, `Memory`.
pub fn run(transform: &Transform<'_>, input: &View, output: &Buffer) -> Result<()> {
    if !transform.fits(input, output) {
        return Err(Error::new(Kind::Shape, "a Fourier transform was given memory of another size"));
    }
    match input.dtype {
        DType::Float32 | DType::Complex64 => run_in::<f32>(transform, input.address(), output.address),
        _ => run_in::<f64>(transform, input.address(), output.address),
    }
}

/// The caller has checked `fits`, which compares the memory at these addresses with the extents.
fn run_in<T: Real>(transform: &Transform<'_>, input: u64, output: u64) -> Result<()> {
    let (lengths, outer) = (transform.lengths, transform.outer);
    let lines = lengths[1..].iter().product::<usize>() * outer;
    let to: *mut Complex<T> = output as *mut _;
    match transform.direction {
        Direction::Forward | Direction::Inverse => {
            let mut from: *const Complex<T> = input as *const _;
            let mut before = transform.inner;
            for (axis, &n) in lengths.iter().enumerate() {
                let Planned::Complex(fft) = plan::<T>(transform.direction, n)? else { unreachable!("as it was asked") };
                let after = lengths[axis + 1..].iter().product::<usize>() * outer;
                let lines = Lines { neighbours: before, row: before, rows: 1, blocks: after };
                complex_lines(&*fft, lines, from, to)?;
                (from, before) = (to, before * n);
            }
        }
        Direction::RealToHalf => {
            let n = lengths[0];
            let Planned::ToHalf(fft) = plan::<T>(Direction::RealToHalf, n)? else { unreachable!("as it was asked") };
            let half = n / 2 + 1;
            let (from, room) = (Shared(input as *mut T), transform.output_stride);
            let out = Shared(to);
            tasks(lines, n, |range| {
                let (mut line, mut scratch) =
                    (fallible::filled(T::zero(), n)?, fallible::filled(zero::<T>(), fft.get_scratch_len())?);
                for k in range {
                    // SAFETY: `fits` has compared the extents with the memory; no other task writes this line.
                    let result = unsafe {
                        std::ptr::copy_nonoverlapping(from.at(k * n).cast_const(), line.as_mut_ptr(), n);
                        std::slice::from_raw_parts_mut(out.at(k * room), half)
                    };
                    fft.process_with_scratch(&mut line, result, &mut scratch).map_err(refused)?;
                }
                Ok(())
            })?;
            let mut rows = 1;
            for (axis, &n) in lengths.iter().enumerate().skip(1) {
                let Planned::Complex(fft) = plan::<T>(Direction::Forward, n)? else { unreachable!("as it was asked") };
                let blocks = lengths[axis + 1..].iter().product::<usize>() * outer;
                complex_lines(&*fft, Lines { neighbours: half, row: room, rows, blocks }, to, to)?;
                rows *= n;
            }
        }
        Direction::HalfToReal => {
            let n = lengths[0];
            let Planned::ToReal(fft) = plan::<T>(Direction::HalfToReal, n)? else { unreachable!("as it was asked") };
            let half = n / 2 + 1;
            let (from, out, room) =
                (Shared(input as *mut Complex<T>), Shared(output as *mut T), transform.output_stride);
            tasks(lines, n, |range| {
                let (mut line, mut scratch) =
                    (fallible::filled(zero::<T>(), half)?, fallible::filled(zero::<T>(), fft.get_scratch_len())?);
                for k in range {
                    // SAFETY: as above.
                    let result = unsafe {
                        std::ptr::copy_nonoverlapping(from.at(k * half).cast_const(), line.as_mut_ptr(), half);
                        std::slice::from_raw_parts_mut(out.at(k * room), n)
                    };
                    line[0].im = T::zero();
                    if n % 2 == 0 {
                        line[half - 1].im = T::zero();
                    }
                    fft.process_with_scratch(&mut line, result, &mut scratch).map_err(refused)?;
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn zero<T: FftNum>() -> Complex<T> {
    Complex { re: T::zero(), im: T::zero() }
}

fn refused(error: realfft::FftError) -> Error {
    Error::new(Kind::Panic, format!("an internal error: {error}"))
}

/// Runs tasks over ranges of lines of `n` elements each; returns the first error.
fn tasks(lines: usize, n: usize, body: impl Fn(std::ops::Range<usize>) -> Result<()> + Sync) -> Result<()> {
    let failed = Mutex::new(None);
    let ends = AtomicBool::new(false);
    parallel(lines, (TASK / n).max(1), |from, to| {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = body(from..to) {
            ends.store(true, Ordering::Relaxed);
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    })?;
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The layout of lines in memory: `blocks` blocks, each of `n` planes of `rows` rows of `row` elements. A line takes
/// one element of each plane of a block, and starts at one of the first `neighbours` elements of a row.
#[derive(Clone, Copy)]
struct Lines {
    neighbours: usize,
    row: usize,
    rows: usize,
    blocks: usize,
}

/// Transforms lines from one memory to another of the same layout; they may be the same.
fn complex_lines<T: FftNum>(
    fft: &dyn Fft<T>,
    lines: Lines,
    from: *const Complex<T>,
    to: *mut Complex<T>,
) -> Result<()> {
    let n = fft.len();
    let (stride, in_place) = (lines.row * lines.rows, from == to.cast_const());
    let (from, to) = (Shared(from.cast_mut()), Shared(to));
    if stride == 1 {
        return tasks(lines.blocks, n, |range| {
            let mut scratch = fallible::filled(zero::<T>(), fft.get_inplace_scratch_len())?;
            let count = range.len() * n;
            // SAFETY: `fits` has compared the extents with the memory; no other task has these lines.
            let block = unsafe {
                if !in_place {
                    std::ptr::copy_nonoverlapping(from.at(range.start * n).cast_const(), to.at(range.start * n), count);
                }
                std::slice::from_raw_parts_mut(to.at(range.start * n), count)
            };
            fft.process_with_scratch(block, &mut scratch);
            Ok(())
        });
    }
    let together = (IN_CACHE / n).clamp(1, NEIGHBOURS).min(lines.neighbours);
    let groups = lines.neighbours.div_ceil(together);
    tasks(groups * lines.rows * lines.blocks, n * together, |range| {
        let mut block = fallible::filled(zero::<T>(), n * together)?;
        let mut scratch = fallible::filled(zero::<T>(), fft.get_inplace_scratch_len())?;
        for k in range {
            let (group, row, outer) = (k % groups, k / groups % lines.rows, k / groups / lines.rows);
            let first = group * together;
            let count = together.min(lines.neighbours - first);
            let base = first + lines.row * row + stride * n * outer;
            for j in 0..n {
                for (w, line) in block.chunks_exact_mut(n).take(count).enumerate() {
                    // SAFETY: as above.
                    line[j] = unsafe { *from.at(base + stride * j + w) };
                }
            }
            fft.process_with_scratch(&mut block[..count * n], &mut scratch);
            for j in 0..n {
                for (w, line) in block.chunks_exact(n).take(count).enumerate() {
                    // SAFETY: as above.
                    unsafe { *to.at(base + stride * j + w) = line[j] };
                }
            }
        }
        Ok(())
    })
}

// ---- plans -------------------------------------------------------------------------------------------

#[derive(Clone)]
enum Planned<T> {
    Complex(Arc<dyn Fft<T>>),
    ToHalf(Arc<dyn RealToComplex<T>>),
    ToReal(Arc<dyn ComplexToReal<T>>),
}

type Known<T> = Mutex<Vec<(Direction, usize, Planned<T>)>>;

trait Real: FftNum {
    fn known() -> &'static Known<Self>;
}

impl Real for f32 {
    fn known() -> &'static Known<f32> {
        static KNOWN: Known<f32> = Mutex::new(Vec::new());
        &KNOWN
    }
}

impl Real for f64 {
    fn known() -> &'static Known<f64> {
        static KNOWN: Known<f64> = Mutex::new(Vec::new());
        &KNOWN
    }
}

/// The number of recent plans that are kept, and the longest line for which they are. Their tables of factors take time
/// to compute, and at least as much memory as a line.
const KEPT: usize = 16;
const LONGEST_KEPT: usize = 1 << 18;

/// The most elements that a plan's tables may have, as a multiple of the line's. rustfft allocates them infallibly, so
/// this much is allocated and freed first. (A prime length needs tables for a convolution of more than twice its
/// length.)
const TABLES: usize = 6;

fn plan<T: Real>(direction: Direction, n: usize) -> Result<Planned<T>> {
    let lock = || T::known().lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut known = lock();
        if let Some(at) = known.iter().position(|(of, length, _)| (*of, *length) == (direction, n)) {
            let found = known.remove(at);
            let planned = found.2.clone();
            known.push(found);
            return Ok(planned);
        }
    }
    drop(fallible::with_capacity::<Complex<T>>(n.saturating_mul(TABLES))?);
    let planned = match direction {
        Direction::Forward => Planned::Complex(FftPlanner::new().plan_fft_forward(n)),
        Direction::Inverse => Planned::Complex(FftPlanner::new().plan_fft_inverse(n)),
        Direction::RealToHalf => Planned::ToHalf(RealFftPlanner::new().plan_fft_forward(n)),
        Direction::HalfToReal => Planned::ToReal(RealFftPlanner::new().plan_fft_inverse(n)),
    };
    if n <= LONGEST_KEPT {
        let mut known = lock();
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((direction, n, planned.clone()));
    }
    Ok(planned)
}
