//! Runs programs on the host: the C++ compiler compiles the interpreters, and their values for random plans are
//! compared with the cpu device's, bit by bit.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::encode::{encode, halves, single};
use super::source::{source, Family};
use crate::array::transfer::Host;
use crate::array::{Array, Operand};
use crate::backend::cpu;
use crate::backend::cuda::codegen::body;
use crate::backend::cuda::codegen::notes::Noted;
use crate::backend::cuda::differential::Random;
use crate::memory::buffer::{Buffer, Device, View};
use crate::plan::warning;
use crate::plan::{Bound, Plan};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::layout::Axis;
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32};
use verdigris_ops::{Flag, OpId, Rule};

type Kernel = unsafe extern "C" fn(*const u8, *mut u128, i64);

/// The interpreters, compiled for the host.
fn kernels() -> &'static [Kernel; 5] {
    static KERNELS: OnceLock<[Kernel; 5]> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("verdigris-interpret-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = Family::ALL.map(|family| compiled(family, &folder));
        std::fs::remove_dir_all(&folder).unwrap();
        made
    })
}

fn compiled(family: Family, folder: &std::path::Path) -> Kernel {
    let (text, library) = (folder.join(format!("{}.cpp", family.name())), folder.join(format!("{}.so", family.name())));
    std::fs::write(&text, source(family)).unwrap();
    let headers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../ops/kernels");
    // the flags with which build.rs compiles the cpu device's loops
    let done = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
        .args([
            "-std=c++14",
            "-O2",
            "-ffp-contract=off",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-fno-strict-aliasing",
        ])
        .args(["-w", "-shared", "-fPIC", "-I"])
        .arg(headers)
        .arg("-o")
        .args([&library, &text])
        .output()
        .expect("there is a C++ compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // SAFETY: the library has no initialisers, and the function takes what `Kernel` says.
    unsafe {
        let loaded = libloading::Library::new(&library).unwrap();
        let kernel = *loaded.get::<Kernel>(family.name().as_bytes()).unwrap();
        std::mem::forget(loaded);
        kernel
    }
}

/// Runs a plan as a GPU would, with blocks of one thread. Appends the flags raised to `noted`: row, bits, call site.
fn interpret(
    plan: &Plan,
    bound: &Bound,
    outputs: &[Arc<Buffer>],
    most_shared: usize,
    noted: &mut Vec<(OpId, u32, Option<CallSite>)>,
) {
    let addresses: Vec<u64> = outputs.iter().map(|b| b.address).collect();
    let (bits, words) = body::flag_bits(plan);
    let Some(mut program) = encode(plan, bound, &addresses, &bits, most_shared) else {
        let Some(halves) = halves(plan, bound) else {
            assert!(plan.outputs.len() > 1, "one operation fits: {}", plan.key());
            for (k, output) in outputs.iter().enumerate() {
                let (plan, bound) = single(plan, bound, k);
                interpret(&plan, &bound, std::slice::from_ref(output), most_shared, noted);
            }
            return;
        };
        let device = cpu::backend();
        let between: Vec<Arc<Buffer>> =
            halves.between.iter().map(|d| device.allocate(bound.n * d.size()).unwrap()).collect();
        interpret(&halves.first.0, &halves.first.1, &between, most_shared, noted);
        let (second, mut second_bound) = halves.second;
        for (buffer, &dtype) in between.iter().zip(&halves.between) {
            second_bound.inputs.push(View::contiguous(buffer.clone(), dtype, bound.n));
        }
        interpret(&second, &second_bound, outputs, most_shared, noted);
        return;
    };
    let (mut flags, mut any) = (vec![0u32; words.max(1)], 0u32);
    program.set_flags(flags.as_mut_ptr() as u64, &mut any as *mut u32 as u64);
    // units are aligned to 16 bytes
    let mut shared = vec![0u128; program.shared(1).div_ceil(16).max(1)];
    // SAFETY: the program is of this plan, whose views and outputs are live host memory.
    unsafe {
        kernels()[program.family as usize](program.bytes.as_ptr(), shared.as_mut_ptr(), program.blocks(1) as i64)
    };
    assert_eq!(any != 0, flags.iter().any(|&w| w != 0));
    for (register, bits) in bits {
        let Noted::Row(op) = bits.noted else { unreachable!("no interpreter runs routines") };
        let bits = flags[bits.word as usize] >> bits.shift & ((1 << op.row().flag.width()) - 1);
        if let (true, Some((_, site))) = (bits != 0, bound.sites.iter().find(|(r, _)| *r == register)) {
            noted.push((op, bits, site.clone()));
        }
    }
}

impl Random {
    fn pick(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    fn number(&mut self) -> f64 {
        const SPECIAL: [f64; 8] = [0.0, -0.0, f64::NAN, NA_F64, f64::INFINITY, f64::NEG_INFINITY, 1.0, 3e9];
        match self.pick(8) {
            0 => SPECIAL[self.pick(8)],
            1 => self.pick(7) as f64 - 3.0,
            _ => (self.next() as i64 >> 11) as f64 / (1u64 << 51) as f64,
        }
    }

    fn array(&mut self, n: usize) -> Array {
        let dtype = DType::ALL[self.pick(12)];
        let values: Vec<[f64; 2]> = (0..n).map(|_| [self.number(), self.number()]).collect();
        let data = Array::upload(Host::Complex(&values), None, Device::Cpu, None).unwrap();
        let real = if matches!(dtype, DType::Complex64 | DType::Complex128) {
            data
        } else {
            Array::apply(OpId::find("re").unwrap(), &[Operand::Array(data)], None).unwrap()
        };
        let x = real.cast(dtype, None).unwrap();
        x.evaluate().unwrap();
        x
    }
}

/// An array of `n` elements, or a shorter one that is recycled, with a random kind of access.
fn leaf(random: &mut Random, n: usize) -> Array {
    match random.pick(7) {
        6 => {
            // gathered, with some positions out of bounds on either side
            let m = 1 + random.pick(9);
            let at: Vec<i64> = (0..n).map(|_| random.pick(m + 4) as i64 - 2).collect();
            let at = Array::upload(Host::Integer64(&at), None, Device::Cpu, None).unwrap();
            random.array(m).gather(&at).unwrap()
        }
        0 => random.array(1),
        1 if n.is_multiple_of(3) => random.array(n / 3),
        2 if n.is_multiple_of(6) => {
            let dim = [n / 6, 2, 3];
            let axes = [Axis::whole(2, 3), Axis::whole(0, n / 6), Axis { of: 1, start: 1, step: -1, extent: 2 }];
            random.array(n).view(&dim, &axes).unwrap()
        }
        3 => {
            // not aligned
            let axis = Axis { of: 0, start: 1, step: 1, extent: n };
            random.array(n + 1).view(&[n + 1], &[axis]).unwrap()
        }
        _ => random.array(n),
    }
}

fn tree(random: &mut Random, leaves: &[Array], depth: usize, ops: &[OpId], site: &mut u32) -> Array {
    if depth == 0 {
        return leaves[random.pick(leaves.len())].clone();
    }
    loop {
        let op = ops[random.pick(ops.len())];
        let row = op.row();
        let operands: Vec<Operand> = (0..row.arity)
            .map(|k| match random.pick(5) {
                0 if k > 0 || row.arity == 1 => Operand::Array(tree(random, leaves, 0, ops, site)),
                1 if k > 0 => Operand::Value(Scalar::F64(random.number()), Kind::Double),
                2 if k > 0 => Operand::Value(Scalar::I32([NA_I32, 2, -7][random.pick(3)]), Kind::Integer),
                _ => {
                    let less = 1 + random.pick(2);
                    Operand::Array(tree(random, leaves, depth.saturating_sub(less), ops, site))
                }
            })
            .collect();
        *site += 1;
        let made: CallSite = Arc::new(*site);
        if let Ok(array) = Array::apply(op, &operands, Some(made)) {
            return array;
        }
    }
}

/// The warnings since the last call, by the number of their call site.
fn warnings() -> Vec<(u32, String)> {
    let site = |w: &warning::Warning| w.site.as_ref().and_then(|s| s.downcast_ref::<u32>()).copied();
    let mut out: Vec<_> =
        warning::take().iter().filter_map(|w| site(w).map(|site| (site, w.message.to_string()))).collect();
    out.sort();
    // the cpu device runs a loop for each output of a plan, so warnings may repeat
    out.dedup();
    out
}

/// Runs a plan on the cpu device and in the interpreter, and compares values and warnings.
fn compare(plan: &Plan, bound: &Bound, most_shared: usize) {
    let device = cpu::backend();
    let outputs = || -> Vec<Arc<Buffer>> {
        plan.outputs.iter().map(|(_, d)| device.allocate(bound.n * d.size()).unwrap()).collect()
    };
    let (want, got) = (outputs(), outputs());
    static WARNINGS: Mutex<()> = Mutex::new(());
    let one = WARNINGS.lock().unwrap_or_else(|p| p.into_inner());
    warnings();
    cpu_run(plan, bound, &want);
    let warned = warnings();
    let mut noted = Vec::new();
    interpret(plan, bound, &got, most_shared, &mut noted);
    for (op, bits, site) in &noted {
        warning::note(*op, *bits, site.as_ref());
    }
    assert_eq!(warnings(), warned, "{}", plan.key());
    drop(one);
    for (k, (want, got)) in want.iter().zip(&got).enumerate() {
        let bytes = |b: &Buffer| {
            let mut out = vec![0u8; b.bytes];
            device.download(b, 0, &mut out).unwrap();
            out
        };
        let (want, got) = (bytes(want), bytes(got));
        let (dtype, size) = (plan.outputs[k].1, plan.outputs[k].1.size());
        for (i, (want, got)) in want.chunks(size).zip(got.chunks(size)).enumerate() {
            assert!(same(dtype, want, got), "element {i} of {}: {got:x?}, not {want:x?}: {}", bound.n, plan.key());
        }
    }
}

/// Whether two values are the same, up to the bits of NaN: those depend on how the compiler optimises, as a loop on the
/// cpu device and element by element here.
fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let double = |x: &[u8]| f64::from_ne_bytes(x.try_into().expect("eight bytes"));
    let single = |x: &[u8]| f64::from(f32::from_ne_bytes(x.try_into().expect("four bytes")));
    let half = |x: &[u8]| u16::from_ne_bytes(x.try_into().expect("two bytes"));
    let number = |x: f64, y: f64| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    let (m, pair) = (a.len() / 2, |f: &dyn Fn(&[u8]) -> f64, m: usize| {
        number(f(&a[..m]), f(&b[..m])) && number(f(&a[m..]), f(&b[m..]))
    });
    match dtype {
        DType::Float16 => number(half::f16::from_bits(half(a)).into(), half::f16::from_bits(half(b)).into()),
        DType::BFloat16 => number(half::bf16::from_bits(half(a)).into(), half::bf16::from_bits(half(b)).into()),
        DType::Float32 => number(single(a), single(b)),
        DType::Float64 => number(double(a), double(b)),
        DType::Complex64 => pair(&single, m),
        DType::Complex128 => pair(&double, m),
        _ => a == b,
    }
}

fn cpu_run(plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) {
    // one kernel of the cpu device computes one output
    for (output, buffer) in plan.outputs.iter().zip(outputs) {
        let one = Plan { outputs: vec![*output], ..plan.clone() };
        cpu::backend().run(&one, bound, std::slice::from_ref(buffer)).unwrap();
    }
}

/// The rows for random expressions: those with operands, except `is_nan`, which would turn differences that `same`
/// ignores into values.
fn rows(family: &[Family]) -> Vec<OpId> {
    let serves = |op: OpId| Class::ALL.into_iter().any(|c| family.iter().any(|f| f.serves(op, c)));
    let plain = |op: &OpId| {
        let row = op.row();
        !row.rule.uses_index() && row.name != "is_nan"
    };
    OpId::all().filter(|&op| serves(op)).filter(plain).collect()
}

#[test]
fn every_row_gives_what_the_cpu_gives() {
    let mut random = Random(1);
    let mut interpreted = 0;
    // no interpreter has these rows
    for op in OpId::all().filter(|op| !op.row().is_only_compiled()) {
        let row = op.row();
        for class in Class::ALL.into_iter().filter(|&c| row.expression(c).is_some()) {
            for n in [1, 66] {
                let mut site = 0;
                let array = if matches!(row.rule, Rule::Source | Rule::Random(_)) {
                    let scalars: Vec<Scalar> =
                        (0..row.arity).map(|k| Scalar::I32(3 + i32::from(k)).to(class)).collect();
                    let dtype = verdigris_ops::dtype::natural_dtype(row.result_class(class));
                    Array::source(op, class, dtype, n, Device::Cpu, &scalars).unwrap()
                } else {
                    let operands: Vec<Operand> = (0..row.arity as usize)
                        .map(|k| {
                            if row.rule == Rule::Drawn && k == 0 {
                                return Operand::Value(Scalar::I64(0x1234_5678_9abc), Kind::Integer64);
                            }
                            let dtype = verdigris_ops::dtype::natural_dtype(row.operand_class(k, class));
                            Operand::Array(random.array(n).cast(dtype, None).unwrap())
                        })
                        .collect();
                    site += 1;
                    let made: CallSite = Arc::new(site);
                    let recorded = match row.rule {
                        Rule::Drawn => Array::draw(op, n, Device::Cpu, &operands, Some(made)),
                        _ => Array::apply(op, &operands, Some(made)),
                    };
                    match recorded {
                        Ok(array) => array,
                        Err(_) => continue,
                    }
                };
                let (plan, bound) = array.plan().unwrap();
                compare(&plan, &bound, 1 << 16);
                interpreted += 1;
            }
        }
    }
    assert!(interpreted > 300, "only {interpreted} rows and classes");
}

/// Compares random expressions of the families' rows, some of them long enough to need many slots.
fn random_plans(seed: u64, families: &[Family], trees: usize) {
    let mut random = Random(seed);
    let ops = rows(families);
    for k in 0..trees {
        let n = [1, 6, 48, 66, 258][random.pick(5)];
        let leaves: Vec<Array> =
            (0..1 + random.pick(5)).map(|_| leaf(&mut random, n)).filter(|a| a.len() == n).collect();
        if leaves.is_empty() {
            continue;
        }
        let mut site = 0;
        let depth = 1 + random.pick(6);
        let array = tree(&mut random, &leaves, depth, &ops, &mut site);
        let (plan, bound) = array.plan().unwrap();
        // every fourth with so little shared memory that long plans do not fit
        compare(&plan, &bound, if k % 4 == 0 { 18_000 } else { 1 << 16 });
    }
}

#[test]
fn random_plans_of_plain_arithmetic() {
    random_plans(2, &[Family::Narrow, Family::Wide], 400);
}

#[test]
fn random_plans_of_everything() {
    random_plans(3, &Family::ALL, 400);
}

#[test]
fn several_outputs_are_stored() {
    let mut random = Random(4);
    let ops = rows(&Family::ALL);
    for _ in 0..100 {
        let leaves = [random.array(66), random.array(66)];
        let array = tree(&mut random, &leaves, 4, &ops, &mut 0);
        let (mut plan, bound) = array.plan().unwrap();
        for r in (0..plan.code.len() as u16).step_by(2) {
            plan.outputs.push((r, verdigris_ops::dtype::natural_dtype(plan.class(r))));
        }
        compare(&plan, &bound, 1 << 16);
    }
}

#[test]
fn a_plan_in_halves_keeps_its_order() {
    let mut random = Random(5);
    let ops = rows(&Family::ALL);
    for _ in 0..50 {
        let leaves = [random.array(66), random.array(66)];
        let array = tree(&mut random, &leaves, 5, &ops, &mut 0);
        let (plan, bound) = array.plan().unwrap();
        let Some(halves) = halves(&plan, &bound) else { continue };
        let count =
            |plan: &Plan| plan.code.iter().filter(|i| matches!(i, crate::plan::Instruction::Apply { .. })).count();
        assert_eq!(count(&halves.first.0) + count(&halves.second.0), count(&plan));
        assert!(count(&halves.first.0) > 0 && count(&halves.second.0) > 0);
        assert_eq!(halves.first.0.outputs.len(), halves.between.len());
        assert_eq!(halves.second.1.inputs.len() + halves.between.len(), halves.second.0.inputs.len());
    }
}

#[test]
fn flagged_rows_have_room_for_their_place() {
    // the word and the shift of flag bits share 16 bits
    assert!(OpId::all().all(|op| op.row().flag == Flag::None || op.row().flag.width() <= 4));
    assert!(crate::graph::cost::MOST_OPS as usize * 4 / 28 < 0xFFFF >> 5);
}
