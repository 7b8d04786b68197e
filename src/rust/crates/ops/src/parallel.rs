//! Runs tasks on all cores. The calling thread works too, so a small array is done before another thread has woken up.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Kind, Result};
use crate::fork;
use crate::interrupt::{ranges, Watch};

/// Whether the thread pool can be used: not in a forked child, where its threads are gone.
pub fn threads_usable() -> bool {
    static HOME: OnceLock<u32> = OnceLock::new();
    *HOME.get_or_init(fork::watch) == fork::depth()
}

thread_local! {
    /// Points to the `CallState` of the call whose task runs on this thread.
    static CALL_STATE: Cell<*const CallState> = const { Cell::new(std::ptr::null()) };
    static WATCH: Cell<Watch> = Cell::default();
}

/// Whether the tasks of a call are to end early, and the first error of one; if there is none, the user interrupted.
#[derive(Default)]
struct CallState {
    early: AtomicBool,
    error: OnceLock<Error>,
}

impl CallState {
    fn ends_early(&self) -> bool {
        self.early.load(Ordering::Relaxed)
    }

    fn result(self) -> Result<()> {
        match self.error.into_inner() {
            Some(error) => Err(error),
            None if self.early.into_inner() => Err(Error::new(Kind::Interrupt, "interrupted")),
            None => Ok(()),
        }
    }
}

/// Checks for a user interrupt, and notes it for all tasks of the call.
fn check_interrupt(state: &CallState) {
    let mut watch = WATCH.take();
    if watch.check().is_err() {
        state.early.store(true, Ordering::Relaxed);
    }
    WATCH.set(watch);
}

/// Whether a task is to go on. Long tasks ask now and then and return early if not; `parallel_if` then returns an
/// error.
pub fn should_continue() -> bool {
    let state = CALL_STATE.get();
    if state.is_null() {
        return true;
    }
    // SAFETY: it is alive while the task runs.
    let state = unsafe { &*state };
    check_interrupt(state);
    !state.ends_early()
}

/// Called by a task that cannot do its work: the call fails with the first such error, and its other tasks end early.
///
/// # Panics
/// Outside of a task.
pub fn fail(error: Error) {
    let state = CALL_STATE.get();
    assert!(!state.is_null(), "a task failed that no call waits for: {error}");
    // SAFETY: it is alive while the task runs.
    let state = unsafe { &*state };
    // Another task may have set its error first.
    let _ = state.error.set(error);
    state.early.store(true, Ordering::Relaxed);
}

/// Runs a task that may call `should_continue`.
///
/// # Errors
/// `Interrupt`, or the error that the task passed to `fail`; the task has then ended early.
pub fn stoppable<R>(task: impl FnOnce() -> R) -> Result<R> {
    let state = CallState::default();
    let result = serve(&state, task);
    state.result().map(|()| result)
}

fn serve<R>(state: &CallState, task: impl FnOnce() -> R) -> R {
    struct Restore(*const CallState);
    impl Drop for Restore {
        fn drop(&mut self) {
            CALL_STATE.set(self.0);
        }
    }
    let _restore = Restore(CALL_STATE.replace(state));
    task()
}

/// The ranges of `0 .. n` for a long loop in a task; the iterator ends early if the task is to end.
pub fn parts_of_task(n: usize) -> impl Iterator<Item = Range<usize>> {
    ranges(n).take_while(move |range| range.start == 0 || should_continue())
}

/// Tasks `0 .. tasks`, which threads take one by one. A job outlives its call, since a thread may wake too late, and
/// then finds no task left.
struct Job {
    body: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    panicked: AtomicBool,
}

// SAFETY: the body may be called from any thread, and is called only while `run` waits (see `work`).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// `between` is called after each task.
    fn work(&self, between: impl Fn()) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.tasks {
                return;
            }
            // SAFETY: a task that was taken is not done, so `run` has not returned and the body is alive.
            let body = unsafe { &*self.body };
            if catch_unwind(AssertUnwindSafe(|| body(task))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.done.fetch_add(1, Ordering::Release);
            between();
        }
    }
}

