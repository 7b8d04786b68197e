//! Operations on segments on the cpu device, against loops.

mod xorshift;

use verdigris_engine::array::segments::{self, Matrix};
use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Kind;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::NA_F64;
use xorshift::Random;

/// A matrix by segments.
struct Sample {
    lengths: Vec<usize>,
    extent: usize,
    at: Vec<i32>,
    x: Vec<f64>,
}

impl Sample {
    /// Values are small whole numbers, so that sums are exact in any order.
    fn new(lengths: &[usize], extent: usize, random: &mut Random) -> Sample {
        let mut sample = Sample { lengths: lengths.to_vec(), extent, at: Vec::new(), x: Vec::new() };
        for &length in lengths {
            let mut from = 0;
            for k in 0..length {
                // rising, with room for those to come
                from += random.below((extent - from - (length - k - 1)).min(3));
                sample.at.push(from as i32);
                sample.x.push(random.below(9) as f64 - 4.0);
                from += 1;
            }
        }
        sample
    }

    fn offsets(&self) -> Vec<i32> {
        let mut sum = 0;
        [0].into_iter()
            .chain(self.lengths.iter().map(|&n| {
                sum += n as i32;
                sum
            }))
            .collect()
    }

    fn arrays(&self, wide: bool) -> [Array; 3] {
        let offsets = integers(&self.offsets());
        let offsets = if wide { offsets.cast(DType::Int64, None).unwrap() } else { offsets };
        [offsets, integers(&self.at), doubles(&self.x)]
    }

    /// Segment, position and value of each element.
    fn elements(&self) -> Vec<(usize, usize, f64)> {
        let segments = self.lengths.iter().enumerate().flat_map(|(s, &n)| std::iter::repeat_n(s, n));
        segments.zip(&self.at).zip(&self.x).map(|((s, &at), &x)| (s, at as usize, x)).collect()
    }
}

fn samples() -> Vec<Sample> {
    let mut random = Random(7);
    let mut lengths: Vec<Vec<usize>> = vec![
        vec![],
        vec![0],
        vec![0; 20_000],
        vec![1],
        vec![3],
        vec![0, 0, 5, 0, 1, 2, 0],
        vec![30_000],
        vec![0, 20_000, 1, 0, 9_000, 3],
        vec![8_191, 1, 8_190, 2, 0],
    ];
    lengths.push((0..3000).map(|_| random.below(12)).collect());
    let extents = lengths.iter().map(|lengths| lengths.iter().max().copied().unwrap_or(0) + 7).collect::<Vec<_>>();
    lengths.iter().zip(extents).map(|(lengths, extent)| Sample::new(lengths, extent, &mut random)).collect()
}

fn integers(x: &[i32]) -> Array {
    Array::upload(Host::Integer(x), Some(DType::Int32), Device::Cpu, None).unwrap()
}

fn doubles(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), None, Device::Cpu, None).unwrap()
}

fn back(x: &Array) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    x.cast(DType::Float64, None).unwrap().read(0, HostMut::Double(&mut out)).unwrap();
    out
}

#[test]
fn products_are_sums_over_segments() {
    for sample in samples() {
        for columns in [1, 3, 16, 21] {
            let b: Vec<f64> = (0..sample.extent * columns).map(|k| (k % 13) as f64 - 6.0).collect();
            for (wide, weighted) in [(false, true), (true, false)] {
                let [p, i, x] = sample.arrays(wide);
                let a = Matrix { offsets: &p, positions: &i, values: None, extent: sample.extent };
                for dtype in [DType::Float64, DType::Float32] {
                    let x = x.cast(dtype, None).unwrap();
                    let a = Matrix { values: weighted.then_some(&x), ..a };
                    let out = segments::products(&a, &doubles(&b).cast(dtype, None).unwrap(), columns).unwrap();
                    let segments = sample.lengths.len();
                    let mut wanted = vec![0.0; segments * columns];
                    for (s, at, x) in sample.elements() {
                        for j in 0..columns {
                            wanted[s + j * segments] += if weighted { x } else { 1.0 } * b[at + j * sample.extent];
                        }
                    }
                    assert_eq!(out.dtype(), dtype);
                    assert_eq!(back(&out), wanted);
                }
            }
        }
    }
}

