//! The array on the cpu device: recording, fusion, reading back.

use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I64};
use verdigris_ops::OpId;

fn doubles(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), None, Device::Cpu, None).unwrap()
}

fn back(x: &Array) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    x.read(0, HostMut::Double(&mut out)).unwrap();
    out
}

fn apply(op: &str, operands: &[&Array]) -> Array {
    let operands: Vec<Operand> = operands.iter().map(|a| Operand::Array((*a).clone())).collect();
    Array::apply(OpId::find(op).unwrap(), &operands, None).unwrap()
}

fn number(x: &Array, reduction: Reduction) -> f64 {
    let (_, outcome) = x.reduce(reduction, false).unwrap();
    f64::from_ne_bytes(outcome.value[..8].try_into().unwrap())
}

#[test]
fn a_chain_is_one_plan() {
    let x: Vec<f64> = (0..5000).map(f64::from).collect();
    let a = doubles(&x);
    let chain = apply("sqrt", &[&apply("mul", &[&a, &a])]);
    let (plan, bound) = chain.plan().unwrap();
    assert_eq!((plan.inputs.len(), plan.code.len(), bound.n), (1, 3, 5000));
    assert_eq!(back(&chain), x);
    assert!(chain.is_ready());
}

#[test]
fn values_from_r_adopt_the_arrays_float_type() {
    let a = Array::upload(Host::Double(&[0.1, 0.2]), Some(DType::Float32), Device::Cpu, None).unwrap();
    let two = Operand::Value(Scalar::F64(2.0), Kind::Double);
    let b = Array::apply(OpId::find("mul").unwrap(), &[Operand::Array(a), two], None).unwrap();
    assert_eq!(b.dtype(), DType::Float32);
    assert_eq!(back(&b), [f64::from(0.2f32), f64::from(0.4f32)]);
}

#[test]
fn shorter_operands_are_recycled() {
    let x: Vec<f64> = (0..3000).map(f64::from).collect();
    let sum = apply("add", &[&doubles(&x), &apply("add", &[&doubles(&[1.0, 2.0, 3.0]), &doubles(&[10.0])])]);
    let expected: Vec<f64> = x.iter().enumerate().map(|(i, v)| v + 11.0 + (i % 3) as f64).collect();
    assert_eq!(back(&sum), expected);
}

#[test]
fn a_transposed_view_is_read_in_its_own_order() {
    let x: Vec<f64> = (0..6000).map(f64::from).collect();
    let m = doubles(&x); // 60 x 100
    let t = m.view(&[60, 100], &[Axis::whole(1, 100), Axis::whole(0, 60)]).unwrap();
    let got = back(&apply("add", &[&t, &t]));
    for i in 0..100 {
        for j in 0..60 {
            assert_eq!(got[i + 100 * j], 2.0 * x[j + 60 * i]);
        }
    }
    let row = Groups { outer: 1, length: 60, inner: 100 };
    let sums = back(&t.reduce_groups(Reduction::Sum, false, row).unwrap());
    assert_eq!(sums[3], (0..60).map(|j| x[j + 60 * 3]).sum::<f64>());
}

#[test]
fn a_sum_keeps_what_80_bits_keep() {
    assert_eq!(number(&doubles(&[1e16, 1.0, -1e16]), Reduction::Sum), 1.0);
    let x: Vec<f64> = (0..200_000).map(|i| 1.0 / f64::from(i + 1)).collect();
    let whole = doubles(&x);
    assert_eq!(number(&whole, Reduction::Sum).to_bits(), number(&whole, Reduction::Sum).to_bits());
    let product = number(&doubles(&[1e200, 1e200, 1e-200, 1e-200]), Reduction::Product);
    assert!((product - 1.0).abs() < 1e-15, "{product}");
    assert_eq!(number(&doubles(&[]), Reduction::Sum), 0.0);
    let v = doubles(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]);
    assert_eq!(number(&v, Reduction::Var), 1.0);
}

#[test]
fn the_first_of_equal_maxima_wins() {
    let mut x = vec![0.0; 100_000];
    (x[70_000], x[80_001]) = (5.0, 5.0);
    let (dtype, outcome) = doubles(&x).reduce(Reduction::WhichMax, false).unwrap();
    assert_eq!((dtype, i64::from_ne_bytes(outcome.value[..8].try_into().unwrap())), (DType::Int64, 70_000));
}

#[test]
fn every_dtype_is_stored_and_read_back() {
    for dtype in DType::ALL {
        let a = Array::upload(Host::Double(&[0.0, 1.0, 1.0]), Some(dtype), Device::Cpu, None).unwrap();
        assert_eq!(a.dtype(), dtype);
        assert_eq!(back(&a), [0.0, 1.0, 1.0], "{dtype}");
    }
}

