//! Routines on the devices: the CUDA source and that it compiles, and that both devices give the same values, warnings
//! and failures. As in `cuda_compile.rs`, sources are compiled where `VERDIGRIS_NVRTC` is the path of libnvrtc; devices
//! are compared where `VERDIGRIS_TEST_DEVICE` is cuda.
#![cfg(not(target_os = "macos"))]

mod samples;

use std::path::Path;

use verdigris_compile::{intern, Interned, Routine, Source};
use verdigris_engine::array::function_call::{self, Given};
use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{host_bytes, Array, Operand};
use verdigris_engine::backend;
use verdigris_engine::backend::cuda::codegen::routine::define;
use verdigris_engine::backend::cuda::codegen::{self, Variant};
use verdigris_engine::backend::cuda::compile::{compile, known_archs, nvrtc::Target};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::plan::warning;
use verdigris_engine::plan::{Access, Call, Input, Instruction, Plan};
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32};

/// A plan that stores a routine's results.
fn plan(routine: Routine) -> Plan {
    let routine = intern(routine);
    let mut plan = Plan::default();
    let mut args = Vec::new();
    for p in &routine.parameters {
        args.push(plan.code.len() as u16);
        if let Source::Given(_) = p.source {
            plan.code.push(Instruction::Load(plan.inputs.len() as u16));
            plan.inputs.push(Input { dtype: p.dtype, access: Access::Linear });
        } else {
            plan.code.push(Instruction::Scalar(plan.scalars as u16, p.dtype.class()));
            plan.scalars += 1;
        }
    }
    let mut tables = Vec::new();
    for table in &routine.tables {
        tables.push(plan.inputs.len() as u16);
        plan.inputs.push(Input { dtype: table.dtype, access: Access::Gathered });
    }
    let call = plan.code.len() as u16;
    let (args, tables) = (args.into(), tables.into());
    plan.code.push(Instruction::Call(Box::new(Call { routine: Interned(routine), args, tables })));
    for (k, (_, dtype)) in routine.results.iter().enumerate() {
        plan.outputs.push((plan.code.len() as u16, *dtype));
        plan.code.push(Instruction::Result { call, result: k as u8 });
    }
    plan
}

/// Writes each kernel's source to the folder that `VERDIGRIS_SOURCES` names.
#[test]
#[ignore = "needs NVRTC: VERDIGRIS_NVRTC is the path of libnvrtc"]
fn sources_compile_for_every_generation() {
    let path = std::env::var_os("VERDIGRIS_NVRTC").expect("VERDIGRIS_NVRTC is the path of libnvrtc");
    std::env::set_var("VERDIGRIS_CUDA_PATH", Path::new(&path).parent().expect("a path to a file"));
    let newest = known_archs().expect("NVRTC can be loaded").into_iter().max().expect("it knows an architecture");
    for routine in samples::all() {
        let name = routine.name.clone();
        let source = codegen::source(&plan(routine), Variant::default());
        for target in [Target::Cubin(90), Target::Ptx(75), Target::Ptx(newest)] {
            let image = compile(&source, target).unwrap_or_else(|error| {
                panic!("{name}, {target:?}: {error}\n{}\n{source}", error.detail.clone().unwrap_or_default())
            });
            if let Some(folder) = std::env::var_os("VERDIGRIS_SOURCES") {
                let file = Path::new(&folder).join(format!("{name}.{target:?}"));
                std::fs::write(file, image.bytes).expect("a file");
            }
        }
        if let Some(folder) = std::env::var_os("VERDIGRIS_SOURCES") {
            std::fs::write(Path::new(&folder).join(format!("{name}.cu")), source).expect("a file");
        }
    }
}

#[test]
fn a_function_reads_as_it_was_written() {
    let text = define(&samples::mandelbrot(1000), "mandelbrot_");
    println!("{text}");
    assert!(text.contains("// function(cr, ci) {"));
}

// ---- devices -------------------------------------------------------------------------------------------------

/// What a call gives: bytes of the results, then warnings and failures in order.
type Outcome = (Vec<Vec<u8>>, Vec<(String, bool)>);

/// Values to give: doubles, whole numbers, logical values or one number.
#[derive(Clone)]
enum Value {
    Doubles(Vec<f64>),
    Singles(Vec<f64>),
    Wholes(Vec<i32>),
    Logicals(Vec<i32>),
    Number(f64),
}

fn operand(value: &Value, device: Device) -> Operand {
    let upload = |host: Host, dtype| Operand::Array(Array::upload(host, dtype, device, None).expect("an upload"));
    match value {
        Value::Doubles(x) => upload(Host::Double(x), None),
        Value::Singles(x) => upload(Host::Double(x), Some(DType::Float32)),
        Value::Wholes(x) => upload(Host::Integer(x), None),
        Value::Logicals(x) => upload(Host::Logical(x), None),
        Value::Number(x) => Operand::Value(Scalar::F64(*x), Kind::Double),
    }
}

