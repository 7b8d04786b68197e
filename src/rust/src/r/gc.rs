//! Garbage collection under memory pressure. R does not count the memory behind arrays, so it is made to collect when
//! that grows. Also the hooks by which the engine gets limits, call texts and interrupts from R.
//!
//! Entries call `relieve` at their beginning. Dataptr cannot, because R's collector is switched off there.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use verdigris_engine::memory::host_pool;
use verdigris_engine::memory::{self, Collect, Hooks};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::interrupt;

use crate::r::{self, call_site, finalizers, options};

/// After a collection that took t, the next one of its kind may not come before this multiple of t, unless memory is
/// nearly used up. So young collections take at most 1% of the time, and full ones 1.5%. With R's own collections a
/// loop of small steps stays below 5%.
const YOUNG_REST: u32 = 99;
const FULL_REST: u32 = 65;
/// Bytes per second at which fresh pages are filled. A cached block has no such cost.
const FRESH: f64 = 25e9;
/// The same if one or two threads fault the pages in while they compute, 4 KB at a time.
const TOUCHED: f64 = 4e9;

/// The last collection of a kind.
#[derive(Clone, Copy)]
struct Last {
    end: Instant,
    took: Duration,
}

thread_local! {
    static YOUNG: Cell<Option<Last>> = const { Cell::new(None) };
    static FULL: Cell<Option<Last>> = const { Cell::new(None) };
    /// Bytes of vectors made for R since the last full collection.
    static READ: Cell<u64> = const { Cell::new(0) };
    /// Total time in collections, for tests.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

static MAIN: OnceLock<ThreadId> = OnceLock::new();

fn is_main() -> bool {
    MAIN.get() == Some(&std::thread::current().id())
}

/// Notes the main thread and sets the engine's hooks.
pub fn start() {
    let _ = MAIN.set(std::thread::current().id());
    let describe = |site: &CallSite| Some(call_site::text(site)).filter(|text| !text.is_empty());
    memory::set_hooks(Hooks {
        is_main,
        collect,
        describe,
        limit: options::memory_limit,
        pinned_limit: options::pinned_limit,
        threads: options::transfer_threads,
    });
    interrupt::set_check(interrupted);
}

/// Whether the user has interrupted, so that a wait is to end.
fn interrupted() -> bool {
    if !is_main() {
        return false;
    }
    // SAFETY: R's own thread; nothing jumps out of it.
    unsafe { r::vg_interrupted() != 0 }
}

/// Collects if arrays have grown by half since the last collection, but uses at most 2.5% of the time for it. Above
/// three quarters of a memory limit it always collects.
pub fn relieve() {
    if memory::is_pressed() {
        relieve_now();
    }
}

/// Whether the last collection is long enough ago: `rest` times as long as it took. Always true if `tight`.
fn is_due(last: &'static std::thread::LocalKey<Cell<Option<Last>>>, rest: u32, tight: bool) -> bool {
    tight || last.get().is_none_or(|last| last.end.elapsed() > last.took * rest)
}

#[cold]
fn relieve_now() {
    // bytes of the blocks taken since the last collection, and of the blocks that needed fresh pages
    let (asked, missed) = host_pool::asked();
    if !memory::is_still_pressed(missed > 0) {
        return;
    }
    let tight = memory::is_tight();
    let before = memory::everything();
    let spent = Duration::from_secs_f64(missed as f64 / TOUCHED);
    if !is_due(&YOUNG, YOUNG_REST, tight || YOUNG.get().is_some_and(|last| spent > last.took)) {
        return;
    }
    collect(Collect::Minor);
    // a young collection does not find objects that have survived earlier collections: run a full one if it freed
    // little
    let found = if asked > 0 { (before / 4).min(asked / 2) } else { before / 4 };
    if memory::everything() > before - found {
        if !is_due(&FULL, FULL_REST, tight) {
            return;
        }
        collect(Collect::Full);
    }
    memory::collected();
}

/// Makes R collect, and frees the values of the pointers that died.
pub fn collect(how: Collect) {
    if finalizers::forked() {
        return;
    }
    // processor time: wall time would include that of other processes
    // SAFETY: reads a clock.
    let start = unsafe { r::vg_processor_seconds() };
    // SAFETY: R's own thread. Does nothing in Dataptr, where the collector is off. Errors of finalizers are caught by
    // R.
    unsafe { r::vg_collect_garbage((how != Collect::Minor).into()) };
    if how != Collect::Minor {
        READ.set(0);
    }
    if how == Collect::FullWithCaches {
        // SAFETY: as above.
        unsafe { r::vg_torch_trim() };
    }
    // SAFETY: as above.
    let took = Duration::try_from_secs_f64(unsafe { r::vg_processor_seconds() } - start).unwrap_or_default();
    SPENT.set(SPENT.get() + took);
    let last = if how == Collect::Minor { &YOUNG } else { &FULL };
    last.set(Some(Last { end: Instant::now(), took }));
    host_pool::collected();
    finalizers::reap();
}

/// Seconds spent in these collections.
pub fn spent() -> f64 {
    SPENT.get().as_secs_f64()
}

/// Call before a vector of this size is made for R. If the host pool has no cached block for it, an earlier vector may
/// be garbage, and collecting that may cost less than filling fresh pages.
pub fn before_read(bytes: usize) {
    let before = READ.replace(READ.get() + bytes as u64);
    if before < bytes as u64 || host_pool::has_kept(bytes) {
        return;
    }
    let fresh = Duration::from_secs_f64(bytes as f64 / FRESH);
    let pays = |last: Option<Last>, guess: u64| last.map_or(Duration::from_millis(guess), |last| last.took) < fresh;
    if pays(YOUNG.get(), 2) {
        collect(Collect::Minor);
        if host_pool::has_kept(bytes) {
            return;
        }
    }
    // a slow collection may have been slow because it unmapped much memory: try again now and then
    if before >= 2 * bytes as u64 && (pays(FULL.get(), 20) || is_due(&FULL, FULL_REST, false)) {
        collect(Collect::Full);
    }
}
