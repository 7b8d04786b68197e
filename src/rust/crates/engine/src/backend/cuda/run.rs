//! Carries out plans: finds or makes the kernel, fills its parameters, launches it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::codegen::{body, compress, elementwise, parameters, reduce, scan, tiled, Variant, THREADS};
use super::device::{lock, Cuda};
use super::flags::{Place, Queueing};
use super::launch::{blocks, Args, Kernel, Packed};
use super::{interpret, select, tier};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::plan::{Bound, Plan, Register};
use crate::reduction::Reduction;
use crate::scan::Scan;

/// What is done with a plan's value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Use {
    Store,
    Reduce(Reduction, bool, reduce::Form),
    /// Taken where its mask is TRUE; also where it is NA?
    Compress(bool),
    Scan(Scan),
}

/// A kernel for a plan, and what launching it takes.
pub(super) struct Planned {
    pub kernel: Arc<Kernel>,
    /// A kernel that is launched after it.
    pub second: Option<Arc<Kernel>>,
    /// Elements of a pack.
    pub v: usize,
    /// Blocks that a multiprocessor runs at once.
    pub occupancy: u32,
    places: Vec<(Register, Place)>,
    words: usize,
}

/// The kernels made for one plan.
type Made = Vec<(Use, Variant, Arc<Planned>)>;

/// A device's kernels for plans.
#[derive(Default)]
pub struct Plans {
    known: Mutex<HashMap<Plan, Made>>,
}

/// The kernel for a plan, if it was made before.
pub(super) fn known(cuda: &Cuda, plan: &Plan, how: Use, variant: Variant) -> Option<Arc<Planned>> {
    let known = lock(&cuda.kernels.plans.known);
    let (_, _, found) = known.get(plan)?.iter().find(|(u, v, _)| (*u, *v) == (how, variant))?;
    Some(found.clone())
}

/// The kernel for a plan; made here where it is new.
pub(super) fn planned(cuda: &Cuda, plan: &Plan, how: Use, variant: Variant) -> Result<Arc<Planned>> {
    if let Some(known) = known(cuda, plan, how, variant) {
        return Ok(known);
    }
    let (source, name, v) = match how {
        Use::Store if variant.tiled.inputs != 0 => (tiled::source(plan, variant), tiled::NAME, 1),
        Use::Store => (elementwise::source(plan, variant), elementwise::NAME, body::pack_size(plan)),
        Use::Reduce(reduction, na_rm, form) => {
            let source = reduce::source(plan, variant, reduction, na_rm, form);
            (source, reduce::NAME, reduce::pack_size(plan, form))
        }
        Use::Compress(keep_na) => (compress::source(plan, variant, keep_na), compress::COUNT, 1),
        Use::Scan(scan) => (scan::source(plan, variant, scan), scan::NAME, scan::pack_size(plan)),
    };
    let label = match how {
        Use::Store => plan.key(),
        Use::Reduce(reduction, ..) => format!("{} of {}", reduction.name(), plan.key()),
        Use::Compress(_) => format!("subset of {}", plan.key()),
        Use::Scan(scan) => format!("{} of {}", scan.name(), plan.key()),
    };
    let module = cuda.load(&source, &label)?;
    let second = match how {
        Use::Compress(_) => Some(cuda.function(&module, compress::WRITE)?),
        _ => None,
    };
    let mut kernel = (*cuda.function(&module, name)?).clone();
    // messages name the expression, since all kernels have one of two names
    kernel.name = label;
    let (places, words) = body::places(plan);
    let occupancy = cuda.occupancy(&kernel, THREADS as u32, 0)?;
    let made = Arc::new(Planned { kernel: Arc::new(kernel), second, v, occupancy, places, words });
    lock(&cuda.kernels.plans.known).entry(plan.clone()).or_default().push((how, variant, made.clone()));
    Ok(made)
}

impl Planned {
    /// The bytes of `Params`; takes words for the launch's warnings where somebody waits for them.
    /// Hold what comes beside them until the kernel is queued.
    fn parameters<'a>(
        &self,
        cuda: &'a Cuda,
        plan: &Plan,
        bound: &Bound,
        variant: Variant,
        outputs: &[u64],
    ) -> Result<(Packed, Option<Queueing<'a>>)> {
        let (flags, queueing) = flag_words(cuda, &self.places, self.words, bound)?;
        Ok((parameters::pack(plan, bound, variant, self.v, outputs, flags)?, queueing))
    }

    /// Queues the kernel: its `Params`, and the struct that goes with its kind.
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &self,
        cuda: &Cuda,
        plan: &Plan,
        bound: &Bound,
        variant: Variant,
        outputs: &[u64],
        job: Option<&Packed>,
        grid: u32,
    ) -> Result<()> {
        let (params, _queueing) = self.parameters(cuda, plan, bound, variant, outputs)?;
        let mut args = Args::new();
        args.push_bytes(&params.bytes);
        if let Some(job) = job {
            args.push_bytes(&job.bytes);
        }
        cuda.launch(&self.kernel, [grid, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)
    }
}

/// Words for a launch's warnings, where somebody waits for them; hold what comes beside them until the kernel is queued.
pub(super) fn flag_words<'a>(
    cuda: &'a Cuda,
    places: &[(Register, Place)],
    words: usize,
    bound: &Bound,
) -> Result<((u64, u64), Option<Queueing<'a>>)> {
    if words == 0 || bound.sites.is_empty() {
        return Ok(((0, 0), None));
    }
    let sites: Vec<_> = bound
        .sites
        .iter()
        .filter_map(|(register, site)| {
            let (_, place) = places.iter().find(|(r, _)| r == register)?;
            Some((*place, site.clone()))
        })
        .collect();
    let _entered = cuda.enter()?;
    let (flags, queueing) = cuda.flags.take(cuda, words, &sites)?;
    Ok((flags, Some(queueing)))
}

/// Computes a plan's outputs.
pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
    if bound.n == 0 {
        return Ok(());
    }
    if let Some((source, positions)) = select::gathers(plan, bound) {
        return select::gather(cuda, source, positions, bound.n, outputs[0].address);
    }
    let addresses: Vec<u64> = outputs.iter().map(|b| b.address).collect();
    let tiled = tiled::choose(plan, bound);
    let v = if tiled.inputs == 0 { body::pack_size(plan) } else { 1 };
    let variant = Variant { tiled, ..parameters::variant(plan, bound, v, &addresses) };
    let Some(planned) = tier::kernel(cuda, plan, Use::Store, variant)? else {
        return interpret::run(cuda, plan, bound, &addresses);
    };
    let (tiles, grid) = if tiled.inputs == 0 {
        (None, blocks(bound.n, elementwise::block_elements(plan)))
    } else {
        let (tiles, count) = tiled::tiles(plan, bound, tiled);
        (Some(tiles), count as u32)
    };
    planned.launch(cuda, plan, bound, variant, &addresses, tiles.as_ref(), grid)
}
