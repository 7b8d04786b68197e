//! The kernel that evaluates a plan element by element and stores its outputs.

use std::fmt::Write as _;

use super::{body, parameters, Variant, THREADS};
use crate::plan::{Access, Plan};

/// The kernel's name in its source.
pub const NAME: &str = "elementwise";

pub fn source(plan: &Plan, variant: Variant) -> String {
    let v = body::pack_size(plan);
    let u = packs(plan);
    let mut text = body::text(plan, variant, v);
    let (mut outputs, mut stores, mut writes) = (String::new(), String::new(), String::new());
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = write!(outputs, "{} y{k}[V]; ", dtype.c_type());
        let _ = write!(stores, "store_{dtype}(y{k}, k, y.y{k}); ");
        let also =
            if variant.unaligned { format!(" && {}", parameters::bit(parameters::OUTPUT_BIT)) } else { String::new() };
        let _ = write!(
            writes,
            "\n    if (i + V <= n{also}) write_pack<V>(p.y{k} + i, y{k});\n    \
             else {{\n      #pragma unroll\n      for (int k = 0; k < V; k++) if (i + k < n) p.y{k}[i + k] = y{k}[k];\n    }}"
        );
    }
    let note = if body::flag_bits(plan).1 > 0 { "  note_flags(w, p.flags, p.any);\n" } else { "" };
    // all loads come before the first store, so that several packs are in flight
    let _ = write!(
        text,
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) {NAME}(const __grid_constant__ Params p) {{\n  \
         constexpr int U = {u};\n  u32 w[W] = {{}};\n  const idx n = (idx)p.n, last = n - 1;\n  \
         const idx first = ((idx)blockIdx.x * (idx)({THREADS} * U) + (idx)threadIdx.x) * V;\n  In x[U];\n  \
         #pragma unroll\n  for (int u = 0; u < U; u++) fetch(p, first + (idx)(u * {THREADS} * V), x[u]);\n  \
         #pragma unroll\n  for (int u = 0; u < U; u++) {{\n    const idx i = first + (idx)(u * {THREADS} * V);\n    {outputs}\n    \
         #pragma unroll\n    for (int k = 0; k < V; k++) {{ Out y; compute(p, x[u], k, (i64)within(i + k, last), w, y); {stores}}}{writes}\n  }}\n{note}}}\n"
    );
    text
}

/// Packs of a thread. A plan with gathers uses one pack, whose gathers are in flight together: two took 46 registers
/// instead of 25, and 3% longer for 1e8 doubles.
fn packs(plan: &Plan) -> usize {
    let picks = plan.inputs.iter().any(|i| i.access == Access::Gathered);
    body::packs_in_flight(plan, if picks { 1 } else { 2 })
}

/// Elements that a block computes.
pub fn block_elements(plan: &Plan) -> usize {
    THREADS * body::pack_size(plan) * packs(plan)
}
