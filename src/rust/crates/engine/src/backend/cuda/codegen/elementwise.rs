//! The kernel that computes a plan's outputs.

use std::fmt::Write as _;

use super::{body, parameters, Variant, THREADS};
use crate::plan::{Access, Plan};

/// The kernel's name in its source.
pub const NAME: &str = "elementwise";

pub fn source(plan: &Plan, variant: Variant) -> String {
    let v = body::pack_size(plan);
    let u = packs(plan);
    let mut text = body::text(plan, variant, v);
    let (mut rooms, mut stores, mut writes) = (String::new(), String::new(), String::new());
    // what is picked is read where it is computed with: all packs are before the first is written
    let picks = plan.inputs.iter().any(|i| i.access == Access::Picked);
    let (extent, pack) = if picks { ("[U][V]", "[u]") } else { ("[V]", "") };
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = write!(rooms, "{} y{k}{extent}; ", dtype.c_type());
        let _ = write!(stores, "store_{dtype}(y{k}{pack}, k, y.y{k}); ");
        let also = if variant.unaligned {
            format!(" && (p.packed >> {} & 1u)", parameters::OUTPUT_BIT)
        } else {
            String::new()
        };
        let _ = write!(
            writes,
            "\n    if (i + V <= n{also}) write_pack<V>(p.y{k} + i, y{k}{pack});\n    \
             else {{\n      #pragma unroll\n      for (int k = 0; k < V; k++) if (i + k < n) p.y{k}[i + k] = y{k}{pack}[k];\n    }}"
        );
    }
    let packs = format!(
        "#pragma unroll\n  for (int u = 0; u < U; u++) {{\n    const idx i = first + (idx)(u * {THREADS} * V);"
    );
    let (before, within, between) = match picks {
        true => (format!("{rooms}\n  "), String::new(), format!("\n  }}\n  {packs}")),
        false => (String::new(), format!("\n    {rooms}"), String::new()),
    };
    let note = if body::places(plan).1 > 0 { "  note_flags(w, p.flags, p.any);\n" } else { "" };
    // all loads come before the first store, so that they are on their way together
    let _ = write!(
        text,
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) {NAME}(const __grid_constant__ Params p) {{\n  \
         constexpr int U = {u};\n  u32 w[W] = {{}};\n  const idx n = (idx)p.n, last = n - 1;\n  \
         const idx first = ((idx)blockIdx.x * (idx)({THREADS} * U) + (idx)threadIdx.x) * V;\n  In x[U];\n  \
         #pragma unroll\n  for (int u = 0; u < U; u++) fetch(p, first + (idx)(u * {THREADS} * V), x[u]);\n  \
         {before}{packs}{within}\n    \
         #pragma unroll\n    for (int k = 0; k < V; k++) {{ Out y; compute(p, x[u], k, (i64)within(i + k, last), w, y); {stores}}}{between}{writes}\n  }}\n{note}}}\n"
    );
    text
}

/// Packs of a thread.
fn packs(plan: &Plan) -> usize {
    body::packs_in_flight(plan).min(2)
}

/// Elements of a block.
pub fn block_elements(plan: &Plan) -> usize {
    THREADS * body::pack_size(plan) * packs(plan)
}
