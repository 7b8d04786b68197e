//! Fixed work for `tools/test/guard.sh`, which counts its instructions, and the instruction counts of fixed kernels.
//!
//! `guard list` names the work. `guard run NAME TIMES` repeats it, for callgrind, which counts two runs: their
//! difference is the work alone. `guard kernels` compiles each of `kernels()` for sm_90 by the NVRTC that
//! `VERDIGRIS_NVRTC` names, and prints its number of instructions. `guard float64` compiles the kernels of float32
//! arrays for the GPUs of most users, which compute float64 at 1/64 of the rate, and prints how many instructions of
//! each are float64 ones, where there are any. Nothing here needs a GPU.
#![cfg(not(target_os = "macos"))]

use std::io::Write;
use std::path::Path;

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::backend::cuda::codegen::reduce::Form;
use verdigris_engine::backend::cuda::codegen::{self, Variant};
use verdigris_engine::backend::cuda::compile::{compile, nvrtc::Target};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{Group, OpId};

fn apply(name: &str, operands: &[&Array]) -> Result<Array> {
    let operands: Vec<Operand> = operands.iter().map(|&a| Operand::Array(a.clone())).collect();
    Array::apply(OpId::find(name).expect("the table has it"), &operands, None)
}

fn with_number(name: &str, x: &Array, number: f64) -> Result<Array> {
    let operands = [Operand::Array(x.clone()), Operand::Value(Scalar::F64(number), Kind::Double)];
    Array::apply(OpId::find(name).expect("the table has it"), &operands, None)
}

/// `sqrt(a*a + b*b)*2 - exp(-a)/(abs(b) + 1)`
fn chain(a: &Array, b: &Array) -> Result<Array> {
    let squares = apply("add", &[&apply("mul", &[a, a])?, &apply("mul", &[b, b])?])?;
    let left = with_number("mul", &apply("sqrt", &[&squares])?, 2.0)?;
    let below = with_number("add", &apply("abs", &[b])?, 1.0)?;
    apply("sub", &[&left, &apply("div", &[&apply("exp", &[&apply("neg", &[a])?])?, &below])?])
}

fn squared_difference(a: &Array, b: &Array) -> Result<Array> {
    let d = apply("sub", &[a, b])?;
    apply("mul", &[&d, &d])
}

/// `n` values between 0 and 1, always the same.
fn values(n: usize, dtype: DType) -> Result<Array> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let host: Vec<f64> = (0..n).map(|_| next()).collect();
    Array::upload(Host::Double(&host), Some(dtype), Device::Cpu, None)
}

fn square(a: &Array, side: usize) -> Result<Array> {
    a.view(&[side, side], &[Axis::whole(1, side), Axis::whole(0, side)])
}

/// Elements of what is evaluated: few enough for one thread.
const SIDE: usize = 64;
const N: usize = SIDE * SIDE;

type Work = Box<dyn Fn() -> Result<()>>;