fn run(routine: &Routine, values: &[(Value, &[usize])], n: usize, device: Device) -> Outcome {
    warning::take();
    let operands: Vec<Operand> = values.iter().map(|(value, _)| operand(value, device)).collect();
    let given: Vec<Given> = operands.iter().zip(values).map(|(operand, (_, dim))| Given { operand, dim }).collect();
    let key = routine.draws().then_some(20_261_122);
    let results = function_call::call(intern(routine.clone()), &given, key, n, device, None).expect("recorded");
    let bytes =
        results.iter().map(|result| host_bytes(&result.contiguous().expect("values")).expect("bytes")).collect();
    backend::of(device).expect("a device").synchronize().expect("nothing fails");
    let mut noted: Vec<_> =
        warning::take().into_iter().map(|w| (w.message.to_string(), w.class == warning::Class::Error)).collect();
    noted.sort();
    (bytes, noted)
}

const EDGES: [f64; 14] =
    [0.0, -0.0, 1.0, -1.0, 0.3, 2.5, 3.0, 7.9, 1e300, -1e-310, f64::NAN, NA_F64, f64::INFINITY, f64::NEG_INFINITY];

/// The edges, each with each: `k`-th of two axes, and the number of them.
fn crossed(k: usize) -> Vec<f64> {
    let n = EDGES.len();
    (0..n * n).map(|at| EDGES[if k == 0 { at % n } else { at / n }]).collect()
}

