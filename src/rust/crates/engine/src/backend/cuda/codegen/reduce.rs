//! Reduction kernels of plans. Their bodies are in `kernels/reduce.cuh`; this file chooses the form and writes the
//! definitions that it needs.

use std::fmt::Write as _;

use super::{body, Tiled, Variant, THREADS};
use crate::plan::{Epilogue, Plan, Register};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::Class;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::tree::{merges_fast, Tree, MOST_LANES};

/// The kernel's name in its source.
pub const NAME: &str = "reduction";

/// How threads share the elements of the groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// One or more blocks per group of contiguous elements.
    Block,
    /// One block per group. The block keeps the group's values in this many slots of shared memory, for the epilogue.
    BlockShared(u32),
    /// As `BlockShared`, for a group whose rows in the tree have fewer lanes than a block has threads: all threads load
    /// the group into shared memory, and it is reduced from there.
    BlockSharedShort(u32),
    /// This many threads of one warp per group.
    SubWarp(u32),
    /// One thread per pack, this many packs (and threads of one warp) per group; several groups in flight.
    PackPerThread(u32),
    /// Groups are strided (`inner` > 1): neighbouring threads walk the reduced axis for neighbouring groups, each for a
    /// pack of groups...
    Strided,
    /// ... or for one group, where the groups do not divide into packs.
    StridedSingle,
}

impl Form {
    /// Whether neighbouring elements belong to different groups.
    pub fn is_across(self) -> bool {
        matches!(self, Form::Strided | Form::StridedSingle)
    }
}

/// The most shared memory that `BlockShared` may use, so that several blocks fit on a multiprocessor.
const MOST_KEPT: usize = 36 << 10;

/// Slots for a group's values and for up to 32 elements of adjacent groups in the first and last packs. Capacities are
/// powers of two times 576, since each one is a kernel of its own.
fn kept_capacity(length: usize) -> usize {
    let mut capacity = 576;
    while capacity < length + 32 {
        capacity *= 2;
    }
    capacity
}

/// Chooses the form for these groups. The reduction tree determines the number of threads per group.
pub fn form(plan: &Plan, reduction: Reduction, groups: Groups) -> Form {
    // the epilogue runs over the group's elements, so one block must own the whole group
    if let Some(after) = plan.epilogue.as_ref().filter(|after| after.over_elements) {
        let (capacity, size) = (kept_capacity(groups.length), natural_dtype(plan.class(plan.outputs[0].0)).size());
        let class = reduced_class(plan);
        let is_short = !reduction.is_exact(class) && Tree::of(reduction, class, groups).lanes < MOST_LANES;
        return match capacity as u32 {
            _ if after.values.is_none() || capacity * size > MOST_KEPT => Form::Block,
            capacity if is_short => Form::BlockSharedShort(capacity),
            capacity => Form::BlockShared(capacity),
        };
    }
    if groups.inner > 1 {
        let v = pack_size(plan, reduction, Form::Strided);
        return if groups.inner.is_multiple_of(v) { Form::Strided } else { Form::StridedSingle };
    }
    let (class, v) = (reduced_class(plan), pack_size(plan, reduction, Form::Block));
    let tree = Tree::of(reduction, class, groups);
    if tree.lanes == MOST_LANES {
        return Form::Block;
    }
    // valid where one row of the tree is the whole group, or where the order of additions does not matter
    let by_packs = tree.lanes == 32 && v == 4 || reduction.is_exact(class);
    match groups.length / v {
        packs @ (1 | 2 | 4 | 8) if groups.length == packs * v && by_packs && merges_fast(reduction, class) => {
            Form::PackPerThread(packs as u32)
        }
        _ => Form::SubWarp((tree.lanes / 4) as u32),
    }
}

/// The class of the values that are reduced.
fn reduced_class(plan: &Plan) -> Class {
    plan.class(plan.outputs[0].0)
}

/// Elements of a pack.
pub fn pack_size(plan: &Plan, reduction: Reduction, form: Form) -> usize {
    // the output is not stored, but its dtype counts as that of the values
    let v = body::pack_size(plan);
    match form {
        Form::StridedSingle => 1,
        // each element of the pack needs an accumulator
        Form::Strided => v.min(4),
        // a thread owns four lanes of the tree
        _ if !reduction.is_exact(reduced_class(plan)) => {
            if body::is_heavy(plan) {
                1
            } else {
                4
            }
        }
        _ => v,
    }
}