/// What is done, by name.
fn work() -> Result<Vec<(&'static str, Work)>> {
    let mut all: Vec<(&'static str, Work)> = Vec::new();
    let mut add = |name, work: Work| all.push((name, work));
    let (a, b) = (values(N, DType::Float64)?, values(N, DType::Float64)?);
    let (x, y) = (values(10, DType::Float64)?, values(10, DType::Float64)?);
    let (f, g) = (values(N, DType::Float32)?, values(N, DType::Float32)?);
    let whole = Array::upload(Host::Integer(&(0..N as i32).collect::<Vec<_>>()), None, Device::Cpu, None)?;

    let (p, q) = (x.clone(), y.clone());
    add("record add", Box::new(move || apply("add", &[&p, &q]).map(drop)));
    let (p, q) = (a.clone(), b.clone());
    add("record chain", Box::new(move || chain(&p, &q).map(drop)));
    let (p, q) = (a.clone(), b.clone());
    // recorded anew, since a plan may be kept; "record chain" is in it
    add("record and plan chain", Box::new(move || chain(&p, &q)?.plan().map(drop)));
    let (p, q) = (x.clone(), y.clone());
    add("cpu add of 10", Box::new(move || apply("add", &[&p, &q])?.evaluate().map(drop)));
    let p = x.clone();
    add("cpu sum of 10", Box::new(move || p.reduce(Reduction::Sum, false).map(drop)));
    let (p, q) = (a.clone(), b.clone());
    add("cpu chain float64", Box::new(move || chain(&p, &q)?.evaluate().map(drop)));
    add("cpu chain float32", Box::new(move || chain(&f, &g)?.evaluate().map(drop)));
    let p = whole.clone();
    add("cpu integer add", Box::new(move || apply("add", &[&p, &p])?.evaluate().map(drop)));
    let (p, q) = (a.clone(), b.clone());
    add("cpu a < b", Box::new(move || apply("lt", &[&p, &q])?.evaluate().map(drop)));
    let (p, t) = (a.clone(), square(&a, SIDE)?);
    add("cpu a + t(a)", Box::new(move || apply("add", &[&p, &t])?.evaluate().map(drop)));
    let (p, q) = (a.clone(), b.clone());
    let sum = Reduction::Sum;
    add("cpu sum((a - b)^2)", Box::new(move || squared_difference(&p, &q)?.reduce(sum, false).map(drop)));
    let p = a.clone();
    add("cpu var", Box::new(move || p.reduce(Reduction::Var, false).map(drop)));
    let rows = Groups { outer: 1, length: SIDE, inner: SIDE };
    let p = a.clone();
    add("cpu rowSums", Box::new(move || p.reduce_groups(Reduction::Sum, false, rows)?.evaluate().map(drop)));
    let (p, at) = (a.clone(), whole);
    add("cpu gather", Box::new(move || p.gather(&at)?.evaluate().map(drop)));
    add("cpu sort", Box::new(move || a.sort(false, false)?.0.evaluate().map(drop)));
    Ok(all)
}

/// Kernels by name, with their sources.
fn kernels() -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    let elementwise = |name: &str, x: &Array| Ok((name.to_string(), codegen::source(&x.plan()?.0, Variant::default())));
    let reduction = |name: &str, x: &Array, reduction, form| {
        let source = codegen::source_reduce(&x.plan()?.0, Variant::default(), reduction, false, form);
        Ok((format!("{name} {form:?}"), source))
    };
    for dtype in [DType::Float32, DType::Float64] {
        let (a, b) = (values(N, dtype)?, values(N, dtype)?);
        let name = |what: &str| format!("{what} {dtype}");
        all.push(elementwise(&name("chain"), &chain(&a, &b)?)?);
        all.push(elementwise(&name("a + b"), &apply("add", &[&a, &b])?)?);
        all.push(elementwise(&name("a %% b"), &apply("mod", &[&a, &b])?)?);
        all.push(elementwise(&name("a ^ b"), &apply("pow", &[&a, &b])?)?);
        all.push(elementwise(&name("a < b"), &apply("lt", &[&a, &b])?)?);
        all.push(elementwise(&name("a + t(a)"), &apply("add", &[&a, &square(&a, SIDE)?])?)?);
        let one = with_number("mul", &a, 1.0)?;
        for form in [Form::Block, Form::SubWarp(8), Form::Strided] {
            all.push(reduction(&name("sum(a)"), &one, Reduction::Sum, form)?);
        }
        all.push(reduction(&name("sum((a - b)^2)"), &squared_difference(&a, &b)?, Reduction::Sum, Form::Block)?);
        all.push(reduction(&name("var(a)"), &one, Reduction::Var, Form::Block)?);
        all.push(reduction(&name("which.max(a)"), &one, Reduction::WhichMax, Form::Block)?);
    }
    let half = values(N, DType::Float16)?;
    all.push(elementwise("exp float16", &apply("exp", &[&half])?)?);
    all.push(elementwise("lgamma float64", &apply("lgamma", &[&values(N, DType::Float64)?])?)?);
    Ok(all)
}

