//! Reductions held against the tree that `verdigris_ops::tree` describes, bit by bit: by the plan's own kernel, by the
//! interpreter with the prebuilt kernels, and here, one element after the other.

use std::ffi::c_void;

use super::compile::tier::{set_tier, Tier};
use super::differential::Random;
use crate::array::transfer::{Host, HostMut};
use crate::array::{Array, Operand};
use crate::backend::Outcome;
use crate::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::loops::{Folding, FOLDS};
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::{Scalar, NA_F64};
use verdigris_ops::scan::Scan;
use verdigris_ops::tree::{Tree, ALIGN};
use verdigris_ops::OpId;

/// An accumulator, as `reduce.h` lays it out.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Accumulator([u8; 64]);

/// What a group gives by the tree, from the bytes of its elements.
fn by_tree(f: &Folding, tree: Tree, first: usize, elements: &[&[u8]], na_rm: bool) -> Vec<u8> {
    let new = || {
        let mut a = Accumulator([0; 64]);
        // SAFETY: room for the largest accumulator; the test of sizes below.
        unsafe { (f.start)((&raw mut a).cast::<c_void>(), 1) };
        a
    };
    let merge = |a: &mut [Accumulator]| {
        let mut by = 1;
        while by < a.len() {
            for k in (0..a.len() - by).step_by(2 * by) {
                let other = a[k + by];
                // SAFETY: two accumulators of this kind.
                unsafe { (f.merge)((&raw mut a[k]).cast(), (&raw const other).cast(), 1) };
            }
            by *= 2;
        }
        a[0]
    };
    // SAFETY: reports a size.
    assert!(unsafe { (f.size)() } <= 64);
    let places = first + elements.len();
    let mut tiles = Vec::new();
    for tile in 0..places.div_ceil(tree.tile()).max(1) {
        let mut lanes = vec![new(); tree.lanes];
        let (from, to) = (tile * tree.tile(), ((tile + 1) * tree.tile()).min(places));
        for place in from.max(first)..to {
            let l = place - first;
            let own = (&raw mut lanes[place % tree.lanes]).cast::<c_void>();
            // SAFETY: one element of the class, one accumulator.
            unsafe { (f.rows)(own, elements[l].as_ptr().cast(), l as i64, 1, 1, na_rm.into()) };
        }
        tiles.push(merge(&mut lanes));
    }
    let a = merge(&mut tiles);
    let mut out = vec![0u8; 16];
    // SAFETY: room for a value.
    unsafe { (f.finish)(out.as_mut_ptr().cast(), (&raw const a).cast(), 1) };
    out
}

/// The tree's results for all groups of float64 or float32 values.
fn expected(reduction: Reduction, class: Class, bytes: &[u8], groups: Groups, na_rm: bool) -> Vec<u8> {
    let f = FOLDS[Reduction::ALL.iter().position(|r| *r == reduction).unwrap()][class as usize].as_ref().unwrap();
    let size = if class == Class::F32 { 4 } else { 8 };
    let tree = Tree::of(reduction, class, groups);
    let Groups { outer, length, inner } = groups;
    let mut out = Vec::new();
    for o in 0..outer {
        for k in 0..inner {
            let at = |l: usize| ((o * length + l) * inner + k) * size;
            let elements: Vec<&[u8]> = (0..length).map(|l| &bytes[at(l)..at(l) + size]).collect();
            let first = if inner == 1 { o * length % ALIGN } else { 0 };
            out.extend_from_slice(&by_tree(f, tree, first, &elements, na_rm)[..8]);
        }
    }
    out
}

fn apply(name: &str, operands: &[Operand]) -> Array {
    Array::apply(OpId::find(name).unwrap(), operands, None).unwrap()
}

fn bits(array: &Array, n: usize) -> Vec<u8> {
    let mut values = vec![0.0; n];
    array.read(0, HostMut::Double(&mut values)).unwrap();
    values.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect()
}

/// Numbers whose sums round, of quite different sizes, with some missing.
fn numbers(random: &mut Random, n: usize, missing: bool) -> Vec<f64> {
    let number = |random: &mut Random| {
        let x = random.next() as f64 / u64::MAX as f64 - 0.3;
        let sized = x * [1.0, 1e-3, 1e3, 1e9][random.below(4) as usize];
        if missing && random.below(200) == 0 {
            NA_F64
        } else {
            sized
        }
    };
    (0..n).map(|_| number(random)).collect()
}

