//! The loops that build.rs generates from the operation table, and their types.

pub mod convert;

use std::ffi::c_void;

use crate::dtype::Class;
use crate::reduction::Reduction;
use crate::scan::Scan;

/// Computes `n` elements: result, operands, index of the first element, count, flag word.
pub type Loop =
    unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *const c_void, *const c_void, i64, i32, *mut u32);
/// Storage to registers: `n` elements from index `i` on.
pub type Load = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32);
/// Storage to registers: `n` elements from index `i` on, a constant step apart.
pub type Stride = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i64, i32);
/// Storage to registers, at given positions.
pub type Pick = unsafe extern "C" fn(*mut c_void, *const c_void, *const i64, i32);
/// Like `Pick`, for positions that may be outside of the `m` elements: these give NA.
pub type Gather = unsafe extern "C" fn(*mut c_void, *const c_void, i64, *const i64, i32);
/// Registers to storage, from index `i` on.
pub type Store = unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32);

/// A row that draws with parameters, for lanes: result, the call's key, index of element 0, the lanes' elements, their
/// draw counts, parameters, number of lanes, flag word.
pub type Numbered = unsafe extern "C" fn(
    *mut c_void,
    i64,
    i64,
    *const i32,
    *mut i32,
    *const c_void,
    *const c_void,
    *const c_void,
    i32,
    *mut u32,
);

/// Computes the matrices `from .. to` of a job, with work memory for one matrix.
pub type Factor = unsafe extern "C" fn(*const crate::dense::Job, *mut c_void);

/// The functions of an accumulator in `reduce.h`.
pub struct Folding {
    pub size: unsafe extern "C" fn() -> i32,
    pub start: unsafe extern "C" fn(*mut c_void, i32),
    /// Adds a chunk of elements to the accumulators of their codes: accumulators, room for a number per code, elements,
    /// codes (from 1; others are skipped), number of elements, number of codes, na.rm.
    pub coded: unsafe extern "C" fn(*mut c_void, *mut i64, *const c_void, *const i32, i32, i32, i32),
    pub merge: unsafe extern "C" fn(*mut c_void, *const c_void, i32),
    pub finish: unsafe extern "C" fn(*mut c_void, *const c_void, i32) -> u32,
    /// Reduces segments: values, accumulators of the first segment and of the one that does not end, elements, offsets,
    /// whether these are int64, how many segments end, first element, end, na.rm.
    pub segments: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, i32, i32, i64, i64, i32),
    pub adding: Adding,
}

/// The functions that add many elements.
pub enum Adding {
    Any(InAnyOrder),
    Tree(InTree),
}

/// For results that do not depend on the order (`fold.h`).
pub struct InAnyOrder {
    /// Adds consecutive elements to one accumulator: accumulator, elements, position of the first one in its group,
    /// number of elements, na.rm.
    pub fold: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32),
    /// Adds element `k` of each row to accumulator `k`: accumulators, elements, position of the first row in its
    /// groups, number of rows, elements of a row, na.rm.
    pub rows: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32, i32),
    /// The values of whole groups of adjacent elements: values, elements, length, number of groups, na.rm. Returns
    /// status bits.
    pub short: unsafe extern "C" fn(*mut c_void, *const c_void, i32, i32, i32) -> u32,
}

/// For results in the order of [`crate::tree`] (`tree.h`). A state holds up to `BLOCK` accumulators side by side.
pub struct InTree {
    /// Bytes of a state.
    pub bytes: unsafe extern "C" fn() -> i32,
    /// Empties accumulators: state, number, whether they are special, which take any elements.
    pub begin: unsafe extern "C" fn(*mut c_void, i32, i32),
    /// Adds elements of a tile: state, position in the tile, elements, number of elements, lanes of a row, whether four
    /// rows are added together, na.rm.
    pub walk: unsafe extern "C" fn(*mut c_void, i64, *const c_void, i32, i32, i32, i32),
    /// Merges lanes into accumulators: state, accumulators, lanes (a power of two), width of a lane, whether they are
    /// special. Returns 0 if the tile must be reduced again by special ones.
    pub collapse: unsafe extern "C" fn(*mut c_void, *mut c_void, i32, i32, i32) -> i32,
    /// The values of whole groups of adjacent elements: values, elements, position of the first one in its row, length,
    /// number of groups, lanes, na.rm. Returns status bits.
    pub groups: unsafe extern "C" fn(*mut c_void, *const c_void, i32, i32, i32, i32, i32) -> u32,
    /// Whether it matters which four rows are added together (`ADDS_ALL`).
    pub fours: bool,
}

impl Folding {
    /// The functions of a reduction for a class, compiled for this processor.
    ///
    /// # Panics
    /// If the reduction does not serve the class.
    pub fn of(reduction: Reduction, class: Class) -> &'static Folding {
        let table = if is_wide() { &FOLDS_WIDE } else { &FOLDS };
        let row = Reduction::ALL.iter().position(|r| *r == reduction).expect("listed");
        table[row][class as usize].as_ref().expect("the array casts to a class that the reduction serves")
    }
}

/// Whether this processor has the instructions that build.rs compiled the wide loops for.
fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return HAS_WIDE && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return HAS_WIDE;
}

/// The functions of a state in `scan.h` or `scan_tile.h`.
pub struct Scanning {
    /// Bytes of the state.
    pub bytes: unsafe extern "C" fn() -> i32,
    pub start: unsafe extern "C" fn(*mut c_void),
    /// Scans elements: state, results, elements, number of elements. Returns status bits. If there are tiles, each call
    /// but the last must have a whole one.
    pub scan: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, i32) -> u32,
    /// Elements of a tile if the order of additions matters.
    pub tile: Option<usize>,
}

impl Scanning {
    /// The functions of a scan for a class, compiled for this processor.
    ///
    /// # Panics
    /// If the scan does not serve the class.
    pub fn of(scan: Scan, class: Class) -> &'static Scanning {
        let table = if is_wide() { &SCANS_WIDE } else { &SCANS };
        table[scan as usize][class as usize].as_ref().expect("the array casts to a class that the scan serves")
    }
}

/// Elements of a block: a handful of registers of doubles fit the L2 cache.
pub const BLOCK: usize = 1024;

include!(concat!(env!("OUT_DIR"), "/loops.rs"));