/// A routine, what it is given with dimensions, and how many elements it gives.
type Case = (Routine, Vec<(Value, &'static [usize])>, usize);

fn cases() -> Vec<Case> {
    let n = 3000;
    let spread = |from: f64, to: f64| (0..n).map(|k| from + (to - from) * (k as f64) / (n as f64)).collect::<Vec<_>>();
    let wave: Vec<f64> = (0..n).map(|k| (k as f64 * 0.7).sin() * 1.3).collect();
    let (edges, short) = (EDGES.len() * EDGES.len(), 14);
    let whole = |values: &[i32]| Value::Wholes((0..short).map(|k| values[k % values.len()]).collect());
    let flags = Value::Logicals((0..edges as i32).map(|k| [0, 1, NA_I32][k as usize % 3]).collect());
    let matrix = (0..12).map(|k| if k == 5 { NA_F64 } else { f64::from(k) }).collect::<Vec<_>>();
    let table = || (Value::Doubles(matrix.clone()), &[3usize, 4][..]);
    let vector = || (Value::Wholes(vec![7, NA_I32, -9]), &[][..]);
    let x = |value| (value, &[][..]);
    vec![
        (samples::mandelbrot(60), vec![x(Value::Doubles(spread(-2.2, 0.8))), x(Value::Doubles(wave))], n),
        (samples::mandelbrot(60), vec![x(Value::Doubles(crossed(0))), x(Value::Doubles(crossed(1)))], edges),
        (
            samples::path(11),
            vec![x(Value::Doubles(spread(1.0, 2.0))), x(Value::Number(0.01)), x(Value::Number(0.2))],
            n,
        ),
        (
            samples::path(4),
            vec![x(Value::Doubles(EDGES.to_vec())), x(Value::Number(NA_F64)), x(Value::Number(0.2))],
            short,
        ),
        (
            samples::lookup(),
            vec![x(whole(&[1, 2, 3, NA_I32])), x(Value::Doubles(vec![1.0, 2.9, 4.0, NA_F64, 3.0])), table(), vector()],
            short,
        ),
        (
            samples::lookup(),
            vec![x(whole(&[1, 4, 0])), x(Value::Doubles(vec![1.0, -1.0, 4.0, 5.0])), table(), vector()],
            short,
        ),
        (samples::lookup(), vec![x(whole(&[1, 2])), x(Value::Doubles(EDGES.to_vec())), table(), vector()], short),
        (samples::lookup(), vec![x(whole(&[1])), x(Value::Number(1.0)), table(), (Value::Wholes(vec![]), &[])], short),
        (samples::total(), vec![x(Value::Doubles(EDGES.to_vec())), table()], short),
        (samples::total(), vec![x(Value::Doubles(EDGES.to_vec())), (Value::Doubles(vec![]), &[])], short),
        (samples::fibonacci(), vec![x(whole(&[1, 2, 3, 4, NA_I32, 1000, -1, 1]))], short),
        (samples::fibonacci(), vec![x(whole(&[1, 2, 3]))], short),
        (samples::draws(), vec![x(Value::Wholes((0..2000).map(|k| k % 13).collect()))], 2000),
        (samples::draws(), vec![x(whole(&[3, 0, -2, NA_I32]))], short),
        (samples::branches(), vec![x(Value::Doubles(crossed(0))), x(Value::Doubles(crossed(1))), x(flags)], edges),
        (
            samples::branches(),
            vec![
                x(Value::Doubles(spread(0.1, 30.0))),
                x(Value::Doubles(spread(9.0, 2.0))),
                x(Value::Logicals(vec![0])),
            ],
            n,
        ),
        (samples::clamp(), vec![x(Value::Singles(spread(-1.0, 1.0))), x(Value::Number(0.25))], n),
        (samples::clamp(), vec![x(Value::Singles(crossed(0))), x(Value::Singles(crossed(1)))], edges),
    ]
}

/// Bits of results as numbers that may be compared: elementary functions differ between devices by little.
fn near(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    // a routine's arithmetic is the machine's: where NaN meets NA, which of them is left depends on the device
    let same = |x: f64, y: f64| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    let close = |x: f64, y: f64| same(x, y) || (x - y).abs() <= 1e-13 * x.abs().max(y.abs());
    if dtype != DType::Float64 {
        return a == b;
    }
    let number = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().expect("eight"));
    a.chunks(8).zip(b.chunks(8)).all(|(x, y)| close(number(x), number(y)))
}

#[test]
fn both_devices_have_the_same_values_warnings_and_failures() {
    let cuda = std::env::var("VERDIGRIS_TEST_DEVICE").as_deref() == Ok("cuda");
    for (routine, values, n) in cases() {
        if cuda {
            compare(&routine, &values, n);
        } else {
            let (results, _) = run(&routine, &values, n, Device::Cpu);
            assert!(results.iter().zip(&routine.results).all(|(bytes, (_, dtype))| bytes.len() == n * dtype.size()));
        }
    }
}

fn compare(routine: &Routine, values: &[(Value, &[usize])], n: usize) {
    let (results, noted) = run(routine, values, n, Device::Cpu);
    let (found, noted_too) = run(routine, values, n, Device::Cuda(0));
    for (k, (_, dtype)) in routine.results.iter().enumerate() {
        let size = dtype.size();
        let element = |bytes: &[u8], at: usize| bytes[at * size..][..size].to_vec();
        let differs = |at: &usize| !near(*dtype, &element(&results[k], *at), &element(&found[k], *at));
        if let Some(at) = (0..n).find(differs) {
            let (x, y) = (element(&results[k], at), element(&found[k], at));
            let source = codegen::source(&plan(routine.clone()), Variant::default());
            panic!("{}, result {k}, element {at}: {x:x?} on the cpu, {y:x?}\n{routine}\n{source}", routine.name);
        }
    }
    assert_eq!(noted, noted_too, "{}", routine.name);
}

/// `VERDIGRIS_ROUTINES` says how many; compiling their kernels is what takes time.
#[test]
#[ignore = "needs a device: VERDIGRIS_TEST_DEVICE=cuda"]
fn random_routines_are_the_same_on_both_devices() {
    assert_eq!(std::env::var("VERDIGRIS_TEST_DEVICE").as_deref(), Ok("cuda"));
    let n = EDGES.len() * EDGES.len();
    let wholes = (0..n as i32).map(|k| [0, 1, -3, 5, NA_I32, i32::MAX, 2][k as usize % 7]).collect();
    let values = [
        (Value::Doubles(crossed(0)), &[][..]),
        (Value::Doubles(crossed(1)), &[][..]),
        (Value::Wholes(wholes), &[][..]),
        (Value::Doubles(vec![1.5, NA_F64, -2.0, f64::INFINITY]), &[][..]),
    ];
    let first = std::env::var("VERDIGRIS_ROUTINES_FROM").ok().and_then(|k| k.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("VERDIGRIS_ROUTINES").ok().and_then(|k| k.parse().ok()).unwrap_or(6);
    for seed in first..first + count {
        compare(&samples::random::routine(seed), &values, n);
    }
}

#[test]
fn the_cpu_has_rs_values() {
    let doubles =
        |bytes: &[u8]| bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight"))).collect::<Vec<_>>();
    let x = |value| (value, &[][..]);
    let (results, noted) =
        run(&samples::clamp(), &[x(Value::Singles(vec![-1.0, 0.5])), x(Value::Number(0.0))], 2, Device::Cpu);
    assert_eq!(
        (
            results[0].chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four"))).collect::<Vec<_>>(),
            noted.len()
        ),
        (vec![0.0, 0.5], 0)
    );
    let (results, _) = run(
        &samples::total(),
        &[x(Value::Doubles(vec![1.0, 2.0])), x(Value::Doubles(vec![10.0, 20.0, 30.0]))],
        2,
        Device::Cpu,
    );
    assert_eq!(doubles(&results[0]), [61.0, 62.0]);
}
