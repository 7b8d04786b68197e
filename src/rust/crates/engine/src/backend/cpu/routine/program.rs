//! A routine in the form that the cpu device runs: loops over lanes, with every register at its slot in scratch memory.

use std::ffi::c_void;
use verdigris_compile::FailureId;
use verdigris_ops::dtype::Class;
use verdigris_ops::loops::{Gather, Loop, Numbered};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::MOST_OPERANDS;

/// Where lane 0 of a register lies, in bytes from the start of the scratch memory; its other lanes follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slot {
    pub offset: u32,
    pub size: u8,
}

/// A register whose values move with the lanes when these are swapped.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub slot: Slot,
    /// Of a parameter that is never written: which one. Where it is one value for all, nothing need move.
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
    /// `note` is the word that takes the row's bits.
    Apply {
        body: Loop,
        to: Slot,
        args: [Slot; MOST_OPERANDS],
        note: Option<u16>,
    },
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
    Vary {
        body: Vary,
        to: Slot,
        from: Slot,
        counter: Slot,
        step: Slot,
    },
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
    Along {
        to: Slot,
        at: Box<[(Slot, Slot)]>,
    },
    /// `none` is the element where there is no table.
    Read {
        body: Gather,
        to: Slot,
        none: Scalar,
        table: u16,
        at: Slot,
    },
    Get {
        body: Get,
        to: Slot,
        array: u16,
        at: Slot,
    },
    Set {
        body: Set,
        array: u16,
        at: Slot,
        value: Slot,
    },
    Standard {
        body: Standard,
        to: Slot,
        count: Slot,
    },
    Numbered {
        body: Numbered,
        to: Slot,
        count: Slot,
        args: [Slot; MOST_OPERANDS - 1],
        note: Option<u16>,
    },
    If(Box<Branch>),
    For(Box<Counted>),
    Loop(Box<Turns>),
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
    /// What does the same for lanes that differ, without a branch: both blocks, and what each lane keeps.
    pub both: Option<Code>,
    /// Which block stands in front: the one that fewer lanes leave.
    pub otherwise_first: bool,
    /// What is live before the blocks, and after them or where lanes go that leave them.
    pub moves: Moves,
    pub joined: Moves,
}

pub struct Turns {
    pub body: Code,
    /// What is live where a turn begins or the loop has ended, and what is live then.
    pub moves: Moves,
    pub ended: Moves,
    /// Whether lanes may go on with the next turn before this one's end, and whether they may leave the routine.
    pub nexts: bool,
    pub returns: bool,
}

pub struct Counted {
    pub turns: Turns,
    pub times: Slot,
    /// Where something reads it.
    pub counter: Option<Slot>,
    /// Where each element's `times` are kept, where they differ.
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
    /// Another for every program.
    pub id: usize,
    pub code: Code,
    /// The most lanes at a time.
    pub width: usize,
    pub bytes: usize,
    pub constants: Vec<(Slot, Scalar)>,
    pub given: Vec<Given>,
    /// The parameter that is the call's key.
    pub key: Option<u16>,
    pub results: Vec<(Slot, Class)>,
    pub arrays: Vec<Local>,
    /// Which element a lane works on (i32 each); why an element is not with the others (u8 each); two lists of lanes
    /// (u16).
    pub home: u32,
    pub status: u32,
    pub lists: [u32; 2],
}
