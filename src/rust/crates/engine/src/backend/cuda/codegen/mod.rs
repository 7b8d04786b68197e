//! CUDA C from plans.
//!
//! `body` writes what every kernel of a plan has: the parameters, how inputs are fetched, and the
//! straight-line code of one element. `elementwise`, `reduce` and `scan` put a kernel around it. The
//! arithmetic itself is the operation table's.

pub mod body;
pub mod elementwise;
pub mod parameters;
pub mod reduce;
pub mod scan;

use crate::plan::Plan;
use crate::reduction::Reduction;
use crate::scan::Scan;

/// What, beside the plan, a kernel is written for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Variant {
    /// Indices need 64 bits.
    pub wide: bool,
    /// Some input or output does not start at a multiple of its pack.
    pub unaligned: bool,
}

/// The source of the kernel that computes a plan; for looking at, and for compiling without a device.
pub fn source(plan: &Plan, variant: Variant) -> String {
    elementwise::source(plan, variant)
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
