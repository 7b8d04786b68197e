//! The kernels whose PTX is prebuilt: general forms, on values in memory, that can do the work of all others.

use std::fmt::Write as _;

use super::reduce::{self, Form};
use super::{body, Tiled, Variant};
use crate::plan::{Access, Input, Instruction, Plan};
use verdigris_ops::dtype::{natural_dtype, Class, DType};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;

/// The plan of a reduction whose values are stored as they are computed.
pub fn plain(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access: Access::Linear }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// The prebuilt form that does the work of any.
pub fn form_for(form: Form) -> Form {
    match form {
        Form::Block | Form::Kept(_) | Form::KeptShort(_) => Form::Block,
        // as many threads as the tree has lanes for
        Form::Team(_) | Form::Packs(_) => Form::Team(0),
        Form::Lanes | Form::SingleLanes => Form::SingleLanes,
    }
}

/// The variant of the reductions that are prebuilt: any length, and memory of our own, which is aligned.
pub const PLAIN: Variant = Variant { wide: true, unaligned: false, tiled: Tiled { inputs: 0, axis: 0 } };

/// The kernels that reduce what lies in memory, for all reductions of a class: along memory or
/// across it. The number of a team's threads and whether missing elements are left out come with the launch, and code
/// stands once: it is in the package five times.
pub fn reductions_source(class: Class, across: bool) -> String {
    let plan = plain(natural_dtype(class));
    let c = class.c_type();
    let mut text = String::from("#define SMALL\n#define VG_CALLS\n#include \"reduce.h\"\n");
    text += &body::text(&plan, PLAIN, if across { 1 } else { reduction_pack(&plan) });
    let _ = writeln!(text, "typedef {c} T;\nconstexpr int U = 1;\n#include \"reduce.cuh\"");
    let form = if across { Form::SingleLanes } else { Form::Block };
    for reduction in Reduction::ALL.into_iter().filter(|reduction| reduction.serves(class)) {
        let accumulator = format!("{}<{c}>", reduction.accumulator());
        let (function, bits) = if across { ("lanes", "") } else { ("neighbours", ", (int)job.lane_bits - 2") };
        let call = format!("reduce_{function}<{accumulator}>(p, job, job.na_rm != 0u{bits});");
        text += &reduce::kernel(&reduction_name(reduction, form), &accumulator, &call);
    }
    text
}

/// What a prebuilt kernel is called in its module.
pub fn reduction_name(reduction: Reduction, form: Form) -> String {
    let lie = if form == Form::SingleLanes { "across" } else { "along" };
    format!("{}_{lie}", reduction.accumulator())
}

/// Elements of a prebuilt kernel's pack: four, a thread's lanes of the tree.
pub fn reduction_pack(plan: &Plan) -> usize {
    body::pack_size(plan).max(4)
}

/// The names of prebuilt kernels and modules: all reductions of a class,
pub fn reductions_name(class: Class, across: bool) -> String {
    format!("reductions {class:?}{}", if across { " across" } else { "" })
}

/// a scan,
pub fn scan_name(scan: Scan, class: Class) -> String {
    format!("{} {class:?}", scan.name())
}

/// and the positions that a mask chooses, those where it is NA too or not.
pub fn positions_name(keep_na: bool) -> String {
    format!("positions {keep_na}")
}
