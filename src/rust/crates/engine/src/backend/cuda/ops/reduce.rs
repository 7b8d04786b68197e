//! Runs reductions: the partition of the work, and the memory of partial and final results.

use std::sync::Arc;

use super::store::store;
use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::reduce::{epilogue_pack, epilogue_variant, form, pack_size, packs_in_flight, Form};
use crate::backend::cuda::codegen::{body, parameters, Tiled, Variant, THREADS};
use crate::backend::cuda::context::deferred::{outcome, Slot};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::context::stream_state::TICKETS;
use crate::backend::cuda::driver::kernel::{Packed, MOST_BYTES};
use crate::backend::cuda::interpret;
use crate::backend::cuda::tiers::choose;
use crate::backend::cuda::tiers::planned::{planned, Planned, Use};
use crate::backend::{Deferred, Outcome};
use crate::memory::buffer::Buffer;
use crate::plan::{After, Bound, Plan};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::error::Result;
use verdigris_ops::reduction::{Groups, Reduction};

/// Bytes of the largest accumulator of `reduce.h` (`Var`), rounded up.
const ACCUMULATOR: usize = 64;
/// Bytes of a `Job` without an epilogue, at most.
const MOST_JOB: usize = 128;
/// Rounds of a block's loop that outweigh its start and its end.
const ROUNDS: usize = 8;

/// A reduction to carry out.
#[derive(Clone, Copy)]
struct Work<'a> {
    cuda: &'a Cuda,
    plan: &'a Plan,
    bound: &'a Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
}

/// Reduces everything, to the host.
pub fn whole(cuda: &Cuda, plan: &Plan, bound: &Bound, reduction: Reduction, na_rm: bool) -> Result<Outcome> {
    let queue = |out, reported, mark| to_slot(cuda, plan, bound, reduction, na_rm, Target::slot(out, reported, mark));
    Ok(outcome(cuda.receive_reported(queue)?))
}

/// Queues a reduction of everything; None where no slot is free.
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

/// Queues a reduction of everything.
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

/// Reduces within groups, to a buffer, or to those of the epilogue.
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
    let Some((after, given)) = plan.after.as_ref().zip(bound.after.as_ref()) else {
        return work.queue(Target::buffer(outputs[0].address));
    };
    let (outputs, results) = match outputs {
        [outputs @ .., results] if after.spread => (outputs, Some(results.clone())),
        _ => (outputs, None),
    };
    if work.with_epilogue(after, given, outputs, results.as_ref().map_or(0, |results| results.address))? {
        return Ok(());
    }
    // one after the other
    let results = results.map_or_else(|| cuda.allocate(after.results_size(groups)), Ok)?;
    let alone = Plan { after: None, ..plan.clone() };
    Work { plan: &alone, ..work }.queue(Target::buffer(results.address))?;
    store(cuda, &after.plan, &given.with(after.results, results), outputs)
}

/// How the threads of a launch share the elements.
struct Shape {
    grid: usize,
    slices: usize,
    /// Elements of a group, or indices on the axis, of a slice.
    span: usize,
    x: usize,
    y: usize,
    across: usize,
}

fn shape(plan: &Plan, planned: &Planned, u: usize, form: Form, groups: Groups) -> Shape {
    // blocks that the GPU runs at once: a wave
    let wave = planned.wave;
    let v = planned.v;
    match form {
        Form::Block | Form::Kept(_) => {
            let (round, most) = (THREADS * v * u, groups.length.max(1));
            // several waves of short blocks keep the GPU evenly busy, but give more parts of a group to merge: a
            // wave's at most
            let rounds = (groups.outer * most).div_ceil(round);
            let waves = (rounds / (wave * ROUNDS)).clamp(1, groups.outer);
            let apart = groups.outer < wave && !plan.spreads();
            let span = if apart { (rounds.div_ceil(waves * wave) * round).min(most) } else { most };
            let slices = most.div_ceil(span);
            Shape { grid: groups.outer * slices, slices, span, x: 0, y: 0, across: 0 }
        }
        Form::Team(threads) => {
            let grid = groups.outer.div_ceil(THREADS / threads as usize);
            Shape { grid, slices: 1, span: 0, x: 0, y: 0, across: 0 }
        }
        Form::Packs(threads) => {
            let grid = (groups.outer * threads as usize).div_ceil(THREADS * u);
            Shape { grid, slices: 1, span: 0, x: 0, y: 0, across: 0 }
        }
        Form::Lanes | Form::SingleLanes => {
            let (packs, length) = (groups.inner / v, groups.length.max(1));
            // 64 packs abreast read a kilobyte a row, and the other threads of the block take other rows; where lanes
            // alone fill the GPU, no two threads share one and nothing is merged
            let alone = packs.div_ceil(THREADS) * groups.outer >= wave;
            let x = packs.min(if alone { THREADS } else { 64 });
            let y = if alone { 1 } else { (THREADS / x).min(length) };
            let across = packs.div_ceil(x);
            // one wave, since there are parts of all lanes to merge: the last block does, a thread every y-th, and no
            // more of them than it does in some microseconds
            let most = length.div_ceil(y * u).clamp(1, 64 * y);
            let columns = across * groups.outer;
            let span =
                if columns < wave.min(TICKETS) { length.div_ceil((wave / columns).clamp(1, most)) } else { length };
            let slices = length.div_ceil(span);
            Shape { grid: columns * slices, slices, span, x, y, across }
        }
    }
}

