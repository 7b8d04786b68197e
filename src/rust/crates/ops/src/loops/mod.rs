//! The loops that build.rs generates from the operation table.

pub mod convert;

use std::ffi::c_void;

use crate::dtype::DType;

/// Computes `n` elements: result, operands, index of the first element, count, flag word.
pub type Loop = unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *const c_void, i64, i32, *mut u32);
/// Storage to registers: `n` elements from index `i` on.
pub type Load = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32);
/// Storage to registers: `n` elements from index `i` on, each a step from the one before.
pub type Stride = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i64, i32);
/// Storage to registers, from given places.
pub type Pick = unsafe extern "C" fn(*mut c_void, *const c_void, *const i64, i32);
/// As `Pick`, from places that need not be among the `m` elements there are.
pub type Gather = unsafe extern "C" fn(*mut c_void, *const c_void, i64, *const i64, i32);
/// Registers to storage, to index `i` on.
pub type Store = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32);

/// A row that draws with parameters, for lanes: result, the call's key, index of element 0, which elements, their
/// counts, parameters, how many, flag word.
pub type Numbered =
    unsafe extern "C" fn(*mut c_void, i64, i64, *const i32, *mut i32, *const c_void, *const c_void, i32, *mut u32);

/// The functions of an accumulator in `reduce.h`.
pub struct Folding {
    pub size: unsafe extern "C" fn() -> i32,
    pub start: unsafe extern "C" fn(*mut c_void, i32),
    /// Elements that follow each other into one accumulator.
    pub fold: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32),
    /// Rows, from a place in their groups on: how many, of how many elements; element `k` of each into accumulator `k`.
    pub rows: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32, i32),
    /// Whole groups of neighbours, of some length, so many: their values, and status bits.
    pub short: unsafe extern "C" fn(*mut c_void, *const c_void, i32, i32, i32) -> u32,
    /// Elements with codes, so many, into the accumulators of their codes, which are 1 to some number; others are
    /// passed over.
    pub coded: unsafe extern "C" fn(*mut c_void, *const c_void, *const i32, i32, i32, i32),
    pub merge: unsafe extern "C" fn(*mut c_void, *const c_void, i32),
    pub finish: unsafe extern "C" fn(*mut c_void, *const c_void, i32) -> u32,
}

/// The functions of a state in `scan.h`.
pub struct Scanning {
    pub start: unsafe extern "C" fn(*mut c_void),
    /// State, results, elements, how many; returns status bits.
    pub scan: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, i32) -> u32,
}

/// Elements of a block: a handful of double registers stay in the first-level cache's neighbour.
pub const BLOCK: usize = 1024;

/// Whether elements of a dtype are stored as their class computes, so that a block of them needs no load.
pub fn stored_as_computed(dtype: DType) -> bool {
    !matches!(dtype, DType::Bool8 | DType::Int8 | DType::UInt8 | DType::Int16 | DType::Float16 | DType::BFloat16)
}

include!(concat!(env!("OUT_DIR"), "/loops.rs"));
