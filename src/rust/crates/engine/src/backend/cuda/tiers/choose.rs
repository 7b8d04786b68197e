//! Chooses the tier of a plan: its own kernel, which NVRTC compiles in the background, or, until that is ready and
//! where there is no NVRTC, a prebuilt interpreter. An interpreter that the driver would first have to compile is not
//! used: the plan then waits for NVRTC.
//!
//! A reduction without a kernel of its own has its values interpreted into memory, where a prebuilt kernel reduces them
//! in the same order (`verdigris_ops::tree`). Scans and masks are handled likewise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::planned::{known, planned, KernelKind, PlanKernel};
use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::Variant;
use crate::backend::cuda::compile::tier::{tier, Tier};
use crate::backend::cuda::context::background::{self, Cost};
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::interpret;
use crate::backend::cuda::launch::submit;
use crate::plan::Plan;
use verdigris_ops::error::{Error, Kind, Result};

/// The plans that a device has queued for NVRTC, and counts of plans by tier.
#[derive(Default)]
struct Tiers {
    /// Plans that are queued, being compiled, or rejected by the compiler, and so are not queued again. Each with the
    /// cost of interpreting it so far.
    asked: Mutex<HashMap<(Plan, KernelKind, Variant), Cost>>,
    interpreted: AtomicU64,
    launched: AtomicU64,
}

static TIERS: PerDevice<Tiers> = PerDevice::new();

/// How many plans each tier has run so far.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub interpreted: u64,
    /// By kernels of their own.
    pub compiled: u64,
    /// Background jobs: mostly plans that wait for NVRTC.
    pub queued: u64,
}

impl Cuda {
    pub fn tier_counts(&self) -> Counts {
        let tiers = TIERS.of(self);
        Counts {
            interpreted: tiers.interpreted.load(Ordering::Relaxed),
            compiled: tiers.launched.load(Ordering::Relaxed),
            queued: background::queued(),
        }
    }
}

/// The kernel that runs a plan of `n` elements now; `None` for the interpreter.
pub(crate) fn kernel(
    cuda: &Cuda,
    plan: &Plan,
    n: usize,
    how: KernelKind,
    variant: Variant,
) -> Result<Option<Arc<PlanKernel>>> {
    let tiers = TIERS.of(cuda);
    let found = match tier() {
        // no interpreter runs routines
        _ if plan.calls() => Some(planned(cuda, plan, how, variant).map_err(needs_nvrtc)?),
        Tier::Interpreted => None,
        Tier::Compiled => Some(planned(cuda, plan, how, variant)?),
        Tier::Auto => match known(cuda, plan, how, variant) {
            Some(known) => Some(known),
            None if NO_NVRTC.load(Ordering::Relaxed) => None,
            // a recorded graph keeps its kernels, so it is worth waiting for the plan's own
            None if cuda.is_capturing() || !is_served(cuda, plan, how) => compile_and_wait(cuda, plan, how, variant)?,
            None => {
                queue(cuda, plan, n, how, variant);
                None
            }
        },
    };
    let count = if found.is_some() { &tiers.launched } else { &tiers.interpreted };
    count.fetch_add(1, Ordering::Relaxed);
    Ok(found)
}

/// Says that routines need NVRTC, if an error is that it is missing.
fn needs_nvrtc(error: Error) -> Error {
    if error.kind != Kind::Library {
        return error;
    }
    let message = format!("a compiled R function runs on a GPU only with NVRTC: {}", error.message);
    let advice = "It runs without NVRTC on the cpu device: as_gpu(x, device = \"cpu\").";
    Error { message, ..error }.advise(advice)
}

/// Whether a plan's own kernel is used if it was compiled before.
pub(crate) fn uses_kernels() -> bool {
    tier() != Tier::Interpreted
}

/// Counts a plan that its own kernel runs.
pub(crate) fn count_compiled(cuda: &Cuda) {
    TIERS.of(cuda).launched.fetch_add(1, Ordering::Relaxed);
}

