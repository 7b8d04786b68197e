//! The sources of prebuilt kernels: general variants that read evaluated arrays and can replace any specialised kernel
//! of their kind.

use std::fmt::Write as _;

use super::reduce::{self, Form};
use super::{body, Tiled, Variant};
use crate::plan::{Access, Input, Instruction, Plan};
use verdigris_ops::dtype::{natural_dtype, Class, DType};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;
use verdigris_ops::tree::Tree;

/// The plan that loads a stored array, for reductions and scans of evaluated values.
pub fn stored_plan(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access: Access::Linear }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// The form whose prebuilt kernel replaces a given form. The kernels `along` memory take the number of threads of a
/// group as an argument.
pub fn form_for(form: Form, tree: Tree) -> Form {
    match form {
        Form::Block | Form::BlockShared(_) | Form::BlockSharedShort(_) => Form::Block,
        Form::SubWarp(_) | Form::PackPerThread(_) => Form::SubWarp((tree.lanes / 4) as u32),
        Form::Strided | Form::StridedSingle => Form::StridedSingle,
    }
}

/// Elements of a pack in a prebuilt reduction. Along memory a thread owns four neighbouring lanes of the tree.
pub fn reduction_pack(across: bool) -> usize {
    if across {
        1
    } else {
        4
    }
}

/// The variant of prebuilt reductions and scans: 64-bit indices, and memory allocated by this package, which is
/// aligned.
pub const PLAIN: Variant = Variant { wide: true, unaligned: false, tiled: Tiled { inputs: 0, axis: 0 } };

/// The source of all reductions of stored arrays of a class, along or across memory. It is optimised for size, since
/// the package contains its machine code for several architectures: the threads of a group and `na.rm` are arguments.
pub fn reductions_source(class: Class, across: bool) -> String {
    let plan = stored_plan(natural_dtype(class));
    let c = class.c_type();
    let mut text = String::from("#define SMALL\n#define VG_CALLS\n#include \"reduce.h\"\n");
    text += &body::text(&plan, PLAIN, reduction_pack(across));
    let _ = writeln!(text, "typedef {c} T;\nconstexpr int U = 1;\n#include \"reduce.cuh\"");
    for reduction in Reduction::ALL.into_iter().filter(|reduction| reduction.serves(class)) {
        let accumulator = format!("{}<{c}>", reduction.accumulator());
        let (function, bits) = if across { ("lanes", "") } else { ("neighbours", ", (int)job.lane_bits - 2") };
        let call = format!("reduce_{function}<{accumulator}>(p, job, job.na_rm != 0u{bits});");
        text += &reduce::kernel(&reduction_name(reduction, across), &accumulator, &call, None);
    }
    text
}

/// The name of a prebuilt reduction's kernel in its module.
pub fn reduction_name(reduction: Reduction, across: bool) -> String {
    format!("{}_{}", reduction.accumulator(), if across { "across" } else { "along" })
}

/// The name in the index of prebuilt modules of all reductions of a class.
pub fn reductions_name(class: Class, across: bool) -> String {
    format!("reductions {class:?}{}", if across { " across" } else { "" })
}

/// The name in the index of a scan's module.
pub fn scan_name(scan: Scan, class: Class) -> String {
    format!("{} {class:?}", scan.name())
}

/// The name in the index of the kernels that write the positions of a mask, with or without those of NA.
pub fn positions_name(keep_na: bool) -> String {
    format!("positions {keep_na}")
}
