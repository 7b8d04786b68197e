//! Runs reductions: the partition of the work, and the memory of partial and final results.

use std::sync::Arc;

use super::store::store;
use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::reduce::{epilogue_pack, epilogue_variant, form, pack_size, packs_in_flight, Form};
use crate::backend::cuda::codegen::{body, parameters, Tiled, Variant, THREADS};
use crate::backend::cuda::context::deferred::{outcome, Slot};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::{Packed, MOST_BYTES};
use crate::backend::cuda::interpret;
use crate::backend::cuda::tiers::choose;
use crate::backend::cuda::tiers::planned::{KernelKind, PlanKernel};
use crate::backend::cuda::tiers::prebuilt_reductions::prebuilt_reduction;
use crate::backend::{Deferred, Outcome};
use crate::memory::buffer::Buffer;
use crate::plan::{Bound, Epilogue, Plan};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::error::Result;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::tree::{Tree, ALIGN};

/// Bytes of the largest accumulator of `reduce.h` (`Var`), rounded up.
const ACCUMULATOR: usize = 64;
/// An upper bound of the size of a `Job` without an epilogue.
const MOST_JOB: usize = 128;

/// The arguments of a reduction.
#[derive(Clone, Copy)]
struct Work<'a> {
    cuda: &'a Cuda,
    plan: &'a Plan,
    bound: &'a Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
}

/// Reduces all elements, and waits for the value.
pub fn whole(cuda: &Cuda, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
    let queue = |out, reported, mark| to_slot(cuda, plan, bound, reduction, na_rm, Target::slot(out, reported, mark));
    Ok(outcome(cuda.receive_reported(queue)?))
}

/// Queues a reduction of all elements, whose value is read later; `None` if no slot is free.
pub(crate) fn later(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
) -> Result<Option<Box<dyn Deferred>>> {
    let Some(slot) = Slot::take(cuda)? else { return Ok(None) };
    let (out, reported, mark) = slot.target();
    to_slot(cuda, plan, bound, reduction, na_rm, Target::slot(out, reported, mark))?;
    Ok(Some(Box::new(slot)))
}

/// Queues a reduction of all elements to `target`.
pub(crate) fn to_slot(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    target: Target,
) -> Result<()> {
    Work { cuda, plan, bound, reduction, na_rm, groups: Groups::whole(bound.n) }.queue(target)
}

/// See `Backend::reduce_groups`.
pub fn groups(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    outputs: &[Arc<Buffer>],
) -> Result<()> {
    if groups.count() == 0 {
        return Ok(());
    }
    let work = Work { cuda, plan, bound, reduction, na_rm, groups };
    let Some((after, given)) = plan.epilogue.as_ref().zip(bound.epilogue.as_ref()) else {
        return work.queue(Target::buffer(outputs[0].address));
    };
    let (outputs, results) = match outputs {
        [outputs @ .., results] if after.over_elements => (outputs, Some(results.clone())),
        _ => (outputs, None),
    };
    let fused = work.with_epilogue(after, given, outputs, results.as_ref().map_or(0, |results| results.address))?;
    if fused == Fused::Done {
        return Ok(());
    }
    // not fused: the reduction, then its epilogue as a plan of its own
    let results = results.map_or_else(|| cuda.allocate(after.results_size(groups)), Ok)?;
    let alone = Plan { epilogue: None, ..plan.clone() };
    let (work, target) = (Work { plan: &alone, ..work }, Target::buffer(results.address));
    let given = given.with(after.results, results);
    if fused == Fused::NotYet {
        // prebuilt kernels, since own kernels of the two parts would only serve until the fused one is compiled
        work.queue_prebuilt(target)?;
        let addresses: Vec<u64> = outputs.iter().map(|b| b.address).collect();
        return interpret::run(cuda, &after.plan, &given, &addresses);
    }
    work.queue(target)?;
    store(cuda, &after.plan, &given, outputs)
}

/// Whether a reduction and its epilogue were queued as one kernel.
#[derive(PartialEq, Eq)]
enum Fused {
    Done,
    /// The kernel is not compiled yet, or there is no NVRTC.
    NotYet,
    /// One kernel cannot do both.
    Never,
}