#[test]
fn what_is_picked_is_taken_into_its_readers() {
    let x = doubles(&[1.5, f64::NAN, -2.0, 8.0]);
    let at = Array::upload(Host::Integer64(&[3, 0, 4, 0, -1, NA_I64]), None, Device::Cpu, None).unwrap();
    let picked = x.gather(&at).unwrap();
    assert!(!picked.is_ready());
    let twice = apply("mul", &[&picked, &picked]);
    let (plan, bound) = twice.plan().unwrap();
    assert_eq!((plan.inputs.len(), bound.n), (2, 6));
    assert!(!picked.is_ready());
    let got = back(&twice);
    assert_eq!(&got[..2], &[64.0, 2.25]);
    assert_eq!(got[2..].iter().map(|v| v.to_bits()).collect::<Vec<_>>(), {
        let na = NA_F64.to_bits();
        [na, 2.25f64.to_bits(), na, na]
    });
    // that was the second kernel that reads it: it has stored it
    assert!(picked.is_ready());
    let (_, sum) = picked.reduce(Reduction::Sum, true).unwrap();
    assert_eq!(f64::from_ne_bytes(sum.value[..8].try_into().unwrap()), 11.0);
    // of nothing there is nothing to pick
    let none = doubles(&[]).gather(&at).unwrap();
    assert!(back(&none).iter().all(|v| v.to_bits() == NA_F64.to_bits()));
}

#[test]
fn gather_scatter_and_positions() {
    let x = doubles(&[10.0, 20.0, 30.0]);
    let at = Array::upload(Host::Integer64(&[2, -1, 0, 7]), None, Device::Cpu, None).unwrap();
    let got = back(&x.gather(&at).unwrap());
    assert_eq!((got[0], got[2]), (30.0, 10.0));
    assert!(got[1].is_nan() && got[3].is_nan());
    let put = Array::upload(Host::Integer64(&[0, 0, 4]), None, Device::Cpu, None).unwrap();
    let out = back(&x.scatter(&put, &doubles(&[1.0, 2.0, 3.0]), 5).unwrap());
    assert_eq!((out[0], out[1], out[4]), (2.0, 20.0, 3.0));
    assert!(out[3].is_nan());
    let mask = Array::upload(Host::Logical(&[1, 0, i32::MIN, 1]), None, Device::Cpu, None).unwrap();
    assert_eq!(mask.positions(true).unwrap().len(), 3);
    assert_eq!(back(&mask.positions(false).unwrap()), [0.0, 3.0]);
}

#[test]
fn sorting_keeps_missing_values_last() {
    let (sorted, at) = doubles(&[3.0, f64::NAN, 1.0, 2.0]).sort(true, true).unwrap();
    assert_eq!(back(&sorted)[..3], [3.0, 2.0, 1.0]);
    assert_eq!(back(&at.unwrap()), [0.0, 3.0, 2.0, 1.0]);
}

#[test]
fn a_long_loop_keeps_its_graph_small() {
    let mut x = doubles(&[1.0; 100]);
    let half = Operand::Value(Scalar::F64(0.5), Kind::Double);
    for _ in 0..10_000 {
        x = Array::apply(OpId::find("mul").unwrap(), &[Operand::Array(x), half.clone()], None).unwrap();
        x = apply("add", &[&x, &x]);
    }
    assert_eq!(back(&x), [1.0; 100]);
}

#[test]
fn what_is_costly_is_kept_at_its_second_use() {
    let x = doubles(&[1.0; 100]);
    let mut y = apply("add", &[&x, &x]);
    for _ in 0..8 {
        y = apply("sqrt", &[&y]);
    }
    let first = number(&y, Reduction::Sum);
    assert!(!y.is_ready(), "the first use fuses it and keeps nothing");
    assert_eq!(number(&y, Reduction::Mean), first / 100.0);
    assert!(y.is_ready(), "the second keeps it");
    let cheap = apply("add", &[&x, &x]);
    assert_eq!((number(&cheap, Reduction::Sum), number(&cheap, Reduction::Sum)), (200.0, 200.0));
    assert!(!cheap.is_ready(), "reading the operands again is as cheap as reading the sum");
}

#[test]
fn the_first_elements_are_computed_alone() {
    let x: Vec<f64> = (0..300_000).map(f64::from).collect();
    let short = apply("add", &[&doubles(&[1.0, 2.0, 3.0]), &doubles(&[10.0])]);
    let strided = doubles(&x).view(&[1000, 300], &[Axis::whole(1, 300), Axis::whole(0, 1000)]).unwrap();
    let sum = apply("add", &[&apply("mul", &[&doubles(&x), &short]), &strided]);
    let expected = |i: usize| x[i] * (11.0 + (i % 3) as f64) + x[(i / 300) + (i % 300) * 1000];
    let mut part = vec![0.0; 50];
    sum.read(7, HostMut::Double(&mut part)).unwrap();
    assert_eq!(part, (7..57).map(expected).collect::<Vec<_>>());
    assert!(!sum.is_ready());
    // what is far from the start, or much, computes all
    assert!(sum.short_prefix(100_000).unwrap().is_none());
    assert_eq!(back(&sum.leading(200_000).unwrap().unwrap()), (0..200_000).map(expected).collect::<Vec<_>>());
    assert!(!sum.is_ready());
    let other = sum.clone();
    assert_eq!(back(&sum), (0..300_000).map(expected).collect::<Vec<_>>());
    assert!(other.is_ready() && sum.short_prefix(10).unwrap().is_none());
    // a strided view is not brought together for a look at it
    strided.read(0, HostMut::Double(&mut part)).unwrap();
    assert_eq!(part, (0..50).map(|i| (i * 1000) as f64).collect::<Vec<_>>());
}