/// Packs that a thread loads before it adds them: fewer where an addition is much code.
pub fn packs_in_flight(plan: &Plan, reduction: Reduction, form: Form) -> usize {
    use Reduction::*;
    let elements = |count: usize| count / pack_size(plan, reduction, form);
    let most = match (form, reduction) {
        (_, Product) => 1,
        (_, Var) if !is_wide(plan) => 4,
        // a thread's four lanes of float64 are 32 bytes
        (_, Sum | Mean) if pack_size(plan, reduction, form) == 4 && is_wide(plan) => 2,
        (Form::Block | Form::BlockShared(_) | Form::BlockSharedShort(_), Sum | Mean | Min | Max | Any | All) => {
            elements(16).clamp(4, 8)
        }
        (_, Sum | Mean | Min | Max | Any | All) => 4,
        _ => elements(8).clamp(2, 4),
    };
    body::packs_in_flight(plan, most)
}

/// Whether any streamed input has elements of 8 bytes or more.
fn is_wide(plan: &Plan) -> bool {
    plan.inputs.iter().any(|input| input.access.follows() && input.dtype.size() >= 8)
}

pub fn source(plan: &Plan, variant: Variant, reduction: Reduction, na_rm: bool, form: Form) -> String {
    let class = reduced_class(plan).c_type();
    let mut text = String::from("#include \"reduce.h\"\n");
    text += &body::text(plan, variant, pack_size(plan, reduction, form));
    let _ = writeln!(text, "typedef {class} T;\ntypedef {}<{class}> A;", reduction.accumulator());
    let _ = writeln!(text, "constexpr int U = {};", packs_in_flight(plan, reduction, form));
    if let Some(after) = &plan.epilogue {
        let given = after.values.filter(|_| matches!(form, Form::BlockShared(_) | Form::BlockSharedShort(_)));
        text += &epilogue(after, epilogue_variant(after, variant), given);
    }
    if let Form::BlockShared(capacity) | Form::BlockSharedShort(capacity) = form {
        let _ = writeln!(text, "#define KEPT {capacity}");
    }
    if matches!(form, Form::BlockSharedShort(_)) {
        text.push_str("#define SHORT\n");
    }
    text.push_str("#include \"reduce.cuh\"\n");
    // Long sums of doubles use more registers than a third block leaves, so that too few loads are in flight: with
    // three they take 3 to 10% less time on an H100. Short groups and other reductions lose (bench/NOTES.md).
    let is_long = matches!(form, Form::Block | Form::Strided | Form::StridedSingle) && is_wide(plan);
    let blocks =
        (is_long && matches!(reduction, Reduction::Sum | Reduction::Mean) && reduced_class(plan) == Class::F64)
            .then_some(3);
    text + &kernel(NAME, "A", &call(form, plan.over_elements(), "A", &na_rm.to_string()), blocks)
}

/// The definition of a kernel whose body is the statement `call`. `blocks`: how many blocks a multiprocessor must hold.
pub(super) fn kernel(name: &str, accumulator: &str, call: &str, blocks: Option<usize>) -> String {
    let blocks = blocks.map_or(String::new(), |least| format!(", {least}"));
    format!(
        "typedef Job<{accumulator}> job_of_{name};\nextern \"C\" __global__ void __launch_bounds__(THREADS{blocks}) {name}(\
         const __grid_constant__ Params p, const __grid_constant__ job_of_{name} job) {{ {call} }}\n"
    )
}

/// The call of the device function that implements a form.
fn call(form: Form, over_elements: bool, accumulator: &str, na_rm: &str) -> String {
    let (function, threads) = match form {
        // rows of a short group have fewer lanes than the block has threads
        Form::Block | Form::BlockSharedShort(_) if over_elements => {
            ("neighbours", format!(", ORDERED<{accumulator}> ? (int)job.lane_bits - 2 : THREAD_BITS"))
        }
        Form::Block | Form::BlockShared(_) | Form::BlockSharedShort(_) => {
            ("neighbours", format!(", {}", THREADS.ilog2()))
        }
        Form::SubWarp(threads) => ("neighbours", format!(", {}", threads.ilog2())),
        Form::PackPerThread(threads) => ("packs", format!(", {threads}")),
        Form::Strided | Form::StridedSingle => ("lanes", String::new()),
    };
    format!("reduce_{function}<{accumulator}>(p, job, {na_rm}{threads});")
}

