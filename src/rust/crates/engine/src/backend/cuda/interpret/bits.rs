//! Compares an interpreter's values with those of the kernel that NVRTC compiles for the same plan, bit by bit, for all
//! plans that the interpreter may run in the kernel's place. Needs a GPU: `VERDIGRIS_TEST_DEVICE=cuda`.

use std::sync::Arc;

use super::{are_same, can_interpret_now, values, CHANGES};
use crate::array::{Array, Operand};
use crate::backend::cuda::codegen::{body, parameters};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::differential::{devices, emulated, get, put, Random};
use crate::backend::cuda::tiers::planned::{self, KernelKind};
use crate::plan::{Bound, Plan};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::NA_F64;
use verdigris_ops::OpId;

/// Random bit patterns, mixed with numbers of the magnitudes in which functions do most of their work.
fn numbers(random: &mut Random, dtype: DType, n: usize) -> Vec<u8> {
    let double = |random: &mut Random| {
        let r = random.next();
        let unit = (r >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        match random.below(4) {
            0 => f64::from_bits(r),
            1 => unit,
            2 => unit * 30.0,
            _ => unit * f64::exp2(random.below(80) as f64 - 40.0),
        }
    };
    let single = |random: &mut Random| match random.below(4) {
        0 => f32::from_bits(random.next() as u32),
        _ => double(random) as f32,
    };
    match dtype {
        DType::Float32 => (0..n).flat_map(|_| single(random).to_ne_bytes()).collect(),
        DType::Complex64 => (0..2 * n).flat_map(|_| single(random).to_ne_bytes()).collect(),
        DType::Float64 => (0..n).flat_map(|_| double(random).to_ne_bytes()).collect(),
        DType::Complex128 => (0..2 * n).flat_map(|_| double(random).to_ne_bytes()).collect(),
        // half of them arbitrary, half small
        _ => (0..n)
            .flat_map(|_| {
                let r = random.next() as i64;
                (if r % 2 == 0 { r >> 1 } else { r >> 1 & 15 }).to_le_bytes().into_iter().take(dtype.size())
            })
            .collect(),
    }
}

/// The bits of the numbers, with all NaNs except NA mapped to one: the sign of a NaN on a GPU depends on optimisation.
fn bits(raw: &[u8], dtype: DType) -> Vec<u64> {
    if matches!(dtype, DType::Float32 | DType::Complex64) {
        let one = |x: f32| if x.is_nan() { u64::MAX } else { x.to_bits().into() };
        return raw.chunks_exact(4).map(|b| one(f32::from_le_bytes(b.try_into().unwrap()))).collect();
    }
    if !matches!(dtype, DType::Float64 | DType::Complex128) {
        return raw.iter().map(|&byte| byte.into()).collect();
    }
    let is_na = |x: f64| x.to_bits() as u32 == NA_F64.to_bits() as u32;
    let one = |x: f64| match x.is_nan() {
        true if is_na(x) => NA_F64.to_bits(),
        true => u64::MAX,
        false => x.to_bits(),
    };
    raw.chunks_exact(8).map(|b| one(f64::from_le_bytes(b.try_into().unwrap()))).collect()
}

/// The value of a plan, computed by its own kernel.
fn compiled(cuda: &'static Cuda, plan: &Plan, bound: &Bound) -> Vec<u8> {
    let out = Arc::new(cuda.allocate(bound.n * plan.outputs[0].1.size()).unwrap());
    let (variant, _) = parameters::fit(plan, bound, body::pack_size(plan), &[out.address]);
    planned::planned(cuda, plan, KernelKind::Store, variant).unwrap();
    crate::backend::cuda::tiers::run::run(cuda, plan, bound, std::slice::from_ref(&out)).unwrap();
    get(cuda, &out)
}

/// An element's bytes as hexadecimal digits, the highest first.
fn element(raw: &[u8], dtype: DType, at: usize) -> String {
    raw[at * dtype.size()..][..dtype.size()].iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[ignore = "needs a GPU that is not emulated: VERDIGRIS_TEST_DEVICE=cuda"]
fn what_is_interpreted_has_the_bits_of_its_kernel() {
    devices();
    assert!(!emulated(), "an emulated device has one compiler for both");
    let cuda = Cuda::of(0).unwrap();
    let mut random = Random(11);
    let (mut compared, mut waiting, mut different) = (0, Vec::new(), Vec::new());
    for dtype in DType::ALL.into_iter().filter(|d| matches!(d.size(), 4 | 8 | 16)) {
        let raw: Vec<Vec<u8>> = (0..3).map(|_| numbers(&mut random, dtype, 1_000_003)).collect();
        let operands: Vec<Array> = raw.iter().map(|raw| Array::from_view(put(cuda, raw, dtype, 0))).collect();
        for op in OpId::all().filter(|op| !op.row().rule.uses_index()) {
            let operands: Vec<Operand> =
                operands.iter().take(op.row().arity.into()).map(|x| Operand::Array(x.clone())).collect();
            let Ok(result) = Array::apply(op, &operands, None) else { continue };
            let (plan, bound) = result.plan().unwrap();
            let what = format!("{} {dtype}", op.row().name);
            if !can_interpret_now(cuda, &plan) {
                waiting.push(what);
                continue;
            }
            compared += 1;
            let stored = plan.outputs[0].1;
            let interpreted = bits(&get(cuda, &values(cuda, &plan, &bound).unwrap()[0].buffer), stored);
            let compiled = bits(&compiled(cuda, &plan, &bound), stored);
            if let Some(at) = (0..compiled.len()).find(|&k| interpreted[k] != compiled[k]) {
                let parts = compiled.len() / bound.n;
                let given: Vec<String> = raw.iter().map(|raw| element(raw, dtype, at / parts)).collect();
                different.push(format!("{what} of {}: {:x} and {:x}", given.join(", "), interpreted[at], compiled[at]));
            }
        }
    }
    eprintln!("{compared} compared; these wait for their kernels: {}", waiting.join(", "));
    assert!(different.is_empty(), "other bits:\n{}", different.join("\n"));
    assert!(compared > 100);
}

#[test]
fn rows_are_those_of_the_operation_table() {
    for (_, rows, classes) in CHANGES {
        for row in rows {
            let op = OpId::find(row).unwrap_or_else(|| panic!("no row is named {row}"));
            assert!(op.row().ulp > 0.0 && classes.iter().any(|&class| op.row().expression(class).is_some()), "{row}");
        }
    }
}

#[test]
fn a_change_lies_between_versions() {
    assert!(are_same("asinh", Class::F64, (12, 0), (12, 9)) && are_same("asinh", Class::F64, (13, 0), (13, 5)));
    assert!(!are_same("asinh", Class::F64, (12, 9), (13, 0)) && !are_same("asinh", Class::F64, (13, 1), (12, 9)));
    assert!(are_same("acosh", Class::F64, (12, 9), (13, 5)) && !are_same("acosh", Class::F32, (12, 9), (13, 5)));
    assert!(!are_same("exp", Class::F64, (12, 9), (13, 6)));
}
