//! Chooses the tier of a plan: its own kernel, which NVRTC compiles in the background, or, until that is ready and
//! where there is no NVRTC, a prebuilt interpreter. An interpreter that the driver would first have to compile is not
//! used: the plan then waits for NVRTC.
//!
//! A reduction without a kernel of its own has its values interpreted into memory, where a prebuilt kernel reduces them
//! in the same order (`verdigris_ops::tree`). So it is with scans and with what a mask chooses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::planned::{known, planned, Planned, Use};
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

/// A device's plans under way to NVRTC, and counts.
#[derive(Default)]
struct Tiers {
    /// Queued, being compiled, or refused by the compiler: not to be queued again. With what they have cost since.
    asked: Mutex<HashMap<(Plan, Use, Variant), Cost>>,
    interpreted: AtomicU64,
    launched: AtomicU64,
}

static TIERS: PerDevice<Tiers> = PerDevice::new();

/// How plans were carried out so far.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub interpreted: u64,
    /// By kernels of their own.
    pub compiled: u64,
    /// Jobs of the background: plans that wait for NVRTC, mostly.
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

/// The kernel that carries a plan out now, for so many elements; `None` for the interpreter.
pub(crate) fn kernel(cuda: &Cuda, plan: &Plan, n: usize, how: Use, variant: Variant) -> Result<Option<Arc<Planned>>> {
    let tiers = TIERS.of(cuda);
    let found = match tier() {
        // no interpreter runs routines
        _ if plan.calls() => Some(planned(cuda, plan, how, variant).map_err(needs_nvrtc)?),
        Tier::Interpreted => None,
        Tier::Compiled => Some(planned(cuda, plan, how, variant)?),
        Tier::Auto => match known(cuda, plan, how, variant) {
            Some(known) => Some(known),
            None if NO_NVRTC.load(Ordering::Relaxed) => None,
            // a graph runs what it was recorded with for good
            None if cuda.is_capturing() || !is_served(cuda, plan, how) => awaited(cuda, plan, how, variant)?,
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

/// What is missing where a routine cannot be compiled.
fn needs_nvrtc(error: Error) -> Error {
    if error.kind != Kind::Library {
        return error;
    }
    let message = format!("a compiled R function runs on a GPU only with NVRTC: {}", error.message);
    let advice = "It runs without NVRTC on the cpu device: as_gpu(x, device = \"cpu\").";
    Error { message, ..error }.advise(advice)
}

/// Whether a plan's own kernel is used where it is at hand.
pub(crate) fn uses_kernels() -> bool {
    tier() != Tier::Interpreted
}

/// Counts a plan that its own kernel carries out.
pub(crate) fn count_compiled(cuda: &Cuda) {
    TIERS.of(cuda).launched.fetch_add(1, Ordering::Relaxed);
}

/// The plan's own kernel; `None` where there is no NVRTC.
fn awaited(cuda: &Cuda, plan: &Plan, how: Use, variant: Variant) -> Result<Option<Arc<Planned>>> {
    match planned(cuda, plan, how, variant) {
        Err(error) if error.kind == Kind::Library => {
            NO_NVRTC.store(true, Ordering::Relaxed);
            Ok(None)
        }
        made => made.map(Some),
    }
}

/// Whether other kernels than the plan's own can serve at once, to the same bits.
fn is_served(cuda: &Cuda, plan: &Plan, how: Use) -> bool {
    let class = plan.class(plan.outputs[0].0);
    let second = match how {
        Use::Store | Use::Put(_) | Use::Patch(_) => return interpret::is_at_hand(cuda, plan),
        Use::Mask(keep_na) => prebuilt::positions_name(keep_na),
        Use::Scan(scan) => prebuilt::scan_name(scan, class),
        Use::Reduce(_, _, form) => prebuilt::reductions_name(class, form.is_across()),
    };
    cuda.prebuilt_at_hand(&second).is_some()
        && interpret::is_at_hand(cuda, plan)
        && plan.after.as_ref().is_none_or(|after| interpret::is_at_hand(cuda, &after.plan))
}

// ---- compiling in the background --------------------------------------------------------------------

/// NVRTC cannot be loaded: nothing is queued until it may have changed.
static NO_NVRTC: AtomicBool = AtomicBool::new(false);

/// What an interpreted launch costs beside its elements, in elements.
const LAUNCH: usize = 1 << 16;

/// Has a plan's kernel made in the background, the sooner the more its elements and steps have cost the interpreter.
fn queue(cuda: &Cuda, plan: &Plan, n: usize, how: Use, variant: Variant) {
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

fn compile(ordinal: u32, key: (Plan, Use, Variant)) {
    let Ok(cuda) = Cuda::of(ordinal) else { return };
    let (plan, how, variant) = &key;
    let no_nvrtc = |made: &Result<_>| made.as_ref().is_err_and(|error: &Error| error.kind == Kind::Library);
    let made =
        if NO_NVRTC.load(Ordering::Relaxed) { None } else { Some(planned(cuda, plan, *how, *variant).map(drop)) };
    if made.as_ref().is_some_and(no_nvrtc) {
        NO_NVRTC.store(true, Ordering::Relaxed);
    }
    // what the compiler refuses stays with the interpreter
    if made.is_none_or(|made| made.is_ok() || no_nvrtc(&made)) {
        lock(&TIERS.of(cuda).asked).remove(&key);
    }
}

/// What was not found may be there now: `gpu_sitrep()` looks again.
pub fn look_again() {
    NO_NVRTC.store(false, Ordering::Relaxed);
}

/// Before the process ends: what was queued is with the driver, and nothing works in the background.
pub fn end() {
    submit::end();
    background::end();
}
