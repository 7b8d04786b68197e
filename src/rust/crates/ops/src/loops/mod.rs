//! The loops that build.rs generates from the operation table.

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

/// Computes a job's matrices from `from` to `to`, in memory for one of them.
pub type Factor = unsafe extern "C" fn(*const crate::dense::Job, *mut c_void);

/// The functions of an accumulator in `reduce.h`.
pub struct Folding {
    pub size: unsafe extern "C" fn() -> i32,
    pub start: unsafe extern "C" fn(*mut c_void, i32),
    /// A chunk of elements with codes, so many, into the accumulators of their codes, which are 1 to some number;
    /// others are passed over. Beside the accumulators is room for a number of each code.
    pub coded: unsafe extern "C" fn(*mut c_void, *mut i64, *const c_void, *const i32, i32, i32, i32),
    pub merge: unsafe extern "C" fn(*mut c_void, *const c_void, i32),
    pub finish: unsafe extern "C" fn(*mut c_void, *const c_void, i32) -> u32,
    /// Values of segments, accumulators of the first and of the one that does not end, elements, offsets, whether those
    /// are int64, how many segments end, from which element to which, na.rm.
    pub segments: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, *const c_void, i32, i32, i64, i64, i32),
    pub adding: Adding,
}

/// How many elements are added.
pub enum Adding {
    Any(InAnyOrder),
    Tree(InTree),
}

/// In any order (`fold.h`).
pub struct InAnyOrder {
    /// Elements that follow each other, from a place in their group on, into one accumulator.
    pub fold: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32),
    /// Rows, from a place in their groups on: how many, of how many elements; element `k` of each into accumulator `k`.
    pub rows: unsafe extern "C" fn(*mut c_void, *const c_void, i64, i32, i32, i32),
    /// Whole groups of neighbours, of some length, so many: their values, and status bits.
    pub short: unsafe extern "C" fn(*mut c_void, *const c_void, i32, i32, i32) -> u32,
}

/// In the order of [`crate::tree`] (`tree.h`). The state holds accumulators side by side, `BLOCK` at most.
pub struct InTree {
    /// Bytes of a state.
    pub bytes: unsafe extern "C" fn() -> i32,
    /// Makes so many accumulators empty; special ones take any elements.
    pub begin: unsafe extern "C" fn(*mut c_void, i32, i32),
    /// The elements of a tile from a place on: place, elements, how many, lanes of a row, whether four rows are added
    /// together, na.rm.
    pub walk: unsafe extern "C" fn(*mut c_void, i64, *const c_void, i32, i32, i32, i32),
    /// Merges so many lanes, a power of two, of some width each, into accumulators; whether they are special. 0 where
    /// the tile is to be reduced again by special ones.
    pub collapse: unsafe extern "C" fn(*mut c_void, *mut c_void, i32, i32, i32) -> i32,
    /// Whole groups of neighbours to their values: where the first begins in its row, length, how many, lanes; status
    /// bits.
    pub groups: unsafe extern "C" fn(*mut c_void, *const c_void, i32, i32, i32, i32, i32) -> u32,
    /// Whether it matters which four rows are added together (`ADDS_ALL`).
    pub fours: bool,
}

impl Folding {
    /// Those of a reduction of a class, for this processor.
    ///
    /// # Panics
    /// Where the reduction does not serve the class.
    pub fn of(reduction: Reduction, class: Class) -> &'static Folding {
        let table = if is_wide() { &FOLDS_WIDE } else { &FOLDS };
        let row = Reduction::ALL.iter().position(|r| *r == reduction).expect("listed");
        table[row][class as usize].as_ref().expect("the array casts to a class that the reduction serves")
    }
}

/// Whether this processor runs what build.rs has compiled for wide registers.
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
    /// State, results, elements, how many; returns status bits. Where there are tiles, each call but the last has a
    /// whole one.
    pub scan: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, i32) -> u32,
    /// Elements of a tile, where the order of additions matters.
    pub tile: Option<usize>,
}

impl Scanning {
    /// Those of a scan of a class, for this processor.
    ///
    /// # Panics
    /// Where the scan does not serve the class.
    pub fn of(scan: Scan, class: Class) -> &'static Scanning {
        let table = if is_wide() { &SCANS_WIDE } else { &SCANS };
        table[scan as usize][class as usize].as_ref().expect("the array casts to a class that the scan serves")
    }
}

/// Elements of a block: a handful of double registers stay in the first-level cache's neighbour.
pub const BLOCK: usize = 1024;

include!(concat!(env!("OUT_DIR"), "/loops.rs"));
