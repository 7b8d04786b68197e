//! The cuda device compared with the cpu device: one body runs on both.
//!
//! Needs a device, and is ignored without: `VERDIGRIS_TEST_DEVICE=cuda cargo test ... -- --ignored`.
#![cfg(not(target_os = "macos"))]

mod turn;

use std::sync::atomic::Ordering;

use turn::in_turn;
use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{host_bytes, Array, Operand};
use verdigris_engine::backend::cuda::compile::tier;
use verdigris_engine::backend::{self, cuda};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Kind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32, NA_I64};
use verdigris_ops::{Op, OpId, Rule};

const CUDA: Device = Device::Cuda(0);

/// What each test begins with.
fn start() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    // nothing is compiled beside the end of this process, whose threads do not know of each other
    tier::set_tier(tier::Tier::Compiled);
}

/// Whether a test takes so many elements: the emulated device (tests/emulator) has no time for millions.
fn takes(n: usize) -> bool {
    n <= 110_000 || std::env::var_os("VERDIGRIS_EMULATOR").is_none()
}

/// Marsaglia's xorshift, so that every run sees the same numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

const EDGES: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -0.5,
    3.0,
    10.0,
    100.5,
    1e-300,
    1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    NA_F64,
];

fn doubles(n: usize, seed: u64) -> Vec<f64> {
    let mut r = Random(seed | 1);
    (0..n)
        .map(|_| match r.next() % 8 {
            0 => EDGES[(r.next() % 16) as usize],
            1 => (r.next() % 41) as f64 - 20.0,
            2 => (r.uniform() - 0.5) * 1e4,
            3 => r.uniform(),
            _ => (r.uniform() - 0.5) * 20.0,
        })
        .collect()
}

fn integers(n: usize, seed: u64) -> Vec<i32> {
    let mut r = Random(seed | 1);
    (0..n)
        .map(|_| match r.next() % 16 {
            0 => NA_I32,
            1 => [i32::MAX, -i32::MAX, 0, 1, -1, 65_536, 46_341, 255][(r.next() % 8) as usize],
            2..=8 => (r.next() % 7) as i32 - 3,
            _ => (r.next() % 2001) as i32 - 1000,
        })
        .collect()
}

/// `n` random elements of a dtype, the same on every device.
fn random(dtype: DType, n: usize, seed: u64, device: Device) -> Array {
    match dtype {
        DType::Bool8 => {
            let x: Vec<i32> = integers(n, seed).into_iter().map(|x| if x == NA_I32 { x } else { x & 1 }).collect();
            Array::upload(Host::Logical(&x), None, device, None)
        }
        DType::Int8 | DType::UInt8 | DType::Int16 | DType::Int32 => {
            let limit = match dtype {
                DType::UInt8 => 255,
                DType::Int8 => 127,
                _ => i32::MAX,
            };
            let x: Vec<i32> = integers(n, seed)
                .into_iter()
                .map(|x| match dtype {
                    DType::Int32 => x,
                    DType::UInt8 => (x & 0x7FFF_FFFF) % (limit + 1),
                    _ if x == NA_I32 => x,
                    _ => x % limit.min(30_000),
                })
                .collect();
            Array::upload(Host::Integer(&x), Some(dtype), device, None)
        }
        DType::Int64 => {
            let x: Vec<i64> = integers(n, seed)
                .into_iter()
                .map(|x| if x == NA_I32 { NA_I64 } else { x as i64 * 3_000_000_019 })
                .collect();
            Array::upload(Host::Integer64(&x), None, device, None)
        }
        DType::Complex64 | DType::Complex128 => {
            let (re, im) = (doubles(n, seed), doubles(n, seed + 77));
            // edge values of complex functions are a matter of their own; here both parts are finite
            let finite = |x: f64| if x.abs() < 1e100 { x } else { 0.25 };
            let x: Vec<[f64; 2]> = re.iter().zip(&im).map(|(&a, &b)| [finite(a), finite(b)]).collect();
            Array::upload(Host::Complex(&x), Some(dtype), device, None)
        }
        _ => Array::upload(Host::Double(&doubles(n, seed)), Some(dtype), device, None),
    }
    .unwrap()
}

