//! Compares gathers, sorts, masks and products on CUDA with the cpu device, and compiles their kernels with NVRTC.
//!
//! With `VERDIGRIS_TEST_DEVICE=cuda` the devices are compared; with `VERDIGRIS_NVRTC=<libnvrtc>` every kernel is
//! compiled for every GPU generation, which needs no device. Without them all tests here are skipped.

use std::sync::{Arc, Mutex};

use super::compile;
use super::compile::nvrtc::Target;
use super::context::core::lock;
use super::driver::library::{self, SearchPaths};
use super::ops::{gather, sort};
use crate::array::Array;
use crate::backend::dense::{Batch, Matrix, Multiplied, Precision, Product};
pub(crate) use crate::backend::differential_order::Random;
use crate::backend::{of, Backend};
use crate::memory::buffer::{Buffer, Device, View};
use crate::testing::turn::in_turn;
use verdigris_ops::dtype::DType;
use verdigris_ops::layout::Layout;
use verdigris_ops::parallel::parallel;
use verdigris_ops::scalar::NA_F64;

/// The two devices to compare.
pub(crate) fn devices() -> (&'static dyn Backend, &'static dyn Backend) {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    (of(Device::Cpu).unwrap(), of(Device::Cuda(0)).expect("VERDIGRIS_TEST_DEVICE asks for a device"))
}

/// Uploads bytes as a view that starts `offset` elements into its buffer.
pub(crate) fn put(device: &dyn Backend, raw: &[u8], dtype: DType, offset: usize) -> View {
    let size = dtype.size();
    let mut all = vec![0xA5u8; offset * size];
    all.extend_from_slice(raw);
    let buffer = device.allocate(all.len()).unwrap();
    if !all.is_empty() {
        device.upload(&all, &buffer, 0).unwrap();
    }
    View { buffer, dtype, layout: Layout::new(offset, &[raw.len() / size], &[1]) }
}

fn put_positions(device: &dyn Backend, at: &[i64]) -> View {
    let raw: Vec<u8> = at.iter().flat_map(|p| p.to_ne_bytes()).collect();
    put(device, &raw, DType::Int64, 0)
}

pub(crate) fn get(device: &dyn Backend, buffer: &Buffer) -> Vec<u8> {
    let mut out = vec![0u8; buffer.bytes];
    if !out.is_empty() {
        device.download(buffer, 0, &mut out).unwrap();
    }
    out
}

/// Random elements. `narrow` draws from a few special values, among them NA, NaN, both zeros, infinities and the limits
/// of the type.
pub(crate) fn elements(random: &mut Random, dtype: DType, n: usize, narrow: bool) -> Vec<u8> {
    let size = dtype.size();
    let mut out = Vec::with_capacity(n * size);
    for _ in 0..n {
        let r = random.next();
        let special = narrow || random.below(50) == 0;
        let bits: u64 = match dtype {
            DType::Bool8 => r % 3,
            DType::UInt8 => r,
            _ if !special => match dtype {
                // any bits are a number; NaNs are welcome too
                DType::Complex128 => random.next(),
                _ => r,
            },
            DType::Float16 => [0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x3C00, 0xBC00, 0x0001][r as usize % 9],
            DType::BFloat16 => [0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x3F80, 0xBF80, 0x0001][r as usize % 9],
            DType::Float32 => u64::from(
                [0.0f32, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 1e-40][r as usize % 8].to_bits(),
            ),
            DType::Float64 => {
                let missing = [f64::NAN, NA_F64, f64::from_bits(0xFFF8_0000_0000_0001)][(r >> 32) as usize % 3];
                [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, missing, 1.0, -1.0, 5e-324][r as usize % 8].to_bits()
            }
            // NA is the smallest integer
            _ => {
                let smallest = 1u64 << (8 * size.min(8) - 1);
                [smallest, smallest + 1, smallest - 1, 0, 1, u64::MAX][r as usize % 6]
            }
        };
        let bytes = bits.to_le_bytes();
        for k in 0..size {
            out.push(bytes[k % 8]);
        }
    }
    out
}

const LENGTHS: [usize; 16] = [0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 257, 4095, 4097, 8193, 65_537, 1_000_000];

/// Whether tests/emulator replaces the GPU; large inputs take minutes there.
pub(crate) fn emulated() -> bool {
    std::env::var_os("VERDIGRIS_EMULATOR").is_some()
}