/// The variant of an epilogue's code. It handles one element at a time; the reduction's results are treated like tiled
/// inputs, which `fetch` does not load.
pub fn epilogue_variant(after: &Epilogue, variant: Variant) -> Variant {
    Variant {
        tiled: Tiled { inputs: 1u32.checked_shl(after.results.into()).unwrap_or(0), axis: 0 },
        unaligned: false,
        wide: variant.wide,
    }
}

/// Elements of a pack in the epilogue.
pub fn epilogue_pack(after: &Epilogue) -> usize {
    if after.over_elements {
        body::pack_size(&after.plan)
    } else {
        1
    }
}

/// The epilogue: `after::Params`, and `after::run`, which takes a group's result and stores what is computed from it.
fn epilogue(after: &Epilogue, variant: Variant, given: Option<Register>) -> String {
    let plan = &after.plan;
    let mut text = format!(
        "#define AFTER\nnamespace after {{\n{}",
        body::source_without_headers(plan, variant, epilogue_pack(after), given)
    );
    if after.over_elements {
        return text + &each(after, given);
    }
    let mut stores = String::new();
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = write!(stores, " store_{dtype}(p.y{k}, group, y.y{k});");
    }
    let note = if body::flag_bits(plan).1 > 0 { " note_flags(w, p.flags, p.any);" } else { "" };
    let _ = writeln!(
        text,
        "VG_FN void run(const Params& p, i64 group, A::value result) {{\n  u32 w[W] = {{}};\n  In x;\n  fetch(p, (idx)group, x);\n  \
         x.x{}[0] = result;\n  Out y;\n  compute(p, x, 0, group, w, y);\n {stores}{note}\n}}\n}}",
        after.results
    );
    text
}

/// `after::run` for an epilogue over the elements `start .. end` of a group. `pack` is the thread's first pack. With
/// `given`, the group's values are taken from `kept` in shared memory, where `walk` has stored them.
fn each(after: &Epilogue, given: Option<Register>) -> String {
    let plan = &after.plan;
    let (mut outputs, mut stores, mut writes) = (String::new(), String::new(), String::new());
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = write!(outputs, "{} y{k}[V]; ", dtype.c_type());
        let _ = write!(stores, "store_{dtype}(y{k}, k, y.y{k}); ");
        let _ = write!(
            writes,
            "\n    if (i >= start && i + V <= end) write_pack<V>(p.y{k} + i, y{k});\n    \
             else {{\n      #pragma unroll\n      for (int k = 0; k < V; k++) if (i + k >= start && i + k < end) p.y{k}[i + k] = y{k}[k];\n    }}"
        );
    }
    let note = if body::flag_bits(plan).1 > 0 { "  note_flags(w, p.flags, p.any);\n" } else { "" };
    let (kept, take) = match given {
        Some(register) => (
            format!(", const {}* kept", plan.class(register).c_type()),
            "    #pragma unroll\n    for (int k = 0; k < V; k++) x[u].given[k] = kept[(at < last ? at : pack) * V + k - (start & ~15ll)];\n",
        ),
        None => (String::new(), ""),
    };
    // all loads come before the first store, so that they are in flight together
    format!(
        "constexpr int U = {u};\n\
         VG_FN void run(const Params& p, i64 pack, i64 last, i64 start, i64 end, A::value result{kept}) {{\n  \
         u32 w[W] = {{}};\n  In x[U];\n  #pragma unroll\n  for (int u = 0; u < U; u++) {{\n    \
         const i64 at = pack + u * {THREADS};\n    fetch(p, (idx)((at < last ? at : pack) * V), x[u]);\n    \
         x[u].x{results}[0] = result;\n{take}  }}\n  \
         #pragma unroll\n  for (int u = 0; u < U; u++) {{\n    const i64 at = pack + u * {THREADS}, i = at * V;\n    if (at >= last) break;\n    \
         {outputs}\n    #pragma unroll\n    for (int k = 0; k < V; k++) {{ Out y; compute(p, x[u], k, i + k, w, y); {stores}}}{writes}\n  }}\n{note}}}\n\
         }}\n#define SPREAD\n",
        u = body::packs_in_flight(plan, 2),
        results = after.results
    )
}
