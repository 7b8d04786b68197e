//! Generates CUDA C from plans.
//!
//! `body` writes the parts that every kernel of a plan contains: the parameters, the loads of inputs, and the
//! straight-line code of one element. `elementwise`, `reduce`, `scan` and others wrap a kernel around it. The
//! arithmetic itself comes from the operation table.

pub mod body;
pub mod elementwise;
pub mod gram;
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

/// Properties of the operands that a kernel is specialised for, besides its plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Variant {
    /// Indices need 64 bits; otherwise they have 32.
    pub wide: bool,
    /// Some input or output is not aligned to its packs.
    pub unaligned: bool,
    /// Transposed inputs that are read through shared memory.
    pub tiled: Tiled,
}

/// Strided inputs whose contiguous axis is not the result's first axis. A block reads a tile of them along their
/// contiguous axis into shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tiled {
    /// Bit k is set for input k.
    pub inputs: u32,
    /// The axis of the result along which these inputs are contiguous.
    pub axis: u8,
}

impl Tiled {
    /// The number of inputs that `inputs` has bits for.
    pub const MOST: usize = 32;

    pub fn has(self, input: usize) -> bool {
        input < Tiled::MOST && self.inputs >> input & 1 == 1
    }
}

/// The source of the kernel that evaluates a plan, for inspection and for compilation without a device.
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
