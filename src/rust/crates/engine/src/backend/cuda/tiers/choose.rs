//! Chooses the tier of a plan: its own kernel, which NVRTC compiles in the background, or, until that is ready and
//! where there is no NVRTC, a prebuilt interpreter. An interpreter that the driver would first have to compile is not
//! used: the plan then waits for NVRTC.
//!
//! A reduction without a kernel of its own has its values interpreted into memory, where a prebuilt kernel reduces them
//! in the same order (`verdigris_ops::tree`). So it is with scans and with what a mask chooses.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::planned::{known, planned, Planned, Use};
use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::Variant;
use crate::backend::cuda::compile::tier::{tier, Tier};
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::driver::devices::at_home;
use crate::backend::cuda::interpret;
use crate::backend::cuda::launch::submit;
use crate::plan::Plan;
use verdigris_ops::error::{Error, Kind, Result};

/// A device's plans under way to NVRTC, and counts.
#[derive(Default)]
struct Tiers {
    /// Queued, being compiled, or refused by the compiler: not to be queued again.
    asked: Mutex<HashSet<(Plan, Use, Variant)>>,
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
    /// Waiting for NVRTC, or with it.
    pub queued: u64,
}

impl Cuda {
    pub fn tier_counts(&self) -> Counts {
        let tiers = TIERS.of(self);
        Counts {
            interpreted: tiers.interpreted.load(Ordering::Relaxed),
            compiled: tiers.launched.load(Ordering::Relaxed),
            queued: worker().map_or(0, |worker| {
                let state = lock(&worker.state);
                state.jobs.len() as u64 + u64::from(state.busy)
            }),
        }
    }
}

/// The kernel that carries a plan out now; `None` for the interpreter.
pub(crate) fn kernel(cuda: &Cuda, plan: &Plan, how: Use, variant: Variant) -> Result<Option<Arc<Planned>>> {
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
                queue(cuda, plan, how, variant);
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
    let advice = "On the cpu device it needs nothing: as_gpu(x, device = \"cpu\").";
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

/// Plans that wait at most: beyond that, one is queued when it is met again.
const MOST_QUEUED: usize = 64;
/// How long the end of the process waits for a compilation that is under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// A plan whose kernel is to be made.
struct Job {
    ordinal: u32,
    plan: Plan,
    how: Use,
    variant: Variant,
}

impl Job {
    fn run(&self) -> Result<()> {
        let cuda = Cuda::of(self.ordinal)?;
        let made = planned(cuda, &self.plan, self.how, self.variant);
        // what the compiler refuses stays with the interpreter
        if made.as_ref().err().is_none_or(|error| error.kind == Kind::Library) {
            lock(&TIERS.of(cuda).asked).remove(&(self.plan.clone(), self.how, self.variant));
        }
        made.map(drop)
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    busy: bool,
    stopped: bool,
}

struct Worker {
    state: Mutex<State>,
    changed: Condvar,
}

static WORKER: OnceLock<Option<&'static Worker>> = OnceLock::new();
/// NVRTC cannot be loaded: nothing is queued until it may have changed.
static NO_NVRTC: AtomicBool = AtomicBool::new(false);

/// The worker, if one was started.
fn worker() -> Option<&'static Worker> {
    WORKER.get().copied().flatten()
}

/// Starts the one thread that compiles.
fn start() -> Option<&'static Worker> {
    *WORKER.get_or_init(|| {
        let worker: &'static Worker = Box::leak(Box::new(Worker { state: Mutex::default(), changed: Condvar::new() }));
        at_exit();
        std::thread::Builder::new().name("verdigris nvrtc".into()).spawn(move || work(worker)).ok()?;
        Some(worker)
    })
}

fn queue(cuda: &Cuda, plan: &Plan, how: Use, variant: Variant) {
    let mut asked = lock(&TIERS.of(cuda).asked);
    let key = (plan.clone(), how, variant);
    if asked.contains(&key) {
        return;
    }
    let Some(worker) = start() else { return };
    let mut state = lock(&worker.state);
    if state.stopped || state.jobs.len() >= MOST_QUEUED {
        return;
    }
    state.jobs.push_back(Job { ordinal: cuda.properties.ordinal, plan: key.0.clone(), how, variant });
    worker.changed.notify_all();
    asked.insert(key);
}

/// The thread that compiles. It never ends: what libraries keep for a thread would be cleaned up beside their own
/// clean-up at the end of the process.
fn work(worker: &'static Worker) -> ! {
    loop {
        let job = {
            let mut state = lock(&worker.state);
            loop {
                if let Some(job) = state.jobs.pop_front() {
                    state.busy = true;
                    break job;
                }
                state = worker.changed.wait(state).unwrap_or_else(|p| p.into_inner());
            }
        };
        // a panic ends the job, not the thread; the plan stays with the interpreter
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        // NVRTC has registered clean-up of its own while it compiled; what is registered last is called first
        at_exit();
        let mut state = lock(&worker.state);
        if let Ok(Err(error)) = done {
            if error.kind == Kind::Library {
                NO_NVRTC.store(true, Ordering::Relaxed);
                state.jobs.clear();
            }
        }
        state.busy = false;
        worker.changed.notify_all();
    }
}

/// What was not found may be there now: `gpu_sitrep()` looks again.
pub fn look_again() {
    NO_NVRTC.store(false, Ordering::Relaxed);
}

/// Waits until nothing is queued, at most so long; whether that came about.
pub fn wait(most: Duration) -> bool {
    let Some(worker) = worker() else { return true };
    idle(worker, most)
}

fn idle(worker: &Worker, most: Duration) -> bool {
    let state = lock(&worker.state);
    let waited = worker.changed.wait_timeout_while(state, most, |s| s.busy || !s.jobs.is_empty());
    let (state, _) = waited.unwrap_or_else(|p| p.into_inner());
    !state.busy && state.jobs.is_empty()
}

/// Before the process ends: what was queued is with the driver, nothing more is, and a compilation that is under way is
/// waited for. NVRTC must not work while its own clean-up runs.
pub fn end() {
    submit::end();
    // a forked child has no worker
    if let (true, Some(worker)) = (at_home(), worker()) {
        let mut state = lock(&worker.state);
        state.stopped = true;
        state.jobs.clear();
        drop(state);
        idle(worker, PATIENCE);
    }
}

/// Has the end of a process that does not call `end` do so, but for what NVRTC registers later than this.
fn at_exit() {
    #[cfg(unix)]
    {
        extern "C" fn finish() {
            end();
        }
        unsafe extern "C" {
            fn atexit(function: extern "C" fn()) -> i32;
        }
        // SAFETY: the function touches nothing that is gone by then; its library is never unloaded.
        unsafe { atexit(finish) };
    }
}
