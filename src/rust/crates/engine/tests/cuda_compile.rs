//! Compiles the kernels that are written for plans, with NVRTC and without a device: every row of the
//! operation table in every class, every way of reading an input, every reduction in every form.
//!
//! Runs where `VERDIGRIS_NVRTC` is the path of libnvrtc. `VERDIGRIS_NVRTC_ARCHS` names the architectures
//! (default `90`), and `VERDIGRIS_NVRTC_TABLE` a file for each kernel's registers, stack and compile time.
#![cfg(not(target_os = "macos"))]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use verdigris_engine::array::{natural_dtype, Array, Host, Operand};
use verdigris_engine::backend::cuda::codegen::reduce::Form;
use verdigris_engine::backend::cuda::codegen::{self, Variant};
use verdigris_engine::backend::cuda::compile::{compile, Target};
use verdigris_engine::buffer::Device;
use verdigris_engine::dtype::{Class, DType, Kind};
use verdigris_engine::ops::OpId;
use verdigris_engine::plan::{Access, Input, Instruction, Plan};
use verdigris_engine::reduction::Reduction;
use verdigris_engine::scalar::Scalar;

const ACCESSES: [Access; 5] =
    [Access::Linear, Access::Broadcast, Access::Recycled, Access::Strided(2), Access::Strided(3)];

/// A plan of one operation; its array operands are read in turn by all ways there are, from `first` on.
fn single(op: OpId, class: Class, first: usize) -> Plan {
    let row = op.row();
    let mut plan = Plan::default();
    let mut args = [0; 3];
    for (k, arg) in args.iter_mut().enumerate().take(row.arity as usize) {
        let class = row.operand_class(k, class);
        *arg = plan.code.len() as u16;
        if row.group == verdigris_engine::ops::Group::Internal && is_source(op) {
            plan.code.push(Instruction::Scalar(plan.scalars as u16, class));
            plan.scalars += 1;
        } else {
            plan.code.push(Instruction::Load(plan.inputs.len() as u16));
            plan.inputs.push(Input { dtype: natural_dtype(class), access: ACCESSES[(first + k) % ACCESSES.len()] });
        }
    }
    plan.code.push(Instruction::Apply { op, class, args });
    plan.outputs.push((plan.code.len() as u16 - 1, natural_dtype(row.result_class(class))));
    plan
}

fn is_source(op: OpId) -> bool {
    use verdigris_engine::ops::Rule;
    matches!(op.row().rule, Rule::Source | Rule::Random)
}

/// A plan that stores one input as it is.
fn copy(dtype: DType, access: Access) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        scalars: 0,
    }
}

/// The plan of `sqrt(a*a + b*b)*2 - exp(-a)/(1 + abs(b))`, or of `(a - b)^2`.
fn fused(dtype: DType, long: bool) -> Plan {
    let make = || Array::upload(Host::Double(&[1.0; 16]), Some(dtype), Device::Cpu, None).unwrap();
    let (a, b) = (make(), make());
    let apply = |name: &str, operands: &[&Array]| {
        let operands: Vec<Operand> = operands.iter().map(|a| Operand::Array((*a).clone())).collect();
        Array::apply(OpId::find(name).unwrap(), &operands, None).unwrap()
    };
    let number = |name: &str, x: f64, a: &Array| {
        let operands = [Operand::Value(Scalar::F64(x), Kind::Double), Operand::Array(a.clone())];
        Array::apply(OpId::find(name).unwrap(), &operands, None).unwrap()
    };
    if !long {
        let d = apply("sub", &[&a, &b]);
        return apply("mul", &[&d, &d]).plan().unwrap().0;
    }
    let squares = apply("add", &[&apply("mul", &[&a, &a]), &apply("mul", &[&b, &b])]);
    let left = number("mul", 2.0, &apply("sqrt", &[&squares]));
    let right = apply("div", &[&apply("exp", &[&apply("neg", &[&a])]), &number("add", 1.0, &apply("abs", &[&b]))]);
    apply("sub", &[&left, &right]).plan().unwrap().0
}