/// How the threads of a launch share the elements.
struct Shape {
    grid: usize,
    /// Blocks that share the axis of a group, or across memory of a block's packs.
    slices: usize,
    /// Tiles that a block takes, of a group of neighbours.
    span: usize,
    /// Across memory: packs side by side in a block, threads that share each, and blocks side by side.
    x: usize,
    y: usize,
    across: usize,
}

/// Blocks that keep any GPU busy.
const BUSY: usize = 4096;
/// The most partial results of a group of neighbours: sixteen for each thread of the block that merges them.
const MOST_SLICES: usize = 16 * THREADS;
/// Packs side by side in a block where several blocks share the axis: `MOST_ABREAST` of reduce.cuh.
const MOST_ABREAST: usize = 32;

/// Chooses how a launch distributes the tree's lanes and tiles. The bits of results do not depend on it.
fn shape(plan: &Plan, v: usize, in_flight: usize, form: Form, groups: Groups, tree: Tree) -> Shape {
    let alone = |grid| Shape { grid, slices: 1, span: 0, x: 0, y: 0, across: 0 };
    match form {
        Form::Block | Form::BlockShared(_) | Form::BlockSharedShort(_) => {
            // a group may begin within a pack
            let tiles = (groups.length + v.max(ALIGN) - 1).div_ceil(tree.tile());
            let whole = plan.over_elements() || tiles == 1 || groups.outer >= BUSY;
            let mut span = tiles.next_power_of_two();
            if !whole {
                let wanted = (tiles * groups.outer / BUSY).max(tiles.div_ceil(MOST_SLICES)).max(1);
                span = span.min(wanted.next_power_of_two());
            }
            let slices = tiles.div_ceil(span);
            Shape { grid: groups.outer * slices, slices, span, ..alone(0) }
        }
        Form::SubWarp(threads) => alone(groups.outer.div_ceil(THREADS / threads as usize)),
        Form::PackPerThread(threads) => alone((groups.outer * threads as usize).div_ceil(THREADS * in_flight)),
        Form::Strided | Form::StridedSingle => {
            let packs = groups.inner / v;
            // the lanes of all tiles; each is reduced by one thread
            let lanes = groups.length.div_ceil(tree.tile()).max(1) * tree.lanes;
            let most = lanes.next_power_of_two();
            let x = packs.min((THREADS / most).max(MOST_ABREAST));
            let y = (1 << (THREADS / x).ilog2()).min(most);
            let (across, slices) = (packs.div_ceil(x), lanes.div_ceil(y));
            Shape { grid: across * slices * groups.outer, slices, span: 0, x, y, across }
        }
    }
}

/// Where a reduction writes its results. An address is 0 if they are not wanted there.
pub(crate) struct Target {
    out: u64,
    /// Host memory, in which the host waits for words with `mark`.
    reported: u64,
    mark: u32,
    /// The epilogue's `Params`, which hold the addresses of its outputs.
    epilogue: Vec<u8>,
}

impl Target {
    fn buffer(out: u64) -> Target {
        Target { out, reported: 0, mark: 0, epilogue: Vec::new() }
    }

    /// A slot in host memory that the device can write. The result goes to `out`, and with `mark` to `reported`, which
    /// the host polls.
    pub(crate) fn slot(out: u64, reported: u64, mark: u32) -> Target {
        Target { out, reported, mark, epilogue: Vec::new() }
    }
}

