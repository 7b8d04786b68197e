//! Compares operations on segments (sparse matrices) on CUDA with the cpu device, and compiles their kernels; see
//! `differential`.

use std::sync::Mutex;

use super::codegen::{self, Tiled, Variant};
use super::compile;
use super::compile::nvrtc::Target;
use super::context::core::lock;
use super::differential::{devices, Random};
use super::driver::library::{self, SearchPaths};
use super::ops::segments::sources;
use super::ops::{basis, gram, segments_multiply};
use crate::array::segments::{self, Matrix};
use crate::array::transfer::Host;
use crate::array::{host_bytes, Array};
use crate::backend::segments::{Order, Segments, Sparse};
use crate::memory::buffer::Device;
use crate::testing::turn::in_turn;
use crate::testing::{array, twice};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::NA_F64;

/// A sparse matrix on the host, compressed by segments.
struct Sample {
    offsets: Vec<i32>,
    at: Vec<i32>,
    x: Vec<f64>,
    extent: usize,
}

impl Sample {
    fn new(random: &mut Random, lengths: &[usize], extent: usize) -> Sample {
        let mut sample = Sample { offsets: vec![0], at: Vec::new(), x: Vec::new(), extent };
        for &length in lengths {
            let mut from = 0;
            for k in 0..length {
                from += random.below((extent - from - (length - k - 1)).min(4) as u64) as usize;
                sample.at.push(from as i32);
                // integers, whose sums are exact in any order, and a few NA, NaN and Inf
                sample.x.push(match random.below(400) {
                    0 => NA_F64,
                    1 => f64::NAN,
                    2 => f64::INFINITY,
                    _ => random.below(9) as f64 - 4.0,
                });
                from += 1;
            }
            sample.offsets.push(sample.at.len() as i32);
        }
        sample
    }

    fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    fn arrays(&self, device: Device, wide: bool, dtype: DType) -> [Array; 3] {
        let offsets = if wide { DType::Int64 } else { DType::Int32 };
        [
            upload(Host::Integer(&self.offsets), DType::Int32, device).cast(offsets, None).unwrap(),
            upload(Host::Integer(&self.at), DType::Int32, device),
            upload(Host::Double(&self.x), dtype, device),
        ]
    }
}

fn upload(x: Host<'_>, dtype: DType, device: Device) -> Array {
    Array::upload(x, Some(dtype), device, None).unwrap()
}

fn samples() -> Vec<Sample> {
    let mut random = Random(31);
    let mut lengths: Vec<Vec<usize>> = vec![
        vec![0],
        vec![0; 3000],
        vec![1],
        vec![0, 0, 5, 0, 1, 2, 0],
        vec![20_000],
        vec![0, 9_000, 1, 0, 4_000, 3],
        vec![1023, 1, 1022, 2, 0],
        vec![63, 1, 62, 2, 0, 64, 65],
    ];
    lengths.push((0..700).map(|_| random.below(12) as usize).collect());
    // of each length on average, with segments that are far longer or shorter than the others of their tiles
    for (rare, usual, unusual) in [(90, 6, 700), (20, 60, 900), (4, 900, 3), (1_000, 300, 2)] {
        let length = |k: usize| if k % rare == rare - 1 { unusual } else { random.below(usual) as usize };
        lengths.push((0..400).map(length).collect());
    }
    // ends at the edges of warps' runs and of tiles
    lengths.push(vec![0, 256, 255, 0, 1, 257, 511, 1020, 0, 0, 256, 256, 1024, 1]);
    let extent = |lengths: &[usize]| lengths.iter().max().copied().unwrap_or(0) + 9;
    let mut samples: Vec<Sample> =
        lengths.iter().map(|lengths| Sample::new(&mut random, lengths, extent(lengths))).collect();
    samples.push(banded(&mut random, 5_000));
    samples
}

