//! The kernel of a plan with transposed inputs. A block computes a square tile of the result: it reads the transposed
//! inputs along their contiguous axis into shared memory, and then computes in the order of the result.

use std::fmt::Write as _;

use super::{body, Tiled, Variant, THREADS};
use crate::backend::cuda::driver::kernel::Packed;
use crate::plan::{Access, Bound, Plan};

/// The kernel's name in its source.
pub const NAME: &str = "tiled";
/// Bytes of shared memory that a block may declare statically.
const SHARED: usize = 48 << 10;
/// Axes shorter than this do not fill a tile.
const SHORTEST: usize = 16;

/// The side of a tile: rows of at least 256 bytes where shared memory permits.
fn edge(plan: &Plan, tiled: Tiled) -> usize {
    let widest = inputs(plan, tiled).map(|k| plan.inputs[k].dtype.size()).max().unwrap_or(4);
    if widest <= 4 {
        64
    } else {
        32
    }
}

/// The indices of the tiled inputs.
fn inputs(plan: &Plan, tiled: Tiled) -> impl Iterator<Item = usize> + '_ {
    (0..plan.inputs.len()).filter(move |&k| tiled.has(k))
}

/// Bytes of shared memory for all tiles. Rows have one more element than the edge, to avoid bank conflicts.
fn bytes(plan: &Plan, tiled: Tiled) -> usize {
    let edge = edge(plan, tiled);
    inputs(plan, tiled).map(|k| edge * (edge + 1) * plan.inputs[k].dtype.size()).sum()
}

/// Selects the inputs to read through tiles: their neighbours in memory are far apart in the result. All have the same
/// shape and contiguous axis; other inputs are read in the result's order.
pub fn choose(plan: &Plan, bound: &Bound) -> Tiled {
    let mut tiled = Tiled::default();
    let mut shape: &[usize] = &[];
    for (k, (input, view)) in plan.inputs.iter().zip(&bound.inputs).enumerate().take(Tiled::MOST) {
        let (extents, strides) = (view.layout.shape(), view.layout.strides());
        // tiles cover the whole result; where only the first elements are computed, the view has more
        if !matches!(input.access, Access::Strided(_)) || strides[0].abs() <= 1 || view.len() != bound.n {
            continue;
        }
        let Some(axis) = strides.iter().position(|s| s.abs() == 1) else { continue };
        if extents[0] < SHORTEST || extents[axis] < SHORTEST || bound.n >> 32 != 0 {
            continue;
        }
        if tiled.inputs != 0 && (shape, tiled.axis) != (extents, axis as u8) {
            continue;
        }
        let more = Tiled { inputs: tiled.inputs | 1 << k, axis: axis as u8 };
        if bytes(plan, more) <= SHARED {
            (tiled, shape) = (more, extents);
        }
    }
    tiled
}

/// Whether the memory of a tiled input is also read in the result's order, as in x + t(x).
fn is_mirrored(plan: &Plan, bound: &Bound, tiled: Tiled) -> bool {
    let memory = |k: usize| bound.inputs[k].buffer.address;
    let straight = (0..plan.inputs.len()).filter(|&k| !tiled.has(k));
    straight.filter(|&k| plan.inputs[k].access.follows()).any(|k| inputs(plan, tiled).any(|t| memory(t) == memory(k)))
}

/// The kernel's second parameter, `struct Tiles` of `kernels/tiles.cuh`, and the number of blocks.
pub fn tiles(plan: &Plan, bound: &Bound, tiled: Tiled) -> (Packed, usize) {
    let first = inputs(plan, tiled).next().expect("some input is tiled");
    let shape = bound.inputs[first].layout.shape();
    let (axis, edge) = (tiled.axis as usize, edge(plan, tiled));
    let (across, along) = (shape[0].div_ceil(edge), shape[axis].div_ceil(edge));
    let between: usize = shape[1..axis].iter().product();
    let beyond: usize = shape[axis + 1..].iter().product();
    let mut packed = Packed::default();
    let mirrored = usize::from(is_mirrored(plan, bound, tiled));
    for extent in [shape[0], shape[axis], across, along, between, mirrored] {
        packed.u32(extent as u32);
    }
    (packed, across * along * between * beyond)
}