/// Addresses that the results go to; 0 where they are not wanted.
pub(crate) struct Target {
    out: u64,
    /// Where the host waits for them with `mark`.
    reported: u64,
    mark: u32,
    /// The epilogue's `Params`, which say where its outputs go.
    after: Vec<u8>,
}

impl Target {
    fn buffer(out: u64) -> Target {
        Target { out, reported: 0, mark: 0, after: Vec::new() }
    }

    /// Host memory that the device reaches: the result goes to the first address, and for the host to the second.
    pub(crate) fn slot(out: u64, reported: u64, mark: u32) -> Target {
        Target { out, reported, mark, after: Vec::new() }
    }
}

impl Work<'_> {
    /// By a kernel of the plan's own, or prebuilt ones.
    fn queue(self, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        let form = form(plan, reduction, groups);
        let fit = parameters::fit(plan, bound, pack_size(plan, form), &[]);
        match choose::kernel(cuda, plan, Use::Reduce(reduction, na_rm, form), fit.0)? {
            Some(planned) => self.launch(&planned, fit, form, target),
            None => self.queue_prebuilt(target),
        }
    }

    /// Reduces without a kernel of the plan's own: its values are interpreted into memory, and a prebuilt kernel
    /// reduces those.
    fn queue_prebuilt(self, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        let (register, _) = plan.outputs[0];
        let dtype = natural_dtype(plan.class(register));
        let simple = prebuilt::plain(dtype);
        let inputs = if *plan == simple && bound.inputs[0].address().is_multiple_of(16) {
            bound.inputs.clone()
        } else {
            interpret::values(cuda, &Plan { outputs: vec![(register, dtype)], after: None, ..plan.clone() }, bound)?
        };
        let bound = Bound { n: bound.n, inputs, ..Bound::default() };
        let form = prebuilt::form_for(form(&simple, reduction, groups));
        let planned = planned(cuda, &simple, Use::Reduce(reduction, na_rm, form), prebuilt::PLAIN)?;
        let fit = (prebuilt::PLAIN, parameters::packable(&simple, &bound, planned.v, &[]));
        Work { plan: &simple, bound: &bound, ..self }.launch(&planned, fit, form, target)
    }

    /// Reduces and goes on to the epilogue in one kernel, which stores the results too if they have an address; false
    /// where there is none that does.
    fn with_epilogue(self, after: &After, given: &Bound, outputs: &[Arc<Buffer>], results: u64) -> Result<bool> {
        let Work { cuda, plan, bound, reduction, na_rm, groups } = self;
        if after.results as usize >= Tiled::MOST {
            return Ok(false);
        }
        let form = form(plan, reduction, groups);
        let before = parameters::fit(plan, bound, pack_size(plan, form), &[]);
        let variant = before.0;
        let addresses: Vec<u64> = outputs.iter().map(|b| b.address).collect();
        let (apart, packed) = parameters::fit(&after.plan, given, epilogue_pack(after), &addresses);
        // words for warnings are taken once a launch
        if apart.wide && !variant.wide
            || after.spread && apart.unaligned
            || !bound.sites.is_empty() && !given.sites.is_empty()
        {
            return Ok(false);
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
            return Ok(false);
        }
        let Some(planned) = choose::kernel(cuda, plan, Use::Reduce(reduction, na_rm, form), variant)? else {
            return Ok(false);
        };
        let (bits, words) = body::flag_bits(&after.plan);
        let (flags, _queueing) = cuda.flag_words(&bits, words, given)?;
        let after = pack(&after.plan, given, fit, &addresses, flags)?;
        let target = Target { after: after.bytes().to_vec(), ..Target::buffer(results) };
        self.launch(&planned, before, form, target)?;
        Ok(true)
    }

    fn launch(self, planned: &Planned, fit: (Variant, u32), form: Form, target: Target) -> Result<()> {
        let Work { cuda, plan, bound, reduction, groups, .. } = self;
        let shape = shape(plan, planned, packs_in_flight(plan, reduction, form), form, groups);
        let parts = match form {
            _ if shape.slices == 1 => 0,
            Form::Lanes | Form::SingleLanes => shape.slices * groups.count(),
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
        job.u64(partial.as_ref().map_or(0, |partial| partial.address));
        job.u64(target.out);
        job.u64(cuda.tickets());
        job.u64(target.reported);
        job.u32(target.mark);
        // a struct's size is a multiple of its alignment
        job.u32(0);
        job.field(&target.after, 8);
        planned.launch_fit(cuda, plan, bound, fit, &[], Some(&job), shape.grid as u32, target.reported != 0)
    }
}
