//! R's garbage collection under memory pressure: R does not see the bytes behind arrays, so it is asked to collect when
//! they grow. Also the hooks by which the engine gets limits, call texts and interrupts from R.
//!
//! Entries call `relieve` at their beginning. Dataptr cannot, because R's gc is off there.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use verdigris_engine::memory::host_pool;
use verdigris_engine::memory::{self, Collect, Hooks};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::interrupt;

use crate::r::{self, call_site, finalizers, options};

/// After a collection that took a second none of its kind comes for so many seconds, unless memory is nearly used up:
/// the quick kind takes 1% of the time at most, the full one 1.5%. With R's own collections a loop of small steps stays
/// below 5%.
const YOUNG_REST: u32 = 99;
const FULL_REST: u32 = 65;
/// Bytes per second at which fresh pages are filled where a block that is kept would only be written.
const FRESH: f64 = 25e9;
/// The same where one or two threads take the pages as they compute, 4 KB at a time.
const TOUCHED: f64 = 4e9;

#[derive(Clone, Copy)]
struct Last {
    end: Instant,
    took: Duration,
}

thread_local! {
    static YOUNG: Cell<Option<Last>> = const { Cell::new(None) };
    static FULL: Cell<Option<Last>> = const { Cell::new(None) };
    /// Bytes of vectors for R that were made since the last full collection.
    static READ: Cell<u64> = const { Cell::new(0) };
    /// Time in collections, for tests.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

static MAIN: OnceLock<ThreadId> = OnceLock::new();

fn is_main() -> bool {
    MAIN.get() == Some(&std::thread::current().id())
}

/// Remembers the main thread.
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

/// Whether the user wants the wait to end.
fn interrupted() -> bool {
    if !is_main() || finalizers::forked() {
        return false;
    }
    // SAFETY: R's own thread; nothing jumps out of it.
    unsafe { r::vg_interrupted() != 0 }
}

/// Collects where arrays have grown by half since the last time, and not so often that it costs more than 2.5% of
/// the time; above three quarters of what may be held always.
pub fn relieve() {
    if memory::is_pressed() {
        relieve_now();
    }
}

fn is_due(last: &'static std::thread::LocalKey<Cell<Option<Last>>>, rest: u32, tight: bool) -> bool {
    tight || last.get().is_none_or(|last| last.end.elapsed() > last.took * rest)
}

#[cold]
fn relieve_now() {
    // fresh pages that garbage could have spared
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
    collect(Collect::Young);
    // what has outlived a collection or two the quick kind does not find
    let found = if asked > 0 { (before / 4).min(asked / 2) } else { before / 4 };
    if memory::everything() > before - found {
        if !is_due(&FULL, FULL_REST, tight) {
            return;
        }
        collect(Collect::Full);
    }
    memory::collected();
}

/// Lets R collect, and frees what it found.
pub fn collect(how: Collect) {
    if finalizers::forked() {
        return;
    }
    // not the clock's: where others use the machine it would seem to cost what it does not
    // SAFETY: looks at a clock.
    let start = unsafe { r::vg_processor_seconds() };
    // SAFETY: R's own thread. Where gc is off, in Dataptr, this does nothing. Finalizers' errors stay in them.
    unsafe { r::vg_collect_garbage((how != Collect::Young).into()) };
    if how != Collect::Young {
        READ.set(0);
    }
    if how == Collect::Last {
        // SAFETY: as above.
        unsafe { r::vg_torch_trim() };
    }
    // SAFETY: as above.
    let took = Duration::try_from_secs_f64(unsafe { r::vg_processor_seconds() } - start).unwrap_or_default();
    SPENT.set(SPENT.get() + took);
    let last = if how == Collect::Young { &YOUNG } else { &FULL };
    last.set(Some(Last { end: Instant::now(), took }));
    host_pool::collected();
    finalizers::reap();
}

/// Seconds spent in collections that memory asked for.
pub fn spent() -> f64 {
    SPENT.get().as_secs_f64()
}

/// Before a vector for R is made of so many bytes: where none is kept, an earlier one may be garbage, and to find it
/// may cost less than fresh pages do.
pub fn before_read(bytes: usize) {
    let before = READ.replace(READ.get() + bytes as u64);
    if before < bytes as u64 || host_pool::has_kept(bytes) {
        return;
    }
    let fresh = Duration::from_secs_f64(bytes as f64 / FRESH);
    let pays = |last: Option<Last>, guess: u64| last.map_or(Duration::from_millis(guess), |last| last.took) < fresh;
    if pays(YOUNG.get(), 2) {
        collect(Collect::Young);
        if host_pool::has_kept(bytes) {
            return;
        }
    }
    // one that took long has maybe unmapped much: it is tried again now and then
    if before >= 2 * bytes as u64 && (pays(FULL.get(), 20) || is_due(&FULL, FULL_REST, false)) {
        collect(Collect::Full);
    }
}
