//! Runs scans: the partition into tiles, and the memory of the totals that tiles pass on to later tiles.

use std::sync::Arc;

use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::scan::{pack_size, tile};
use crate::backend::cuda::codegen::{parameters, Variant};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Packed;
use crate::backend::cuda::interpret;
use crate::backend::cuda::tiers::choose;
use crate::backend::cuda::tiers::planned::{planned, KernelKind, PlanKernel};
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Bound, Instruction, Plan};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::Class;
use verdigris_ops::error::Result;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::scan::Scan;

/// Bytes of a total that a tile publishes. The largest states of `scan.h` have 32 bytes, of complex numbers 48, and
/// their ready marks take as much again.
fn total_bytes(class: Class) -> usize {
    if class == Class::C128 {
        96
    } else {
        64
    }
}
/// Tiles of a group, and groups of a set of 1024 tiles (a thousand, in scan.cuh): `GROUP` in scan.cuh.
const GROUP: usize = 32;
/// Up to this many tiles the wide kernel alone is faster than two launches (H100: 21 us against 38 at 64 tiles of
/// doubles). Where the first kernel's result is valid, the wide one gives the same bits.
const MOST_WIDE: usize = 64;
/// Blocks of the wide kernel for each multiprocessor; they loop over the tiles. There are few, since most launches of
/// this kernel have nothing to do.
const WIDE_BLOCKS: usize = 4;

/// See `Backend::scan`.
pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<bool> {
    let (register, dtype) = plan.outputs[0];
    let class = plan.class(register);
    if bound.n == 0 {
        return Ok(false);
    }
    if scan != Scan::Sum || !matches!(class, Class::I32 | Class::I64) {
        return queue(cuda, plan, bound, scan, output, 0).map(|()| false);
    }
    let first = cuda.allocate(8)?;
    // all ones: past the end. The kernel lowers it to the first position whose sum does not fit
    cuda.fill(first.address, 0xFF, first.bytes)?;
    queue(cuda, plan, bound, scan, output, first.address)?;
    let bytes = cuda.read(first.address, 8)?;
    let first = u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    if first >= bound.n {
        return Ok(false);
    }
    let missing =
        Plan { code: vec![Instruction::Scalar(0, class)], scalars: 1, outputs: vec![(0, dtype)], ..Plan::default() };
    let rest = Bound { n: bound.n - first, scalars: vec![Scalar::na(class)], ..Bound::default() };
    interpret::run(cuda, &missing, &rest, &[output.address + (first * dtype.size()) as u64])?;
    Ok(true)
}

fn queue(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>, first: u64) -> Result<()> {
    let (variant, _) = parameters::fit(plan, bound, pack_size(plan), &[output.address]);
    match choose::kernel(cuda, plan, bound.n, KernelKind::Scan(scan), variant)? {
        Some(planned) => launch(cuda, &planned, plan, bound, variant, output.address, first),
        None => queue_prebuilt(cuda, plan, bound, scan, output.address, first),
    }
}

/// Scans without a kernel of the plan's own: its values are interpreted into memory, where a prebuilt kernel scans
/// them. If the output's dtype is not the one that is computed, the interpreter converts the result.
fn queue_prebuilt(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: u64, first: u64) -> Result<()> {
    let (register, dtype) = plan.outputs[0];
    let natural = natural_dtype(plan.class(register));
    let simple = prebuilt::stored_plan(natural);
    let stored = Plan { outputs: vec![(register, natural)], ..plan.clone() };
    let of = |inputs: Vec<View>| Bound { n: bound.n, inputs, ..Bound::default() };
    let values = of(interpret::values(cuda, &stored, bound)?);
    let planned = planned(cuda, &simple, KernelKind::Scan(scan), prebuilt::PLAIN)?;
    if dtype == natural && output.is_multiple_of(16) {
        return launch(cuda, &planned, &simple, &values, prebuilt::PLAIN, output, first);
    }
    let scanned = cuda.allocate(bound.n * natural.size())?;
    launch(cuda, &planned, &simple, &values, prebuilt::PLAIN, scanned.address, first)?;
    let scanned = View::contiguous(scanned, natural, bound.n);
    let stored = Plan { outputs: vec![(0, dtype)], ..simple };
    interpret::run(cuda, &stored, &of(vec![scanned]), &[output])
}

fn launch(
    cuda: &Cuda,
    planned: &PlanKernel,
    plan: &Plan,
    bound: &Bound,
    variant: Variant,
    output: u64,
    first: u64,
) -> Result<()> {
    let tiles = bound.n.div_ceil(tile(plan));
    let groups = tiles.div_ceil(GROUP);
    let thousands = groups.div_ceil(GROUP);
    let all = tiles + groups + thousands;
    let total = total_bytes(plan.class(plan.outputs[0].0));
    // the totals are followed by two tickets, and a word that is set if a sum has passed the largest double
    let totals = cuda.allocate(all * total + 12)?;
    cuda.fill(totals.address, 0, totals.bytes)?;
    let always = planned.second.is_some() && tiles <= MOST_WIDE;
    let mut job = Packed::default();
    for at in [0, tiles, tiles + groups, all] {
        job.u64(totals.address + (at * total) as u64);
    }
    job.u64(first);
    job.u32(tiles as u32);
    job.u32(u32::from(always));
    let most = cuda.properties.multiprocessors as usize * WIDE_BLOCKS;
    let grids = [if always { 0 } else { tiles as u32 }, tiles.min(most) as u32];
    planned.launch_both(cuda, plan, bound, variant, &[output], &job, grids)
}
