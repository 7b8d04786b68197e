//! The kernels that reduce a plan's value. Their bodies are in `kernels/reduce.cuh`; here is
//! what they are given.

use std::fmt::Write as _;

use super::{body, Variant};
use crate::plan::Plan;
use crate::reduction::Reduction;

/// The kernel's name in its source.
pub const NAME: &str = "reduction";

/// How threads share the elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// One or more blocks a group of neighbouring elements.
    Block,
    /// This many threads of a warp a group.
    Team(u32),
    /// Threads abreast, each walking the axis for as many lanes as a pack has...
    Lanes,
    /// ... or for one, where lanes do not divide into packs.
    SingleLanes,
}

/// Elements of a pack.
pub fn pack_size(plan: &Plan, form: Form) -> usize {
    // an output is not stored, but its dtype is that of the values
    let v = body::pack_size(plan);
    match form {
        Form::SingleLanes => 1,
        // an accumulator for each
        Form::Lanes => v.min(4),
        _ => v,
    }
}

/// Packs that a thread has in flight: fewer where adding an element is much code.
pub fn packs_in_flight(plan: &Plan, reduction: Reduction) -> usize {
    use Reduction::*;
    let most = match reduction {
        Sum | Mean | Min | Max | Any | All => 4,
        Range | WhichMax | WhichMin => 2,
        Product | Var => 1,
    };
    body::packs_in_flight(plan).min(most)
}

pub fn source(plan: &Plan, variant: Variant, reduction: Reduction, na_rm: bool, form: Form) -> String {
    let class = plan.class(plan.outputs[0].0).c_type();
    let mut text = String::from("#include \"reduce.h\"\n");
    text += &body::text(plan, variant, pack_size(plan, form));
    let _ = writeln!(text, "typedef {class} T;\ntypedef {}<{class}> A;", reduction.accumulator());
    let _ = writeln!(text, "constexpr bool NARM = {na_rm};\nconstexpr int U = {};", packs_in_flight(plan, reduction));
    match form {
        Form::Block => text.push_str("#define SEGMENTS_BLOCK\n"),
        Form::Team(threads) => {
            let _ = writeln!(text, "#define SEGMENTS_TEAM {threads}");
        }
        Form::Lanes | Form::SingleLanes => text.push_str("#define LANES\n"),
    }
    text.push_str("#include \"reduce.cuh\"\n");
    text
}
