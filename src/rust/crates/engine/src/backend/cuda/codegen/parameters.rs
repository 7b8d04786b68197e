//! The parameters of a plan's kernel: the C struct `Params`, and the bytes that fill it. Both are in one file because
//! their layouts must agree.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Tiled, Variant};
use crate::backend::cuda::driver::kernel::{Packed, MOST_BYTES};
use crate::plan::{Access, Bound, Instruction, Plan};
use verdigris_ops::dtype::Class;
use verdigris_ops::error::{Error, Kind, Result};

/// The bit of `packed` for the outputs; inputs have the bits below it. Inputs beyond these are read one element at a
/// time.
pub const OUTPUT_BIT: usize = 31;

/// C expression for whether input `k` may be read by packs.
pub fn packed(k: usize) -> String {
    if k < OUTPUT_BIT {
        bit(k)
    } else {
        "false".into()
    }
}

/// C expression for whether a bit of `packed` is set.
pub fn bit(bit: usize) -> String {
    format!("(p.packed >> {bit} & 1u)")
}

/// The alignment in C of a value of this class.
const fn align(class: Class) -> usize {
    match class {
        Class::I32 | Class::F32 | Class::C64 => 4,
        Class::I64 | Class::F64 | Class::C128 => 8,
    }
}

fn scalar_classes(plan: &Plan) -> Vec<Class> {
    let mut classes = vec![Class::I32; plan.scalars];
    for instruction in &plan.code {
        if let Instruction::Scalar(k, class) = instruction {
            classes[*k as usize] = *class;
        }
    }
    classes
}

/// The C struct `Params`.
pub fn declare(plan: &Plan, variant: Variant) -> String {
    let (divisor, step) = if variant.wide { ("Divisor64", "i64") } else { ("Divisor32", "i32") };
    // `packed` has bit k set where input k may be read by packs
    let mut text = String::from("struct Params {\n  i64 n; u32* flags; u32* any; u32 packed;\n");
    for (k, (_, dtype)) in plan.outputs.iter().enumerate() {
        let _ = writeln!(text, "  {}* y{k};", dtype.c_type());
    }
    for (k, input) in plan.inputs.iter().enumerate() {
        let _ = write!(text, "  const {}* x{k};", input.dtype.c_type());
        match input.access {
            Access::Recycled => {
                let _ = write!(text, " {divisor} length{k};");
            }
            Access::Strided(rank) => {
                let _ = write!(text, " {divisor} extent{k}[{rank}]; {step} stride{k}[{rank}];");
            }
            Access::Gathered => {
                let _ = write!(text, " i64 length{k};");
            }
            _ => {}
        }
        text.push('\n');
    }
    for (k, class) in scalar_classes(plan).into_iter().enumerate() {
        let _ = writeln!(text, "  {} s{k};", class.c_type());
    }
    text.push_str("};\n");
    text
}

/// Fills in `Params`. `packed` marks the operands that may be accessed by packs (see `fit`), `outputs` are device
/// addresses, `flags` the addresses of the launch's flag words and of the host's word.
///
/// # Errors
/// `Argument` where the plan has more inputs, axes and scalars than a kernel's parameters hold.
pub fn pack(
    p: &mut Packed,
    plan: &Plan,
    bound: &Bound,
    (variant, packed): (Variant, u32),
    outputs: &[u64],
    flags: (u64, u64),
) -> Result<()> {
    p.u64(bound.n as u64);
    p.u64(flags.0);
    p.u64(flags.1);
    p.u32(packed);
    // the output of a reduction's plan is not stored: its address is 0
    for k in 0..plan.outputs.len() {
        p.u64(outputs.get(k).copied().unwrap_or(0));
    }
    for (input, view) in plan.inputs.iter().zip(&bound.inputs) {
        p.u64(view.address());
        match input.access {
            Access::Recycled => divisor(p, view.len().max(2) as u64, variant.wide),
            Access::Strided(_) => {
                for &extent in view.layout.shape() {
                    divisor(p, extent.max(2) as u64, variant.wide);
                }
                for &stride in view.layout.strides() {
                    if variant.wide {
                        p.u64(stride as u64)
                    } else {
                        p.u32(stride as i32 as u32)
                    }
                }
            }
            Access::Gathered => p.u64(view.len() as u64),
            Access::Linear | Access::Broadcast => {}
        }
    }
    // scalars are bound in the class that the plan uses them in
    for scalar in &bound.scalars {
        let class = scalar.class();
        p.field(&scalar.bytes()[..class.size()], align(class));
    }
    // the size of a C struct is a multiple of its alignment, here that of its pointers
    p.field(&[], 8);
    if p.len() > MOST_BYTES {
        return Err(Error::new(
            Kind::Argument,
            format!("the expression has {} bytes of arguments, but a kernel takes at most {MOST_BYTES}", p.len()),
        )
        .advise("Compute a part of it first: `gpu_compute(x)`."));
    }
    Ok(())
}