pub fn source(plan: &Plan, variant: Variant) -> String {
    let (edge, axis) = (edge(plan, variant.tiled), variant.tiled.axis);
    let mut text = body::text(plan, variant, 1);
    // the position in the tile of element `j` of this thread, in the result's order
    let offset = format!(
        "const u32 across = (j * {THREADS} + threadIdx.x) % EDGE, along = (j * {THREADS} + threadIdx.x) / EDGE;"
    );
    // short code: the other inputs are loaded before the tiles are filled, so that these loads overlap
    let (early, late, at, unroll) = match body::most_in_flight(plan) >= edge * edge / THREADS {
        true => {
            let fetch = "fetch(p, first + across + lap * along, x[j]);";
            let early =
                format!("\n  In x[EACH];\n  #pragma unroll\n  for (int j = 0; j < EACH; j++) {{ {offset} {fetch} }}\n");
            (early, "", "j", "")
        }
        false => (String::new(), "In x[1];\n    fetch(p, i, x[0]);\n    ", "0", " 4"),
    };
    let (mut shared, mut read, mut keep, mut take) = (String::new(), String::new(), String::new(), String::new());
    for k in inputs(plan, variant.tiled) {
        let Access::Strided(rank) = plan.inputs[k].access else { continue };
        let c = plan.inputs[k].dtype.c_type();
        let _ = writeln!(shared, "  __shared__ {c} tile{k}[EDGE][EDGE + 1];");
        let start = body::offset(k, rank);
        let _ = writeln!(
            read,
            "  {c} v{k}[EACH];\n  {{\n    const idx e = first; {start}\n    const {c}* from = p.x{k} + at;\n    \
             #pragma unroll\n    for (int j = 0; j < EACH; j++) {{\n      \
             const u32 along = (j * {THREADS} + threadIdx.x) % EDGE, across = (j * {THREADS} + threadIdx.x) / EDGE;\n      \
             if (along < q_along && across < q_across) v{k}[j] = from[(step)across * p.stride{k}[0] + (step)along * p.stride{k}[{axis}]];\n    }}\n  }}"
        );
        let _ = writeln!(keep, "    tile{k}[along][across] = v{k}[j];");
        let _ = write!(take, "x[{at}].x{k}[0] = tile{k}[along][across]; ");
    }
    let mut stores = String::new();
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = write!(stores, " store_{dtype}(p.y{k}, (i64)i, y.y{k});");
    }
    let note = if body::flag_bits(plan).1 > 0 { "  note_flags(w, p.flags, p.any);\n" } else { "" };
    let _ = write!(
        text,
        "#include \"tiles.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) {NAME}(const __grid_constant__ Params p, const __grid_constant__ Tiles q) {{\n  \
         constexpr int EDGE = {edge}, EACH = EDGE * EDGE / {THREADS};\n{shared}  u32 w[W] = {{}};\n  \
         const u32 squares = q.tiles_across * q.tiles_along, rest = blockIdx.x / squares;\n  u32 from_across, from_along;\n  \
         square(q, blockIdx.x % squares, from_across, from_along);\n  from_across *= EDGE;\n  from_along *= EDGE;\n  \
         const idx lap = (idx)q.across * q.between;\n  \
         const idx first = from_across + (idx)q.across * (rest % q.between) + lap * (from_along + (idx)q.along * (rest / q.between));\n  \
         const u32 q_across = q.across - from_across, q_along = q.along - from_along;\n{read}{early}  \
         #pragma unroll\n  for (int j = 0; j < EACH; j++) {{\n    \
         const u32 along = (j * {THREADS} + threadIdx.x) % EDGE, across = (j * {THREADS} + threadIdx.x) / EDGE;\n{keep}  }}\n  \
         __syncthreads();\n  \
         #pragma unroll{unroll}\n  for (int j = 0; j < EACH; j++) {{\n    {offset}\n    \
         if (along >= q_along || across >= q_across) continue;\n    \
         const idx i = first + across + lap * along;\n    {late}{take}\n    \
         Out y;\n    compute(p, x[{at}], 0, (i64)i, w, y);{stores}\n  }}\n{note}}}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::transfer::Host;
    use crate::array::Array;
    use crate::memory::buffer::Device;
    use verdigris_ops::layout::Axis;

    #[test]
    fn tiles_are_for_whole_results() {
        let x = Array::upload(Host::Double(&vec![0.0; 100 * 100]), None, Device::Cpu, None).expect("an upload");
        let axes = [(1, 100), (0, 100)].map(|(of, extent)| Axis { of, start: 0, step: 1, extent });
        let (plan, mut bound) = x.view(&[100, 100], &axes).expect("a view").plan().expect("a plan");
        assert_eq!(choose(&plan, &bound).inputs, 1);
        // the tiled kernel writes the whole result, but the output has only the first elements
        bound.n = 10;
        assert_eq!(choose(&plan, &bound), Tiled::default());
    }
}
