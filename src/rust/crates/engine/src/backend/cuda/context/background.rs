//! The one thread that works in the background: it compiles, and when there is nothing to compile it prepares what may
//! be wanted next. It never ends: what libraries keep for a thread would be cleaned up beside their own clean-up at the
//! end of the process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::core::lock;
use crate::backend::cuda::driver::devices::at_home;

/// Jobs that wait at most: beyond that, none is taken.
const MOST_QUEUED: usize = 64;
/// How long the end of the process waits for a job that is under way.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is for later begins when no kernel has been loaded for so long.
const QUIET: Duration = Duration::from_secs(1);

/// What is to be done. It handles its own errors.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// What doing without a job's result has cost so far, in any unit: the job that has cost most is done first.
pub(crate) type Cost = Arc<AtomicU64>;

#[derive(Default)]
struct State {
    jobs: Vec<(Cost, Job)>,
    /// For when there are no others.
    next: VecDeque<Job>,
    /// For when nothing else is loaded either.
    later: VecDeque<Job>,
    busy: bool,
    stopped: bool,
}

impl State {
    /// What is to be done now, or how long that may still be.
    fn take(&mut self) -> Result<Job, Option<Duration>> {
        // of equal ones the first that came
        let dearest = (0..self.jobs.len()).rev().max_by_key(|&k| self.jobs[k].0.load(Ordering::Relaxed));
        if let Some(job) = dearest.map(|k| self.jobs.remove(k).1).or_else(|| self.next.pop_front()) {
            return Ok(job);
        }
        match QUIET.saturating_sub(since_load()) {
            left if !left.is_zero() && !self.later.is_empty() => Err(Some(left)),
            _ => self.later.pop_front().ok_or(None),
        }
    }

    fn waiting(&self) -> usize {
        self.jobs.len() + self.next.len() + self.later.len()
    }

    fn is_idle(&self) -> bool {
        !self.busy && self.waiting() == 0
    }
}

static LAST_LOAD: Mutex<Option<Instant>> = Mutex::new(None);

/// Notes that a module has just been loaded.
pub(crate) fn note_load() {
    *lock(&LAST_LOAD) = Some(Instant::now());
}

fn since_load() -> Duration {
    lock(&LAST_LOAD).map_or(Duration::MAX, |at| at.elapsed())
}

struct Worker {
    state: Mutex<State>,
    changed: Condvar,
}

static WORKER: OnceLock<Option<&'static Worker>> = OnceLock::new();

/// The worker, if one was started.
fn worker() -> Option<&'static Worker> {
    WORKER.get().copied().flatten()
}

fn start() -> Option<&'static Worker> {
    *WORKER.get_or_init(|| {
        let worker: &'static Worker = Box::leak(Box::new(Worker { state: Mutex::default(), changed: Condvar::new() }));
        at_exit();
        std::thread::Builder::new().name("verdigris nvrtc".into()).spawn(move || work(worker)).ok()?;
        Some(worker)
    })
}

/// Hands over a job; false where it is not taken.
pub(crate) fn queue(cost: Cost, job: Job) -> bool {
    let Some(worker) = start() else { return false };
    let mut state = lock(&worker.state);
    if state.stopped || state.jobs.len() >= MOST_QUEUED {
        return false;
    }
    state.jobs.push((cost, job));
    worker.changed.notify_all();
    true
}

/// Hands over a job for when there is nothing to compile.
pub(crate) fn queue_next(job: Job) {
    add(job, |state| &mut state.next);
}

/// Hands over a job for when nothing has been loaded for a while.
pub(crate) fn queue_later(job: Job) {
    add(job, |state| &mut state.later);
}

fn add(job: Job, to: impl FnOnce(&mut State) -> &mut VecDeque<Job>) {
    let Some(worker) = start() else { return };
    let mut state = lock(&worker.state);
    if !state.stopped {
        to(&mut state).push_back(job);
        worker.changed.notify_all();
    }
}

/// Jobs that wait or are under way.
pub(crate) fn queued() -> u64 {
    worker().map_or(0, |worker| {
        let state = lock(&worker.state);
        state.waiting() as u64 + u64::from(state.busy)
    })
}

fn work(worker: &'static Worker) -> ! {
    loop {
        let job = {
            let mut state = lock(&worker.state);
            loop {
                state = match state.take() {
                    Ok(job) => {
                        state.busy = true;
                        break job;
                    }
                    Err(Some(left)) => worker.changed.wait_timeout(state, left).unwrap_or_else(|p| p.into_inner()).0,
                    Err(None) => worker.changed.wait(state).unwrap_or_else(|p| p.into_inner()),
                }
            }
        };
        // a panic ends the job, not the thread
        _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        // NVRTC has registered clean-up of its own while it compiled; what is registered last is called first
        at_exit();
        lock(&worker.state).busy = false;
        worker.changed.notify_all();
    }
}

/// Waits until nothing is queued, at most so long; whether that came about.
pub fn wait(most: Duration) -> bool {
    worker().is_none_or(|worker| idle(worker, most))
}

fn idle(worker: &Worker, most: Duration) -> bool {
    let state = lock(&worker.state);
    let waited = worker.changed.wait_timeout_while(state, most, |s| !s.is_idle());
    let (state, _) = waited.unwrap_or_else(|p| p.into_inner());
    state.is_idle()
}

/// Before the process ends: nothing more is begun, and a job that is under way is waited for. A library must not work
/// while its own clean-up runs.
pub fn end() {
    // a forked child has no worker
    if let (true, Some(worker)) = (at_home(), worker()) {
        let mut state = lock(&worker.state);
        state.stopped = true;
        state.jobs.clear();
        state.next.clear();
        state.later.clear();
        drop(state);
        idle(worker, PATIENCE);
    }
}

/// Has the end of a process that does not call `end` do so, but for what a library registers later than this.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_wait_until_nothing_is_loaded() {
        let mut state = State::default();
        assert!(matches!(state.take(), Err(None)));
        note_load();
        state.later.push_back(Box::new(|| ()));
        assert!(matches!(state.take(), Err(Some(left)) if left <= QUIET));
        state.next.push_back(Box::new(|| ()));
        assert!(state.take().is_ok() && state.waiting() == 1);
        *lock(&LAST_LOAD) = Instant::now().checked_sub(QUIET);
        assert!(state.take().is_ok() && state.is_idle());
    }

    #[test]
    fn what_costs_most_is_done_first() {
        let mut state = State::default();
        let done = Arc::new(Mutex::new(Vec::new()));
        let costs: Vec<Cost> = (0..4).map(|_| Cost::default()).collect();
        for (k, cost) in costs.iter().enumerate() {
            let done = done.clone();
            state.jobs.push((cost.clone(), Box::new(move || lock(&done).push(k))));
        }
        costs[2].fetch_add(5, Ordering::Relaxed);
        costs[3].fetch_add(7, Ordering::Relaxed);
        while let Ok(job) = state.take() {
            job();
        }
        assert_eq!(*lock(&done), [3, 2, 0, 1]);
    }
}