/// A matrix of three diagonals, of which some rows lack elements and the last one has 90: its dense factor is stored by
/// columns on a GPU.
fn banded(random: &mut Random, rows: usize) -> Sample {
    let mut sample = Sample { offsets: vec![0], at: Vec::new(), x: Vec::new(), extent: rows };
    for row in 0..rows {
        let near = if row + 1 == rows { row - 90..row } else { row.saturating_sub(1)..(row + 2).min(rows) };
        for at in near {
            if random.below(40) == 0 {
                continue;
            }
            sample.at.push(at as i32);
            sample.x.push(if random.below(900) == 0 { NA_F64 } else { random.below(9) as f64 - 4.0 });
        }
        sample.offsets.push(sample.at.len() as i32);
    }
    sample
}

/// Asserts that both devices give the same bytes, and CUDA the same in two runs. NaNs other than NA are replaced by a
/// single one.
fn same(what: &str, run: impl Fn(Device) -> Result<Vec<Array>>) {
    let bytes = |device| -> Vec<Vec<u8>> {
        let results = run(device).unwrap_or_else(|error| panic!("{what}: {error}"));
        results.iter().map(plain_bytes).collect()
    };
    let (cpu, cuda) = devices();
    let [wanted, found] = [cpu.device(), cuda.device()].map(bytes);
    for (k, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        assert!(wanted == found, "{what}: result {k} differs");
    }
    assert!(found == bytes(cuda.device()), "{what}: other bits in another run");
}

