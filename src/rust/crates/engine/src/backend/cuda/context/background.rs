//! The background thread: it compiles kernels, and when there is nothing to compile it loads modules and libraries that
//! may be needed next. The thread never ends: otherwise the destructors of libraries' thread-local data would run
//! concurrently with the libraries' clean-up at process exit.
//!
//! It is one thread: with two or four a program's first run takes longer (`bench/NOTES.md`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::core::lock;
use crate::backend::cuda::driver::devices::owns_cuda;

/// The most queued compilations; `queue` refuses further ones.
const MOST_QUEUED: usize = 64;
/// How long process exit waits for the running job.
const PATIENCE: Duration = Duration::from_secs(30);
/// Jobs of `later` start once no module has been loaded for this long.
const QUIET: Duration = Duration::from_secs(1);

/// A job. It handles its own errors.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The cost so far of not having a job's result, in any common unit. The job with the greatest cost runs first.
pub(crate) type Cost = Arc<AtomicU64>;

#[derive(Default)]
struct State {
    jobs: Vec<(Cost, Job)>,
    /// Jobs to run when `jobs` is empty.
    next: VecDeque<Job>,
    /// Jobs to run when there are no others and nothing is being loaded.
    later: VecDeque<Job>,
    busy: bool,
    stopped: bool,
}

impl State {
    /// The next job, or how long to wait for it (None: until something is queued).
    fn take(&mut self) -> Result<Job, Option<Duration>> {
        // of jobs of equal cost the oldest
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

/// Records that a module has just been loaded.
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

/// Queues a compilation. Returns false where it is refused.
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

/// Queues a job to run when there is nothing to compile.
pub(crate) fn queue_next(job: Job) {
    add(job, |state| &mut state.next);
}

/// Queues a job to run when no module has been loaded for a while.
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

/// The number of jobs that are queued or running.
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
        // NVRTC may have registered exit handlers while it compiled. Handlers run in reverse order, so ours must be
        // registered after them.
        at_exit();
        lock(&worker.state).busy = false;
        worker.changed.notify_all();
    }
}

/// Waits at most `most` until no job is queued or running. Returns whether that was reached.
pub fn wait(most: Duration) -> bool {
    worker().is_none_or(|worker| idle(worker, most))
}

fn idle(worker: &Worker, most: Duration) -> bool {
    let state = lock(&worker.state);
    let waited = worker.changed.wait_timeout_while(state, most, |s| !s.is_idle());
    let (state, _) = waited.unwrap_or_else(|p| p.into_inner());
    state.is_idle()
}

/// Called before the process ends: discards queued jobs and waits for the running one, since a library must not work
/// while its own clean-up runs.
pub fn end() {
    // the thread does not exist in a forked child
    if let (true, Some(worker)) = (owns_cuda(), worker()) {
        let mut state = lock(&worker.state);
        state.stopped = true;
        state.jobs.clear();
        state.next.clear();
        state.later.clear();
        drop(state);
        idle(worker, PATIENCE);
    }
}

/// Registers `end` as an exit handler, for processes that do not call it. It runs before handlers that were registered
/// earlier, but after those registered later.
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
