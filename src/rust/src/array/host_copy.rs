//! The host copy of an array, which R reads and writes at an address that is fixed for the life of the array.
//! Conversion between dtypes and R's representation.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::host_pool;
use verdigris_engine::memory::staging::Shared;
use verdigris_engine::memory::Held;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;
use verdigris_ops::scalar::{NA_F64, NA_I32, NA_I64};

use crate::r::{conditions, Rcomplex, SEXPTYPE};

/// Total bytes of elements, in R's representation, that were copied to the host.
pub static FETCHED: AtomicU64 = AtomicU64::new(0);
/// Total number of elements that were read for R.
pub static READ: AtomicU64 = AtomicU64::new(0);

/// Elements in R's representation.
pub struct Block {
    memory: host_pool::Block,
    _held: Held,
    /// Incremented whenever the block may have been written, so that duplicates notice that it has changed.
    pub stamp: Cell<u64>,
    /// Whether int64 elements became NA because no double represents them.
    pub lossy: Cell<bool>,
}

impl Block {
    /// Uninitialised memory, to be filled from `device`.
    pub fn new(bytes: usize, device: Device) -> Result<Block> {
        let memory = host_pool::Block::new(bytes, device)?;
        let held = Held::on_host(bytes as u64);
        Ok(Block { memory, _held: held, stamp: Cell::default(), lossy: Cell::default() })
    }

    pub fn start(&self) -> *mut u8 {
        self.memory.start()
    }
}

/// A checksum. Different contents very rarely have the same one, and never if they differ in a single 8-byte word.
pub fn checksum(bytes: &[u8]) -> u64 {
    // an odd factor from the golden ratio; four independent lanes for instruction-level parallelism
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let mut lanes = [1u64, 2, 3, 4];
    let blocks = bytes.chunks_exact(32);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, bytes) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            *lane = step(*lane, word(bytes));
        }
    }
    let sum = lanes.into_iter().fold(bytes.len() as u64, step);
    rest.iter().fold(sum, |sum, &byte| step(sum, u64::from(byte)))
}

/// R's type for a dtype.
pub const fn r_type(dtype: DType) -> SEXPTYPE {
    match dtype.kind() {
        Kind::Logical => SEXPTYPE::LGLSXP,
        Kind::Integer => SEXPTYPE::INTSXP,
        Kind::Integer64 | Kind::Double => SEXPTYPE::REALSXP,
        Kind::Complex => SEXPTYPE::CPLXSXP,
    }
}

/// Bytes of one element in R's representation.
pub const fn r_size(dtype: DType) -> usize {
    match dtype.kind() {
        Kind::Logical | Kind::Integer => 4,
        Kind::Integer64 | Kind::Double => 8,
        Kind::Complex => std::mem::size_of::<Rcomplex>(),
    }
}

/// Whether the dtype has exactly the values of R's type.
pub const fn is_natural(dtype: DType) -> bool {
    matches!(dtype, DType::Bool8 | DType::Int32 | DType::Float64 | DType::Complex128)
}

/// Doubles represent every whole number up to this one.
const EXACT: u64 = 1 << 53;

fn double_of(x: i64) -> f64 {
    if x == NA_I64 || x.unsigned_abs() > EXACT {
        NA_F64
    } else {
        x as f64
    }
}

