//! The interpreter tier: runs any elementwise plan at once, by prebuilt kernels.
//!
//! `source` writes the kernels from the operation table, `encode` the programs that they execute. Values equal those of
//! a plan's own kernel to the last bit: both use the operation table's expressions, compiled without fused
//! multiply-add.

#[cfg(test)]
mod bits;
pub mod encode;
pub mod source;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::sync::{Arc, Mutex, OnceLock};

use self::encode::{encode, halves, single};
use self::source::THREADS;
use super::codegen::body;
use super::compile::{nvrtc, USUAL_SHARED};
use super::context::core::lock;
use super::context::device::{Cuda, PerDevice};
use super::driver::kernel::{Args, Kernel};
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Bound, Instruction, Plan};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::{Error, Kind, Result};

pub(crate) use encode::family_of;
pub use source::Family;

/// Queues the computation of a plan's outputs. A plan that does not fit one program is split, with temporary values in
/// memory.
pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[u64]) -> Result<()> {
    if bound.n == 0 {
        return Ok(());
    }
    let (bits, words) = body::flag_bits(plan);
    let most = cuda.properties.shared.max(USUAL_SHARED) as usize;
    let Some(mut program) = encode(plan, bound, outputs, &bits, most) else {
        return in_halves(cuda, plan, bound, outputs);
    };
    let kernel = kernel(cuda, program.family)?;
    let (flags, _queueing) = cuda.flag_words(&bits, words, bound)?;
    program.set_flags(flags.0, flags.1);
    let mut args = Args::new();
    args.push_bytes(&program.bytes);
    let grid = [program.blocks(THREADS) as u32, 1, 1];
    cuda.launch(&kernel, grid, [THREADS as u32, 1, 1], program.shared(THREADS) as u32, &mut args)
}

/// Computes a plan's outputs into new buffers. Buffers are freed in stream order, so they may be dropped as soon as the
/// kernels that read them are queued.
pub(crate) fn values(cuda: &Cuda, plan: &Plan, bound: &Bound) -> Result<Vec<View>> {
    let output =
        |&(_, dtype): &(_, DType)| Ok(View::contiguous(cuda.allocate(bound.n * dtype.size())?, dtype, bound.n));
    let views: Vec<View> = plan.outputs.iter().map(output).collect::<Result<_>>()?;
    let addresses: Vec<u64> = views.iter().map(View::address).collect();
    run(cuda, plan, bound, &addresses)?;
    Ok(views)
}

/// Runs a plan that does not fit one program: in halves, or else each output separately.
fn in_halves(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[u64]) -> Result<()> {
    let Some(halves) = halves(plan, bound) else {
        if outputs.len() > 1 {
            return outputs.iter().enumerate().try_for_each(|(k, &output)| {
                let (plan, bound) = single(plan, bound, k);
                run(cuda, &plan, &bound, &[output])
            });
        }
        return Err(Error::new(Kind::Launch, format!("an operation is too large for the interpreter: {}", plan.key())));
    };
    let (first, first_bound) = &halves.first;
    let (second, mut second_bound) = halves.second;
    let between: Vec<Arc<Buffer>> =
        halves.between.iter().map(|dtype| cuda.allocate(bound.n * dtype.size())).collect::<Result<_>>()?;
    let addresses: Vec<u64> = between.iter().map(|buffer| buffer.address).collect();
    run(cuda, first, first_bound, &addresses)?;
    for (buffer, &dtype) in between.into_iter().zip(&halves.between) {
        second_bound.inputs.push(View::contiguous(buffer, dtype, bound.n));
    }
    run(cuda, &second, &second_bound, outputs)
}

static INTERPRETERS: PerDevice<[OnceLock<Arc<Kernel>>; Family::ALL.len()]> = PerDevice::new();
/// Locked while a family is loaded, so that another thread does not have the driver compile it a second time.
static LOADING: [Mutex<()>; Family::ALL.len()] = [const { Mutex::new(()) }; Family::ALL.len()];

/// A family's kernel, loaded at its first use.
fn kernel(cuda: &Cuda, family: Family) -> Result<Arc<Kernel>> {
    let slot = &INTERPRETERS.of(cuda)[family as usize];
    if let Some(kernel) = slot.get() {
        return Ok(kernel.clone());
    }
    let _loading = lock(&LOADING[family as usize]);
    if let Some(kernel) = slot.get() {
        return Ok(kernel.clone());
    }
    let module = cuda.prebuilt_module(family.name(), || source::source(family))?;
    let kernel = cuda.function(&module, family.name())?;
    if cuda.properties.shared > USUAL_SHARED {
        cuda.allow_shared(&kernel, cuda.properties.shared)?;
    }
    Ok(slot.get_or_init(|| kernel).clone())
}

/// Loads the interpreters of plain arithmetic if the package has their machine code for the device.
pub(crate) fn prepare(cuda: &Cuda) {
    for family in [Family::Wide, Family::Narrow] {
        let _loading = lock(&LOADING[family as usize]);
        cuda.load_ahead(family.name());
    }
}

/// Whether an interpreter can run the plan without compilation, and with the same bits as the kernel that NVRTC will
/// compile.
pub(crate) fn can_interpret_now(cuda: &Cuda, plan: &Plan) -> bool {
    let Some(family) = family_of(plan) else { return false };
    let Some(interpreter) = cuda.prebuilt_cuda_version(family.name()) else { return false };
    let compiler = nvrtc::version().ok();
    plan.code.iter().all(|instruction| match instruction {
        Instruction::Apply { op, class, .. } => {
            op.row().ulp == 0.0
                || compiler.is_some_and(|compiler| are_same(op.row().name, *class, interpreter, compiler))
        }
        _ => true,
    })
}

/// A CUDA version: major, minor.
type Version = (u32, u32);

/// CUDA versions in which the bits of math functions changed, with the rows and classes that use them. Found with
/// `tools/gpu/functions.py`, which compares every float32, and 2^30 random operands of each other function, from 12.0
/// to `NEWEST`.
#[rustfmt::skip]
const CHANGES: [(Version, &[&str], &[Class]); 5] = [
    ((12, 1), &["asin", "acos", "atan", "pow", "tanpi"], &[Class::F32]),
    ((13, 0), &["acosh"], &[Class::F32]),
    ((13, 0), &["asinh", "atan2"], &[Class::F32, Class::F64]),
    // complex functions are computed in float64; these use atan2
    ((13, 0), &["log", "log2", "log10", "log_base", "pow", "asin", "acos", "atan", "asinh", "acosh", "atanh", "argument"],
        &[Class::C64, Class::C128]),
    ((13, 2), &["expm1"], &[Class::F32]),
];
const NEWEST: Version = (13, 5);

/// Whether two versions of NVRTC compile a row to the same bits. False for versions after `NEWEST`, which were not
/// compared.
fn are_same(row: &str, class: Class, one: Version, other: Version) -> bool {
    let (first, last) = (one.min(other), one.max(other));
    let changes = |(version, rows, classes): &(Version, &[&str], &[Class])| {
        first < *version && *version <= last && rows.contains(&row) && classes.contains(&class)
    };
    last <= NEWEST && !CHANGES.iter().any(changes)
}
