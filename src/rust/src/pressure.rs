//! Memory pressure: R's gc does not see the bytes behind arrays, so it is asked to run when they grow.
//!
//! Entries call `relieve` on their way in; Dataptr cannot, because R's gc is off there.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use verdigris_engine::backend;
use verdigris_engine::buffer::Device;

use crate::{handle, host, r};

/// Below this many bytes nothing is collected: R's own gc comes often enough.
const FREE: u64 = 256 << 20;

thread_local! {
    /// Collect when more than this is alive.
    static NEXT: Cell<u64> = const { Cell::new(FREE) };
    static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

static MAIN: OnceLock<ThreadId> = OnceLock::new();

/// Remembers the main thread.
pub fn start() {
    let _ = MAIN.set(std::thread::current().id());
    #[cfg(not(target_os = "macos"))]
    backend::cuda::set_pressure_hook(Some(collect));
}

/// Bytes of this machine's memory that arrays hold: buffers of the cpu device and host copies.
fn held() -> u64 {
    let buffers = backend::of(Device::Cpu).and_then(|b| b.memory()).map_or(0, |m| m.live);
    buffers + host::LIVE.load(Ordering::Relaxed)
}

/// Collects where arrays have grown by half since the last time, and not so often that it costs more than 5% of
/// the time; above three quarters of the machine's memory always.
pub fn relieve() {
    let held = held();
    if held > NEXT.get() {
        relieve_now(held);
    }
}

#[cold]
fn relieve_now(held: u64) {
    let rested = LAST.get().is_none_or(|(at, took)| at.elapsed() > took * 20);
    if !rested && held < memory() / 4 * 3 {
        return;
    }
    let start = Instant::now();
    collect();
    LAST.set(Some((Instant::now(), start.elapsed())));
    let left = self::held();
    NEXT.set(FREE.max(left + left / 2));
}

/// Lets R collect, and frees what it found; nothing on another thread than R's.
pub fn collect() {
    if MAIN.get() != Some(&std::thread::current().id()) {
        return;
    }
    // SAFETY: R's own thread. Where gc is off, in Dataptr, this does nothing. Finalizers' errors stay in them.
    unsafe { r::R_gc() };
    handle::reap();
}

/// Bytes of memory of this machine, or of the container.
fn memory() -> u64 {
    static MEMORY: OnceLock<u64> = OnceLock::new();
    *MEMORY.get_or_init(|| {
        let kilobytes = std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| text.lines().next()?.split_whitespace().nth(1)?.parse::<u64>().ok());
        let machine = kilobytes.map_or(8 << 30, |k| k * 1024);
        let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse().ok());
        container.map_or(machine, |c: u64| c.min(machine))
    })
}
