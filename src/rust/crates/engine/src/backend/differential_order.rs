//! A reference implementation of the order of additions of `verdigris_ops::tree`, element by element, with which the
//! cpu device is compared bit by bit.

use std::ffi::c_void;

use crate::array::transfer::{Host, HostMut};
use crate::array::Array;
use crate::backend::Outcome;
use crate::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::loops::Folding;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::NA_F64;
use verdigris_ops::tree::{Tree, ALIGN};

/// Sebastiano Vigna's splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Memory for any accumulator of `reduce.h`.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Accumulator([u8; 64]);

/// The result of a group by the tree, from the bytes of its elements. `first` is the place of the first one in its row.
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
            unsafe { (f.coded)(own, &mut 0, elements[l].as_ptr().cast(), &1, 1, 1, na_rm.into()) };
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
    let f = Folding::of(reduction, class);
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

/// Numbers of very different magnitudes, whose sums are rounded; some are NA if `missing`.
pub(crate) fn numbers(random: &mut Random, n: usize, missing: bool) -> Vec<f64> {
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

/// Shapes of groups on both sides of the limits in tree.rs.
pub(crate) fn shapes(random: &mut Random) -> Vec<Groups> {
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

fn result(x: &Array, reduction: Reduction, na_rm: bool, groups: Groups) -> Vec<u8> {
    if groups.count() == 1 {
        let (_, Outcome { value, .. }) = x.reduce(reduction, na_rm).unwrap();
        return value[..8].to_vec();
    }
    let mut values = vec![0.0; groups.count()];
    x.reduce_groups(reduction, na_rm, groups).unwrap().read(0, HostMut::Double(&mut values)).unwrap();
    values.iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect()
}

#[test]
fn cpu_follows_the_tree() {
    let mut random = Random(20261125);
    for (s, groups) in shapes(&mut random).into_iter().enumerate() {
        let n = groups.count() * groups.length;
        let mut values = numbers(&mut random, n, s % 3 == 0);
        if s % 5 == 0 {
            // sums and squares of these overflow
            values[n / 2] = 1.5e308;
            values[n - 1] = 1.7e308;
        }
        for dtype in [DType::Float64, DType::Float32] {
            let class = dtype.class();
            let x = Array::upload(Host::Double(&values), Some(dtype), Device::Cpu, None).unwrap();
            let bytes: Vec<u8> = match dtype {
                DType::Float32 => values.iter().flat_map(|&v| (v as f32).to_ne_bytes()).collect(),
                _ => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
            };
            for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Product, Reduction::Var] {
                if reduction.class(class) != Some(class) {
                    continue;
                }
                let tree = Tree::of(reduction, class, groups);
                // the reference does not add four rows at once, as the loops do here
                let fours = reduction == Reduction::Var && class == Class::F64 && groups.inner == 1;
                if fours && groups.length >= 4 * tree.lanes {
                    continue;
                }
                for na_rm in [false, true] {
                    let (got, wanted) =
                        (result(&x, reduction, na_rm, groups), expected(reduction, class, &bytes, groups, na_rm));
                    let different = (0..got.len() / 8).find(|&k| got[8 * k..8 * k + 8] != wanted[8 * k..8 * k + 8]);
                    assert!(
                        different.is_none(),
                        "{} of {dtype} {groups:?} {na_rm}: group {different:?}",
                        reduction.name()
                    );
                }
            }
        }
    }
}

#[test]
fn moments_are_those_of_two_passes() {
    let mut random = Random(4);
    for groups in shapes(&mut random).into_iter().filter(|g| g.length > 1) {
        let n = groups.count() * groups.length;
        let values: Vec<f64> = numbers(&mut random, n, false).iter().map(|x| x + 1e6).collect();
        let x = Array::upload(Host::Double(&values), None, Device::Cpu, None).unwrap();
        let got = result(&x, Reduction::Var, false, groups);
        for k in 0..groups.count() {
            let (o, i) = (k / groups.inner, k % groups.inner);
            let own: Vec<f64> =
                (0..groups.length).map(|l| values[(o * groups.length + l) * groups.inner + i]).collect();
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let wanted = own.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (own.len() - 1) as f64;
            let var = f64::from_ne_bytes(got[8 * k..8 * k + 8].try_into().unwrap());
            assert!((var - wanted).abs() <= 1e-9 * wanted, "{groups:?} {k}: {var} {wanted}");
        }
    }
}

#[test]
fn sums_reach_beyond_the_largest_double() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases: [(&[f64], f64, f64); 8] = [
        (&[1e308, 1e308, -1e308], 1e308, 1e308 / 3.0),
        (&[1.6e308, 1.6e308], inf, 1.6e308),
        (&[inf, 1.0, 2.0], inf, inf),
        (&[-inf, 1e308, 1e308], -inf, -inf),
        (&[inf, 1.0, -inf], nan, nan),
        (&[nan, 1e308], nan, nan),
        (&[1e308, 1.0, -1e308, 1e-300], 1.0, 0.25),
        (&[-1e308, -1e308, -1e308, 1e308, 1e308], -1e308, -2e307),
    ];
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    for (values, sum, mean) in cases {
        for shape in 0..3 {
            // one group, groups of neighbours, and groups across memory
            let n = values.len();
            let (groups, all): (Groups, Vec<f64>) = match shape {
                0 => (Groups::whole(n), values.to_vec()),
                1 => (Groups { outer: 3, length: n, inner: 1 }, values.repeat(3)),
                _ => (Groups { outer: 1, length: n, inner: 2 }, values.iter().flat_map(|&x| [x, x]).collect()),
            };
            let x = Array::upload(Host::Double(&all), None, Device::Cpu, None).unwrap();
            for (reduction, wanted) in [(Reduction::Sum, sum), (Reduction::Mean, mean)] {
                let got = result(&x, reduction, false, groups);
                let got = f64::from_ne_bytes(got[..8].try_into().unwrap());
                assert!(same(got, wanted), "{} of {values:?} {groups:?}: {got}", reduction.name());
            }
        }
    }
}