#[test]
fn what_is_missing_is_na_or_nan_as_it_was() {
    let sample = Sample::new(&[2, 0, 9_000, 1, 1], 9_007, &mut Random(3));
    let [p, i, _] = sample.arrays(false);
    let mut x = sample.x.clone();
    for columns in [1, 5] {
        let b = vec![1.0; sample.extent * columns];
        let product = |x: &[f64], b: &[f64]| {
            let x = doubles(x);
            let a = Matrix { offsets: &p, positions: &i, values: Some(&x), extent: sample.extent };
            back(&segments::products(&a, &doubles(b), columns).unwrap())
        };
        (x[1], x[2], x[9002]) = (NA_F64, f64::NAN, f64::INFINITY);
        let out = product(&x, &b);
        for of_column in out.chunks(5) {
            assert_eq!(of_column[0].to_bits() as u32, 1954);
            assert!(of_column[1] == 0.0 && of_column[3] == f64::INFINITY);
            assert!(of_column[2].is_nan() && of_column[2].to_bits() as u32 != 1954);
        }
        // one at the end of a segment that several pieces have
        (x[2], x[9001]) = (1.0, NA_F64);
        assert_eq!(product(&x, &b)[2].to_bits() as u32, 1954);
        x = sample.x.clone();
    }
}

#[test]
fn reductions_are_those_of_each_segment() {
    for sample in samples() {
        let [p, _, x] = sample.arrays(sample.lengths.len() % 2 == 0);
        let elements = sample.elements();
        let mut each: Vec<Vec<f64>> = vec![Vec::new(); sample.lengths.len()];
        elements.iter().for_each(|&(s, _, x)| each[s].push(x));
        let fold = |start: f64, f: fn(f64, f64) -> f64| -> Vec<f64> {
            each.iter().map(|values| values.iter().fold(start, |a, &b| f(a, b))).collect()
        };
        let reduced = |reduction| back(&segments::reduce(&p, &x, reduction, false).unwrap());
        assert_eq!(reduced(Reduction::Sum), fold(0.0, |a, b| a + b));
        assert_eq!(reduced(Reduction::Min), fold(f64::INFINITY, f64::min));
        assert_eq!(reduced(Reduction::Max), fold(f64::NEG_INFINITY, f64::max));
        assert_eq!(reduced(Reduction::Any), fold(0.0, |a, b| f64::from(a != 0.0 || b != 0.0)));
        assert_eq!(reduced(Reduction::All), fold(1.0, |a, b| f64::from(a != 0.0 && b != 0.0)));
        for (mean, values) in reduced(Reduction::Mean).into_iter().zip(&each) {
            let wanted = values.iter().sum::<f64>() / values.len() as f64;
            assert!(mean == wanted || mean.is_nan() && values.is_empty());
        }
    }
}

#[test]
fn the_other_margin_has_the_same_elements() {
    for sample in samples() {
        let [p, i, x] = sample.arrays(sample.extent % 2 == 0);
        let turned = segments::transpose(&p, &i, sample.extent).unwrap();
        let mut wanted: Vec<(usize, usize, usize)> =
            sample.elements().into_iter().enumerate().map(|(e, (s, at, _))| (at, s, e)).collect();
        wanted.sort();
        let [offsets, positions, order] = [&turned.offsets, &turned.positions, &turned.values].map(back);
        assert_eq!(positions, wanted.iter().map(|w| w.1 as f64).collect::<Vec<_>>());
        assert_eq!(order, wanted.iter().map(|w| w.2 as f64).collect::<Vec<_>>());
        let before = (0..=sample.extent).map(|row| wanted.partition_point(|w| w.0 < row) as f64);
        assert_eq!(offsets, before.collect::<Vec<_>>());
        let expanded = segments::expand(&p, x.len()).unwrap();
        assert_eq!(back(&expanded), sample.elements().iter().map(|e| e.0 as f64).collect::<Vec<_>>());
    }
}

#[test]
fn sparse_products_are_gathered_sums() {
    let mut random = Random(11);
    let lengths = |random: &mut Random, n, most: usize| (0..n).map(|_| random.below(most)).collect::<Vec<_>>();
    for (rows, inner, columns, most) in
        [(9, 7, 5, 4), (1, 1, 1, 2), (300, 40, 200, 30), (2000, 500, 700, 3), (50_000, 30, 400, 30), (5, 0, 3, 1)]
    {
        let a = Sample::new(&lengths(&mut random, inner, most.min(rows + 1)), rows, &mut random);
        let b = Sample::new(&lengths(&mut random, columns, most.min(inner + 1)), inner.max(1), &mut random);
        let b = Sample { extent: inner, ..b };
        let ([pa, ia, xa], [pb, ib, xb]) = (a.arrays(false), b.arrays(true));
        let left = Matrix { offsets: &pa, positions: &ia, values: Some(&xa), extent: rows };
        let right = Matrix { offsets: &pb, positions: &ib, values: Some(&xb), extent: inner };
        let made = segments::multiply(&left, &right).unwrap();
        let mut sums = std::collections::BTreeMap::new();
        let of_a = a.elements();
        for (column, k, y) in b.elements() {
            for &(_, row, x) in of_a.iter().filter(|e| e.0 == k) {
                *sums.entry((column, row)).or_insert(0.0) += x * y;
            }
        }
        assert_eq!(back(&made.positions), sums.keys().map(|k| k.1 as f64).collect::<Vec<_>>());
        assert_eq!(back(&made.values), sums.values().copied().collect::<Vec<_>>());
        let before = (0..=columns).map(|column| sums.keys().filter(|k| k.0 < column).count() as f64);
        assert_eq!(back(&made.offsets), before.collect::<Vec<_>>());
    }
}

