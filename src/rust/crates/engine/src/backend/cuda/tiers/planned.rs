//! Plans' own kernels: finds or compiles one, fills its parameters, launches it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex};

use crate::backend::cuda::codegen::notes::FlagBits;
use crate::backend::cuda::codegen::{
    body, elementwise, gram, mask, parameters, patch, prebuilt, reduce, scan, tiled, Variant, THREADS,
};
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::driver::kernel::{Kernel, Packed, Shape};
use crate::plan::{Bound, Mix, Plan, Register};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scan::Scan;

/// What is done with a plan's value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum KernelKind {
    Store,
    /// The bool is `na.rm`.
    Reduce(Reduction, bool, reduce::Form),
    /// Selected where the mask is TRUE; if set, also as NA where the mask is NA.
    Mask(bool),
    Scan(Scan),
    /// Assigned to a part of an array, in place; with the number of the part's axes.
    Put(u8),
    /// Written to a second array, with the old array's elements around it; with the number of the part's windows.
    Patch(u8),
    /// Factors of rows, right sides and summed values of cross products of up to `8 * eights` columns; see
    /// `codegen::gram`. With the bytes of the tiles in shared memory.
    Gram {
        eights: u8,
        rights: u8,
        input: u16,
        shared: u32,
    },
}

/// A kernel for a plan, and what launching it takes.
pub(crate) struct PlanKernel {
    pub kernel: Arc<Kernel>,
    /// A kernel that is launched after it.
    pub second: Option<Arc<Kernel>>,
    /// Elements of a pack.
    pub v: usize,
    /// For a mask: the number of blocks that the device runs at once.
    pub wave: usize,
    /// Bytes of dynamic shared memory of `kernel`.
    shared: u32,
    bits: Vec<(Register, FlagBits)>,
    words: usize,
}

/// The kernels made for one plan, and the properties of the plan that each launch needs.
struct PlanKernels {
    /// Elements of a pack and of a block, for `KernelKind::Store`.
    v: usize,
    block: usize,
    kernels: Vec<(KernelKind, Variant, Arc<PlanKernel>)>,
}

impl PlanKernels {
    fn new(plan: &Plan) -> PlanKernels {
        PlanKernels { v: body::pack_size(plan), block: elementwise::block_elements(plan), kernels: Vec::new() }
    }

    fn find(&self, how: KernelKind, variant: Variant) -> Option<Arc<PlanKernel>> {
        self.kernels.iter().find(|(u, v, _)| (*u, *v) == (how, variant)).map(|(.., found)| found.clone())
    }
}

/// A device's kernels for plans.
#[derive(Default)]
struct Plans {
    known: Mutex<HashMap<Plan, PlanKernels, BuildHasherDefault<Mix>>>,
}

static PLANS: PerDevice<Plans> = PerDevice::new();

/// The kernel for a plan, if it was made before.
pub(crate) fn known(cuda: &Cuda, plan: &Plan, how: KernelKind, variant: Variant) -> Option<Arc<PlanKernel>> {
    lock(&PLANS.of(cuda).known).get(plan)?.find(how, variant)
}

/// The kernel for a plan; compiled here if it is new.
pub(crate) fn planned(cuda: &Cuda, plan: &Plan, how: KernelKind, variant: Variant) -> Result<Arc<PlanKernel>> {
    if let Some(known) = known(cuda, plan, how, variant) {
        return Ok(known);
    }
    let (source, name, v) = match how {
        KernelKind::Store if variant.tiled.inputs != 0 => (tiled::source(plan, variant), tiled::NAME, 1),
        KernelKind::Store => (elementwise::source(plan, variant), elementwise::NAME, body::pack_size(plan)),
        KernelKind::Reduce(reduction, na_rm, form) => {
            let source = reduce::source(plan, variant, reduction, na_rm, form);
            (source, reduce::NAME, reduce::pack_size(plan, reduction, form))
        }
        KernelKind::Mask(keep_na) => (mask::source(plan, variant, keep_na), mask::COUNT, 1),
        KernelKind::Scan(scan) => (scan::source(plan, variant, scan), scan::NAME, scan::pack_size(plan)),
        KernelKind::Put(rank) => (patch::source(plan, variant, rank, false), patch::NAME, 1),
        KernelKind::Patch(rank) => (patch::source(plan, variant, rank, true), patch::NAME, 1),
        KernelKind::Gram { eights, rights, input, shared } => {
            let source = gram::source(plan, variant, eights.into(), rights.into(), input, shared > 0);
            (source, gram::ROWS, 1)
        }
    };
    let label = match how {
        KernelKind::Store => plan.key(),
        KernelKind::Reduce(reduction, ..) => format!("{} of {}", reduction.name(), plan.key()),
        KernelKind::Mask(_) => format!("subset of {}", plan.key()),
        KernelKind::Scan(scan) => format!("{} of {}", scan.name(), plan.key()),
        KernelKind::Put(_) | KernelKind::Patch(_) => format!("assignment of {}", plan.key()),
        KernelKind::Gram { .. } => format!("cross products of {}", plan.key()),
    };
    // prebuilt kernels are of this variant, so no other needs to be looked up in the package
    let module =
        if variant == prebuilt::PLAIN { cuda.load_typed(&source, &label) } else { cuda.load(&source, &label) }?;
    let second = match how {
        KernelKind::Mask(_) => Some(cuda.function(&module, mask::WRITE)?),
        KernelKind::Gram { .. } => Some(cuda.function(&module, gram::WHOLE)?),
        KernelKind::Scan(scan) if scan::widens(plan, scan) => Some(cuda.function(&module, scan::SECOND)?),
        _ => None,
    };
    let mut kernel = (*cuda.function(&module, name)?).clone();
    // messages show the expression, since the function's name is the same for all plans
    kernel.name = label;
    let (bits, words) = body::flag_bits(plan);
    let wave = if matches!(how, KernelKind::Mask(_)) { cuda.wave(&kernel, THREADS as u32, 0)? } else { 0 };
    let shared = if let KernelKind::Gram { shared, .. } = how { shared } else { 0 };
    if shared > 0 {
        cuda.allow_shared(&kernel, shared)?;
    }
    let made = Arc::new(PlanKernel { kernel: Arc::new(kernel), second, v, wave, shared, bits, words });
    let mut known = lock(&PLANS.of(cuda).known);
    known.entry(plan.clone()).or_insert_with(|| PlanKernels::new(plan)).kernels.push((how, variant, made.clone()));
    Ok(made)
}

