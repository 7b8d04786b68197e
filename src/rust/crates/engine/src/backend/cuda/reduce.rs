//! Carries out reductions: how the work is shared, and where parts and results go.

use std::sync::Arc;

use super::codegen::reduce::{pack_size, packs_in_flight, Form};
use super::codegen::{parameters, Variant, THREADS};
use super::device::{Cuda, TICKETS};
use super::launch::{Args, Packed};
use super::run::{planned, Planned, Use};
use super::{interpret, shipped, tier};
use crate::array::natural_dtype;
use crate::backend::Outcome;
use crate::buffer::{Buffer, View};
use crate::error::Result;
use crate::plan::{Bound, Plan};
use crate::reduction::{Groups, Reduction};

/// Bytes of the largest accumulator of `reduce.h` (`Var`), rounded up.
const ACCUMULATOR: usize = 64;
/// Where in the slot of a whole reduction the status word is; the value is at 0.
const STATUS: usize = 32;

/// Reduces everything, to the host.
pub fn whole(cuda: &Cuda, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
    let bytes = cuda.receive(|slot| {
        queue(cuda, plan, bound, reduction, na_rm, Groups::whole(bound.n), slot, slot + STATUS as u64)
    })?;
    let mut value = [0u8; 32];
    value.copy_from_slice(&bytes[..32]);
    let status = u32::from_ne_bytes([bytes[STATUS], bytes[STATUS + 1], bytes[STATUS + 2], bytes[STATUS + 3]]);
    Ok(Outcome { value, status })
}

/// Reduces within groups, to a buffer.
pub fn groups(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    output: &Arc<Buffer>,
) -> Result<()> {
    if groups.count() == 0 {
        return Ok(());
    }
    queue(cuda, plan, bound, reduction, na_rm, groups, output.address, 0)
}

/// How the threads of a launch share the elements.
struct Shape {
    grid: usize,
    slices: usize,
    x: usize,
    y: usize,
    across: usize,
}

/// The form that suits the groups.
fn form(plan: &Plan, groups: Groups) -> Form {
    if groups.inner > 1 {
        return if groups.inner.is_multiple_of(pack_size(plan, Form::Lanes)) { Form::Lanes } else { Form::SingleLanes };
    }
    match groups.length / pack_size(plan, Form::Block) {
        _ if groups.outer == 1 => Form::Block,
        0..=4 => Form::Team(1),
        5..=48 => Form::Team(8),
        49..=1024 => Form::Team(32),
        _ => Form::Block,
    }
}

fn shape(cuda: &Cuda, planned: &Planned, u: usize, form: Form, groups: Groups) -> Shape {
    // one wave of blocks: more would only give more parts to merge
    let wave = cuda.properties.multiprocessors as usize * planned.occupancy as usize;
    let v = planned.v;
    match form {
        Form::Block => {
            let most = groups.length.div_ceil(THREADS * v * u).max(1);
            let slices = if groups.outer < wave { (wave / groups.outer).clamp(1, most) } else { 1 };
            Shape { grid: groups.outer * slices, slices, x: 0, y: 0, across: 0 }
        }
        Form::Team(threads) => {
            let grid = groups.outer.div_ceil(THREADS / threads as usize);
            Shape { grid, slices: 1, x: 0, y: 0, across: 0 }
        }
        Form::Lanes | Form::SingleLanes => {
            let packs = groups.inner / v;
            // 64 packs abreast read a kilobyte a row; the other threads of the block take other rows
            let x = packs.min(64);
            let y = (THREADS / x).min(groups.length.max(1));
            let across = packs.div_ceil(x);
            let most = groups.length.div_ceil(y * u).max(1);
            let columns = across * groups.outer;
            let slices = if columns < wave.min(TICKETS) { (wave / columns).clamp(1, most) } else { 1 };
            Shape { grid: columns * slices, slices, x, y, across }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn queue(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    out: u64,
    status: u64,
) -> Result<()> {
    let form = form(plan, groups);
    let variant: Variant = parameters::variant(plan, bound, pack_size(plan, form), &[]);
    match tier::kernel(cuda, plan, Use::Reduce(reduction, na_rm, form), variant)? {
        Some(planned) => launch(cuda, &planned, plan, bound, variant, (reduction, form), groups, out, status),
        None => queue_shipped(cuda, plan, bound, reduction, na_rm, groups, out, status),
    }
}

/// Reduces without a kernel of the plan's own: its values are interpreted into memory, and a shipped kernel reduces those.
#[allow(clippy::too_many_arguments)]
fn queue_shipped(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    out: u64,
    status: u64,
) -> Result<()> {
    let (register, _) = plan.outputs[0];
    let dtype = natural_dtype(plan.class(register));
    let simple = shipped::plain(dtype);
    // freed in the stream's order, and so behind the kernels
    let values = if *plan == simple && bound.inputs[0].address().is_multiple_of(16) {
        bound.inputs[0].clone()
    } else {
        let buffer = cuda.allocate(bound.n * dtype.size())?;
        let stored = Plan { outputs: vec![(register, dtype)], ..plan.clone() };
        interpret::run(cuda, &stored, bound, &[buffer.address])?;
        View::contiguous(buffer, dtype, bound.n)
    };
    let bound = Bound { n: bound.n, inputs: vec![values], ..Bound::default() };
    let form = match form(&simple, groups) {
        Form::Block => Form::Block,
        Form::Team(_) => Form::Team(8),
        Form::Lanes | Form::SingleLanes => Form::SingleLanes,
    };
    debug_assert!(shipped::FORMS.contains(&form));
    let planned = planned(cuda, &simple, Use::Reduce(reduction, na_rm, form), shipped::PLAIN)?;
    launch(cuda, &planned, &simple, &bound, shipped::PLAIN, (reduction, form), groups, out, status)
}

#[allow(clippy::too_many_arguments)]
fn launch(
    cuda: &Cuda,
    planned: &Planned,
    plan: &Plan,
    bound: &Bound,
    variant: Variant,
    (reduction, form): (Reduction, Form),
    groups: Groups,
    out: u64,
    status: u64,
) -> Result<()> {
    let shape = shape(cuda, planned, packs_in_flight(plan, reduction), form, groups);
    let parts = match form {
        _ if shape.slices == 1 => 0,
        Form::Lanes | Form::SingleLanes => shape.slices * groups.count(),
        _ => shape.grid,
    };
    // freed in the stream's order, so it may be dropped as soon as the kernel is queued
    let partial = cuda.allocate(parts * ACCUMULATOR)?;
    let mut job = Packed::default();
    job.u64(groups.length as u64);
    job.u64(groups.inner as u64);
    job.u64(groups.count() as u64);
    job.u32(shape.slices as u32);
    job.u32(shape.x as u32);
    job.u32(shape.y as u32);
    job.u32(shape.across as u32);
    job.u64(partial.address);
    job.u64(out);
    job.u64(status);
    job.u64(cuda.tickets());
    let (params, _queueing) = planned.parameters(cuda, plan, bound, variant, &[])?;
    let mut args = Args::new();
    args.push_bytes(&params.bytes).push_bytes(&job.bytes);
    cuda.launch(&planned.kernel, [shape.grid as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)
}