#[test]
fn triangles_are_solved() {
    let n = 200;
    let mut random = Random(5);
    for upper in [false, true] {
        for unit in [false, true] {
            let mut sample = Sample { lengths: Vec::new(), extent: n, at: Vec::new(), x: Vec::new() };
            for j in 0..n {
                let rows: Vec<usize> = (0..n).filter(|&i| i == j || random.below(20) == 0).collect();
                sample.lengths.push(rows.len());
                sample.at.extend(rows.iter().map(|&i| i as i32));
                sample.x.extend(rows.iter().map(|&i| if i == j { 4.0 } else { 0.25 }));
            }
            let solution: Vec<f64> = (0..n * 3).map(|k| (k % 7) as f64 - 3.0).collect();
            let mut b = vec![0.0; n * 3];
            for (j, i, x) in sample.elements() {
                let x = if i != j && (i < j) != upper {
                    0.0
                } else if i == j && unit {
                    1.0
                } else {
                    x
                };
                (0..3).for_each(|c| b[i + c * n] += x * solution[j + c * n]);
            }
            let [p, i, x] = sample.arrays(upper);
            let a = Matrix { offsets: &p, positions: &i, values: Some(&x), extent: n };
            let out = back(&segments::solve(&a, &doubles(&b), 3, upper, unit).unwrap());
            assert!(out.iter().zip(&solution).all(|(x, y)| (x - y).abs() < 1e-9));
        }
    }
}

#[test]
fn products_at_elements_are_products_of_rows() {
    for sample in samples().into_iter().filter(|sample| sample.extent < 100) {
        for inner in [1, 5, 19] {
            let segments = sample.lengths.len();
            let a: Vec<f64> = (0..sample.extent * inner).map(|k| (k % 11) as f64 - 5.0).collect();
            let b: Vec<f64> = (0..segments * inner).map(|k| (k % 7) as f64 - 3.0).collect();
            let [p, i, _] = sample.arrays(false);
            let out = segments::sampled(&p, &i, &doubles(&a), &doubles(&b), inner).unwrap();
            let wanted = sample
                .elements()
                .into_iter()
                .map(|(s, at, _)| (0..inner).map(|l| a[at + l * sample.extent] * b[s + l * segments]).sum::<f64>());
            assert_eq!(back(&out), wanted.collect::<Vec<_>>());
        }
    }
}

#[test]
fn wrong_structures_are_errors_or_na() {
    let (x, b) = (doubles(&[1.0, 2.0, 3.0]), doubles(&[1.0, 10.0, 100.0, 1000.0]));
    let i = integers(&[0, 3, 1]);
    let product = |p: &[i32], i: &Array| {
        let p = integers(p);
        segments::products(&Matrix { offsets: &p, positions: i, values: Some(&x), extent: 4 }, &b, 1)
    };
    assert_eq!(back(&product(&[0, 2, 3], &i).unwrap()), [2001.0, 30.0]);
    for p in [&[0, 2, 4][..], &[1, 2, 3], &[0, 3, 2, 3], &[0, 4, 3], &[0, -1, 3], &[0], &[]] {
        let kind = product(p, &i).err().map(|error| error.kind);
        assert!(matches!(kind, Some(Kind::Argument | Kind::Shape)), "{p:?}");
    }
    for at in [-1, 4, i32::MAX, i32::MIN] {
        assert!(back(&product(&[0, 2, 3], &integers(&[0, 3, at])).unwrap())[1].is_nan());
        let (p, i) = (integers(&[0, 2, 3]), integers(&[0, 3, at]));
        assert_eq!(segments::transpose(&p, &i, 4).err().map(|error| error.kind), Some(Kind::Argument));
        let a = Matrix { offsets: &p, positions: &i, values: None, extent: 4 };
        let square = integers(&[0, 1, 2, 3, 3]);
        let wide = Matrix { offsets: &square, ..a };
        assert_eq!(segments::multiply(&wide, &a).err().map(|error| error.kind), Some(Kind::Argument));
        assert_eq!(segments::multiply(&a, &wide).err().map(|error| error.kind), Some(Kind::Shape));
    }
}