/// Waits for the compilation of the plan's own kernel; `None` if there is no NVRTC.
fn compile_and_wait(cuda: &Cuda, plan: &Plan, how: KernelKind, variant: Variant) -> Result<Option<Arc<PlanKernel>>> {
    match planned(cuda, plan, how, variant) {
        Err(error) if error.kind == Kind::Library => {
            NO_NVRTC.store(true, Ordering::Relaxed);
            Ok(None)
        }
        made => made.map(Some),
    }
}

/// Whether prebuilt kernels can run the plan without compilation, with the bits of the plan's own kernel.
fn is_served(cuda: &Cuda, plan: &Plan, how: KernelKind) -> bool {
    let class = plan.class(plan.outputs[0].0);
    let second = match how {
        KernelKind::Store | KernelKind::Put(_) | KernelKind::Patch(_) => {
            return interpret::can_interpret_now(cuda, plan)
        }
        // the kernels for stored values are not prebuilt either
        KernelKind::Gram { .. } => return false,
        KernelKind::Mask(keep_na) => prebuilt::positions_name(keep_na),
        KernelKind::Scan(scan) => prebuilt::scan_name(scan, class),
        KernelKind::Reduce(_, _, form) => prebuilt::reductions_name(class, form.is_across()),
    };
    cuda.prebuilt_cuda_version(&second).is_some()
        && interpret::can_interpret_now(cuda, plan)
        && plan.epilogue.as_ref().is_none_or(|after| interpret::can_interpret_now(cuda, &after.plan))
}

// ---- compiling in the background --------------------------------------------------------------------

/// NVRTC cannot be loaded: no plan is queued until `retry_nvrtc()`.
static NO_NVRTC: AtomicBool = AtomicBool::new(false);

/// The fixed cost of an interpreted launch, as a number of elements.
const LAUNCH: usize = 1 << 16;

/// Queues a plan's kernel for compilation in the background. The plan that has cost the interpreter most, in elements
/// times instructions, is compiled first.
fn queue(cuda: &Cuda, plan: &Plan, n: usize, how: KernelKind, variant: Variant) {
    let mut asked = lock(&TIERS.of(cuda).asked);
    let key = (plan.clone(), how, variant);
    let more = (n + LAUNCH).saturating_mul(plan.code.len() + 1) as u64;
    if let Some(cost) = asked.get(&key) {
        cost.fetch_add(more, Ordering::Relaxed);
        return;
    }
    let (ordinal, own, cost) = (cuda.properties.ordinal, key.clone(), Cost::new(more.into()));
    if background::queue(cost.clone(), Box::new(move || compile(ordinal, own))) {
        asked.insert(key, cost);
    }
}

fn compile(ordinal: u32, key: (Plan, KernelKind, Variant)) {
    let Ok(cuda) = Cuda::of(ordinal) else { return };
    let (plan, how, variant) = &key;
    let no_nvrtc = |made: &Result<_>| made.as_ref().is_err_and(|error: &Error| error.kind == Kind::Library);
    let made =
        if NO_NVRTC.load(Ordering::Relaxed) { None } else { Some(planned(cuda, plan, *how, *variant).map(drop)) };
    if made.as_ref().is_some_and(no_nvrtc) {
        NO_NVRTC.store(true, Ordering::Relaxed);
    }
    // a plan that the compiler rejects stays in `asked`, and is always interpreted
    if made.is_none_or(|made| made.is_ok() || no_nvrtc(&made)) {
        lock(&TIERS.of(cuda).asked).remove(&key);
    }
}

/// Lets NVRTC be tried again, which may have been installed since: called by `gpu_sitrep()`.
pub fn retry_nvrtc() {
    NO_NVRTC.store(false, Ordering::Relaxed);
}

/// Called before the process ends: makes the launches that are in the ring, and stops work in the background.
pub fn end() {
    submit::end();
    background::end();
}
