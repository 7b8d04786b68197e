//! The kernels of cross products whose row factors, right sides and summed values a plan computes. Their bodies are in
//! `kernels/gram.cuh`.

use std::fmt::Write as _;

use super::{body, Variant, THREADS};
use crate::plan::Plan;

/// The kernels' names in their source.
pub const ROWS: &str = "gram_rows";
pub const WHOLE: &str = "gram_whole";

/// The launch bounds of kernels for up to `8 * eights` columns. Two blocks on a multiprocessor spill a few registers, and
/// a pass takes 1.07 ms instead of 1.36 (H200, 30 columns of 1e7 rows); more columns need the registers.
pub fn bounds(eights: usize) -> String {
    format!("__launch_bounds__({THREADS}{})", if eights <= 4 { ", 2" } else { "" })
}

/// The source of both kernels, for up to `8 * eights` columns. The plan's outputs are the factor, `rights` right sides,
/// and the values to add up; its input `input` is the predictor, which the kernel computes. `tiled`: whether
/// warps have tiles in shared memory.
pub fn source(plan: &Plan, variant: Variant, eights: usize, rights: usize, input: u16, tiled: bool) -> String {
    let mut text = body::text(plan, variant, 1);
    let mut values = String::new();
    (0..plan.outputs.len()).for_each(|k| _ = write!(values, " v[{k}] = y.y{k};"));
    let note = if body::flag_bits(plan).1 > 0 { "  note_flags(values.w, p.flags, p.any);\n" } else { "" };
    let kernel = format!("extern \"C\" __global__ void {}", bounds(eights));
    let arguments = "const __grid_constant__ Params p, const __grid_constant__ GramJob job";
    let _ = write!(
        text,
        "#define THREADS {THREADS}\n#define EIGHTS {eights}\n#define SUMS {sums}\n#define TILED {tiled}\n#include \"gram.cuh\"\n\
         struct Planned {{\n  static constexpr int RIGHTS = {rights};\n  typedef In Row;\n  \
         const Params& p;\n  const GramJob& job;\n  u32 w[W];\n}};\n\
         VG_FN void load_row(const Planned& values, i64 i, In& x) {{ fetch(values.p, (idx)i, x); }}\n\
         VG_FN void row_of(Planned& values, In& x, const f64* tile, i64 i, bool inside, f64 (&v)[{all}]) {{\n  \
         const GramJob& job = values.job;\n  const f64 predictor = predicted(job, tile, i);\n  \
         x.x{input}[0] = predictor;\n  \
         Out y;\n  compute(values.p, x, 0, i, values.w, y);\n {values}\n  \
         if (inside) {{ job.predictor[i] = predictor; job.scale[i] = v[0]; }}\n}}\n\
         {kernel} {ROWS}({arguments}) {{\n  extern __shared__ f64 tiles[];\n  Planned values = {{p, job, {{}}}};\n  \
         gram_sums(job.columns, values, job.m, job.scaled, job.n, tiles, job.partial);\n{note}}}\n\
         {kernel} {WHOLE}({arguments}) {{\n  gram_finish(job.partial, job.blocks, job.m, job.out);\n}}\n",
        all = plan.outputs.len(),
        sums = plan.outputs.len() - 1 - rights,
        tiled = u8::from(tiled),
    );
    text
}