fn plain_bytes(x: &Array) -> Vec<u8> {
    let bytes = host_bytes(&x.contiguous().unwrap()).unwrap();
    let nan = |x: f64| if x.is_nan() && x.to_bits() as u32 != 1954 { f64::NAN } else { x };
    match x.dtype() {
        DType::Float64 => {
            let values = bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap()));
            values
                .flat_map(|x| (if x.is_nan() && x.to_bits() as u32 == 1954 { NA_F64 } else { nan(x) }).to_ne_bytes())
                .collect()
        }
        DType::Float32 => {
            let values = bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap()));
            values.flat_map(|x| (if x.is_nan() { f32::NAN } else { x }).to_ne_bytes()).collect()
        }
        _ => bytes,
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn products_of_segments_are_the_cpus() {
    for (k, sample) in samples().iter().enumerate() {
        for (c, columns) in [1, 2, 5, 64, 70].into_iter().enumerate() {
            let b: Vec<f64> = (0..sample.extent * columns)
                .map(|k| if k % 977 == 5 { NA_F64 } else { (k % 13) as f64 - 6.0 })
                .collect();
            for (d, dtype) in [DType::Float64, DType::Float32].into_iter().enumerate() {
                if !in_turn(k + c + d, 4) {
                    continue;
                }
                let (wide, weighted) = ((k + c) % 2 == 0, (k + d) % 3 > 0);
                same(&format!("{k}: {columns} columns of {dtype}, {wide}, {weighted}"), |device| {
                    let [p, i, x] = sample.arrays(device, wide, dtype);
                    let values = weighted.then_some(&x);
                    let a = Matrix { offsets: &p, positions: &i, values, extent: sample.extent };
                    segments::products(&a, &upload(Host::Double(&b), dtype, device), columns).map(|out| vec![out])
                });
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn dense_factors_of_bands_alone_are_stored_by_columns() {
    let (_, cuda) = devices();
    let mut random = Random(7);
    let lengths: Vec<usize> = (0..5_000).map(|_| 3 + random.below(6) as usize).collect();
    let mut scattered = Sample::new(&mut random, &lengths, 100);
    scattered.at.iter_mut().for_each(|at| *at = random.below(100_000) as i32);
    let near = banded(&mut random, 5_000);
    for (sample, columns, order) in [
        (&near, 64, Order::ByColumns),
        (&near, 64, Order::ByColumns),
        (&near, 2, Order::ByRows),
        (&scattered, 64, Order::ByRows),
        (&Sample::new(&mut random, &[5, 2], 9), 64, Order::ByRows),
    ] {
        let [p, i, _] = sample.arrays(cuda.device(), columns == 2, DType::Float64);
        let (offsets, positions) = (p.contiguous().unwrap(), i.contiguous().unwrap());
        let segments = Segments { offsets: &offsets, len: positions.len() };
        let a = Sparse { segments, positions: &positions, values: None, extent: sample.extent };
        assert_eq!(cuda.segment_order(&a, columns).unwrap(), order, "{columns} columns");
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn reductions_of_segments_are_the_cpus() {
    let reductions = [Reduction::Sum, Reduction::Mean, Reduction::Min, Reduction::Max, Reduction::Any, Reduction::All];
    for (k, sample) in samples().iter().enumerate() {
        for (r, reduction) in reductions.into_iter().enumerate() {
            for (d, dtype) in [DType::Float64, DType::Float32, DType::Int32].into_iter().enumerate() {
                if in_turn(k + r + d, 4) {
                    same(&format!("{k}: {} of {dtype}", reduction.name()), |device| {
                        let [p, _, x] = sample.arrays(device, (k + r) % 2 == 0, DType::Float64);
                        let x = if dtype == DType::Int32 {
                            sample.arrays(device, false, dtype)[1].clone()
                        } else {
                            x.cast(dtype, None)?
                        };
                        segments::reduce(&p, &x, reduction, d == 1).map(|out| vec![out])
                    });
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn structures_are_the_cpus() {
    for (k, sample) in samples().iter().enumerate() {
        same(&format!("structure {k}"), |device| {
            let [p, i, _] = sample.arrays(device, k % 2 == 0, DType::Float64);
            let turned = segments::transpose(&p, &i, sample.extent)?;
            Ok(vec![turned.offsets, turned.positions, turned.values, segments::expand(&p, i.len())?])
        });
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn sparse_products_are_the_cpus() {
    let mut random = Random(32);
    for (k, (rows, inner, columns, most)) in
        [(9, 7, 5, 4), (1, 1, 1, 2), (300, 40, 200, 30), (2000, 500, 70, 3), (5, 3, 0, 2)].into_iter().enumerate()
    {
        let mut sample = |n, extent: usize| {
            let lengths: Vec<usize> = (0..n).map(|_| random.below(most.min(extent as u64 + 1)) as usize).collect();
            Sample::new(&mut random, &lengths, extent)
        };
        let (a, b) = (sample(inner, rows), sample(columns, inner));
        same(&format!("product {rows} x {inner} x {columns}"), |device| {
            let [pa, ia, xa] = a.arrays(device, k % 2 == 0, DType::Float64);
            let [pb, ib, xb] = b.arrays(device, false, DType::Float64);
            let left = Matrix { offsets: &pa, positions: &ia, values: (k != 3).then_some(&xa), extent: rows };
            let right = Matrix { offsets: &pb, positions: &ib, values: (k < 3).then_some(&xb), extent: inner };
            segments::multiply(&left, &right).map(|made| vec![made.offsets, made.positions, made.values])
        });
    }
}

/// A matrix of `columns` columns, each of which has the elements that `rows` returns, with fractions for values, a few
/// of which are missing.
fn filled(random: &mut Random, extent: usize, columns: usize, rows: impl Fn(&mut Random, usize) -> Vec<i32>) -> Sample {
    let mut sample = Sample { offsets: vec![0], at: Vec::new(), x: Vec::new(), extent };
    for column in 0..columns {
        for row in rows(random, column) {
            sample.at.push(row);
            sample.x.push(match random.below(3000) {
                0 => NA_F64,
                1 => f64::NAN,
                2 => f64::INFINITY,
                3 => -0.0,
                _ => random.below(1 << 20) as f64 / 1000.0 - 500.0,
            });
        }
        sample.offsets.push(sample.at.len() as i32);
    }
    sample
}

/// About `count` of the numbers 0 .. extent - 1, in ascending order.
fn some(random: &mut Random, count: usize, extent: usize) -> Vec<i32> {
    (0..extent).filter(|_| random.below(extent as u64) < count as u64).map(|k| k as i32).collect()
}

fn same_products(what: &str, k: usize, a: &Sample, b: &Sample) {
    let dtype = [DType::Float64, DType::Float32][k % 2];
    same(&format!("{what}, {k}"), |device| {
        let [pa, ia, xa] = a.arrays(device, k.is_multiple_of(3), dtype);
        let [pb, ib, xb] = b.arrays(device, k.is_multiple_of(5), dtype);
        let left = Matrix { offsets: &pa, positions: &ia, values: (k != 3).then_some(&xa), extent: a.extent };
        let right = Matrix { offsets: &pb, positions: &ib, values: (k != 2).then_some(&xb), extent: b.extent };
        segments::multiply(&left, &right).map(|made| vec![made.offsets, made.positions, made.values])
    });
}

// Sums of fractions, whose bits show another order of additions.
#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn sparse_products_of_each_size_are_the_cpus() {
    let rows = 2600;
    let sizes = [1, 2, 15, 16, 17, 31, 32, 33, 104, 105, 208, 209, 416, 417, 832, 833, 2048, 2049, 2600, 0, 1, 3];
    for k in 0..6 {
        let random = &mut Random(40 + k as u64);
        // columns with an element each, then some longer ones: short on average, or not
        let (longer, length) = [(30, 40), (30, 400), (2600, 60)][k / 2];
        let a = filled(random, rows, rows + longer, |random, column| match column.checked_sub(rows) {
            None => vec![column as i32],
            Some(column) => some(random, if column % 7 == 3 { rows / 2 } else { length }, rows),
        });
        // each size once alone and once with columns of the first matrix that repeat its rows
        let b = filled(random, rows + longer, 2 * sizes.len(), |random, column| {
            let size = sizes[column / 2];
            let again = if column % 2 == 0 { Vec::new() } else { some(random, 4, longer) };
            (0..size).chain(again.into_iter().map(|c| c + rows as i32)).collect()
        });
        same_products("sizes", k, &a, &b);
        // many products in few rows, one product, none
        let few = [7, 16, 33, 200][k % 4];
        let a = filled(random, few, 900, |random, _| some(random, few / 2, few));
        let b = filled(random, 900, 70, |random, column| some(random, [900, 100, 3, 1, 0][column % 5], 900));
        same_products("few rows", k, &a, &b);
        // a band, whose columns of the product are all alike, over several chunks
        let n = 2500;
        let band = filled(random, n, n, |_, column| {
            let column = column as i32;
            (column - 2..=column + 2).filter(|row| (0..n as i32).contains(row)).collect()
        });
        same_products("band", k, &band, &band);
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn structures_that_are_none_are_refused() {
    let (cpu, cuda) = devices();
    let factor = [0, 2, 3, 3];
    // offsets and positions of both factors
    type Case = ([i32; 4], [i32; 3], [i32; 4], [i32; 3]);
    let cases: [Case; 7] = [
        (factor, [0, 4, 1], factor, [0, 3, 1]),
        (factor, [0, 4, 1], factor, [0, -1, 1]),
        (factor, [0, 5, 1], factor, [0, 2, 1]),
        (factor, [0, -1, 1], factor, [0, 2, 0]),
        (factor, [0, 4, 1], [0, 2, 1, 3], [0, 2, 1]),
        (factor, [0, 4, 1], [0, 4, 4, 3], [0, 2, 1]),
        ([0, 4, 1, 3], [0, 4, 1], factor, [0, 2, 1]),
    ];
    for (k, (pa, ia, pb, ib)) in cases.iter().enumerate() {
        for device in [cpu.device(), cuda.device()] {
            let [pa, ia, pb, ib] = [&pa[..], ia, pb, ib].map(|x| upload(Host::Integer(x), DType::Int32, device));
            let a = Matrix { offsets: &pa, positions: &ia, values: None, extent: 5 };
            let b = Matrix { offsets: &pb, positions: &ib, values: None, extent: 3 };
            let kind = segments::multiply(&a, &b).map(|_| ()).map_err(|error| error.kind);
            assert_eq!(kind, Err(verdigris_ops::error::Kind::Argument), "{k} on {device:?}");
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn products_at_elements_are_the_cpus() {
    for (k, sample) in samples().iter().enumerate().filter(|(_, sample)| sample.extent < 2000) {
        for inner in [1, 5, 40] {
            let number = |k: usize| if k % 997 == 5 { NA_F64 } else { (k % 11) as f64 - 5.0 };
            let a: Vec<f64> = (0..sample.extent * inner).map(number).collect();
            let b: Vec<f64> = (0..sample.count() * inner).map(number).collect();
            let dtype = if k % 2 == 0 { DType::Float64 } else { DType::Float32 };
            same(&format!("sampled {k}, {inner}"), |device| {
                let [p, i, _] = sample.arrays(device, k % 3 == 0, dtype);
                let [a, b] = [&a, &b].map(|x| upload(Host::Double(x), dtype, device));
                segments::sampled(&p, &i, &a, &b, inner).map(|out| vec![out])
            });
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn triangles_are_solved_as_on_the_cpu() {
    let mut random = Random(33);
    for (k, (n, columns)) in [(1, 1), (40, 1), (300, 3)].into_iter().enumerate() {
        for (upper, unit) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut sample = Sample { offsets: vec![0], at: Vec::new(), x: Vec::new(), extent: n };
            for j in 0..n {
                for i in (0..n).filter(|&i| i == j || random.below(200) == 0).collect::<Vec<_>>() {
                    sample.at.push(i as i32);
                    // makes the solutions integers
                    sample.x.push(if i == j { [1.0, -1.0][j % 2] } else { 1.0 });
                }
                sample.offsets.push(sample.at.len() as i32);
            }
            let b: Vec<f64> = (0..n * columns).map(|k| if k % 13 == 0 { 1.0 } else { 0.0 }).collect();
            same(&format!("triangle of {n}, {columns}, {upper}, {unit}"), |device| {
                let [p, i, x] = sample.arrays(device, k % 2 == 0, DType::Float64);
                let a = Matrix { offsets: &p, positions: &i, values: Some(&x), extent: n };
                segments::solve(&a, &upload(Host::Double(&b), DType::Float64, device), columns, upper, unit)
                    .map(|out| vec![out])
            });
        }
    }
}

#[test]
#[ignore = "needs NVRTC: VERDIGRIS_NVRTC is the path of libnvrtc"]
fn kernels_of_segments_compile_for_every_generation() {
    let nvrtc = std::env::var_os("VERDIGRIS_NVRTC").expect("VERDIGRIS_NVRTC is the path of libnvrtc");
    library::set_search_paths(SearchPaths { option: vec![nvrtc.into()], ..SearchPaths::default() });
    let older = [75, 80, 86, 89].into_iter().enumerate().filter(|&(k, _)| in_turn(k, 4)).map(|(_, arch)| arch);
    let mut kernels = sources();
    for offsets in [DType::Int32, DType::Int64] {
        for class in [Class::F32, Class::F64] {
            kernels.push((format!("sparse product {offsets} {class:?}"), segments_multiply::source(offsets, class)));
        }
    }
    kernels.extend([Class::F32, Class::F64].map(|class| (format!("basis int32 {class:?}"), basis::source(class))));
    kernels
        .extend([1, 2, 4, 8].map(|eights| (format!("gram int32 F64 {eights}"), gram::source(eights, 3, eights < 8))));
    let mut plan = twice(&array(&[1.0, 2.0])).plan().expect("a plan").0;
    plan.outputs = vec![plan.outputs[0]; 4];
    let variant = Variant { tiled: Tiled { inputs: 1, axis: 0 }, ..Variant::default() };
    let planned = |eights| codegen::gram::source(&plan, variant, eights, 1, 0, eights == 4);
    kernels.extend([1, 4, 8].map(|eights| (format!("planned gram int32 F64 {eights}"), planned(eights))));
    // only generation 90 compiles all kernels; the others compile those with int32 offsets and float64 values
    let seen = |arch, name: &str| arch == 90 || name.contains("int32") && !name.contains("F32");
    let jobs: Vec<_> = older
        .chain([90])
        .flat_map(|arch| kernels.iter().filter(move |(name, _)| seen(arch, name)).map(move |job| (arch, job)))
        .collect();
    let failed = Mutex::new(Vec::new());
    parallel(jobs.len(), 1, |from, to| {
        for (arch, (name, source)) in &jobs[from..to] {
            if let Err(error) = compile::compile(source, Target::Cubin(*arch)) {
                let log = error.detail.clone().unwrap_or_default();
                lock(&failed).push(format!("{name} for sm_{arch}: {error}\n{log}"));
            }
        }
    })
    .unwrap();
    assert_eq!(lock(&failed).join("\n"), "");
}