/// Appends a `Divisor32` or `Divisor64`: the constants by which a kernel divides by `d` (at least 2) with a
/// multiplication; see `launch.cuh`.
pub(super) fn divisor(p: &mut Packed, d: u64, wide: bool) {
    let log = u64::BITS - (d - 1).leading_zeros();
    let bits = if wide { 63 } else { 31 };
    let m = (1u128 << (bits + log)).div_ceil(d as u128);
    let s = log - 1;
    if wide {
        p.u64(d);
        p.u64(m as u64);
        p.u32(s);
        p.field(&[], 8);
    } else {
        p.u32(d as u32);
        p.u32(m as u32);
        p.u32(s);
    }
}

fn is_aligned(address: u64, bytes: usize) -> bool {
    address.is_multiple_of(bytes.min(16) as u64)
}

/// The bits of `packed`: which inputs may be read by packs of `v`, and whether the outputs may be written by packs.
pub fn packable(plan: &Plan, bound: &Bound, v: usize, outputs: &[u64]) -> u32 {
    let mut bits = 0;
    for (k, (input, view)) in plan.inputs.iter().zip(&bound.inputs).enumerate() {
        let fits = is_aligned(view.address(), v * view.dtype.size());
        let packs = match input.access {
            Access::Linear => true,
            Access::Broadcast | Access::Gathered => false,
            Access::Recycled => view.len() % v == 0,
            Access::Strided(_) => {
                let (shape, strides) = (view.layout.shape(), view.layout.strides());
                strides[0] == 1 && shape[0] % v == 0 && strides[1..].iter().all(|s| s % v as isize == 0)
            }
        };
        if fits && packs && k < OUTPUT_BIT {
            bits |= 1 << k;
        }
    }
    if plan.outputs.iter().zip(outputs).all(|((_, dtype), &y)| is_aligned(y, v * dtype.size())) {
        bits |= 1 << OUTPUT_BIT;
    }
    bits
}

/// Forces 64-bit indices, so that tests of these need not have 2^31 elements.
#[doc(hidden)]
pub static ALWAYS_WIDE: AtomicBool = AtomicBool::new(false);

/// The kernel variant for these inputs and outputs when accessed by packs of `v`, and the bits of `packed`.
pub fn fit(plan: &Plan, bound: &Bound, v: usize, outputs: &[u64]) -> (Variant, u32) {
    let bits = packable(plan, bound, v, outputs);
    let linear = |k: usize| plan.inputs[k].access == Access::Linear;
    let unaligned = bits >> OUTPUT_BIT & 1 == 0
        || (0..plan.inputs.len()).any(|k| linear(k) && (k >= OUTPUT_BIT || bits >> k & 1 == 0));
    // indices may run past the last element by up to one block, and must not overflow there
    const MOST: usize = (1 << 31) - (1 << 20);
    let far = |k: usize| {
        let layout = &bound.inputs[k].layout;
        let reach = layout.shape().iter().zip(layout.strides()).map(|(&e, &s)| (e.max(1) - 1) * s.unsigned_abs());
        matches!(plan.inputs[k].access, Access::Strided(_)) && reach.sum::<usize>() >= MOST
    };
    let wide = ALWAYS_WIDE.load(Ordering::Relaxed) || bound.n >= MOST || (0..plan.inputs.len()).any(far);
    (Variant { wide, unaligned, tiled: Tiled::default() }, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_multiplication_is_exact() {
        for d in [2u64, 3, 5, 7, 10, 64, 100, 1023, 1024, 1025, 10_000, 999_983, (1 << 31) - 1] {
            let (mut narrow, mut wide) = (Packed::default(), Packed::default());
            divisor(&mut narrow, d, false);
            divisor(&mut wide, d, true);
            let word = |k: usize| u32::from_ne_bytes(narrow.bytes()[4 * k..4 * k + 4].try_into().unwrap()) as u64;
            let long = |k: usize| u64::from_ne_bytes(wide.bytes()[8 * k..8 * k + 8].try_into().unwrap());
            for x in [0, 1, d - 1, d, d + 1, 2 * d - 1, 12_345_678, (1 << 31) - 1] {
                // 32-bit indices are below 2^31
                if x < 1 << 31 {
                    assert_eq!((x * word(1)) >> 32 >> word(2), x / d, "{x} / {d}");
                }
                for x in [x, x << 20, (1 << 62) + x] {
                    let s = long(2) as u32;
                    assert_eq!(((x as u128 * long(1) as u128) >> 64 >> s) as u64, x / d, "{x} / {d}");
                }
            }
        }
    }
}