/// Converts `n` int64 elements to doubles in place. Returns whether some became NA.
///
/// # Errors
/// `Interrupt`: some are not converted.
///
/// # Safety
/// There are `n` elements, and nothing else uses them.
unsafe fn make_doubles(elements: Shared, n: usize) -> Result<bool> {
    const TASK: usize = 1 << 16;
    let lost = AtomicBool::new(false);
    parallel(n, TASK, |from, to| {
        let mut seen = false;
        // SAFETY: tasks do not overlap.
        let values: &mut [i64] =
            unsafe { std::slice::from_raw_parts_mut(elements.at(from * size_of::<i64>()).cast(), to - from) };
        for value in values {
            let double = double_of(*value);
            seen |= double.is_nan() && *value != NA_I64;
            *value = double.to_bits() as i64;
        }
        if seen {
            lost.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(lost.into_inner())
}

/// The warning about int64 elements that became NA in the conversion to doubles.
const LOST: &str = "NAs produced: integers beyond 2^53 are not exact as doubles; collect() keeps them, as integer64";

/// Leaves that warning pending.
pub fn warn_lost() {
    conditions::warn_lost(LOST);
}

/// One int64 as a double. If no double represents it the result is NA, and `lost` is set.
pub fn number(x: i64, lost: &mut bool) -> f64 {
    let double = double_of(x);
    *lost |= double.is_nan() && x != NA_I64;
    double
}

fn integer64_of(x: f64) -> i64 {
    if x.is_nan() || x.abs() >= 9_223_372_036_854_775_807.0 {
        NA_I64
    } else {
        x as i64
    }
}

/// Whether any of the `n` int64 elements from `from` on is beyond 2^53, and so NA as a double.
pub fn loses(array: &Array, from: usize, n: usize) -> Result<bool> {
    let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
    array.read(from, HostMut::Integer64(&mut values))?;
    Ok(values.iter().any(|&x| x != NA_I64 && x.unsigned_abs() > EXACT))
}

/// Reads `n` elements from `from` on into memory for R. int64 becomes double, with a warning if some become NA.
///
/// # Safety
/// There is space for `n` elements of R's type at `out`, aligned, written by no one else.
pub unsafe fn read(array: &Array, from: usize, n: usize, out: *mut u8) -> Result<()> {
    // SAFETY: the caller's promise.
    if unsafe { read_quietly(array, from, n, out)? } {
        warn_lost();
    }
    Ok(())
}

/// As `read`, without a warning. Returns whether int64 elements became NA.
///
/// # Safety
/// As for `read`.
pub unsafe fn read_quietly(array: &Array, from: usize, n: usize, out: *mut u8) -> Result<bool> {
    if n == 0 {
        return Ok(false);
    }
    FETCHED.fetch_add((n * r_size(array.dtype())) as u64, Ordering::Relaxed);
    READ.fetch_add(n as u64, Ordering::Relaxed);
    // SAFETY: the caller's promise; every bit pattern is a value of these types.
    unsafe {
        match array.dtype().kind() {
            Kind::Logical => array.read(from, HostMut::Logical(std::slice::from_raw_parts_mut(out.cast(), n)))?,
            Kind::Integer => array.read(from, HostMut::Integer(std::slice::from_raw_parts_mut(out.cast(), n)))?,
            Kind::Double => array.read(from, HostMut::Double(std::slice::from_raw_parts_mut(out.cast(), n)))?,
            Kind::Complex => array.read(from, HostMut::Complex(std::slice::from_raw_parts_mut(out.cast(), n)))?,
            Kind::Integer64 => {
                array.read(from, HostMut::Integer64(std::slice::from_raw_parts_mut(out.cast(), n)))?;
                return make_doubles(Shared(out), n);
            }
        }
    }
    Ok(false)
}

/// Reads all elements as another dtype, which must not be int64, into memory for R.
///
/// # Safety
/// There is space for all elements, in R's type for the dtype, at `out`, aligned, written by no one else.
pub unsafe fn read_as(array: &Array, dtype: DType, site: Option<CallSite>, out: *mut u8) -> Result<()> {
    use std::slice::from_raw_parts_mut;
    let n = array.len();
    if n == 0 {
        return Ok(());
    }
    FETCHED.fetch_add((n * r_size(dtype)) as u64, Ordering::Relaxed);
    READ.fetch_add(n as u64, Ordering::Relaxed);
    // SAFETY: the caller's promise; every bit pattern is a value of these types.
    let out = unsafe {
        match dtype.kind() {
            Kind::Logical => HostMut::Logical(from_raw_parts_mut(out.cast(), n)),
            Kind::Integer => HostMut::Integer(from_raw_parts_mut(out.cast(), n)),
            Kind::Complex => HostMut::Complex(from_raw_parts_mut(out.cast(), n)),
            Kind::Double | Kind::Integer64 => HostMut::Double(from_raw_parts_mut(out.cast(), n)),
        }
    };
    array.read_as(dtype, site, out)
}

/// Writes a reduction's result (float32, float64 or int32) in R's representation.
///
/// # Safety
/// There is space for one element of R's type at `out`, aligned.
pub unsafe fn write_value(value: &[u8; 32], dtype: DType, out: *mut u8) {
    let [a, b, c, d, ..] = *value;
    let double = f64::from(f32::from_ne_bytes([a, b, c, d]));
    let bytes = if dtype == DType::Float32 { &double.to_ne_bytes()[..] } else { &value[..r_size(dtype)] };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out, bytes.len()) };
}

/// Uploads the values that R has left in the block as a new array with the dtype and length of `like`. If that rounds
/// them, the block gets the rounded values too. An int64 array that has got fractions becomes float64.
///
/// # Safety
/// The block holds as many elements as `like` has, and no one writes meanwhile.
pub unsafe fn write(block: &Block, like: &Array) -> Result<Array> {
    let (dtype, device, n) = (like.dtype(), like.device(), like.len());
    let start = block.start();
    // SAFETY: the caller's promise.
    unsafe {
        let array = match dtype.kind() {
            Kind::Logical => {
                let values: &mut [i32] = std::slice::from_raw_parts_mut(start.cast(), n);
                for value in values.iter_mut().filter(|v| **v != 0 && **v != NA_I32) {
                    *value = 1;
                }
                Array::upload(Host::Logical(values), Some(dtype), device, None)?
            }
            Kind::Integer => {
                Array::upload(Host::Integer(std::slice::from_raw_parts(start.cast(), n)), Some(dtype), device, None)?
            }
            Kind::Double => {
                Array::upload(Host::Double(std::slice::from_raw_parts(start.cast(), n)), Some(dtype), device, None)?
            }
            Kind::Complex => {
                Array::upload(Host::Complex(std::slice::from_raw_parts(start.cast(), n)), Some(dtype), device, None)?
            }
            Kind::Integer64 => {
                // a call of REAL() counts as a write: elements that R has not changed keep their exact int64 value
                let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
                like.read(0, HostMut::Integer64(&mut values))?;
                let doubles: &mut [f64] = std::slice::from_raw_parts_mut(start.cast(), n);
                let changed = |value: i64, double: f64| {
                    let shown = double_of(value);
                    shown.to_bits() != double.to_bits() && !(shown.is_nan() && double.is_nan())
                };
                let is_fraction = |double: f64| {
                    let new = integer64_of(double);
                    !double.is_nan() && (new == NA_I64 || new as f64 != double)
                };
                if values.iter().zip(&*doubles).any(|(&value, &double)| changed(value, double) && is_fraction(double)) {
                    // C code of R has computed in its copy of an operand: a fit's residuals. What the copy shows as NA
                    // and R has not changed becomes the nearest double.
                    for (&value, double) in values.iter().zip(doubles.iter_mut()) {
                        if double.is_nan() && value != NA_I64 && !changed(value, *double) {
                            *double = value as f64;
                        }
                    }
                    block.lossy.set(false);
                    return Array::upload(Host::Double(doubles), Some(DType::Float64), device, None);
                }
                let mut lossy = false;
                for (value, double) in values.iter_mut().zip(doubles) {
                    if changed(*value, *double) {
                        *value = integer64_of(*double);
                        *double = double_of(*value);
                    }
                    lossy |= double.is_nan() && *value != NA_I64;
                }
                block.lossy.set(lossy);
                Array::upload(Host::Integer64(&values), Some(dtype), device, None)?
            }
        };
        if !is_natural(dtype) && dtype != DType::Int64 {
            read(&array, 0, n, start)?;
        }
        Ok(array)
    }
}