fn shapes(random: &mut Random) -> Vec<Groups> {
    let mut all: Vec<Groups> = [1, 3, 63, 64, 65, 127, 128, 129, 1000, 1024, 4097, 70_001].map(Groups::whole).to_vec();
    for length in [1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64, 65, 100, 128, 200, 256, 500, 512, 513, 1000] {
        all.push(Groups { outer: 5 + random.below(30) as usize, length, inner: 1 });
    }
    all.push(Groups { outer: 3, length: 5001, inner: 1 });
    all.push(Groups { outer: 600, length: 700, inner: 1 });
    for inner in [2, 3, 7, 10, 16, 60, 64, 100, 128, 129, 200, 256, 300] {
        for length in [1, 2, 9, 40, 257, 1 + random.below(2000) as usize] {
            all.push(Groups { outer: 1 + random.below(3) as usize, length, inner });
        }
    }
    all.push(Groups { outer: 1, length: 90_000, inner: 2 });
    all
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn every_tier_follows_the_tree() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    let mut random = Random(20261125);
    let mut compared = 0;
    for (s, groups) in shapes(&mut random).into_iter().enumerate() {
        let n = groups.count() * groups.length;
        for dtype in [DType::Float64, DType::Float32] {
            let values = numbers(&mut random, n, s % 3 == 0);
            let x = Array::upload(Host::Double(&values), Some(dtype), Device::Cuda(0), None).unwrap();
            let triple = || apply("mul", &[Operand::Array(x.clone()), Operand::Value(Scalar::F64(3.0), Kind::Double)]);
            let tripled = triple();
            let of = |array: &Array| -> Vec<u8> {
                let mut values = vec![0.0; n];
                array.clone().read(0, HostMut::Double(&mut values)).unwrap();
                match dtype {
                    DType::Float32 => values.iter().flat_map(|&v| (v as f32).to_ne_bytes()).collect(),
                    _ => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
                }
            };
            let (plain, fused) = (of(&x), of(&triple()));
            let class = dtype.class();
            for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Product, Reduction::Var] {
                let Some(reduced) = reduction.class(class) else { continue };
                let na_rm = random.below(2) == 0;
                // each kernel is compiled for this: one expression a type
                let (what, array, bytes) = match dtype {
                    DType::Float32 => ("plain", &x, &plain),
                    _ => ("fused", &tripled, &fused),
                };
                let run = |tier: Tier| -> Vec<u8> {
                    set_tier(tier);
                    if groups == Groups::whole(n) {
                        let (_, outcome) = array.reduce(reduction, na_rm).unwrap();
                        return outcome_bits(&outcome);
                    }
                    bits(&array.reduce_groups(reduction, na_rm, groups).unwrap(), groups.count())
                };
                let (own, prebuilt) = (run(Tier::Compiled), run(Tier::Interpreted));
                let case = format!("{} of {what} {dtype} {groups:?} {na_rm}", reduction.name());
                let different = (0..own.len() / 8).find(|&k| own[8 * k..8 * k + 8] != prebuilt[8 * k..8 * k + 8]);
                assert!(different.is_none(), "{case}: group {different:?}: own kernel and prebuilt one differ");
                // four rows at once are not what the reference does; products of float32 are float64's
                if reduced == class && !(reduction == Reduction::Var && class == Class::F64) {
                    let wanted = expected(reduction, reduced, bytes, groups, na_rm);
                    let different = (0..own.len() / 8).find(|&k| own[8 * k..8 * k + 8] != wanted[8 * k..8 * k + 8]);
                    assert!(different.is_none(), "{case}: group {different:?} is not the tree's");
                }
                compared += groups.count();
            }
        }
    }
    println!("{compared} groups compared");
    set_tier(Tier::Auto);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn every_tier_scans_in_one_order() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    let mut random = Random(7);
    for n in [1, 2, 17, 2047, 2048, 4097, 100_003] {
        for dtype in [DType::Float64, DType::Float32] {
            let values = numbers(&mut random, n, n == 4097);
            let x = Array::upload(Host::Double(&values), Some(dtype), Device::Cuda(0), None).unwrap();
            // the last is so long that a thread takes one element after the other
            let root = |x: Array| apply("sqrt", &[Operand::Array(apply("abs", &[Operand::Array(x)]))]);
            let long = (0..14).fold(x.clone(), |x, _| root(x));
            for (what, array) in [("plain", &x), ("long", &long)] {
                for scan in [Scan::Sum, Scan::Product] {
                    let run = |tier: Tier| {
                        set_tier(tier);
                        bits(&array.scan(scan).unwrap().0, n)
                    };
                    let same = run(Tier::Compiled) == run(Tier::Interpreted);
                    assert!(same, "{} of {n} {dtype}, {what}: own kernel and prebuilt one differ", scan.name());
                }
            }
        }
    }
    set_tier(Tier::Auto);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn positions_in_groups_are_the_cpus() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    let mut random = Random(3);
    for (outer, length) in [(3, 1), (50, 3), (30, 17), (9, 101), (5, 1001), (1, 5003)] {
        let groups = Groups { outer, length, inner: 1 };
        let values = numbers(&mut random, outer * length, true);
        for dtype in [DType::Float64, DType::Float32, DType::Float16] {
            for reduction in [Reduction::WhichMax, Reduction::WhichMin] {
                let on = |device, tier| {
                    set_tier(tier);
                    let x = Array::upload(Host::Double(&values), Some(dtype), device, None).unwrap();
                    bits(&x.reduce_groups(reduction, false, groups).unwrap(), outer)
                };
                let wanted = on(Device::Cpu, Tier::Auto);
                for tier in [Tier::Compiled, Tier::Interpreted] {
                    let same = on(Device::Cuda(0), tier) == wanted;
                    assert!(same, "{} of {dtype} within {groups:?}, {}", reduction.name(), tier.name());
                }
            }
        }
    }
    set_tier(Tier::Auto);
}

fn outcome_bits(outcome: &Outcome) -> Vec<u8> {
    outcome.value[..8].to_vec()
}
