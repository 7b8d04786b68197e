//! CUDA C from plans.
//!
//! `body` writes the parts that every kernel of a plan has: the parameters, the loads of inputs, and the straight-line
//! code of one element. `elementwise`, `reduce` and `scan` put a kernel around it. The arithmetic itself is the
//! operation table's.

pub mod body;
pub mod elementwise;
pub mod mask;
pub mod notes;
pub mod parameters;
pub mod patch;
pub mod prebuilt;
pub mod reduce;
pub mod routine;
pub mod scan;
pub mod tiled;

use crate::plan::Plan;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;

/// What, beside the plan, a kernel is written for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Variant {
    /// Indices need 64 bits.
    pub wide: bool,
    /// Some input or output does not start at a multiple of its pack.
    pub unaligned: bool,
    /// Inputs that are read through tiles.
    pub tiled: Tiled,
}

/// Strided inputs whose fast axis is not the result's: a block reads a tile of them along their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tiled {
    /// Bit k: input k.
    pub inputs: u32,
    /// The axis along which they are read.
    pub axis: u8,
}

impl Tiled {
    /// Inputs that have a bit.
    pub const MOST: usize = 32;

    pub fn has(self, input: usize) -> bool {
        input < Tiled::MOST && self.inputs >> input & 1 == 1
    }
}

/// The source of the kernel that computes a plan; for looking at, and for compiling without a device.
pub fn source(plan: &Plan, variant: Variant) -> String {
    if variant.tiled.inputs == 0 {
        elementwise::source(plan, variant)
    } else {
        tiled::source(plan, variant)
    }
}

/// The source of the kernel that reduces a plan's value.
pub fn source_reduce(plan: &Plan, variant: Variant, reduction: Reduction, na_rm: bool, form: reduce::Form) -> String {
    reduce::source(plan, variant, reduction, na_rm, form)
}

/// The source of the kernel that scans a plan's value.
pub fn source_scan(plan: &Plan, variant: Variant, scan: Scan) -> String {
    scan::source(plan, variant, scan)
}

/// Threads of a block, in every generated kernel.
pub const THREADS: usize = 256;
