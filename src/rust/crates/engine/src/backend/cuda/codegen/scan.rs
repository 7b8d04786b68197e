//! The kernels that scan a plan's value. Their body is in `kernels/scan.cuh`; this file writes its definitions.

use std::fmt::Write as _;

use super::{body, Variant, THREADS};
use crate::plan::Plan;
use verdigris_ops::scan::Scan;

/// The kernel's name in its source.
pub const NAME: &str = "scan";
/// Packs of a thread: `swizzle` in scan.cuh permutes eight packs.
const PACKS: usize = 8;

/// Elements of a pack: 16 bytes at most of what is scanned, which passes through shared memory.
pub fn pack_size(plan: &Plan) -> usize {
    body::pack_size(plan).min(16 / plan.class(plan.outputs[0].0).size())
}

/// Elements of a block.
pub fn tile(plan: &Plan) -> usize {
    THREADS * pack_size(plan) * PACKS
}

pub fn source(plan: &Plan, variant: Variant, scan: Scan) -> String {
    let (register, dtype) = plan.outputs[0];
    let class = plan.class(register).c_type();
    let mut text = String::from("#include \"scan.h\"\n");
    text += &body::text(plan, variant, pack_size(plan));
    let _ = writeln!(
        text,
        "typedef {class} T;\ntypedef {} O;\ntypedef {}<{class}> A;\nconstexpr int R = {PACKS}, U = {};\n\
         VG_FN void put(O* y, int k, T x) {{ store_{dtype}(y, k, x); }}\n#include \"scan.cuh\"",
        dtype.c_type(),
        scan.state(),
        body::packs_in_flight(plan, 4),
    );
    text
}