/// A kernel to compile: what it is, and its source.
type Job = (String, String);

fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    let variants = [(false, false), (false, true), (true, false), (true, true)];
    for (k, op) in OpId::all().enumerate() {
        for class in Class::ALL {
            if op.row().expression(class).is_none() {
                continue;
            }
            let first = (k + class as usize) % 3;
            let (wide, unaligned) = variants[(k + class as usize) % 4];
            let plan = single(op, class, if first == 0 { 0 } else { first });
            jobs.push((plan.key(), codegen::source(&plan, Variant { wide, unaligned })));
        }
    }
    for dtype in DType::ALL {
        for (k, access) in ACCESSES.into_iter().enumerate() {
            for (wide, unaligned) in [variants[k % 4], variants[(k + 1) % 4]] {
                let plan = copy(dtype, access);
                jobs.push((plan.key(), codegen::source(&plan, Variant { wide, unaligned })));
            }
        }
    }
    for dtype in [DType::Float16, DType::Float32, DType::Float64] {
        let aligned = Variant::default();
        jobs.push((format!("chain {dtype}"), codegen::source(&fused(dtype, true), aligned)));
        let squares = fused(dtype, false);
        let source = codegen::source_reduce(&squares, aligned, Reduction::Sum, false, Form::Block);
        jobs.push((format!("sum((a-b)^2) {dtype}"), source));
    }
    let forms = [Form::Block, Form::Team(1), Form::Team(8), Form::Team(32), Form::Lanes, Form::SingleLanes];
    for (r, reduction) in Reduction::ALL.into_iter().enumerate() {
        for class in Class::ALL.into_iter().filter(|&c| reduction.serves(c)) {
            for (k, form) in forms.into_iter().enumerate() {
                let (wide, unaligned) = variants[(r + k) % 4];
                let plan = copy(natural_dtype(class), Access::Linear);
                let variant = Variant { wide, unaligned };
                let source = codegen::source_reduce(&plan, variant, reduction, (r + k) % 2 == 0, form);
                jobs.push((format!("{} {form:?} {}", reduction.name(), plan.key()), source));
            }
        }
    }
    jobs
}

/// Registers and stack bytes, from the notes that a cubin carries: format 4, attribute, size 8, symbol, value.
fn resources(cubin: &[u8]) -> (u32, u32) {
    let find = |attribute: u8| {
        let mark = [4, attribute, 8, 0];
        let values = cubin.windows(12).filter(|w| w[..4] == mark);
        values.map(|w| u32::from_le_bytes([w[8], w[9], w[10], w[11]])).filter(|&x| x < 1 << 16).max().unwrap_or(0)
    };
    (find(0x2f), find(0x11))
}

#[test]
fn cuda_sources_compile() {
    let Some(path) = std::env::var_os("VERDIGRIS_NVRTC") else {
        eprintln!("not run: VERDIGRIS_NVRTC is not set");
        return;
    };
    let folder = Path::new(&path).parent().expect("a path to a file").to_owned();
    // this test is alone in its process
    std::env::set_var("VERDIGRIS_CUDA_PATH", folder);
    let archs = std::env::var("VERDIGRIS_NVRTC_ARCHS").unwrap_or_else(|_| "90".into());
    let only = std::env::var("VERDIGRIS_NVRTC_ONLY").unwrap_or_default();
    for arch in archs.split(',') {
        let target = Target::Cubin(arch.parse().expect("an architecture is a number"));
        let jobs: Vec<Job> = jobs().into_iter().filter(|(name, _)| name.contains(&only)).collect();
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let table = Mutex::new(Vec::new());
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some((name, source)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let began = Instant::now();
                        match compile(source, target) {
                            Ok(image) => {
                                let (registers, stack) = resources(&image.bytes);
                                table.lock().unwrap().push((began.elapsed().as_millis(), registers, stack, name));
                            }
                            Err(error) => {
                                failures
                                    .lock()
                                    .unwrap()
                                    .push(format!("{name}: {error}\n{}", error.detail.as_deref().unwrap_or("")));
                            }
                        }
                    }
                });
            }
        });
        let mut table = table.into_inner().unwrap();
        table.sort();
        let mut text = String::from("ms\tregisters\tstack\tkernel\n");
        for (ms, registers, stack, name) in &table {
            let _ = writeln!(text, "{ms}\t{registers}\t{stack}\t{name}");
        }
        if let Some(file) = std::env::var_os("VERDIGRIS_NVRTC_TABLE") {
            std::fs::write(file, &text).expect("the table can be written");
        }
        let median = table.get(table.len() / 2).map_or(0, |t| t.0);
        eprintln!(
            "sm_{arch}: {} kernels in {:.1} s, median {median} ms, most {} registers, {} with a stack",
            table.len(),
            start.elapsed().as_secs_f64(),
            table.iter().map(|t| t.1).max().unwrap_or(0),
            table.iter().filter(|t| t.2 > 0).count()
        );
        let failures = failures.into_inner().unwrap();
        for failure in failures.iter().take(5) {
            eprintln!("{failure}");
        }
        assert!(failures.is_empty(), "{} kernels of {} do not compile for sm_{arch}", failures.len(), jobs.len());
    }
}