impl PlanKernel {
    /// A prebuilt kernel, for a plan that only loads its input.
    pub(super) fn of_plain(kernel: Arc<Kernel>, v: usize) -> PlanKernel {
        PlanKernel { kernel, second: None, v, wave: 0, shared: 0, bits: Vec::new(), words: 0 }
    }

    /// Queues the kernel, with its `Params` and, for kinds of kernels that take one, the struct `job`.
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
        let packed = parameters::packable(plan, bound, self.v, outputs);
        self.launch_fit(cuda, plan, bound, (variant, packed), outputs, job, grid, false)
    }

    /// As `launch`, with the result of `parameters::fit`; `awaited` as for `Cuda::launch_at`. Allocates no device
    /// memory.
    #[allow(clippy::too_many_arguments)]
    pub fn launch_fit(
        &self,
        cuda: &Cuda,
        plan: &Plan,
        bound: &Bound,
        fit: (Variant, u32),
        outputs: &[u64],
        job: Option<&Packed>,
        grid: u32,
        awaited: bool,
    ) -> Result<()> {
        self.launch_each(cuda, plan, bound, fit, outputs, job, &[(&self.kernel, grid)], awaited)
    }

    /// Queues both kernels in order, except one whose grid has no blocks.
    #[allow(clippy::too_many_arguments)]
    pub fn launch_both(
        &self,
        cuda: &Cuda,
        plan: &Plan,
        bound: &Bound,
        variant: Variant,
        outputs: &[u64],
        job: &Packed,
        grids: [u32; 2],
    ) -> Result<()> {
        let fit = (variant, parameters::packable(plan, bound, self.v, outputs));
        let second = self.second.as_ref().map_or((&self.kernel, 0), |second| (second, grids[1]));
        self.launch_each(cuda, plan, bound, fit, outputs, Some(job), &[(&self.kernel, grids[0]), second], false)
    }

    #[allow(clippy::too_many_arguments)]
    fn launch_each(
        &self,
        cuda: &Cuda,
        plan: &Plan,
        bound: &Bound,
        fit: (Variant, u32),
        outputs: &[u64],
        job: Option<&Packed>,
        kernels: &[(&Arc<Kernel>, u32)],
        awaited: bool,
    ) -> Result<()> {
        // flag words, if a call site wants warnings; the guard must live until the kernel is queued
        let (flags, _queueing) = cuda.flag_words(&self.bits, self.words, bound)?;
        let mut params = Packed::default();
        parameters::pack(&mut params, plan, bound, fit, outputs, flags)?;
        let arguments = [params.bytes(), job.map_or(&[], Packed::bytes)];
        let count = 1 + usize::from(job.is_some());
        for &(kernel, grid) in kernels.iter().filter(|(_, grid)| *grid > 0) {
            let shared = if Arc::ptr_eq(kernel, &self.kernel) { self.shared } else { 0 };
            let shape = Shape { grid: [grid, 1, 1], block: [THREADS as u32, 1, 1], shared };
            // SAFETY: the structs are those that the kernel's source declares.
            unsafe { cuda.launch_at(kernel, shape, &arguments[..count], awaited)? };
        }
        Ok(())
    }
}

/// One look-up for the usual case: the kernel that stores a plan's values, if it was made before, with the result of
/// `parameters::fit` and the elements of a block.
pub(super) fn cached_store(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    outputs: &[u64],
) -> Option<(Arc<PlanKernel>, (Variant, u32), usize)> {
    lock(&PLANS.of(cuda).known).get(plan).and_then(|made| {
        let fit = parameters::fit(plan, bound, made.v, outputs);
        Some((made.find(KernelKind::Store, fit.0)?, fit, made.block))
    })
}