/// The elements as doubles, two for a complex one, and the relative size of a unit in the last place.
fn values(x: &Array) -> Result<(Vec<f64>, f64)> {
    let view = x.contiguous()?;
    let raw = host_bytes(&view)?;
    fn each<const N: usize>(raw: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        raw.chunks_exact(N).map(|c| f(c.try_into().unwrap())).collect()
    }
    let (fine, coarse) = (f64::EPSILON, f32::EPSILON as f64);
    Ok(match view.dtype {
        DType::Bool8 | DType::UInt8 => (each(&raw, |[b]: [u8; 1]| b.into()), 0.0),
        DType::Int8 => (each(&raw, |b| i8::from_ne_bytes(b).into()), 0.0),
        DType::Int16 => (each(&raw, |b| i16::from_ne_bytes(b).into()), 0.0),
        DType::Int32 => (each(&raw, |b| i32::from_ne_bytes(b).into()), 0.0),
        // compared by value below 2^53, and the tests' values are
        DType::Int64 => (each(&raw, |b| i64::from_ne_bytes(b) as f64), 0.0),
        DType::Float16 => (each(&raw, |b| half::f16::from_ne_bytes(b).into()), 1.0 / 1024.0),
        DType::BFloat16 => (each(&raw, |b| half::bf16::from_ne_bytes(b).into()), 1.0 / 128.0),
        DType::Float32 | DType::Complex64 => (each(&raw, |b| f32::from_ne_bytes(b).into()), coarse),
        DType::Float64 | DType::Complex128 => (each(&raw, f64::from_ne_bytes), fine),
    })
}

/// The greatest difference, in units in the last place of the larger; an infinite one where only one is NaN.
fn distance(a: &[f64], b: &[f64], ulp: f64, pairs: bool) -> (f64, usize) {
    let mut worst = (0.0, 0);
    for k in 0..a.len() {
        let (x, y) = (a[k], b[k]);
        if x == y || (x.is_nan() && y.is_nan()) {
            continue;
        }
        // the parts of a complex number are measured against its size
        let size = if pairs { a[k & !1].hypot(a[k | 1]) } else { x.abs().max(y.abs()) };
        let d = if x.is_nan() || y.is_nan() || ulp == 0.0 || size.is_infinite() {
            f64::INFINITY
        } else {
            (x - y).abs() / (ulp * size)
        };
        if d > worst.0 {
            worst = (d, k);
        }
    }
    worst
}

/// Runs a body on both devices and compares, allowing `ulp` units in the last place.
fn compare(what: &str, ulp: f64, body: impl Fn(Device) -> Result<Array>) -> std::result::Result<f64, String> {
    let (host, card) = match (body(Device::Cpu), body(CUDA)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), Err(b)) if a.kind == b.kind => return Ok(0.0),
        (a, b) => return Err(format!("{what}: cpu {:?}, cuda {:?}", a.err(), b.err().map(|e| (e.clone(), e.detail)))),
    };
    if (host.dtype(), host.len()) != (card.dtype(), card.len()) {
        return Err(format!("{what}: {} x {} and {} x {}", host.dtype(), host.len(), card.dtype(), card.len()));
    }
    let ((a, unit), (b, _)) = match (values(&host), values(&card)) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => return Err(format!("{what}: cpu {:?}, cuda {:?}", a.err(), b.err().map(|e| (e.clone(), e.detail)))),
    };
    let pairs = matches!(host.dtype(), DType::Complex64 | DType::Complex128);
    let (worst, at) = distance(&a, &b, unit, pairs);
    if worst > ulp {
        // what a second look finds tells a wrong value from a wrong copy
        let again = values(&card).map_or(f64::NAN, |(again, _)| again[at]);
        return Err(format!(
            "{what}: element {at}: cpu {:e}, cuda {:e} (again {again:e}), {worst:.1} ulp of {ulp} allowed",
            a[at], b[at]
        ));
    }
    Ok(worst)
}