/// Kernels of float32 arrays: those of `kernels()`, and each operation of the table that computes in float32.
fn kernels_of_float32() -> Result<Vec<(String, String)>> {
    let mut all = kernels()?;
    all.retain(|(name, _)| name.contains("float32"));
    let operands = [values(N, DType::Float32)?, values(N, DType::Float32)?, values(N, DType::Float32)?];
    for op in OpId::all() {
        let row = op.row();
        let given: Vec<&Array> = operands.iter().take(row.arity as usize).collect();
        let Ok(out) = apply(row.name, &given) else { continue };
        // computed in float64 for all types
        let in_float64 = matches!(row.group, Group::Distribution | Group::Bessel);
        if given.is_empty() || row.expression(Class::F32).is_none() || in_float64 {
            continue;
        }
        all.push((format!("{} float32", row.name), codegen::source(&out.plan()?.0, Variant::default())));
    }
    Ok(all)
}

/// Whether an instruction of 16 bytes, since compute capability 7.0, runs on the float64 units: the opcode is in the
/// lowest nine bits, the form of the operands in the next three (as nvdisasm shows them: DMUL, DADD, DSETP, DFMA; F2F,
/// F2I, I2F and FRND where one side has 64 bits).
fn is_float64(code: &[u8]) -> bool {
    let word = |at: usize| u64::from_le_bytes(code[at..at + 8].try_into().expect("eight bytes"));
    // the sizes of result and source: 3 is 64 bits, also of an integer
    let (to, from) = (word(8) >> 11 & 3 == 3, word(8) >> 20 & 3 == 3);
    match word(0) & 0x1ff {
        0x028..=0x02b => true,
        0x110 | 0x113 => to || from,
        0x111 => from,
        0x112 => to,
        _ => false,
    }
}

/// The code of a cubin's functions. It is a little-endian ELF file of 64 bits; a section `.text.NAME` has a
/// function's code, 16 bytes an instruction since compute capability 7.0.
fn functions(cubin: &[u8]) -> impl Iterator<Item = &[u8]> {
    let number =
        move |at: usize, size: usize| cubin[at..at + size].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
    let (sections, size, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let field = move |section: usize, at: usize, width: usize| number(sections + section * size + at, width);
    let text = move |section: usize| cubin[field(names, 24, 8) + field(section, 0, 4)..].starts_with(b".text.");
    (0..count).filter(move |&s| text(s)).map(move |s| &cubin[field(s, 24, 8)..][..field(s, 32, 8)])
}

fn instructions(cubin: &[u8]) -> usize {
    functions(cubin).map(|code| code.len() / 16).sum()
}

fn float64_instructions(cubin: &[u8]) -> usize {
    functions(cubin).flat_map(|code| code.chunks_exact(16)).filter(|code| is_float64(code)).count()
}

fn use_nvrtc() {
    let path = std::env::var_os("VERDIGRIS_NVRTC").expect("VERDIGRIS_NVRTC is the path of libnvrtc");
    std::env::set_var("VERDIGRIS_CUDA_PATH", Path::new(&path).parent().expect("a path to a file"));
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => work()?.iter().for_each(|(name, _)| println!("{name}")),
        ["run", name, times] => {
            let work = work()?;
            let (_, body) = work.iter().find(|w| w.0 == name).expect("a name that `guard list` prints");
            for _ in 0..times.parse::<usize>().expect("a number") {
                body()?;
            }
        }
        ["kernels"] => {
            use_nvrtc();
            for (name, source) in kernels()? {
                println!("{name},{}", instructions(&compile(&source, Target::Cubin(90))?.bytes));
            }
        }
        ["float64"] => {
            use_nvrtc();
            for (name, source) in kernels_of_float32()? {
                for capability in [86, 89] {
                    match float64_instructions(&compile(&source, Target::Cubin(capability))?.bytes) {
                        0 => {}
                        count => println!("float64 sm_{capability} {name},{count}"),
                    }
                }
            }
        }
        // the machine code of a kernel, to be looked at with nvdisasm
        ["cubin", capability, name] => {
            use_nvrtc();
            let all = kernels_of_float32()?;
            let (_, source) = all.iter().find(|kernel| kernel.0 == name).expect("a kernel of float32 arrays");
            let target = Target::Cubin(capability.parse().expect("a number"));
            std::io::stdout().write_all(&compile(source, target)?.bytes).expect("a file to write to");
        }
        _ => panic!("usage: guard list | guard run NAME TIMES | guard kernels | guard float64 | guard cubin 86 NAME"),
    }
    Ok(())
}
