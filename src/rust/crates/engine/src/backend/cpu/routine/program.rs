//! The form of a routine that the cpu device runs: loops over lanes, with every register in a slot of scratch memory.

use std::ffi::c_void;
use verdigris_compile::FailureId;
use verdigris_ops::dtype::Class;
use verdigris_ops::loops::{Gather, Loop, Numbered};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::MOST_OPERANDS;

/// The location of lane 0 of a register, as bytes from the start of the scratch memory; the other lanes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slot {
    pub offset: u32,
    pub size: u8,
}

/// A register whose values are swapped along with the lanes.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub slot: Slot,
    /// The index of the parameter, for one that is never written. If it has the same value in all lanes, it is not
    /// swapped.
    pub parameter: Option<u16>,
}

pub type Moves = Box<[Moved]>;
pub type Code = Box<[Step]>;

pub type Choose = unsafe extern "C" fn(*mut c_void, *const i32, *const c_void, *const c_void, i32);
pub type Locate = unsafe extern "C" fn(*mut i64, *const c_void, *const i64, i32, i32) -> i32;
pub type Vary = unsafe extern "C" fn(*mut c_void, *const c_void, *const i32, *const c_void, i32);
pub type Get = unsafe extern "C" fn(*mut c_void, *const c_void, *const i64, *const i32, i64, i64, i32);
pub type Set = unsafe extern "C" fn(*mut c_void, *const i64, *const c_void, *const i32, i64, i64, i32);
pub type Standard = unsafe extern "C" fn(*mut c_void, i64, i64, *const i32, *mut i32, i32);

pub enum Step {
    /// `note` is the flag word that receives the row's bits.
    Apply {
        body: Loop,
        to: Slot,
        args: [Slot; MOST_OPERANDS],
        note: Option<u16>,
    },
    /// `yes` in lanes where the test is true, else `no`.
    Choose {
        body: Choose,
        to: Slot,
        test: Slot,
        yes: Slot,
        no: Slot,
    },
    Copy {
        to: Slot,
        from: Slot,
    },
    /// `from + counter * step`.
    Vary {
        body: Vary,
        to: Slot,
        from: Slot,
        counter: Slot,
        step: Slot,
    },
    /// The 0-based position of the subscript `from`; -1 for NA. A lane below 1 fails with `low`, one beyond the extent
    /// with `high` or, without it, gets -1.
    Position {
        body: Locate,
        to: Slot,
        from: Slot,
        class: Class,
        extent: Slot,
        low: FailureId,
        high: Option<FailureId>,
        moves: Moves,
    },
    /// The offset of a position on each axis, given with its stride; -1 if a position is negative.
    Along {
        to: Slot,
        at: Box<[(Slot, Slot)]>,
    },
    /// An element of a table; `none` if the table is empty.
    Read {
        body: Gather,
        to: Slot,
        none: Scalar,
        table: u16,
        at: Slot,
    },
    /// An element of the lane's local array.
    Get {
        body: Get,
        to: Slot,
        array: u16,
        at: Slot,
    },
    /// Assigns an element of the lane's local array.
    Set {
        body: Set,
        array: u16,
        at: Slot,
        value: Slot,
    },
    /// A draw from a standard distribution. `count` numbers the draws of each element.
    Standard {
        body: Standard,
        to: Slot,
        count: Slot,
    },
    /// A draw by a row of the operation table.
    Numbered {
        body: Numbered,
        to: Slot,
        count: Slot,
        args: [Slot; MOST_OPERANDS - 1],
        note: Option<u16>,
    },
    If(Box<Branch>),
    For(Box<Counted>),
    Loop(Box<LoopBody>),
    Break,
    Next,
    Return,
    Fail(FailureId),
}

pub struct Branch {
    pub test: Slot,
    pub missing: Option<FailureId>,
    pub then: Code,
    pub otherwise: Code,
    /// The branch without divergence: all lanes run both blocks, and a select keeps the values of each lane's block.
    pub both: Option<Code>,
    /// Whether the lanes of `otherwise` are moved to the front. The block in front should be the one that fewer lanes
    /// leave.
    pub otherwise_first: bool,
    /// Registers to swap before the blocks, and after them.
    pub moves: Moves,
    pub joined: Moves,
}

pub struct LoopBody {
    pub body: Code,
    /// Registers to swap between iterations, and after the loop.
    pub moves: Moves,
    pub ended: Moves,
    /// Whether lanes may skip to the next iteration, and whether they may leave the routine.
    pub nexts: bool,
    pub returns: bool,
}

pub struct Counted {
    pub body: LoopBody,
    pub times: Slot,
    /// None if nothing reads the counter.
    pub counter: Option<Slot>,
    /// The offset of each element's trip count, used if trip counts differ.
    pub kept: u32,
}

pub struct Given {
    pub parameter: u16,
    pub slot: Slot,
    pub fixed: bool,
}

pub struct Local {
    pub offset: u32,
    pub class: Class,
    pub length: usize,
}

pub struct Program {
    /// Unique to each program.
    pub id: usize,
    pub code: Code,
    /// The greatest number of lanes at a time.
    pub width: usize,
    pub bytes: usize,
    pub constants: Vec<(Slot, Scalar)>,
    pub given: Vec<Given>,
    /// The parameter that is the key of random draws.
    pub key: Option<u16>,
    pub results: Vec<(Slot, Class)>,
    pub arrays: Vec<Local>,
    /// Offsets of: the element on which each lane works (i32), the status of each element (u8), and two lists of lanes
    /// (u16).
    pub home: u32,
    pub status: u32,
    pub lists: [u32; 2],
}