impl Work<'_> {
    /// Queues the reduction by the plan's own kernel, or by prebuilt ones.
    fn queue(self, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        let form = form(plan, reduction, groups);
        let fit = parameters::fit(plan, bound, pack_size(plan, reduction, form), &[]);
        match choose::kernel(cuda, plan, bound.n, KernelKind::Reduce(reduction, na_rm, form), fit.0)? {
            Some(planned) => self.launch(&planned, fit, form, target),
            None => self.queue_prebuilt(target),
        }
    }

    /// Reduces without a kernel of the plan's own: its values are interpreted into memory, and a prebuilt kernel
    /// reduces those.
    fn queue_prebuilt(self, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, groups, .. } = self;
        let (register, _) = plan.outputs[0];
        let dtype = natural_dtype(plan.class(register));
        let simple = prebuilt::stored_plan(dtype);
        let inputs = if *plan == simple && bound.inputs[0].address().is_multiple_of(16) {
            bound.inputs.clone()
        } else {
            interpret::values(cuda, &Plan { outputs: vec![(register, dtype)], epilogue: None, ..plan.clone() }, bound)?
        };
        let bound = Bound { n: bound.n, inputs, ..Bound::default() };
        let class = plan.class(register);
        let form = prebuilt::form_for(form(&simple, reduction, groups), Tree::of(reduction, class, groups));
        let planned = prebuilt_reduction(cuda, reduction, class, form.is_across())?;
        let fit = (prebuilt::PLAIN, parameters::packable(&simple, &bound, planned.v, &[]));
        Work { plan: &simple, bound: &bound, ..self }.launch(&planned, fit, form, target)
    }

    /// Queues the reduction and its epilogue as one kernel, which also stores the results if their address is not 0.
    fn with_epilogue(self, after: &Epilogue, given: &Bound, outputs: &[Arc<Buffer>], results: u64) -> Result<Fused> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        if after.results as usize >= Tiled::MOST {
            return Ok(Fused::Never);
        }
        let form = form(plan, reduction, groups);
        let before = parameters::fit(plan, bound, pack_size(plan, reduction, form), &[]);
        let variant = before.0;
        let addresses: Vec<u64> = outputs.iter().map(|b| b.address).collect();
        let (apart, packed) = parameters::fit(&after.plan, given, epilogue_pack(after), &addresses);
        // one launch has one set of flag words, so only one of the two parts may warn
        if apart.wide && !variant.wide
            || after.over_elements && apart.unaligned
            || !bound.sites.is_empty() && !given.sites.is_empty()
        {
            return Ok(Fused::Never);
        }
        let fit = (epilogue_variant(after, variant), packed);
        let pack = |plan: &Plan, bound: &Bound, fit, addresses: &[u64], flags| -> Result<Packed> {
            let mut params = Packed::default();
            parameters::pack(&mut params, plan, bound, fit, addresses, flags)?;
            Ok(params)
        };
        let both = pack(plan, bound, (variant, 0), &[], (0, 0))?.len()
            + pack(&after.plan, given, fit, &addresses, (0, 0))?.len();
        if both + MOST_JOB > MOST_BYTES {
            return Ok(Fused::Never);
        }
        let Some(planned) = choose::kernel(cuda, plan, bound.n, KernelKind::Reduce(reduction, na_rm, form), variant)?
        else {
            return Ok(Fused::NotYet);
        };
        let (bits, words) = body::flag_bits(&after.plan);
        let (flags, _queueing) = cuda.flag_words(&bits, words, given)?;
        let after = pack(&after.plan, given, fit, &addresses, flags)?;
        let target = Target { epilogue: after.bytes().to_vec(), ..Target::buffer(results) };
        self.launch(&planned, before, form, target)?;
        Ok(Fused::Done)
    }

    fn launch(self, planned: &PlanKernel, fit: (Variant, u32), form: Form, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        let tree = Tree::of(reduction, plan.class(plan.outputs[0].0), groups);
        let shape = shape(plan, planned.v, packs_in_flight(plan, reduction, form), form, groups, tree);
        let parts = match form {
            _ if shape.slices == 1 => 0,
            Form::Strided | Form::StridedSingle => shape.slices * groups.count(),
            _ => shape.grid,
        };
        // freed in the stream's order, so it may be dropped as soon as the kernel is queued
        let partial = if parts == 0 { None } else { Some(cuda.allocate(parts * ACCUMULATOR)?) };
        let mut job = Packed::default();
        job.u64(groups.length as u64);
        job.u64(groups.inner as u64);
        job.u64(groups.count() as u64);
        job.u64(shape.span as u64);
        job.u32(shape.slices as u32);
        job.u32(shape.x as u32);
        job.u32(shape.y as u32);
        job.u32(shape.across as u32);
        job.u32(tree.lanes.ilog2());
        job.u32(tree.rows as u32);
        job.u64(partial.as_ref().map_or(0, |partial| partial.address));
        job.u64(target.out);
        job.u64(cuda.tickets());
        job.u64(target.reported);
        job.u32(target.mark);
        job.u32(na_rm.into());
        job.field(&target.epilogue, 8);
        planned.launch_fit(cuda, plan, bound, fit, &[], Some(&job), shape.grid as u32, target.reported != 0)
    }
}
