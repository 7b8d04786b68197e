//! Scan kernels of plans (cumulative sums and the like). Their body is in `kernels/scan.cuh`; this file writes the
//! definitions that it needs.

use std::fmt::Write as _;

use super::prebuilt::PLAIN;
use super::{body, Variant, THREADS};
use crate::plan::Plan;
use verdigris_ops::dtype::Class;
use verdigris_ops::scan::Scan;

/// The kernel's name in its source.
pub const NAME: &str = "scan";
/// The name of the second kernel, in scans that have one.
pub const SECOND: &str = "scan_wide";
/// Packs of 16 bytes of a thread: `swizzle` in scan.cuh works on groups of eight.
const PACKS: usize = 8;

/// Elements of a 16-byte pack of the scanned class, in which values pass through shared memory.
fn widest(plan: &Plan) -> usize {
    16 / plan.class(plan.outputs[0].0).size()
}

/// Elements of a pack: one where an element is a long computation.
pub fn pack_size(plan: &Plan) -> usize {
    if body::is_heavy(plan) {
        1
    } else {
        widest(plan)
    }
}

/// Elements of a block. A thread scans neighbouring elements, the same number for every plan of a class, so the order
/// of additions does not depend on the plan.
pub fn tile(plan: &Plan) -> usize {
    THREADS * widest(plan) * PACKS
}

/// Whether the scan has a second kernel with a wider accumulator, which recomputes sums from where the first one
/// overflowed.
pub fn widens(plan: &Plan, scan: Scan) -> bool {
    scan == Scan::Sum && matches!(plan.class(plan.outputs[0].0), Class::F64 | Class::C128)
}

pub fn source(plan: &Plan, variant: Variant, scan: Scan) -> String {
    let (register, dtype) = plan.outputs[0];
    let class = plan.class(register).c_type();
    let mut text = String::from("#include \"scan.h\"\n");
    text += &body::text(plan, variant, pack_size(plan));
    let _ = writeln!(
        text,
        "typedef {class} T;\ntypedef {} O;\ntypedef {}<{class}> A;\nconstexpr int R = {}, U = {};\n{}{}\
         VG_FN void put(O* y, int k, T x) {{ store_{dtype}(y, k, x); }}\n#include \"scan.cuh\"",
        dtype.c_type(),
        scan.state(),
        PACKS * widest(plan) / pack_size(plan),
        body::packs_in_flight(plan, 4),
        if widens(plan, scan) { "#define WIDENS\n" } else { "" },
        if variant == PLAIN { "#define SMALL_CODE\n" } else { "" },
    );
    text
}