fn report(failures: Vec<String>) {
    for failure in failures.iter().take(40) {
        eprintln!("{failure}");
    }
    assert!(failures.is_empty(), "{} comparisons failed", failures.len());
}

/// Units in the last place that the devices may differ by: each may be off by the row's allowance.
fn allowed(row: &Op, dtype: DType) -> f64 {
    let complex = matches!(dtype, DType::Complex64 | DType::Complex128);
    2.0 * match row.name {
        // the exponent multiplies what its logarithm is off by, here up to e^520
        "pow" if complex => 8192.0,
        // hypot() is a library's
        "abs" | "sqrt" if complex => 1.0,
        // mean + sd * quantile, which may cancel
        "qnorm_upper_log" => 256.0,
        _ => row.ulp,
    }
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_every_row_in_every_type() {
    start();
    let mut failures = Vec::new();
    for op in OpId::all() {
        let row = op.row();
        if row.rule.uses_index() {
            continue;
        }
        for dtype in DType::ALL {
            let outcome = compare(&format!("{} {dtype}", row.name), allowed(row, dtype), |device| {
                let operands: Vec<Operand> = (0..row.arity as u64)
                    .map(|k| {
                        let dtype = if row.rule == Rule::Select && k == 0 { DType::Bool8 } else { dtype };
                        Operand::Array(random(dtype, 4099, 1000 + k, device))
                    })
                    .collect();
                Array::apply(op, &operands, None)
            });
            failures.extend(outcome.err());
        }
    }
    report(failures);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_sources_by_index() {
    start();
    let mut failures = Vec::new();
    for (name, class, dtype, scalars) in [
        ("seq", DType::Int32.class(), DType::Int32, vec![Scalar::I32(5), Scalar::I32(-3)]),
        ("seq", DType::Float64.class(), DType::Float64, vec![Scalar::F64(0.5), Scalar::F64(0.1)]),
        ("constant", DType::Complex128.class(), DType::Complex128, vec![Scalar::C128([1.0, -2.0])]),
        ("runif", DType::Int64.class(), DType::Float64, vec![Scalar::I64(42)]),
        ("runif", DType::Int64.class(), DType::Float32, vec![Scalar::I64(42)]),
    ] {
        let op = OpId::find(name).unwrap();
        let body = |device| Array::source(op, class, dtype, 100_003, device, &scalars);
        failures.extend(compare(name, op.row().ulp, body).err());
    }
    report(failures);
}

fn apply(name: &str, operands: &[&Array]) -> Result<Array> {
    let operands: Vec<Operand> = operands.iter().map(|a| Operand::Array((*a).clone())).collect();
    Array::apply(OpId::find(name).unwrap(), &operands, None)
}

fn accesses() -> Vec<String> {
    let mut failures = Vec::new();
    for dtype in [DType::Float64, DType::Float32, DType::Float16, DType::Bool8, DType::Complex128] {
        for n in [1usize, 2, 3, 15, 16, 17, 255, 1024, 4097, 100_000] {
            failures.extend(
                compare(&format!("{dtype} {n} + {n}"), 0.0, |d| {
                    apply("add", &[&random(dtype, n, 1, d), &random(dtype, n, 2, d)])
                })
                .err(),
            );
            for m in [1, 2, 3, 8, 1000] {
                failures.extend(
                    compare(&format!("{dtype} {n} + {m} recycled"), 0.0, |d| {
                        apply("add", &[&random(dtype, n, 1, d), &random(dtype, m, 2, d)])
                    })
                    .err(),
                );
            }
            // an offset that no pack starts at
            failures.extend(
                compare(&format!("{dtype} {n} from the second on"), 0.0, |d| {
                    let x =
                        random(dtype, n + 1, 3, d).view(&[n + 1], &[Axis { of: 0, start: 1, step: 1, extent: n }])?;
                    apply("add", &[&x, &random(dtype, n, 2, d)])
                })
                .err(),
            );
            failures.extend(
                compare(&format!("{dtype} {n} reversed, and by threes"), 0.0, |d| {
                    let x = random(dtype, n, 3, d).view(&[n], &[Axis { of: 0, start: n - 1, step: -1, extent: n }])?;
                    let y =
                        random(dtype, 3 * n, 4, d).view(&[3 * n], &[Axis { of: 0, start: 2, step: 3, extent: n }])?;
                    apply("add", &[&x, &y])
                })
                .err(),
            );
        }
        for (rows, columns) in [(1, 7), (5, 3), (64, 64), (33, 257), (1000, 40)] {
            failures.extend(
                compare(&format!("{dtype} t({rows} x {columns}) + x"), 0.0, |d| {
                    let x = random(dtype, rows * columns, 5, d);
                    let t = x.view(&[rows, columns], &[Axis::whole(1, columns), Axis::whole(0, rows)])?;
                    apply("add", &[&t, &random(dtype, rows * columns, 6, d)])
                })
                .err(),
            );
            failures.extend(
                compare(&format!("{dtype} part of {rows} x {columns}"), 0.0, |d| {
                    let x = random(dtype, rows * columns, 5, d);
                    let part = [
                        Axis { of: 0, start: 0, step: 1, extent: rows / 2 + 1 },
                        Axis { of: 1, start: 1, step: 1, extent: columns - 1 },
                    ];
                    let part = x.view(&[rows, columns], &part)?;
                    apply("add", &[&part, &part])
                })
                .err(),
            );
            failures.extend(
                compare(&format!("{dtype} aperm of {rows} x {columns} x 6"), 0.0, |d| {
                    let x = random(dtype, rows * columns * 6, 5, d);
                    let axes = [Axis::whole(2, 6), Axis::whole(0, rows), Axis::whole(1, columns)];
                    x.view(&[rows, columns, 6], &axes)
                })
                .err(),
            );
        }
    }
    failures
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_every_access_in_both_widths() {
    start();
    let mut failures = accesses();
    cuda::codegen::parameters::ALWAYS_WIDE.store(true, Ordering::Relaxed);
    failures.extend(accesses().into_iter().map(|f| format!("64-bit indices: {f}")));
    cuda::codegen::parameters::ALWAYS_WIDE.store(false, Ordering::Relaxed);
    report(failures);
}

/// Whether a product of complex numbers is Inf or NaN as the order of multiplication has it.
fn overflows(reduction: Reduction, dtype: DType, n: usize) -> bool {
    reduction == Reduction::Product && matches!(dtype, DType::Complex64 | DType::Complex128) && n > 100
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_whole_reductions() {
    start();
    let mut failures = Vec::new();
    for (r, reduction) in Reduction::ALL.into_iter().enumerate() {
        for (_, dtype) in DType::ALL.into_iter().enumerate().filter(|(d, _)| in_turn(r + d, 4)) {
            for n in [0usize, 1, 2, 7, 255, 4096, 100_003, 3_000_001] {
                if overflows(reduction, dtype, n) || !takes(n) {
                    continue;
                }
                for na_rm in [false, true] {
                    let run = |device| random(dtype, n, 9, device).reduce(reduction, na_rm);
                    let what = format!("{} of {n} {dtype}, na.rm {na_rm}", reduction.name());
                    let (host, card, again) = match (run(Device::Cpu), run(CUDA), run(CUDA)) {
                        (Ok(a), Ok(b), Ok(c)) => (a, b, c),
                        (Err(_), Err(_), _) => continue,
                        (a, b, _) => {
                            failures.push(format!("{what}: cpu {:?}, cuda {:?}", a.err(), b.err()));
                            continue;
                        }
                    };
                    let bytes = host.0.size() * reduction.width();
                    if card.1.value[..bytes] != again.1.value[..bytes] {
                        failures.push(format!("{what}: two runs differ"));
                    }
                    if host.1.status != card.1.status {
                        failures.push(format!("{what}: status {} and {}", host.1.status, card.1.status));
                    }
                    let parts = |value: &[u8]| -> Vec<f64> {
                        let each = if host.0 == DType::Complex128 { 8 } else { host.0.size() };
                        value[..bytes]
                            .chunks_exact(each)
                            .map(|c| match host.0 {
                                DType::Int32 => i32::from_ne_bytes(c.try_into().unwrap()).into(),
                                DType::Int64 => i64::from_ne_bytes(c.try_into().unwrap()) as f64,
                                DType::Float32 => f32::from_ne_bytes(c.try_into().unwrap()).into(),
                                _ => f64::from_ne_bytes(c.try_into().unwrap()),
                            })
                            .collect()
                    };
                    let (a, b) = (parts(&host.1.value), parts(&card.1.value));
                    for (x, y) in a.iter().zip(&b) {
                        let same =
                            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-12 * x.abs().max(y.abs());
                        if !same {
                            failures.push(format!("{what}: cpu {x:e}, cuda {y:e}"));
                        }
                    }
                }
            }
        }
    }
    report(failures);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_reductions_within_groups() {
    start();
    let mut failures = Vec::new();
    let shapes = [
        (1, 1, 1),
        (3, 1, 1),
        (1, 5, 1),
        (1000, 3, 1),
        (100, 17, 1),
        (50, 100, 1),
        (7, 1001, 1),
        (3, 70_001, 1),
        (40_000, 5, 1),
        (1, 1, 5),
        (1, 7, 2),
        (1, 100, 3),
        (1, 1000, 10),
        (1, 33, 100),
        (1, 50_000, 8),
        (1, 300, 1001),
        (1, 7, 40_000),
        (5, 6, 7),
        (100, 3, 4),
        (3, 1000, 64),
        (2, 0, 3),
    ];
    let dtypes =
        [DType::Bool8, DType::Int32, DType::Int64, DType::Float16, DType::Float32, DType::Float64, DType::Complex128];
    for (r, reduction) in Reduction::ALL.into_iter().enumerate() {
        // each has kernels of its own, whose compilation is what takes time
        for (_, dtype) in dtypes.into_iter().enumerate().filter(|(d, _)| in_turn(r + d, 4)) {
            for (k, &(outer, length, inner)) in shapes.iter().enumerate() {
                if overflows(reduction, dtype, length) || !takes(outer * length * inner) {
                    continue;
                }
                let groups = Groups { outer, length, inner };
                let what = format!("{} of {dtype} within {groups:?}", reduction.name());
                // sums near 0 lose relative accuracy, but float64 ones are double-double
                let outcome = compare(&what, 4096.0, |device| {
                    random(dtype, outer * length * inner, 11, device).reduce_groups(reduction, k % 2 == 0, groups)
                });
                failures.extend(outcome.err());
            }
        }
    }
    report(failures);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_fused_expressions() {
    start();
    let mut failures = Vec::new();
    let names: Vec<&str> = ["add", "sub", "mul", "div"].into_iter().filter(|n| OpId::find(n).is_some()).collect();
    for seed in 0..40u64 {
        let dtype = [DType::Float64, DType::Float32, DType::Int32][seed as usize % 3];
        let n = [100_003usize, 4096, 77][seed as usize / 3 % 3];
        let body = |device| -> Result<Array> {
            let mut r = Random(seed * 2 + 1);
            let mut pool: Vec<Array> = [n, n, 1, n.div_ceil(3)]
                .into_iter()
                .enumerate()
                .map(|(k, m)| random(dtype, m, 20 + k as u64, device))
                .collect();
            for _ in 0..12 {
                let (a, b) = (r.next() as usize % pool.len(), r.next() as usize % pool.len());
                pool.push(apply(names[r.next() as usize % names.len()], &[&pool[a], &pool[b]])?);
            }
            Ok(pool.pop().unwrap())
        };
        failures.extend(compare(&format!("expression {seed} in {dtype}"), 0.0, body).err());
        // ... and as the prologue of a reduction
        let (host, card) = (body(Device::Cpu).unwrap(), body(CUDA).unwrap());
        if dtype == DType::Int32 {
            let (a, b) = (host.reduce(Reduction::Max, true).unwrap(), card.reduce(Reduction::Max, true).unwrap());
            let bytes = a.0.size();
            if a.1.value[..bytes] != b.1.value[..bytes] {
                failures.push(format!("max of expression {seed}"));
            }
        }
    }
    report(failures);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_warnings_reach_their_sites() {
    start();
    use std::sync::Arc;
    use verdigris_engine::plan::warning;
    use verdigris_ops::call_site::CallSite;
    let sqrt = OpId::find("sqrt").unwrap();
    let note = |x: &[f64], name: &'static str| {
        let x = Array::upload(Host::Double(x), None, CUDA, None).unwrap();
        Array::apply(sqrt, &[Operand::Array(x)], Some(Arc::new(name) as CallSite)).unwrap()
    };
    let mine = || {
        let mut names: Vec<&str> =
            warning::take().iter().filter_map(|w| w.site.as_ref()?.downcast_ref::<&'static str>().copied()).collect();
        names.sort();
        names
    };
    let mut bad = vec![4.0; 100_000];
    bad[77_777] = -1.0;
    let (fine, first, second) = (note(&[4.0; 10], "fine"), note(&bad, "first"), note(&[-1.0], "second"));
    for x in [&fine, &first, &second] {
        x.evaluate().unwrap();
    }
    backend::of(CUDA).unwrap().synchronize().unwrap();
    assert_eq!(mine(), ["first", "second"]);
    // a reduction evaluates its prologue, and the words are clean again
    let (good, third) = (note(&[1.0], "good"), note(&bad, "third"));
    good.reduce(Reduction::Sum, false).unwrap();
    third.reduce(Reduction::Sum, false).unwrap();
    assert_eq!(mine(), ["third"]);
    // more launches than the ring has words
    for _ in 0..5000 {
        note(&[1.0], "many").evaluate().unwrap();
    }
    note(&[-1.0], "last").evaluate().unwrap();
    backend::of(CUDA).unwrap().synchronize().unwrap();
    assert_eq!(mine(), ["last"]);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_transfers_keep_every_byte() {
    start();
    let card = backend::of(CUDA).unwrap();
    let mut r = Random(5);
    for n in [1usize, 3, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 37_000_001] {
        let bytes: Vec<u8> = (0..n + 8).map(|_| r.next() as u8).collect();
        let buffer = card.allocate(n + 64).unwrap();
        card.upload(&bytes[3..n + 3], &buffer, 5).unwrap();
        let other = card.allocate(n + 64).unwrap();
        card.copy(&buffer, 5, &other, 9, n).unwrap();
        let mut back = vec![0u8; n];
        card.download(&other, 9, &mut back).unwrap();
        assert!(back == bytes[3..n + 3], "{n} bytes");
    }
    let buffer = card.allocate(16).unwrap();
    assert_eq!(card.upload(&[0; 17], &buffer, 0).unwrap_err().kind, Kind::Argument);
}

#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn cuda_memory_is_counted_and_its_end_is_an_error() {
    start();
    let device = cuda::context::device::Cuda::of(0).unwrap();
    let total = device.memory().unwrap().total;
    let error = device.allocate(total as usize * 2).err().expect("there is no such room");
    assert_eq!(error.kind, Kind::Memory);
    eprintln!("{error}");
    // and the device still works
    let x = Array::upload(Host::Double(&[1.0, 2.0]), None, CUDA, None).unwrap();
    let (_, sum) = x.reduce(Reduction::Sum, false).unwrap();
    assert_eq!(f64::from_ne_bytes(sum.value[..8].try_into().unwrap()), 3.0);
    assert_eq!(backend::of(Device::Cuda(63)).err().expect("too far").kind, Kind::Device);
}
