//! The kernels of `x[window] <- plan`. `put` writes the part of the array in place; `patch` writes a new array, with
//! the plan's values in the part and the old elements elsewhere.

use std::fmt::Write as _;

use super::parameters::divisor;
use super::{body, Variant, THREADS};
use crate::backend::cuda::driver::kernel::Packed;
use crate::memory::buffer::View;
use crate::plan::Plan;
use verdigris_ops::layout::Axis;

/// The name of both kernels in their source.
pub const NAME: &str = "patch";

/// The most axes, after contiguous ones have been merged.
pub const MOST_AXES: usize = 8;

/// Elements of a thread, one block apart. All are loaded before the first is stored.
const EACH: usize = 4;

pub fn block_elements() -> usize {
    THREADS * EACH
}

/// One axis of the array: its extent, and the range of indices that is assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    extent: usize,
    start: usize,
    count: usize,
}

/// The assigned part of an array as one window per axis. Axes that are covered completely are merged with the next one.
/// None where the part has steps, permutes the axes, or has more than `MOST_AXES` axes.
pub fn windows(dim: &[usize], axes: &[Axis]) -> Option<Vec<Window>> {
    let mut out: Vec<Window> = Vec::with_capacity(dim.len());
    for (k, (&extent, axis)) in dim.iter().zip(axes).enumerate() {
        if axis.of != k || (axis.step != 1 && axis.extent != 1) {
            return None;
        }
        let one = Window { extent, start: axis.start, count: axis.extent };
        match out.last_mut() {
            Some(last) if last.count == last.extent => {
                let inner = last.extent;
                *last = Window { extent: inner * extent, start: inner * one.start, count: inner * one.count };
            }
            _ => out.push(one),
        }
    }
    (!out.is_empty() && out.len() <= MOST_AXES).then_some(out)
}

/// The second kernel parameter of `patch`.
pub fn pack_patch(windows: &[Window], old: u64, wide: bool) -> Packed {
    let mut p = Packed::default();
    p.u64(windows.iter().map(|w| w.extent).product::<usize>() as u64);
    p.u64(old);
    for window in windows {
        divisor(&mut p, window.extent.max(2) as u64, wide);
    }
    for of in [|w: &Window| w.start, |w: &Window| w.count] {
        for window in windows {
            index(&mut p, of(window), wide);
        }
    }
    p.field(&[], 8);
    p
}

/// The second kernel parameter of `put`.
pub fn pack_put(part: &View, wide: bool) -> Packed {
    let mut p = Packed::default();
    for &extent in part.layout.shape() {
        divisor(&mut p, extent.max(2) as u64, wide);
    }
    for &stride in part.layout.strides() {
        index(&mut p, stride as usize, wide);
    }
    p.field(&[], 8);
    p
}

fn index(p: &mut Packed, x: usize, wide: bool) {
    if wide {
        p.u64(x as u64);
    } else {
        p.u32(x as u32);
    }
}

/// The source of `patch` where `whole` (the new array is written completely), otherwise of `put`. `rank` is the number
/// of windows, or of the part's axes.
pub fn source(plan: &Plan, variant: Variant, rank: u8, whole: bool) -> String {
    let mut text = body::text(plan, variant, 1);
    let divisor = if variant.wide { "Divisor64" } else { "Divisor32" };
    let dtype = plan.outputs[0].1;
    let c = dtype.c_type();
    let note = if body::flag_bits(plan).1 > 0 { "  note_flags(w, p.flags, p.any);\n" } else { "" };
    let fields = if whole {
        format!("u64 total; const {c}* old; {divisor} extent[{rank}]; idx start[{rank}], count[{rank}];")
    } else {
        format!("{divisor} extent[{rank}]; step stride[{rank}];")
    };
    // C code that computes for element `e`: its index `i[j]` in the part, whether it is `inside` the part, and its
    // offset `at[j]`
    let mut find = String::from(if whole {
        "idx rest = e, lap = 1; i[j] = 0; at[j] = (step)e;"
    } else {
        "idx rest = e; i[j] = e; at[j] = 0;"
    });
    for axis in 0..rank {
        let (next, go_on) = if axis + 1 < rank {
            (format!("quotient(rest, q.extent[{axis}])"), format!("rest - next * (idx)q.extent[{axis}].d"))
        } else {
            ("0".into(), "rest".into())
        };
        let _ = write!(find, "\n    {{ const idx next = {next}, here = {go_on}; rest = next; ");
        // an index before the window wraps around to a large unsigned number
        find += &if whole {
            format!(
                "const u64 c = (u64)(idx)(here - q.start[{axis}]); inside[j] = inside[j] && c < (u64)q.count[{axis}]; \
                 i[j] += (idx)c * lap; lap *= q.count[{axis}]; }}"
            )
        } else {
            format!("at[j] += (step)here * q.stride[{axis}]; }}")
        };
    }
    let (total, room, keep, other) = if whole {
        let keep = "if (there && !inside[j]) old[j] = q.old[e];";
        ("q.total", format!(" {c} old[EACH];"), keep, "else p.y0[at[j]] = old[j];")
    } else {
        ("p.n", String::new(), "", "")
    };
    // all loads come before the first store, so that they are in flight together
    let _ = write!(
        text,
        "struct Patch {{ {fields} }};\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) {NAME}(const __grid_constant__ Params p, const __grid_constant__ Patch q) {{\n  \
         constexpr int EACH = {EACH};\n  u32 w[W] = {{}};\n  \
         const idx first = (idx)blockIdx.x * (idx)({THREADS} * EACH) + (idx)threadIdx.x;\n  \
         In x[EACH];\n  idx i[EACH];\n  step at[EACH];\n  bool inside[EACH];{room}\n  \
         #pragma unroll\n  for (int j = 0; j < EACH; j++) {{\n    const idx e = first + (idx)(j * {THREADS});\n    \
         const bool there = (u64)e < (u64){total};\n    inside[j] = there;\n    {find}\n    \
         if (inside[j]) fetch(p, i[j], x[j]);\n    {keep}\n  }}\n  \
         #pragma unroll\n  for (int j = 0; j < EACH; j++) {{\n    \
         if ((u64)(first + (idx)(j * {THREADS})) >= (u64){total}) continue;\n    \
         if (inside[j]) {{ Out y; compute(p, x[j], 0, (i64)i[j], w, y); store_{dtype}(p.y0, (i64)at[j], y.y0); }}\n    \
         {other}\n  }}\n{note}}}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_axes_are_joined_with_the_next() {
        let at = |of, start, extent| Axis { of, start, step: 1, extent };
        let one = |extent, start, count| Window { extent, start, count };
        assert_eq!(windows(&[4, 5], &[at(0, 0, 4), at(1, 1, 2)]), Some(vec![one(20, 4, 8)]));
        assert_eq!(windows(&[4, 5], &[at(0, 1, 2), at(1, 0, 5)]), Some(vec![one(4, 1, 2), one(5, 0, 5)]));
        assert_eq!(windows(&[4, 5], &[at(1, 0, 5), at(0, 1, 2)]), None);
        assert_eq!(windows(&[9], &[Axis { of: 0, start: 0, step: 2, extent: 3 }]), None);
    }
}
