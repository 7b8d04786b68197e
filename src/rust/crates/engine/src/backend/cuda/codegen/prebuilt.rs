//! The kernels whose PTX is prebuilt: general forms, on values in memory, that can do the work of all others.

use std::fmt::Write as _;

use super::reduce::{self, Form};
use super::{body, Tiled, Variant};
use crate::plan::{Access, Input, Instruction, Plan};
use verdigris_ops::dtype::{natural_dtype, Class, DType};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;
use verdigris_ops::tree::Tree;

/// The plan of a reduction whose values are stored as they are computed.
pub fn plain(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access: Access::Linear }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// The form that a prebuilt kernel takes in place of any. `along` serves blocks and teams of any size.
pub fn form_for(form: Form, tree: Tree) -> Form {
    match form {
        Form::Block | Form::Kept(_) | Form::KeptShort(_) => Form::Block,
        Form::Team(_) | Form::Packs(_) => Form::Team((tree.lanes / 4) as u32),
        Form::Lanes | Form::SingleLanes => Form::SingleLanes,
    }
}

/// Elements of a prebuilt kernel's pack: along memory a thread's lanes of the tree.
pub fn reduction_pack(across: bool) -> usize {
    if across {
        1
    } else {
        4
    }
}

/// The variant of the reductions that are prebuilt: any length, and memory of our own, which is aligned.
pub const PLAIN: Variant = Variant { wide: true, unaligned: false, tiled: Tiled { inputs: 0, axis: 0 } };

/// The kernels of all reductions of stored arrays of a class, along memory or across it. They are written for size,
/// since the package has their machine code for five architectures: a team's threads and `na.rm` are arguments.
pub fn reductions_source(class: Class, across: bool) -> String {
    let plan = plain(natural_dtype(class));
    let c = class.c_type();
    let mut text = String::from("#define SMALL\n#define VG_CALLS\n#include \"reduce.h\"\n");
    text += &body::text(&plan, PLAIN, reduction_pack(across));
    let _ = writeln!(text, "typedef {c} T;\nconstexpr int U = 1;\n#include \"reduce.cuh\"");
    for reduction in Reduction::ALL.into_iter().filter(|reduction| reduction.serves(class)) {
        let accumulator = format!("{}<{c}>", reduction.accumulator());
        let (function, bits) = if across { ("lanes", "") } else { ("neighbours", ", (int)job.lane_bits - 2") };
        let call = format!("reduce_{function}<{accumulator}>(p, job, job.na_rm != 0u{bits});");
        text += &reduce::kernel(&reduction_name(reduction, across), &accumulator, &call);
    }
    text
}

/// What a prebuilt kernel is called in its module.
pub fn reduction_name(reduction: Reduction, across: bool) -> String {
    format!("{}_{}", reduction.accumulator(), if across { "across" } else { "along" })
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
