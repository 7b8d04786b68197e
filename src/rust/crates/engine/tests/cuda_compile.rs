//! Compiles the generated kernels with NVRTC, without a device: every row of the operation table in every class, every
//! access to an input, every reduction in every form, and the kernels that a differential run asked for.
//!
//! Ignored by default. `VERDIGRIS_NVRTC` is the path of libnvrtc. `VERDIGRIS_NVRTC_ARCHS` names the targets, as NVRTC
//! does: machine code for `sm_90` (the default), PTX for `compute_75`, or for the newest architecture that this NVRTC
//! knows: `compute_newest`. `VERDIGRIS_NVRTC_TABLE` names a file for each kernel's registers, stack and compile time,
//! and `VERDIGRIS_TRACED` a folder of kernels that a differential run left behind (`VERDIGRIS_KERNEL_TRACE` of the cpu
//! device); with `VERDIGRIS_TRACED_ALL` each of those is compiled for every target. `tools/gpu/kernels.sh` runs both
//! tests.
#![cfg(not(target_os = "macos"))]

mod turn;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use turn::in_turn;
use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::backend::cuda::codegen::reduce::Form;
use verdigris_engine::backend::cuda::codegen::{self, elementwise, mask, reduce, scan, tiled, Tiled, Variant};
use verdigris_engine::backend::cuda::compile::{compile, compile_as, known_archs, nvrtc::Target, Style, OPTIONS};
use verdigris_engine::backend::cuda::interpret::{self, Family};
use verdigris_engine::backend::cuda::prebuilt_list;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::plan::{Access, Epilogue, Input, Instruction, Plan};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::scan::Scan;
use verdigris_ops::{OpId, Rule, MOST_OPERANDS};

const ACCESSES: [Access; 5] =
    [Access::Linear, Access::Broadcast, Access::Recycled, Access::Strided(2), Access::Strided(3)];

