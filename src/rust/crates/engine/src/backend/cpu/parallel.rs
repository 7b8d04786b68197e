//! Work on all cores, the calling thread among them: a small array is done before another thread has woken up.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use super::threads_usable;

/// Tasks `0 .. tasks`, which threads take one by one. It outlives the call: a thread that wakes too late finds nothing left.
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
    fn work(&self) {
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
        }
    }
}

fn run(tasks: usize, body: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes; `work` calls the body of a taken task alone, and this function waits for those.
    let body: *const (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
    let job = Arc::new(Job {
        body,
        tasks,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        panicked: AtomicBool::new(false),
    });
    for _ in 1..rayon::current_num_threads().min(tasks) {
        let job = job.clone();
        rayon::spawn(move || job.work());
    }
    job.work();
    // the others are at their last tasks
    let mut turns = 0u32;
    while job.done.load(Ordering::Acquire) < tasks {
        turns += 1;
        if turns < 1000 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    if job.panicked.load(Ordering::Relaxed) {
        resume_unwind(Box::new("a task on the cpu device failed"));
    }
}

/// Splits `0 .. n` into tasks of `size` and runs them, on all cores where that pays.
pub fn parallel(n: usize, size: usize, body: impl Fn(usize, usize) + Sync) {
    let tasks = n.div_ceil(size.max(1));
    let task = |t: usize| body(t * size, ((t + 1) * size).min(n));
    if tasks > 1 && threads_usable() {
        run(tasks, &task);
    } else {
        (0..tasks).for_each(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for n in [1, 2, 100, 1000] {
            let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel(n, 7, |from, to| {
                for slot in &seen[from..to] {
                    slot.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let failed = catch_unwind(|| parallel(100, 1, |from, _| assert!(from != 50, "planted")));
        assert!(failed.is_err());
    }
}