pub(crate) fn lengths() -> &'static [usize] {
    if emulated() {
        &LENGTHS[..LENGTHS.len() - 1]
    } else {
        &LENGTHS
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn gather_is_the_cpus() {
    let (cpu, cuda) = devices();
    let mut random = Random(1);
    for dtype in DType::ALL {
        for (n, m) in [(0, 5), (1, 1), (5, 0), (63, 7), (64, 64), (257, 1000), (100_003, 65_537)] {
            let raw = elements(&mut random, dtype, m, false);
            // some positions are out of range on both sides
            let at: Vec<i64> = (0..n).map(|_| random.below(m as u64 + 4) as i64 - 2).collect();
            let results: Vec<Vec<u8>> = [cpu, cuda]
                .map(|device| {
                    let out = device.allocate(n * dtype.size()).unwrap();
                    let (source, at) = (put(device, &raw, dtype, 3), put_positions(device, &at));
                    let (plan, bound) = Array::from_view(source).gather(&Array::from_view(at)).unwrap().plan().unwrap();
                    device.run(&plan, &bound, std::slice::from_ref(&out)).unwrap();
                    one_nan(dtype, get(device, &out))
                })
                .into();
            assert!(results[0] == results[1], "{dtype}, {n} of {m}");
        }
    }
}

/// Replaces every NaN of a half type by the same one: the cpu device computes in float32, which changes NaNs, while the
/// GPU copies bits.
fn one_nan(dtype: DType, mut bytes: Vec<u8>) -> Vec<u8> {
    let infinite = match dtype {
        DType::Float16 => 0x7C00,
        DType::BFloat16 => 0x7F80,
        _ => return bytes,
    };
    for half in bytes.chunks_mut(2).filter(|half| u16::from_le_bytes([half[0], half[1]]) & 0x7FFF > infinite) {
        half.copy_from_slice(&[0xFF, 0x7F]);
    }
    bytes
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn scatter_is_the_cpus() {
    let (cpu, cuda) = devices();
    let mut random = Random(2);
    for dtype in DType::ALL {
        for (count, n, length) in
            [(0, 5, 1), (1, 1, 1), (65, 9, 65), (257, 300, 1), (257, 300, 4), (5000, 40, 5000), (100_003, 70_001, 1009)]
        {
            let start = elements(&mut random, dtype, n, false);
            let raw = elements(&mut random, dtype, length, false);
            // three cases: repeated positions, some out of range; increasing positions; increasing positions but for
            // the last
            let many: Vec<i64> = (0..count).map(|_| random.below(n as u64 + 4) as i64 - 2).collect();
            let rising: Vec<i64> = (0..count.min(n) as i64).collect();
            let mut nearly = rising.clone();
            if let [first, .., last] = &mut nearly[..] {
                *last = *first;
            }
            for at in [many, rising, nearly] {
                let results: Vec<Vec<u8>> = [cpu, cuda]
                    .map(|device| {
                        let target = put(device, &start, dtype, 0).buffer;
                        let values = put(device, &raw, dtype, 1);
                        device.scatter(&target, dtype, n, &put_positions(device, &at), &values).unwrap();
                        get(device, &target)
                    })
                    .into();
                assert!(results[0] == results[1], "{dtype}, {} into {n} of {length}", at.len());
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn positions_are_the_cpus() {
    let (cpu, cuda) = devices();
    let mut random = Random(3);
    for &n in lengths() {
        for (kind, offset) in [(0, 0), (0, 16), (0, 5), (1, 0), (2, 0), (3, 1), (4, 0)] {
            let mask: Vec<u8> = (0..n)
                .map(|_| match kind {
                    0 => random.below(3) as u8,
                    1 => 0,
                    2 => 1,
                    3 => 2,
                    _ => u8::from(random.below(1000) == 0),
                })
                .collect();
            for keep_na in [false, true] {
                let [a, b] = [cpu, cuda].map(|device| {
                    let (plan, bound) = Array::from_view(put(device, &mask, DType::Bool8, offset)).plan().unwrap();
                    let out = device.mask(&plan, &bound, keep_na).unwrap();
                    assert_eq!(out.buffer.bytes, out.len() * 8);
                    get(device, &out.buffer)
                });
                assert!(a == b, "{n} elements of kind {kind} from {offset}, NA {keep_na}");
            }
        }
    }
}

/// The result's bytes on both devices. NaNs of half types are replaced by a single one, since their sign and payload
/// are not preserved in registers.
fn both(compute: impl Fn(&'static dyn Backend) -> Array) -> [Vec<u8>; 2] {
    let (cpu, cuda) = devices();
    [cpu, cuda].map(|device| {
        let view = compute(device).contiguous().unwrap();
        let infinity = match view.dtype {
            DType::Float16 => 0x7C00,
            DType::BFloat16 => 0x7F80,
            _ => u16::MAX,
        };
        let mut bytes = crate::array::host_bytes(&view).unwrap();
        for half in bytes.chunks_exact_mut(2).filter(|_| infinity < u16::MAX) {
            if u16::from_ne_bytes([half[0], half[1]]) & 0x7FFF > infinity {
                half.copy_from_slice(&0x7FFFu16.to_ne_bytes());
            }
        }
        bytes
    })
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn what_a_mask_chooses_is_the_cpus() {
    let mut random = Random(7);
    for dtype in DType::ALL {
        for &n in lengths() {
            let raw = elements(&mut random, dtype, n, true);
            let mask: Vec<u8> = (0..n).map(|_| random.below(3) as u8).collect();
            for offset in [0, 1] {
                let [a, b] = both(|device| {
                    let x = Array::from_view(put(device, &raw, dtype, offset));
                    // a lazy value where the cast changes the type, so that the mask's kernel computes it
                    let x = x.cast(if dtype == DType::Bool8 { DType::Int32 } else { dtype }, None).unwrap();
                    x.mask(&Array::from_view(put(device, &mask, DType::Bool8, offset))).unwrap()
                });
                assert!(a == b, "{n} of {dtype} from {offset}");
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn transposed_inputs_are_the_cpus() {
    let mut random = Random(8);
    for dtype in DType::ALL {
        for dim in [[64, 64, 1], [65, 33, 1], [1000, 16, 1], [17, 129, 3], [16, 2, 100], [31, 40, 40]] {
            for order in [[1, 0, 2], [2, 1, 0], [2, 0, 1]] {
                let raw = elements(&mut random, dtype, dim.iter().product(), true);
                let [a, b] = both(|device| {
                    let x = Array::from_view(put(device, &raw, dtype, 1));
                    let t = x.view(&dim, &order.map(|k| verdigris_ops::layout::Axis::whole(k, dim[k]))).unwrap();
                    let same = crate::array::Operand::Array;
                    Array::apply(verdigris_ops::id::EQ, &[same(t), same(x)], None).unwrap()
                });
                assert!(a == b, "{dim:?} by {order:?} of {dtype}, beside itself");
                let [a, b] = both(|device| {
                    let x = Array::from_view(put(device, &raw, dtype, 1));
                    x.view(&dim, &order.map(|k| verdigris_ops::layout::Axis::whole(k, dim[k]))).unwrap()
                });
                assert!(a == b, "{dim:?} by {order:?} of {dtype}");
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn random_numbers_are_the_cpus() {
    for op in verdigris_ops::OpId::all().filter(|op| op.row().pack().is_some()) {
        let class = op.row().result_class(verdigris_ops::dtype::Class::I64);
        let dtype = verdigris_ops::dtype::natural_dtype(class);
        for (n, to) in [(1, dtype), (7, dtype), (100_003, dtype), (100_003, DType::Float16), (100_003, DType::Float64)]
        {
            let [a, b] = both(|device| {
                let key = [verdigris_ops::scalar::Scalar::I64(0x0123_4567_89AB_CDEF)];
                Array::source(op, verdigris_ops::dtype::Class::I64, to, n, device.device(), &key).unwrap()
            });
            assert!(a == b, "{n} {} as {to}", op.row().name);
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn sort_is_the_cpus() {
    let (cpu, cuda) = devices();
    let mut random = Random(4);
    for (d, dtype) in DType::ALL.into_iter().filter(|d| !matches!(d, DType::Complex64 | DType::Complex128)).enumerate()
    {
        for (k, &n) in lengths().iter().enumerate() {
            if !in_turn(d + k, 3) {
                continue;
            }
            for narrow in [false, true] {
                let raw = elements(&mut random, dtype, n, narrow);
                for (decreasing, with_positions) in [(false, false), (false, true), (true, false), (true, true)] {
                    let [a, b] = [cpu, cuda].map(|device| {
                        let (sorted, at) =
                            device.sort(&put(device, &raw, dtype, 1), decreasing, with_positions).unwrap();
                        assert_eq!(at.is_some(), with_positions);
                        (get(device, &sorted.buffer), at.map(|view| get(device, &view.buffer)))
                    });
                    assert!(a.1 == b.1, "positions of {n} {dtype}, narrow {narrow}, decreasing {decreasing}");
                    assert!(
                        a.0 == b.0,
                        "{n} {dtype}, narrow {narrow}, decreasing {decreasing}, positions {with_positions}"
                    );
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn sort_gives_the_same_on_every_run() {
    let (_, cuda) = devices();
    let n = if emulated() { 200_000 } else { 3_000_000 };
    let raw = elements(&mut Random(5), DType::Float32, n, true);
    let view = put(cuda, &raw, DType::Float32, 0);
    let run = || {
        let (sorted, at) = cuda.sort(&view, false, true).unwrap();
        (get(cuda, &sorted.buffer), get(cuda, &at.unwrap().buffer))
    };
    let first = run();
    assert!((0..3).all(|_| run() == first));
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn complex_values_are_refused() {
    let (_, cuda) = devices();
    let view = put(cuda, &[0; 32], DType::Complex128, 0);
    assert_eq!(cuda.sort(&view, false, false).err().unwrap().kind, verdigris_ops::error::Kind::DType);
}

/// A matrix of small integers, whose products are exact in every type.
fn matrix(random: &mut Random, dtype: DType, n: usize) -> (Vec<u8>, Vec<[f64; 2]>) {
    let (mut raw, mut values) = (Vec::new(), Vec::new());
    let complex = matches!(dtype, DType::Complex64 | DType::Complex128);
    for _ in 0..n {
        let mut part = || random.below(5) as f64 - 2.0;
        let z = [part(), if complex { part() } else { 0.0 }];
        values.push(z);
        match dtype {
            DType::Float16 => raw.extend(half::f16::from_f64(z[0]).to_ne_bytes()),
            DType::BFloat16 => raw.extend(half::bf16::from_f64(z[0]).to_ne_bytes()),
            DType::Float32 => raw.extend((z[0] as f32).to_ne_bytes()),
            DType::Float64 => raw.extend(z[0].to_ne_bytes()),
            DType::Complex64 => z.iter().for_each(|x| raw.extend((*x as f32).to_ne_bytes())),
            _ => z.iter().for_each(|x| raw.extend(x.to_ne_bytes())),
        }
    }
    (raw, values)
}

fn numbers(raw: &[u8], dtype: DType) -> Vec<[f64; 2]> {
    let f32_at = |b: &[u8]| f64::from(f32::from_ne_bytes(b.try_into().unwrap()));
    let f64_at = |b: &[u8]| f64::from_ne_bytes(b.try_into().unwrap());
    raw.chunks_exact(dtype.size())
        .map(|b| match dtype {
            DType::Float16 => [half::f16::from_ne_bytes([b[0], b[1]]).to_f64(), 0.0],
            DType::BFloat16 => [half::bf16::from_ne_bytes([b[0], b[1]]).to_f64(), 0.0],
            DType::Float32 => [f32_at(b), 0.0],
            DType::Float64 => [f64_at(b), 0.0],
            DType::Complex64 => [f32_at(&b[..4]), f32_at(&b[4..])],
            _ => [f64_at(&b[..8]), f64_at(&b[8..])],
        })
        .collect()
}

fn stored(view: &View, transposed: bool, leading: usize) -> Matrix {
    Matrix { view: view.clone(), transposed, leading }
}

fn plain<'a>(a: &'a Matrix, b: &'a Matrix, [m, n, k]: [usize; 3]) -> Product<'a> {
    Product { a, b, m, n, k, batch: Batch::ONE, is_self_product: false, upper: false, precision: Precision::Float32 }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn products_are_exact_on_small_whole_numbers() {
    let (_, cuda) = devices();
    let mut random = Random(6);
    let dtypes = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Complex64, DType::Complex128];
    for dtype in dtypes {
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (17, 1, 33), (1, 9, 40), (64, 63, 40), (5, 4, 0), (0, 4, 3), (4, 0, 3)]
        {
            let (raw_a, a) = matrix(&mut random, dtype, m * k);
            let (raw_b, b) = matrix(&mut random, dtype, k * n);
            for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let (view_a, view_b) = (put(cuda, &raw_a, dtype, 1), put(cuda, &raw_b, dtype, 3));
                let out: Arc<Buffer> = cuda.allocate(m * n * dtype.size()).unwrap();
                let a_stored = stored(&view_a, transpose_a, if transpose_a { k } else { m });
                let b_stored = stored(&view_b, transpose_b, if transpose_b { n } else { k });
                let product = plain(&a_stored, &b_stored, [m, n, k]);
                assert_eq!(cuda.multiply(&product, &out).unwrap(), Multiplied::Whole);
                let got = numbers(&get(cuda, &out), dtype);
                for j in 0..n {
                    for i in 0..m {
                        let mut sum = [0.0; 2];
                        for l in 0..k {
                            let x = a[if transpose_a { l + i * k } else { i + l * m }];
                            let y = b[if transpose_b { j + l * n } else { l + j * k }];
                            sum[0] += x[0] * y[0] - x[1] * y[1];
                            sum[1] += x[0] * y[1] + x[1] * y[0];
                        }
                        assert_eq!(
                            got[i + j * m],
                            sum,
                            "{dtype} {m} x {k} x {n}, {transpose_a} {transpose_b}, at {i}, {j}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn float32_products_do_not_round_to_tf32() {
    let (_, cuda) = devices();
    // 1 + 2^-20 has more bits than TF32 keeps
    let x = 1.0f32 + 1.0 / 1_048_576.0;
    let n = 64;
    let a: Vec<u8> = std::iter::repeat_n(x.to_ne_bytes(), n * n).flatten().collect();
    let mut b = vec![0u8; n * n * 4];
    for i in 0..n {
        b[(i + i * n) * 4..][..4].copy_from_slice(&1.0f32.to_ne_bytes());
    }
    let (a, b) = (put(cuda, &a, DType::Float32, 0), put(cuda, &b, DType::Float32, 0));
    let out = cuda.allocate(n * n * 4).unwrap();
    let (a, b) = (stored(&a, false, n), stored(&b, false, n));
    cuda.multiply(&plain(&a, &b, [n, n, n]), &out).unwrap();
    assert!(numbers(&get(cuda, &out), DType::Float32).iter().all(|z| z[0] == f64::from(x)));
    // with precision Tf32 the device may round
    cuda.multiply(&Product { precision: Precision::Tf32, ..plain(&a, &b, [n, n, n]) }, &out).unwrap();
    assert!(numbers(&get(cuda, &out), DType::Float32).iter().all(|z| (z[0] - f64::from(x)).abs() < 1e-3));
}

#[test]
#[ignore = "needs NVRTC: VERDIGRIS_NVRTC is the path of libnvrtc"]
fn every_kernel_compiles_for_every_generation() {
    let nvrtc = std::env::var_os("VERDIGRIS_NVRTC").expect("VERDIGRIS_NVRTC is the path of libnvrtc");
    library::set_search_paths(SearchPaths { option: vec![nvrtc.into()], ..SearchPaths::default() });
    let mut sources = Vec::new();
    for size in [1, 2, 4, 8, 16] {
        sources.push((format!("gather {size}"), gather::gather_source(size)));
        for wide in [false, true] {
            sources.push((format!("scatter {size} {wide}"), gather::scatter_source(size, wide)));
        }
    }
    for dtype in DType::ALL.into_iter().filter(|d| !matches!(d, DType::Complex64 | DType::Complex128)) {
        // three ranges of lengths: below 2^30 elements, below 2^32, and above
        for (positions, wide_positions, wide_counts) in
            [(false, false, false), (true, false, false), (false, false, true), (true, false, true), (true, true, true)]
        {
            let form = sort::Form { dtype, positions, wide_positions, wide_counts };
            sources.push((format!("{form:?}"), form.source()));
        }
    }
    let is_new = |s: &super::prebuilt_list::Prebuilt| {
        ["count ", "search ", "rank ", "unique ", " by code "].iter().any(|n| s.name.contains(n))
    };
    sources.extend(super::prebuilt_list::sources().into_iter().filter(is_new).map(|s| (s.name, s.source)));
    let mut jobs = Vec::new();
    let older = [75, 80, 86, 89].into_iter().enumerate().filter(|&(k, _)| in_turn(k, 4));
    for arch in older.map(|(_, arch)| arch).chain([90]) {
        // only generation 90 compiles all kernels; the others compile one of each kind
        let seen = |name: &str| arch == 90 || !name.contains("Form") || name.contains("Float64");
        jobs.extend(sources.iter().filter(|(name, _)| seen(name)).map(|(name, source)| (arch, name, source)));
    }
    let failed = Mutex::new(Vec::new());
    parallel(jobs.len(), 1, |from, to| {
        for (arch, name, source) in &jobs[from..to] {
            if let Err(error) = compile::compile(source, Target::Cubin(*arch)) {
                let log = error.detail.clone().unwrap_or_default();
                lock(&failed).push(format!("{name} for sm_{arch}: {error}\n{log}"));
            }
        }
    })
    .unwrap();
    assert_eq!(lock(&failed).join("\n"), "");
}
