//! The host copy of an array: R reads and writes it, at one address for the life of the array.

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

/// Bytes of elements, in R's representation, that came to the host so far.
pub static FETCHED: AtomicU64 = AtomicU64::new(0);
/// Elements that were read for R so far.
pub static READ: AtomicU64 = AtomicU64::new(0);

/// Elements in R's representation.
pub struct Block {
    memory: host_pool::Block,
    _held: Held,
    /// Goes up whenever R may have written: what was copied from the block before is of its own.
    pub stamp: Cell<u64>,
    /// Whether int64 elements became NA, since no double holds them.
    pub lossy: Cell<bool>,
}

impl Block {
    /// Memory that `device` will fill.
    pub fn new(bytes: usize, device: Device) -> Result<Block> {
        let memory = host_pool::Block::new(bytes, device)?;
        let held = Held::on_host(bytes as u64);
        Ok(Block { memory, _held: held, stamp: Cell::default(), lossy: Cell::default() })
    }

    pub fn start(&self) -> *mut u8 {
        self.memory.start()
    }
}

/// A sum over bytes that another one is very unlikely to have; never, where only one word of 8 bytes differs.
pub fn checksum(bytes: &[u8]) -> u64 {
    // the golden ratio's bits, odd; lanes that do not wait for each other
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

/// Whether R's representation holds every value of the dtype, and no others.
pub const fn is_natural(dtype: DType) -> bool {
    matches!(dtype, DType::Bool8 | DType::Int32 | DType::Float64 | DType::Complex128)
}

/// Above it the whole numbers are further apart than 1 in a double.
const EXACT: u64 = 1 << 53;

fn double_of(x: i64) -> f64 {
    if x == NA_I64 || x.unsigned_abs() > EXACT {
        NA_F64
    } else {
        x as f64
    }
}

/// Puts R's doubles where int64 elements are. Returns whether some became NA.
///
/// # Errors
/// `Interrupt`: some are not converted.
///
/// # Safety
/// There are `n` elements, which nobody else uses.
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

/// Of int64 that became NA on the way to R's doubles.
const LOST: &str = "NAs produced: integers beyond 2^53 are not exact as doubles; collect() keeps them, as integer64";

/// Warns of these.
pub fn warn_lost() {
    conditions::warn_lost(LOST);
}

/// One int64 as R's double; `lost` where it has none and becomes NA.
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

/// Whether one of the `n` int64 from `from` on has no double of its own.
pub fn loses(array: &Array, from: usize, n: usize) -> Result<bool> {
    let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
    array.read(from, HostMut::Integer64(&mut values))?;
    Ok(values.iter().any(|&x| x != NA_I64 && x.unsigned_abs() > EXACT))
}

/// Reads `n` elements from `from` on into memory for R; int64 becomes double, with a warning where it is lost.
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

/// As `read`, without a warning. Returns whether int64 was lost.
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

/// Reads all elements as another dtype, not int64, into memory for R.
///
/// # Safety
/// There is space for as many elements of R's type for the dtype at `out`, aligned, written by no one else.
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

/// A reduction's result, a float or int32, in R's representation.
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

/// A new array of the values that R left in the block, with the dtype and length of `like`; rounds the block to the
/// dtype.
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
                // REAL() counts as a write: keep what R's doubles could not show
                let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
                like.read(0, HostMut::Integer64(&mut values))?;
                let doubles: &mut [f64] = std::slice::from_raw_parts_mut(start.cast(), n);
                let mut lossy = false;
                for (value, double) in values.iter_mut().zip(doubles) {
                    let shown = double_of(*value);
                    if shown.to_bits() != double.to_bits() && !(shown.is_nan() && double.is_nan()) {
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
