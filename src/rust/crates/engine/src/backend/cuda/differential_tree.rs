//! Compares reductions and scans bit by bit between the plan's own kernel, the interpreter with the prebuilt kernels,
//! and the cpu device. The cpu device is compared with the tree of `verdigris_ops::tree` in a test of its own.

use super::compile::tier::{set_tier, Tier};
use super::differential::Random;
use crate::array::transfer::{Host, HostMut};
use crate::array::{Array, Operand};
use crate::backend::differential_order::{numbers, shapes};
use crate::backend::Outcome;
use crate::memory::buffer::Device;
use crate::testing::turn::in_turn;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::scan::Scan;
use verdigris_ops::OpId;

fn apply(name: &str, operands: &[Operand]) -> Array {
    Array::apply(OpId::find(name).unwrap(), operands, None).unwrap()
}

fn bits(array: &Array, n: usize) -> Vec<u8> {
    let mut values = vec![0.0; n];
    array.read(0, HostMut::Double(&mut values)).unwrap();
    values.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect()
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn every_tier_follows_the_tree() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    let mut random = Random(20261125);
    let mut compared = 0;
    for (s, groups) in shapes(&mut random).into_iter().enumerate().filter(|&(s, _)| in_turn(s, 4)) {
        let n = groups.count() * groups.length;
        for dtype in [DType::Float64, DType::Float32] {
            let values = numbers(&mut random, n, s % 3 == 0);
            let x = Array::upload(Host::Double(&values), Some(dtype), Device::Cuda(0), None).unwrap();
            let on_cpu = Array::upload(Host::Double(&values), Some(dtype), Device::Cpu, None).unwrap();
            let three = Operand::Value(Scalar::F64(3.0), Kind::Double);
            let tripled = |x: &Array| apply("mul", &[Operand::Array(x.clone()), three.clone()]);
            // each kernel must be compiled, so there is one expression per type
            let (what, array, reference) = match dtype {
                DType::Float32 => ("plain", x, on_cpu),
                _ => ("fused", tripled(&x), tripled(&on_cpu)),
            };
            for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Product, Reduction::Var] {
                let na_rm = random.below(2) == 0;
                let run = |array: &Array, tier: Tier| -> Vec<u8> {
                    set_tier(tier);
                    if groups == Groups::whole(n) {
                        let (_, outcome) = array.reduce(reduction, na_rm).unwrap();
                        return outcome_bits(&outcome);
                    }
                    bits(&array.reduce_groups(reduction, na_rm, groups).unwrap(), groups.count())
                };
                let wanted = run(&reference, Tier::Auto);
                for tier in [Tier::Compiled, Tier::Interpreted] {
                    let got = run(&array, tier);
                    let different = (0..got.len() / 8).find(|&k| got[8 * k..8 * k + 8] != wanted[8 * k..8 * k + 8]);
                    let case = format!("{} of {what} {dtype} {groups:?} {na_rm}", reduction.name());
                    assert!(different.is_none(), "{case}: group {different:?}, {}, is not the cpu's", tier.name());
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
    for (case, n) in [1, 2, 17, 2047, 2048, 4097, 30_001, 100_003].into_iter().enumerate() {
        for dtype in [DType::Float64, DType::Float32] {
            let mut values = numbers(&mut random, n, n == 4097);
            if case % 2 == 1 && dtype == DType::Float64 {
                // partial sums overflow, while the whole sum may not
                values.iter_mut().for_each(|x| *x *= [1.0, 1e298][random.below(2) as usize]);
            }
            let on = |device| Array::upload(Host::Double(&values), Some(dtype), device, None).unwrap();
            let (x, on_cpu) = (on(Device::Cuda(0)), on(Device::Cpu));
            // `long` is so much code that a thread takes one element at a time
            let root = |x: Array| apply("sqrt", &[Operand::Array(apply("abs", &[Operand::Array(x)]))]);
            let long = (0..14).fold(x.clone(), |x, _| root(x));
            for (what, array) in [("plain", &x), ("long", &long)] {
                for scan in [Scan::Sum, Scan::Product] {
                    let run = |array: &Array, tier: Tier| {
                        set_tier(tier);
                        bits(&array.scan(scan).unwrap().0, n)
                    };
                    let own = run(array, Tier::Compiled);
                    let case = format!("{} of {n} {dtype}, {what}", scan.name());
                    assert!(own == run(array, Tier::Interpreted), "{case}: own kernel and prebuilt one differ");
                    assert!(what == "long" || own == run(&on_cpu, Tier::Auto), "{case}: not the cpu's");
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