/// The threads that share work; None if the system cannot create them (`ulimit -u`). Creation is tried again now and
/// then.
pub fn pool() -> Option<&'static rayon_core::ThreadPool> {
    static POOL: OnceLock<rayon_core::ThreadPool> = OnceLock::new();
    static WITHOUT: AtomicUsize = AtomicUsize::new(0);
    /// Calls between two attempts to create the pool.
    const PATIENCE: usize = 1000;
    if let Some(pool) = POOL.get() {
        return Some(pool);
    }
    if !WITHOUT.fetch_add(1, Ordering::Relaxed).is_multiple_of(PATIENCE) {
        return None;
    }
    let pool = rayon_core::ThreadPoolBuilder::new().thread_name(|k| format!("verdigris-{k}")).build().ok()?;
    Some(POOL.get_or_init(|| pool))
}

/// The most threads that share work; 0 is no limit.
static SHARE: AtomicUsize = AtomicUsize::new(0);

/// Limits the threads that share work, for a process that shares the machine with others; 0 is no limit.
pub fn set_share(threads: usize) {
    SHARE.store(threads, Ordering::Relaxed);
}

/// The number of threads that share work.
pub fn width() -> usize {
    let all = pool().map_or(1, rayon_core::ThreadPool::current_num_threads);
    match SHARE.load(Ordering::Relaxed) {
        0 => all,
        share => all.min(share),
    }
}

fn run(tasks: usize, state: &CallState, body: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes; `work` calls the body of a taken task alone, and this function waits for
    // those.
    let body: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
    let job = Arc::new(Job {
        body,
        tasks,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        panicked: AtomicBool::new(false),
    });
    // Without other threads the calling one does all tasks.
    if let Some(pool) = pool() {
        for _ in 1..width().min(tasks) {
            let job = job.clone();
            pool.spawn(move || job.work(|| ()));
        }
    }
    job.work(|| check_interrupt(state));
    // The other threads are at their last tasks.
    let mut turns = 0u32;
    while job.done.load(Ordering::Acquire) < tasks {
        turns += 1;
        if turns < 1000 {
            std::hint::spin_loop();
        } else {
            check_interrupt(state);
            std::thread::yield_now();
        }
    }
    if job.panicked.load(Ordering::Relaxed) {
        resume_unwind(Box::new("a task on the cpu device failed"));
    }
}

/// Splits `0 .. n` into tasks of `size` and runs them on all cores.
///
/// # Errors
/// `Interrupt`, or the error that a task passed to `fail`; some tasks have then not run.
pub fn parallel(n: usize, size: usize, body: impl Fn(usize, usize) + Sync) -> Result<()> {
    parallel_if(n, size, true, body)
}

/// Like `parallel`, but on the calling thread alone unless `worth` says that waking other threads pays.
///
/// # Errors
/// As `parallel`.
pub fn parallel_if(n: usize, size: usize, worth: bool, body: impl Fn(usize, usize) + Sync) -> Result<()> {
    // `size` is 0 if rows are longer than a task should be: each is then a task.
    let size = size.max(1);
    let tasks = n.div_ceil(size);
    let state = CallState::default();
    // after an interrupt or an error the remaining tasks do nothing
    let task = |t: usize| {
        if !state.ends_early() {
            serve(&state, || body(t * size, ((t + 1) * size).min(n)));
        }
    };
    if worth && tasks > 1 && threads_usable() {
        run(tasks, &state, &task);
    } else {
        for t in 0..tasks {
            if t > 0 {
                check_interrupt(&state);
            }
            task(t);
        }
    }
    state.result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for (n, size) in [(1, 7), (2, 7), (100, 7), (1000, 7), (5, 0)] {
            let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel(n, size, |from, to| {
                for slot in &seen[from..to] {
                    slot.fetch_add(1, Ordering::Relaxed);
                }
            })
            .unwrap();
            assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_share_limits_the_threads() {
        let all = width();
        set_share(1);
        assert_eq!(width(), 1);
        let here = std::thread::current().id();
        parallel(100, 1, |_, _| assert_eq!(std::thread::current().id(), here)).unwrap();
        set_share(all + 1);
        assert_eq!(width(), all);
        set_share(0);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let failed = catch_unwind(|| parallel(100, 1, |from, _| assert!(from != 50, "planted")));
        assert!(failed.is_err());
    }

    #[test]
    fn a_task_that_fails_ends_the_call() {
        for worth in [false, true] {
            let error = parallel_if(1000, 1, worth, |from, _| {
                if from >= 3 {
                    fail(Error::new(Kind::Memory, "planted"));
                }
            });
            assert_eq!(error.unwrap_err().kind, Kind::Memory);
        }
        assert!(stoppable(|| fail(Error::new(Kind::Memory, "planted"))).is_err());
        assert!(stoppable(|| ()).is_ok());
    }
}
