//! Memory pressure: R's gc does not see the bytes behind arrays, so it is asked to run when they grow; and what else
//! the engine's memory wants of R.
//!
//! Entries call `relieve` on their way in; Dataptr cannot, because R's gc is off there.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use verdigris_engine::buffer::Device;
use verdigris_engine::error::{Error, Kind, Result};
use verdigris_engine::expr::Site;
use verdigris_engine::host;
use verdigris_engine::interrupt;
use verdigris_engine::memory::{self, Collect, Hooks};

use crate::r::{self, SEXP, SEXPTYPE};
use crate::{finalized, site};

/// After a collection that took a second none of its kind comes for so many seconds, unless memory is nearly used up: the quick
/// kind takes 1% of the time at most, the full one 1.5%. With R's own collections a loop of small steps stays below 5%.
const YOUNG_REST: u32 = 99;
const FULL_REST: u32 = 65;
/// Bytes that fresh pages are filled with in a second where a block that is kept would only be written: DESIGN 5.
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
    let describe = |site: &Site| Some(site::text(site)).filter(|text| !text.is_empty());
    memory::set_hooks(Hooks { is_main, collect, describe, limit, pinned_limit, threads });
    interrupt::set_check(interrupted);
}

/// Whether the user wants the wait to end.
fn interrupted() -> bool {
    if !is_main() || crate::altrep::forked() {
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
    let (asked, missed) = host::asked();
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
    if crate::altrep::forked() {
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
    host::collected();
    finalized::reap();
}

/// Seconds spent in collections that memory asked for.
pub fn spent() -> f64 {
    SPENT.get().as_secs_f64()
}

/// Before a vector for R is made of so many bytes: where none is kept, an earlier one may be garbage, and to find it
/// may cost less than fresh pages do.
pub fn before_read(bytes: usize) {
    let before = READ.replace(READ.get() + bytes as u64);
    if before < bytes as u64 || host::has_kept(bytes) {
        return;
    }
    let fresh = Duration::from_secs_f64(bytes as f64 / FRESH);
    let pays = |last: Option<Last>, guess: u64| last.map_or(Duration::from_millis(guess), |last| last.took) < fresh;
    if pays(YOUNG.get(), 2) {
        collect(Collect::Young);
        if host::has_kept(bytes) {
            return;
        }
    }
    // one that took long has maybe unmapped much: it is tried again now and then
    if before >= 2 * bytes as u64 && (pays(FULL.get(), 20) || is_due(&FULL, FULL_REST, false)) {
        collect(Collect::Full);
    }
}

// ---- options --------------------------------------------------------------------------------------

fn option(name: &'static CStr) -> SEXP {
    // SAFETY: the value is R's, which keeps it.
    unsafe { r::Rf_GetOption1(r::symbol(name)) }
}

/// The element of a numeric vector that is meant for a device: by name, else the first of a vector without names.
fn element(value: SEXP, device: Option<Device>) -> Option<f64> {
    // SAFETY: types and lengths are checked.
    unsafe {
        let n = r::len(value);
        let number = |k: usize| match r::kind_of(value) {
            SEXPTYPE::REALSXP => r::REAL_ELT(value, k as isize),
            SEXPTYPE::INTSXP if r::INTEGER_ELT(value, k as isize) != i32::MIN => {
                f64::from(r::INTEGER_ELT(value, k as isize))
            }
            _ => f64::NAN,
        };
        let names = r::Rf_getAttrib(value, r::R_NamesSymbol);
        if r::is_null(names) {
            return (n > 0).then(|| number(0));
        }
        let device = device?;
        let whole = device.to_string();
        let family = if device == Device::Cpu { "cpu" } else { "cuda" };
        let named = |wanted: &str| {
            (0..n).find(|&k| r::chars(r::STRING_ELT(names, k as isize)) == wanted.as_bytes()).map(number)
        };
        named(&whole).or_else(|| named(family))
    }
}

/// Whether an option is one number, or (for what each device has) numbers with names of devices.
fn is_limit(value: SEXP, by_device: bool) -> bool {
    if !matches!(r::kind_of(value), SEXPTYPE::REALSXP | SEXPTYPE::INTSXP) {
        return false;
    }
    // SAFETY: reading an attribute of a vector; names are strings, as many as elements.
    unsafe {
        let names = r::Rf_getAttrib(value, r::R_NamesSymbol);
        if r::is_null(names) || !by_device {
            return r::len(value) == 1;
        }
        r::len(value) > 0
            && (0..r::len(value)).all(|k| {
                let name = r::chars(r::STRING_ELT(names, k as isize));
                name == b"cpu" || name == b"cuda" || name.starts_with(b"cuda:")
            })
    }
}

/// Bytes that an option says: a fraction of `total` up to 1, else bytes.
fn bytes_of(name: &'static CStr, device: Option<Device>, total: u64) -> Result<Option<u64>> {
    let value = option(name);
    if r::is_null(value) {
        return Ok(None);
    }
    let refused = || {
        let by_device = if device.is_some() { ", or a vector of these with names of devices" } else { "" };
        let text = format!(
            "option {} must be a number of bytes, or a fraction up to 1{by_device}, not {}",
            name.to_string_lossy(),
            crate::convert::describe(value)
        );
        Error::new(Kind::Argument, text)
    };
    if !is_limit(value, device.is_some()) {
        return Err(refused());
    }
    match element(value, device) {
        None => Ok(None),
        Some(part) if part > 0.0 && part <= 1.0 && total > 0 => Ok(Some((part * total as f64) as u64)),
        Some(bytes) if bytes > 1.0 => Ok(Some(bytes.min(1e18) as u64)),
        Some(_) => Err(refused()),
    }
}

fn limit(device: Device, total: u64) -> Result<Option<u64>> {
    bytes_of(c"verdigris.memory_limit", Some(device), total)
}

fn pinned_limit(total: u64) -> Result<Option<u64>> {
    let name = c"verdigris.pinned_limit";
    // none at all is an answer here
    if is_limit(option(name), false) && element(option(name), None) == Some(0.0) {
        return Ok(Some(0));
    }
    bytes_of(name, None, total)
}

fn threads() -> Option<usize> {
    let value = option(c"verdigris.transfer_threads");
    if r::is_null(value) {
        return None;
    }
    element(value, None).filter(|&n| n >= 1.0).map(|n| n.min(256.0) as usize)
}