/// Kernels that a differential run left behind (`VERDIGRIS_KERNEL_TRACE` of the cpu device), at the most.
const MOST_TRACED: usize = 5000;
/// Kernels that are compiled as one program: reading the headers takes as long as compiling several.
const TOGETHER: usize = 48;

/// Many elementwise sources as one: each in a namespace, its kernel by a name of its own.
fn joined(sources: &[String]) -> String {
    let mut headers: Vec<&str> = Vec::new();
    let mut bodies = String::new();
    for (k, source) in sources.iter().enumerate() {
        let _ = writeln!(bodies, "#define elementwise elementwise_{k}\nnamespace kernel_{k} {{");
        for line in source.lines() {
            if line.starts_with("#include") {
                if !headers.contains(&line) {
                    headers.push(line);
                }
            } else {
                let _ = writeln!(bodies, "{line}");
            }
        }
        let _ = writeln!(bodies, "}}\n#undef elementwise");
    }
    format!("{}\n{bodies}", headers.join("\n"))
}

#[test]
fn traced_kernels_compile() {
    let (Some(path), Some(trace)) = (std::env::var_os("VERDIGRIS_NVRTC"), std::env::var_os("VERDIGRIS_TRACED")) else {
        eprintln!("not run: VERDIGRIS_NVRTC and VERDIGRIS_TRACED (a folder) are not set");
        return;
    };
    std::env::set_var("VERDIGRIS_CUDA_PATH", Path::new(&path).parent().expect("a path to a file"));
    let archs = std::env::var("VERDIGRIS_NVRTC_ARCHS").unwrap_or_else(|_| "90".into());
    let mut files: Vec<_> = std::fs::read_dir(trace).expect("the folder is there").map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 500, "a differential run leaves more than {} kernels", files.len());
    files.truncate(MOST_TRACED);
    let (mut elementwise, mut programs) = (Vec::new(), Vec::new());
    for file in &files {
        let source = std::fs::read_to_string(file).expect("a source");
        if file.file_name().is_some_and(|n| n.to_string_lossy().starts_with("elementwise")) {
            elementwise.push(source);
        } else {
            programs.push(source);
        }
    }
    programs.extend(elementwise.chunks(TOGETHER).map(joined));
    let start = Instant::now();
    for arch in archs.split(',') {
        let target = Target::Cubin(arch.parse().expect("an architecture is a number"));
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(source) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = compile(source, target) {
                            let log = error.detail.clone().unwrap_or_default();
                            failures.lock().unwrap().push(format!("{error}\n{log}"));
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap();
        for failure in failures.iter().take(3) {
            eprintln!("{failure}");
        }
        assert!(failures.is_empty(), "{} programs of {} do not compile for sm_{arch}", failures.len(), programs.len());
        eprintln!("sm_{arch}: {} kernels in {} programs compile, {:.0} s so far", files.len(), programs.len(), start.elapsed().as_secs_f64());
    }
}
