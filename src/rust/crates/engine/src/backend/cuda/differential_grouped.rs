//! Compares counts, reductions by group code, searches, unique values and ranks on CUDA with the cpu device; see
//! `differential`.

use super::differential::{devices, elements, get, lengths, put, Random};
use crate::array::host_bytes;
use crate::backend::Backend;
use crate::memory::buffer::View;
use crate::testing::turn::in_turn;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::reduction::Reduction;

const NATURAL: [DType; 4] = [DType::Int32, DType::Int64, DType::Float32, DType::Float64];

/// The results of both devices.
fn both(f: impl Fn(&'static dyn Backend) -> Vec<u8>) -> [Vec<u8>; 2] {
    let (cpu, cuda) = devices();
    [f(cpu), f(cuda)]
}

/// Small integers of a type, some of them NA: their sums are exact in any order.
fn whole(random: &mut Random, dtype: DType, n: usize, most: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(n * dtype.size());
    for _ in 0..n {
        let (x, is_na) = (random.below(most) as i64 - most as i64 / 4, random.below(40) == 0);
        match dtype {
            DType::Int32 => out.extend((if is_na { i32::MIN } else { x as i32 }).to_ne_bytes()),
            DType::Int64 => out.extend((if is_na { i64::MIN } else { x }).to_ne_bytes()),
            DType::Float32 => out.extend((if is_na { f32::NAN } else { x as f32 }).to_ne_bytes()),
            _ => out.extend((if is_na { f64::NAN } else { x as f64 }).to_ne_bytes()),
        }
    }
    out
}

/// Group codes from 1 on, in runs; some are 0, above `groups`, or NA.
fn codes(random: &mut Random, n: usize, groups: usize) -> Vec<u8> {
    let mut code = 1;
    (0..n)
        .flat_map(|_| {
            // runs of one code; 0, `groups + 1` and NA belong to no group
            if random.below(3) > 0 {
                code = random.below(groups as u64 + 2) as i32;
            }
            (if random.below(30) == 0 { i32::MIN } else { code }).to_ne_bytes()
        })
        .collect()
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn counts_are_the_cpus() {
    let mut random = Random(21);
    for dtype in DType::ALL.into_iter().filter(|d| crate::backend::cuda::ops::grouped::counts(*d)) {
        for &n in lengths() {
            for (low, bins) in [(0, 2), (-3, 9), (-100, 200), (0, 70_000)] {
                if dtype == DType::Bool8 && bins > 2 {
                    continue;
                }
                let narrow = random.below(2) == 0;
                let raw = if NATURAL.contains(&dtype) {
                    whole(&mut random, dtype, n, if narrow { 3 } else { 80_000 })
                } else {
                    elements(&mut random, dtype, n, narrow)
                };
                let [wanted, found] =
                    both(|device| get(device, &device.count_bins(&put(device, &raw, dtype, 1), low, bins).unwrap()));
                assert!(wanted == found, "{dtype}, {n}, {bins} from {low}");
                let total: i64 = wanted.chunks(8).map(|b| i64::from_ne_bytes(b.try_into().unwrap())).sum();
                assert_eq!(total, n as i64);
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn reductions_by_code_are_the_cpus() {
    let mut random = Random(22);
    for (d, dtype) in NATURAL.into_iter().enumerate() {
        for (r, reduction) in Reduction::GROUPED.into_iter().enumerate() {
            let class = dtype.class();
            if !reduction.serves(class) || !in_turn(d + r, 4) {
                continue;
            }
            for (n, columns) in [(1, 1), (2, 3), (33, 1), (257, 5), (4097, 1), (65_537, 2)] {
                for groups in [1, 3, 300, 2500] {
                    let most = if reduction == Reduction::Product { 4 } else { 1000 };
                    let raw = whole(&mut random, dtype, n * columns, most);
                    let code = codes(&mut random, n, groups);
                    for na_rm in [false, true] {
                        let run = |device: &'static dyn Backend| {
                            let (x, codes) = (put(device, &raw, dtype, 1), put(device, &code, DType::Int32, 3));
                            let out = device.reduce_coded(&x, &codes, groups, reduction, na_rm).unwrap();
                            get(device, &out.expect("there is room for so many groups"))
                        };
                        let [wanted, found] = both(run);
                        let what = format!("{} of {dtype}, {n} x {columns} in {groups}, {na_rm}", reduction.name());
                        assert!(wanted == found, "{what}");
                        assert!(found == run(devices().1), "{what}: other bits in another run");
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn places_in_a_table_are_the_cpus() {
    let mut random = Random(23);
    for dtype in NATURAL {
        for n in [0, 1, 63, 4097, 100_003] {
            for m in [0, 1, 2, 300, 2049, 70_001] {
                let raw = whole(&mut random, dtype, n, 60_000);
                let table = whole(&mut random, dtype, m, 50_000);
                for strictly in [false, true] {
                    let [wanted, found] = both(|device| {
                        let (sorted, _) = device.sort(&put(device, &table, dtype, 0), false, false).unwrap();
                        // missing values are sorted last
                        let known = m - table.chunks(dtype.size()).filter(|b| is_missing(b, dtype)).count();
                        let sorted = View { layout: verdigris_ops::layout::Layout::new(0, &[known], &[1]), ..sorted };
                        get(device, &device.search(&put(device, &raw, dtype, 1), &sorted, strictly).unwrap())
                    });
                    assert!(wanted == found, "{dtype}, {n} in {m}, {strictly}");
                }
            }
        }
    }
}

fn is_missing(bytes: &[u8], dtype: DType) -> bool {
    match dtype {
        DType::Int32 => bytes == i32::MIN.to_ne_bytes(),
        DType::Int64 => bytes == i64::MIN.to_ne_bytes(),
        DType::Float32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn first_places_are_the_cpus() {
    let mut random = Random(24);
    for dtype in NATURAL {
        for n in [1, 2, 63, 257, 4097, 65_537] {
            for narrow in [true, false] {
                let raw = elements(&mut random, dtype, n, narrow);
                let known = raw.chunks(dtype.size()).filter(|b| !is_missing(b, dtype)).filter_map(|b| match dtype {
                    DType::Int32 => Some(i32::from_ne_bytes(b.try_into().unwrap()) as i64),
                    DType::Int64 => Some(i64::from_ne_bytes(b.try_into().unwrap())),
                    _ => None,
                });
                let range = known.clone().min().zip(known.max());
                for between in [None, range] {
                    let run = |device: &'static dyn Backend| {
                        let found = device.firsts(&put(device, &raw, dtype, 1), between);
                        host_bytes(&found.unwrap().expect("a table has room")).unwrap()
                    };
                    let [wanted, found] = both(run);
                    assert!(wanted == found, "{dtype}, {n}, {narrow}, {between:?}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn elements_at_ranks_are_those_of_a_sort() {
    let mut random = Random(25);
    for dtype in NATURAL {
        for n in [70_000, 100_003] {
            for kind in 0..3 {
                let raw =
                    if kind < 2 { elements(&mut random, dtype, n, kind == 1) } else { whole(&mut random, dtype, n, 9) };
                let (cpu, cuda) = devices();
                for device in [cpu, cuda] {
                    let x = put(device, &raw, dtype, 1);
                    let (sorted, _) = device.sort(&x, false, false).unwrap();
                    let sorted = host_bytes(&sorted).unwrap();
                    let missing = raw.chunks(dtype.size()).filter(|b| is_missing(b, dtype)).count();
                    let known = n - missing;
                    let ranks = [0, 1, known / 4, known / 2, known / 2 + 1, known - 1];
                    // None: the device recommends a sort instead
                    let Some(found) = device.ranks(&x, &ranks).unwrap() else { continue };
                    assert_eq!(found.missing, missing);
                    let found = host_bytes(&found.values.expect("the ranks are there")).unwrap();
                    for (k, &rank) in ranks.iter().enumerate() {
                        let of = |bytes: &[u8], k: usize| bytes[k * dtype.size()..(k + 1) * dtype.size()].to_vec();
                        let (wanted, found) = (of(&sorted, rank), of(&found, k));
                        // 0 and -0 are interchangeable
                        let zero = |b: &[u8]| b[..b.len() - 1].iter().all(|&x| x == 0) && b[b.len() - 1] & 0x7F == 0;
                        let is_float = matches!(dtype.class(), Class::F32 | Class::F64);
                        assert!(
                            wanted == found || is_float && zero(&wanted) && zero(&found),
                            "{dtype}, {n}, {kind}, {rank}"
                        );
                    }
                    assert!(device.ranks(&x, &[known]).unwrap().expect("nothing is sorted").values.is_none());
                }
            }
        }
    }
}