/// A plan of one operation; its array operands are read in turn by all ways there are, from `first` on.
fn single(op: OpId, class: Class, first: usize) -> Plan {
    let row = op.row();
    let mut plan = Plan::default();
    let mut args = [0; MOST_OPERANDS];
    for (k, arg) in args.iter_mut().enumerate().take(row.arity as usize) {
        let class = row.operand_class(k, class);
        *arg = plan.code.len() as u16;
        if is_source(op) || row.rule == Rule::Drawn && k == 0 {
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
    matches!(op.row().rule, Rule::Source | Rule::Random(_))
}

/// A plan that stores one input as it is.
fn copy(dtype: DType, access: Access) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// A plan that stores what it picks of one input at positions in another.
fn picked(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype: DType::Int64, access: Access::Linear }, Input { dtype, access: Access::Gathered }],
        code: vec![Instruction::Load(0), Instruction::Gather { input: 1, at: 0 }],
        outputs: vec![(1, dtype)],
        ..Plan::default()
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
            // how an input is read does not depend on the row: each has its turn, and `copy` has them all
            let (wide, unaligned) = variants[(k + class as usize) % 4];
            let plan = single(op, class, k + class as usize);
            jobs.push((plan.key(), codegen::source(&plan, Variant { wide, unaligned, ..Variant::default() })));
        }
    }
    for dtype in DType::ALL {
        for (k, access) in ACCESSES.into_iter().enumerate() {
            for (wide, unaligned) in [variants[k % 4], variants[(k + 1) % 4]] {
                let plan = copy(dtype, access);
                jobs.push((plan.key(), codegen::source(&plan, Variant { wide, unaligned, ..Variant::default() })));
            }
        }
    }
    for (k, dtype) in DType::ALL.into_iter().enumerate() {
        let (plan, (wide, unaligned)) = (picked(dtype), variants[k % 4]);
        jobs.push((plan.key(), codegen::source(&plan, Variant { wide, unaligned, ..Variant::default() })));
    }
    let picks = picked(DType::Float64);
    let source = codegen::source_reduce(&picks, Variant::default(), Reduction::Sum, false, Form::Block);
    jobs.push((format!("sum of {}", picks.key()), source));
    for dtype in [DType::Float16, DType::Float32, DType::Float64] {
        let aligned = Variant::default();
        jobs.push((format!("chain {dtype}"), codegen::source(&fused(dtype, true), aligned)));
        let squares = fused(dtype, false);
        let source = codegen::source_reduce(&squares, aligned, Reduction::Sum, false, Form::Block);
        jobs.push((format!("sum((a-b)^2) {dtype}"), source));
    }
    for family in Family::ALL {
        jobs.push((family.name().into(), interpret::source::source(family)));
    }
    for dtype in DType::ALL {
        // a transposed input beside one that is not, and by another axis; what a mask chooses, and where
        for (rank, axis, wide) in [(2, 1, false), (3, 2, true)] {
            let mut plan = copy(dtype, Access::Strided(rank));
            plan.inputs.push(Input { dtype, access: Access::Linear });
            plan.code.push(Instruction::Load(1));
            plan.outputs.push((1, dtype));
            let variant = Variant { wide, tiled: Tiled { inputs: 1, axis }, ..Variant::default() };
            jobs.push((format!("tiled {}", plan.key()), codegen::source(&plan, variant)));
        }
        for keep_na in [false, true] {
            let mut plan = copy(DType::Bool8, Access::Linear);
            let variant = Variant { wide: keep_na, ..Variant::default() };
            jobs.push((format!("positions {keep_na}"), codegen::mask::source(&plan, variant, keep_na)));
            plan.inputs.push(Input { dtype, access: Access::Strided(2) });
            plan.code.push(Instruction::Load(1));
            plan.outputs.push((1, dtype));
            jobs.push((format!("subset {}", plan.key()), codegen::mask::source(&plan, variant, keep_na)));
        }
    }
    let dense = prebuilt_list::sources().into_iter().filter(|kernel| kernel.pack == "dense");
    jobs.extend(dense.map(|kernel| (kernel.name, kernel.source)));
    for scan in Scan::ALL {
        for class in Class::ALL.into_iter().filter(|&class| scan.serves(class)) {
            let plan = copy(natural_dtype(class), Access::Linear);
            jobs.push((format!("{} {class:?}", scan.name()), codegen::source_scan(&plan, Variant::default(), scan)));
        }
    }
    for op in OpId::all().filter(|&op| op.row().pack().is_some()) {
        // lanes of one element draw it alone
        for form in [Form::Block, Form::StridedSingle] {
            let source =
                codegen::source_reduce(&single(op, Class::I64, 0), Variant::default(), Reduction::Sum, false, form);
            jobs.push((format!("sum of {} {form:?}", op.row().name), source));
        }
    }
    // a reduction that goes on: to an operation that may warn, of the results and of another input
    let mut after = copy(DType::Float64, Access::Linear);
    after.inputs.push(Input { dtype: DType::Float32, access: Access::Recycled });
    after.code.push(Instruction::Load(1));
    let [root, widen] = ["sqrt", "to_float64"].map(|name| OpId::find(name).expect("a row"));
    after.code.push(Instruction::Apply { op: root, class: Class::F64, args: [0; MOST_OPERANDS] });
    after.code.push(Instruction::Apply { op: widen, class: Class::F32, args: [1, 0, 0, 0] });
    after.outputs.extend([(2, DType::Float64), (3, DType::Float64)]);
    let forms = [
        Form::SubWarp(32),
        Form::PackPerThread(2),
        Form::SubWarp(8),
        Form::Strided,
        Form::StridedSingle,
        Form::Block,
        Form::BlockShared(4608),
        Form::BlockSharedShort(576),
    ];
    for (k, form) in forms.into_iter().enumerate() {
        // a block that has a group goes on to its elements, too, and may keep them
        let kept = matches!(form, Form::BlockShared(_) | Form::BlockSharedShort(_));
        let after = Epilogue {
            plan: after.clone(),
            results: 0,
            over_elements: kept || form == Form::Block,
            values: kept.then_some(1),
        };
        let after = Some(Box::new(after));
        let plan = Plan { epilogue: after, ..copy(DType::Float32, Access::Linear) };
        let (wide, unaligned) = variants[k % 4];
        let variant = Variant { wide, unaligned, ..Variant::default() };
        let source = codegen::source_reduce(&plan, variant, Reduction::Sum, false, form);
        jobs.push((format!("{form:?} {}", plan.key()), source));
    }
    let forms = [
        Form::Block,
        Form::SubWarp(1),
        Form::SubWarp(2),
        Form::SubWarp(8),
        Form::SubWarp(32),
        Form::PackPerThread(4),
        Form::Strided,
        Form::StridedSingle,
    ];
    for (r, reduction) in Reduction::ALL.into_iter().enumerate() {
        for class in Class::ALL.into_iter().filter(|&c| reduction.serves(c)) {
            for (k, form) in forms.into_iter().enumerate() {
                let (wide, unaligned) = variants[(r + k) % 4];
                let plan = copy(natural_dtype(class), Access::Linear);
                let variant = Variant { wide, unaligned, ..Variant::default() };
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

/// Makes the path of NVRTC known to the engine.
fn find_nvrtc() {
    let path = std::env::var_os("VERDIGRIS_NVRTC").expect("VERDIGRIS_NVRTC is the path of libnvrtc");
    // both tests set it to the same folder, and before anything reads it
    std::env::set_var("VERDIGRIS_CUDA_PATH", Path::new(&path).parent().expect("a path to a file"));
}

fn targets() -> Vec<Target> {
    let archs = std::env::var("VERDIGRIS_NVRTC_ARCHS").unwrap_or_else(|_| "sm_90".into());
    let newest = || known_archs().expect("NVRTC can be loaded").into_iter().max().expect("it knows an architecture");
    let number = |a: &str| if a == "newest" { newest() } else { a.parse().expect("an architecture is a number") };
    let target = |name: &str| match name.split_once('_') {
        Some(("sm", a)) => Target::Cubin(number(a)),
        Some(("compute", a)) => Target::Ptx(number(a)),
        _ => panic!("VERDIGRIS_NVRTC_ARCHS has '{name}', which is neither sm_... nor compute_..."),
    };
    archs.split(',').map(target).collect()
}

/// How hard NVRTC tries.
#[derive(Clone, Copy)]
enum Effort {
    /// As for a device.
    Full,
    /// The same text with little optimisation, which is where four fifths of the time go.
    Quick,
}

fn style(effort: Effort, target: Target) -> Style {
    const MID: &[&str] = &[OPTIONS[0], OPTIONS[1], OPTIONS[2], "--Ofast-compile=mid"];
    const MAX: &[&str] = &[OPTIONS[0], OPTIONS[1], OPTIONS[2], "--Ofast-compile=max"];
    let options = match (effort, target) {
        (Effort::Full, _) => OPTIONS,
        (Effort::Quick, Target::Cubin(_)) => MID, // `max` leaves the assembler so much that it takes longer
        (Effort::Quick, Target::Ptx(_)) => MAX,
    };
    Style { label: c"kernels.cu", options }
}

/// Kernels that are compiled as one program: reading the headers takes longer than compiling one of them.
const TOGETHER: usize = 64;

/// Headers that are the body of a kernel, and stand below what it is about.
const BODIES: [&str; 3] = ["reduce.cuh", "scan.cuh", "mask.cuh"];
/// What kernels of plans are called.
const NAMES: [&str; 6] = [elementwise::NAME, tiled::NAME, reduce::NAME, scan::NAME, mask::COUNT, mask::WRITE];

/// Many kernels as one source: each in a namespace, by a name of its own.
fn joined(kernels: &[&Job]) -> String {
    let kernels_folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/kernels"));
    let mut headers: Vec<String> = Vec::new();
    let mut bodies = String::new();
    for (k, (_, source)) in kernels.iter().enumerate() {
        for name in NAMES {
            let _ = writeln!(bodies, "#define {name} {name}_{k}");
        }
        let _ = writeln!(bodies, "namespace kernel_{k} {{");
        let mut defined = Vec::new();
        let mut line_of = |line: &str, headers: &mut Vec<String>| {
            if line.starts_with("#include") {
                if !headers.iter().any(|h| h == line) {
                    headers.push(line.into());
                }
            } else if line != "#pragma once" {
                defined
                    .extend(line.strip_prefix("#define ").and_then(|d| d.split([' ', '(']).next()).map(String::from));
                let _ = writeln!(bodies, "{line}");
            }
        };
        for line in source.lines() {
            let included = line.strip_prefix("#include \"").and_then(|line| line.strip_suffix('"'));
            if let Some(header) = included.filter(|header| BODIES.contains(header)) {
                let body = std::fs::read_to_string(kernels_folder.join(header)).expect("the header is there");
                body.lines().for_each(|line| line_of(line, &mut headers));
            } else {
                line_of(line, &mut headers);
            }
        }
        let _ = writeln!(bodies, "}}");
        for name in NAMES.iter().map(|name| name.to_string()).chain(defined) {
            let _ = writeln!(bodies, "#undef {name}");
        }
    }
    format!("{}\n{bodies}", headers.join("\n"))
}

/// Compiles kernels for a target on all cores, says how long it took, and panics where one does not compile.
fn compile_all(what: &str, kernels: &[Job], target: Target, effort: Effort) {
    let table_file = std::env::var_os("VERDIGRIS_NVRTC_TABLE"); // which is about single kernels
    let style = style(effort, target);
    // an interpreter is a program of its own
    let alone = |(_, source): &&Job| table_file.is_some() || source.contains("#include \"interpret.h\"");
    let (single, many): (Vec<&Job>, Vec<&Job>) = kernels.iter().partition(alone);
    // neighbours in the list are alike, and some kinds take long: deal them out
    let shared = many.len().div_ceil(TOGETHER);
    let programs = single.len() + shared;
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let table = Mutex::new(Vec::new());
    let note = |(name, source): &Job| {
        let began = Instant::now();
        match compile_as(source, target, &style) {
            Ok(image) => {
                let (registers, stack) = resources(&image.bytes);
                table.lock().unwrap().push((began.elapsed().as_millis(), registers, stack, name.clone()));
            }
            Err(error) => {
                let log = error.detail.as_deref().unwrap_or("").to_string();
                failures.lock().unwrap().push(format!("{name}: {error}\n{log}"));
            }
        }
    };
    let work = || loop {
        let program = next.fetch_add(1, Ordering::Relaxed);
        if program >= programs {
            return;
        }
        if let Some(kernel) = single.get(program) {
            note(kernel);
            continue;
        }
        let some: Vec<&Job> = many.iter().copied().skip(program - single.len()).step_by(shared).collect();
        if let Err(error) = compile_as(&joined(&some), target, &style) {
            // which of them is it?
            let before = failures.lock().unwrap().len();
            some.iter().for_each(|&kernel| note(kernel));
            let mut failures = failures.lock().unwrap();
            if failures.len() == before {
                failures.push(format!("{} kernels together, though not alone: {error}", some.len()));
            }
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{what}, {target:?}: {} kernels in {programs} programs, {seconds:.1} s", kernels.len());
    if let (Some(file), Target::Cubin(_)) = (table_file, target) {
        let mut table = table.into_inner().unwrap();
        table.sort();
        let mut text = String::from("ms\tregisters\tstack\tkernel\n");
        for (ms, registers, stack, name) in &table {
            let _ = writeln!(text, "{ms}\t{registers}\t{stack}\t{name}");
        }
        std::fs::write(file, &text).expect("the table can be written");
    }
    let failures = failures.into_inner().unwrap();
    for failure in failures.iter().take(3) {
        eprintln!("{failure}");
    }
    assert!(failures.is_empty(), "{} kernels of {} do not compile for {target:?}", failures.len(), kernels.len());
}

/// This run's share of the kernels.
fn in_turn_of(kernels: &[Job], first: usize, shares: usize) -> Vec<Job> {
    let share = kernels.iter().enumerate().filter(|(k, _)| in_turn(first + k, shares));
    share.map(|(_, kernel)| kernel.clone()).collect()
}

/// Without those that are written twice.
fn distinct(jobs: Vec<Job>) -> Vec<Job> {
    let mut seen = HashSet::new();
    jobs.into_iter().filter(|(_, source)| seen.insert(source.clone())).collect()
}

#[test]
#[ignore = "needs NVRTC: VERDIGRIS_NVRTC is the path of libnvrtc"]
fn cuda_sources_compile() {
    find_nvrtc();
    let only = std::env::var("VERDIGRIS_NVRTC_ONLY").unwrap_or_default();
    let jobs = distinct(jobs().into_iter().filter(|(name, _)| name.contains(&only)).collect());
    let (cubins, texts): (Vec<_>, Vec<_>) =
        targets().into_iter().partition(|target| matches!(target, Target::Cubin(_)));
    for target in cubins {
        // an eighth as for a device; of the others three eighths with little optimisation, and all as PTX below
        let (turn, rest): (Vec<_>, Vec<_>) = jobs.iter().cloned().enumerate().partition(|(k, _)| in_turn(*k, 8));
        let rest = rest.into_iter().filter(|(k, _)| (1..4).any(|next| in_turn(k + next, 8))).collect();
        for (share, effort) in [(turn, Effort::Full), (rest, Effort::Quick)] {
            let share: Vec<Job> = share.into_iter().map(|(_, job)| job).collect();
            if !share.is_empty() {
                compile_all("operation table", &share, target, effort);
            }
        }
    }
    for (k, target) in texts.into_iter().enumerate() {
        let jobs = in_turn_of(&jobs, k, 3);
        compile_all("operation table", &jobs, target, Effort::Quick);
    }
}

#[test]
#[ignore = "needs NVRTC and a trace: VERDIGRIS_NVRTC, VERDIGRIS_TRACED"]
fn traced_kernels_compile() {
    const MOST: usize = 5000;
    find_nvrtc();
    let trace = std::env::var_os("VERDIGRIS_TRACED").expect("VERDIGRIS_TRACED is a folder of kernels");
    let mut files: Vec<_> = std::fs::read_dir(trace).expect("the folder is there").map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 500, "a differential run leaves more than {} kernels", files.len());
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).expect("a source"))
    };
    let mut kernels = in_turn_of(&distinct(files.iter().map(read).collect()), 0, 16);
    if kernels.len() > MOST {
        let all = kernels.len();
        kernels = (0..MOST).map(|k| kernels[k * all / MOST].clone()).collect(); // evenly: names are hashes
        eprintln!("{MOST} kernels of {all}");
    }
    // No source of ours asks for the architecture: what is for one and not for another are the intrinsics of NVRTC's
    // own headers, which the operation table has for all. So each kernel is one target's machine code or PTX, and PTX
    // for one of the others in turn, or for all of them.
    let whole = std::env::var_os("VERDIGRIS_TRACED_ALL").is_some();
    let part = |kernels: &[Job], of: usize, k: usize| kernels.iter().skip(k).step_by(of).cloned().collect::<Vec<_>>();
    let (cubins, texts): (Vec<_>, Vec<_>) =
        targets().into_iter().partition(|target| matches!(target, Target::Cubin(_)));
    for target in cubins {
        let Target::Cubin(arch) = target else { unreachable!() };
        // the assembler takes five times as long as the compiler: every fifth kernel goes through both, the others end
        // as PTX
        let (through, text): (Vec<_>, Vec<_>) = kernels.iter().cloned().enumerate().partition(|(k, _)| k % 5 == 0);
        let jobs = |part: Vec<(usize, Job)>| part.into_iter().map(|(_, job)| job).collect::<Vec<_>>();
        compile_all("differential tests", &jobs(through), target, Effort::Quick);
        compile_all("differential tests", &jobs(text), Target::Ptx(arch), Effort::Quick);
    }
    for (k, &target) in texts.iter().enumerate() {
        let jobs = if whole { kernels.clone() } else { part(&kernels, texts.len(), k) };
        compile_all("differential tests", &jobs, target, Effort::Quick);
    }
}

/// NVRTC's front end would end the process (`driver/library/imports.rs`).
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs NVRTC: VERDIGRIS_NVRTC is the path of libnvrtc"]
fn an_interrupt_while_nvrtc_compiles_is_the_process_own() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note(_: i32) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    unsafe extern "C" {
        fn signal(number: i32, handler: *const ()) -> *const ();
        fn raise(number: i32) -> i32;
    }
    const SIGINT: i32 = 2;
    find_nvrtc();
    // SAFETY: a handler that only counts.
    let before = unsafe { signal(SIGINT, note as *const ()) };
    let done = AtomicUsize::new(0);
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            for k in 0..3 {
                let source = format!("#define K {k}\n{}", interpret::source::source(Family::Narrow));
                compile(&source, Target::Cubin(90)).expect("compiles");
            }
            done.store(1, Ordering::Relaxed);
        });
        let mut sent = 0;
        while done.load(Ordering::Relaxed) == 0 {
            // SAFETY: handled by `note`.
            unsafe { raise(SIGINT) };
            sent += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        sent
    });
    assert_eq!(SEEN.load(Ordering::Relaxed), sent);
    // SAFETY: puts back what was there.
    unsafe { signal(SIGINT, before) };
}
