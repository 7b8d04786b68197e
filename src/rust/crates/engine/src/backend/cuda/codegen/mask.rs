//! The two kernels of `x[mask]`: one counts the TRUE elements, the other writes the selected elements or their
//! positions. Their bodies are in `kernels/mask.cuh`.

use std::fmt::Write as _;

use super::{body, Variant};
use crate::plan::Plan;

/// The kernels' names in their source.
pub const COUNT: &str = "mask_count";
pub const WRITE: &str = "mask_write";

/// Elements that a thread loads before it computes: about 32 bytes, and one element where it is a long computation.
pub fn in_flight(plan: &Plan) -> usize {
    let inputs = plan.inputs.iter().filter(|i| i.access.follows());
    let bytes: usize = inputs.map(|i| i.dtype.size()).sum();
    (32 / bytes.max(2)).clamp(1, body::most_in_flight(plan).max(1))
}

/// The source of both kernels. Output 0 of the plan is the mask; output 1, if present, holds the values to select,
/// otherwise 0-based positions are written. With `keep_na`, an NA in the mask selects NA (position -1).
pub fn source(plan: &Plan, variant: Variant, keep_na: bool) -> String {
    let mut text = body::text(plan, variant, 1);
    let (kept, store) = match plan.outputs.get(1) {
        Some((_, dtype)) => (dtype.c_type(), format!("store_{dtype}(out, at, na ? na_of(y.y1) : y.y1)")),
        None => ("i64", "out[at] = na ? -1 : i".to_string()),
    };
    let _ = write!(
        text,
        "#define KEEP_NA {keep_na}\n#define K {}\ntypedef {kept} Kept;\n\
         VG_FN void keep(Kept* out, u32 at, const Out& y, i64 i, bool na) {{ {store}; }}\n#include \"mask.cuh\"\n",
        in_flight(plan)
    );
    text
}
