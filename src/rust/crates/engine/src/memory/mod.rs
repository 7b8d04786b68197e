//! Accounting of the bytes in use on each device, limits, and the steps that are tried before an allocation fails.
//!
//! Backends allocate through `obtain`. The bridge registers what only R can do (collect garbage, deparse a call, read
//! an option) with `set_hooks`.

pub mod buffer;
pub mod counters;
pub mod fallible;
pub mod host_pool;
pub mod staging;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::memory::buffer::Device;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::error::{Error, Kind, Result};

/// Buffers from this size on are listed in messages with the call that made them, and may be spilled.
pub const LARGE: usize = 1 << 20;
/// Below this many bytes, no garbage collection is requested: R's own collections are frequent enough.
const GC_FLOOR: u64 = 256 << 20;
/// The number of arrays listed in an out-of-memory message.
const LISTED: usize = 5;
/// The accounts: the cpu, CUDA devices, and host copies.
const ACCOUNTS_KEPT: usize = 66;

/// How thoroughly to collect garbage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collect {
    /// Only recently made objects; takes a millisecond or two.
    Minor,
    /// All garbage.
    Full,
    /// All garbage, and memory that other libraries in this process cache (torch).
    FullWithCaches,
}

/// What the bridge does for this module. All but `is_main` may only be called on R's thread.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Whether this is R's thread.
    pub is_main: fn() -> bool,
    /// Runs R's garbage collection, and frees the arrays that it found.
    pub collect: fn(Collect),
    /// The text of a recorded call, for messages.
    pub describe: fn(&CallSite) -> Option<String>,
    /// The user's memory limit for a device, if any, given the device's total bytes.
    pub limit: fn(Device, u64) -> Result<Option<u64>>,
    /// The user's limit of page-locked host memory in bytes, if any, given the machine's memory.
    pub pinned_limit: fn(u64) -> Result<Option<u64>>,
    /// The user's number of threads that copy to and from a device, if any.
    pub threads: fn() -> Result<Option<usize>>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Moves arrays of a device to the host until this many bytes are free; returns false if that is not possible.
type Spill = fn(Device, u64) -> Result<bool>;

static SPILL: OnceLock<Spill> = OnceLock::new();

/// Registered when there is first an array that can be spilled.
pub(crate) fn set_spill(spill: Spill) {
    let _ = SPILL.set(spill);
}

fn spill(device: Device, bytes: u64) -> Result<bool> {
    SPILL.get().map_or(Ok(false), |spill| spill(device, bytes))
}

/// Must be called once, before anything is allocated.
pub fn set_hooks(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Set when a device holds so much more than after the last garbage collection that another one may pay.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Set when a device holds more than three quarters of its limit, or arrays three quarters of the host's memory.
static TIGHT: AtomicBool = AtomicBool::new(false);

/// Whether a garbage collection may pay. Costs one atomic load.
pub fn is_pressed() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

/// Whether a collection may still pay, either because of `otherwise` or because a device still holds as much. R's own
/// collections may have freed memory since the request, and a second collection right afterwards would find nothing.
pub fn is_still_pressed(otherwise: bool) -> bool {
    let pressed = otherwise || ACCOUNTS.iter().any(|a| a.live() > a.next.load(Ordering::Relaxed));
    if !pressed {
        PRESSED.store(false, Ordering::Relaxed);
        TIGHT.store(false, Ordering::Relaxed);
    }
    pressed
}

/// Requests a garbage collection.
pub(crate) fn request_gc() {
    PRESSED.store(true, Ordering::Relaxed);
}

/// The bytes in use on a device.
pub struct Account {
    live: AtomicU64,
    buffers: AtomicU64,
    /// A collection is requested above this many bytes.
    next: AtomicU64,
    limit: AtomicU64,
}

static ACCOUNTS: [Account; ACCOUNTS_KEPT] = [const {
    Account {
        live: AtomicU64::new(0),
        buffers: AtomicU64::new(0),
        next: AtomicU64::new(GC_FLOOR),
        limit: AtomicU64::new(u64::MAX),
    }
}; ACCOUNTS_KEPT];

/// The account of a device.
pub fn account(device: Device) -> &'static Account {
    match device {
        Device::Cpu => &ACCOUNTS[0],
        Device::Cuda(ordinal) => &ACCOUNTS[(ordinal as usize + 1).min(ACCOUNTS_KEPT - 2)],
    }
}

/// The account of host memory through which R reads arrays: host copies, and R vectors in memory of this engine.
pub fn host_account() -> &'static Account {
    &ACCOUNTS[ACCOUNTS_KEPT - 1]
}

impl Account {
    /// Bytes of live buffers.
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// The number of live buffers.
    pub fn buffers(&self) -> u64 {
        self.buffers.load(Ordering::Relaxed)
    }

    /// The most bytes that live buffers may have: the user's limit, or all of the device.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.buffers.fetch_add(1, Ordering::Relaxed);
        if !std::ptr::eq(self, host_account()) {
            counters::note_live(live);
        }
        if live > self.next.load(Ordering::Relaxed) {
            PRESSED.store(true, Ordering::Relaxed);
            let host = host_account().live() + ACCOUNTS[0].live();
            if live > self.limit() / 4 * 3 || host > machine() / 4 * 3 {
                TIGHT.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn remove(&self, bytes: u64) {
        let live = self.live.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        self.buffers.fetch_sub(1, Ordering::Relaxed);
        // R's own collections free memory too, so growth is measured from what is left.
        if live.saturating_mul(3).saturating_add(GC_FLOOR) < self.next.load(Ordering::Relaxed) {
            self.next.store((live + live / 2).max(GC_FLOOR), Ordering::Relaxed);
        }
    }
}

/// Whether a device, or this machine, was above three quarters of its limit when more was allocated.
pub fn is_tight() -> bool {
    TIGHT.load(Ordering::Relaxed)
}

/// Bytes of live buffers on all devices and the host.
pub fn everything() -> u64 {
    ACCOUNTS.iter().map(Account::live).sum()
}

/// Called after a garbage collection. The next one is requested when a device holds half as much again, or has used
/// half of the memory that is left.
pub fn collected() {
    PRESSED.store(false, Ordering::Relaxed);
    TIGHT.store(false, Ordering::Relaxed);
    for a in &ACCOUNTS {
        let (live, limit) = (a.live(), a.limit());
        let half = live.saturating_add(live / 2).max(GC_FLOOR.min(limit / 2));
        let near = live + limit.saturating_sub(live) / 2;
        a.next.store(half.min(near), Ordering::Relaxed);
    }
}

/// Reads the user's limit for a device. `total` is the device's memory in bytes, 0 if unknown.
///
/// # Errors
/// `Argument` if the option's value is not a valid limit.
pub fn refresh_limit(device: Device, total: u64) -> Result<u64> {
    let a = account(device);
    let wanted = match HOOKS.get() {
        // Other threads than R's cannot read options, so the last limit is used.
        Some(hooks) if !(hooks.is_main)() && a.limit() != u64::MAX => return Ok(a.limit()),
        Some(hooks) if (hooks.is_main)() => (hooks.limit)(device, total)?,
        _ => None,
    };
    let limit = wanted.unwrap_or(if total == 0 { u64::MAX } else { total });
    if a.limit.swap(limit, Ordering::Relaxed) != limit {
        collected();
    }
    Ok(limit)
}

/// Bytes of page-locked host memory that may be in use; `default` if the user has set no limit.
pub fn pinned_limit(default: u64) -> Result<u64> {
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
    let limit = match HOOKS.get() {
        Some(hooks) if (hooks.is_main)() => (hooks.pinned_limit)(machine())?.unwrap_or(default),
        _ => LAST.load(Ordering::Relaxed).min(default),
    };
    LAST.store(limit, Ordering::Relaxed);
    Ok(limit)
}

/// The number of threads that the user wants for copies to and from a device; None if not set, or on other threads than
/// R's.
pub fn threads() -> Result<Option<usize>> {
    HOOKS.get().filter(|hooks| (hooks.is_main)()).map_or(Ok(None), |hooks| (hooks.threads)())
}

/// Runs R's garbage collection; does nothing on other threads than R's.
pub fn collect(how: Collect) {
    if let Some(hooks) = HOOKS.get().filter(|hooks| (hooks.is_main)()) {
        (hooks.collect)(how);
    }
}

// ---- large buffers, for messages ------------------------------------------------------------------

struct Entry {
    device: Device,
    bytes: u64,
    site: Option<CallSite>,
}

static ENTRIES: Mutex<Option<HashMap<u64, Entry>>> = Mutex::new(None);

thread_local! {
    static MAKER: RefCell<Option<CallSite>> = const { RefCell::new(None) };
}

/// Runs `body`, attributing large buffers that it allocates to the call.
pub fn made_by<T>(site: Option<CallSite>, body: impl FnOnce() -> T) -> T {
    struct Restore(Option<CallSite>);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAKER.set(self.0.take());
        }
    }
    let _restore = Restore(MAKER.replace(site));
    body()
}

/// Bytes charged to an account while this value lives.
pub struct Held {
    account: &'static Account,
    bytes: u64,
    /// The key of its entry in `ENTRIES`; 0 for a small buffer.
    id: u64,
}

impl Held {
    pub fn new(device: Device, bytes: u64) -> Held {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        account(device).add(bytes);
        let mut id = 0;
        if bytes >= LARGE as u64 {
            id = NEXT.fetch_add(1, Ordering::Relaxed);
            let entry = Entry { device, bytes, site: MAKER.with_borrow(Clone::clone) };
            lock(&ENTRIES).get_or_insert_default().insert(id, entry);
        }
        Held { account: account(device), bytes, id }
    }

    /// Charges bytes through which R reads arrays.
    pub fn on_host(bytes: u64) -> Held {
        host_account().add(bytes);
        Held { account: host_account(), bytes, id: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
        if self.id != 0 {
            let entry = lock(&ENTRIES).as_mut().and_then(|entries| entries.remove(&self.id));
            drop(entry); // freed after the lock is released
        }
    }
}

/// The largest live buffers on a device: bytes, and the call that made each, if known.
pub fn largest(device: Device, most: usize) -> Vec<(u64, Option<String>)> {
    let mut found: Vec<(u64, u64, Option<CallSite>)> = lock(&ENTRIES)
        .iter()
        .flatten()
        .filter(|(_, entry)| entry.device == device)
        .map(|(id, entry)| (entry.bytes, *id, entry.site.clone()))
        .collect();
    found.sort_by_key(|(bytes, id, _)| (std::cmp::Reverse(*bytes), *id));
    found.truncate(most);
    let describe = HOOKS.get().filter(|hooks| (hooks.is_main)()).map(|hooks| hooks.describe);
    found.into_iter().map(|(bytes, _, site)| (bytes, site.and_then(|site| describe.and_then(|d| d(&site))))).collect()
}

// ---- allocation and its fallbacks -----------------------------------------------------------------

/// A device's allocator.
pub trait Source {
    /// Allocates memory; None if there is none left.
    fn take(&self, bytes: usize) -> Result<Option<u64>>;

    /// Waits for queued work whose completion frees memory.
    fn finish(&self) -> Result<()>;

    /// Waits for queued work, and returns cached memory to the system.
    fn trim(&self) -> Result<()>;

    fn device(&self) -> Device;

    /// The device's total memory; 0 if unknown.
    fn total(&self) -> u64;

    fn cached(&self) -> u64;

    /// The memory that other processes leave free, if the device checks that before it allocates.
    fn left(&self) -> Option<u64> {
        None
    }
}

/// Allocates from a source, within the device's limit. If that fails, it tries in this order: wait for queued work, a
/// quick garbage collection by R, trim the pool, a full collection (after which torch empties its own pool), spill
/// arrays to the host.
///
/// # Errors
/// `Memory`; the message says how much memory is held, and by what.
pub fn obtain(source: &dyn Source, bytes: usize) -> Result<u64> {
    let device = source.device();
    let account = account(device);
    if bytes >= LARGE || account.limit() == u64::MAX {
        refresh_limit(device, source.total())?;
    }
    let attempt = || -> Result<Option<u64>> {
        if account.live().saturating_add(bytes as u64) > account.limit() {
            return Ok(None);
        }
        source.take(bytes)
    };
    if let Some(address) = attempt()? {
        return Ok(address);
    }
    allocate_with_fallbacks(source, bytes, &attempt)
}

#[cold]
fn allocate_with_fallbacks(
    source: &dyn Source,
    bytes: usize,
    attempt: &dyn Fn() -> Result<Option<u64>>,
) -> Result<u64> {
    let (device, limit) = (source.device(), account(source.device()).limit());
    // More than the device may ever hold: no fallback can help.
    if bytes as u64 <= limit {
        for step in 0..6 {
            match step {
                0 => source.finish()?,
                1 => collect(Collect::Minor),
                2 => source.trim()?,
                3 => {
                    collect(Collect::FullWithCaches);
                    source.trim()?;
                }
                _ => {
                    // Step 4 spills what exceeds the limit. Step 5, or step 4 if the limit allows the allocation but
                    // the device itself is full, spills enough for the whole allocation.
                    let over = account(device).live().saturating_add(bytes as u64).saturating_sub(limit);
                    let wanted = if step == 4 && over > 0 { over } else { bytes as u64 };
                    if !spill(device, wanted)? {
                        break;
                    }
                    source.trim()?;
                }
            }
            if let Some(address) = attempt()? {
                return Ok(address);
            }
        }
    }
    Err(refusal(source, bytes as u64))
}

fn refusal(source: &dyn Source, bytes: u64) -> Error {
    let device = source.device();
    let account = account(device);
    let limit = account.limit();
    let of = if limit == source.total() || limit == u64::MAX { "" } else { ", set by option verdigris.memory_limit" };
    let bound = if limit == u64::MAX { String::new() } else { format!("; the limit is {}{of}", human(limit)) };
    let left = source.left().filter(|&left| left < bytes);
    let left = left.map_or(String::new(), |left| format!("; others leave {}", human(left)));
    let mut error = Error::new(
        Kind::Memory,
        format!(
            "device {device} cannot allocate {}: arrays hold {}, the pool keeps {}{bound}{left}",
            human(bytes),
            human(account.live()),
            human(source.cached()),
        ),
    );
    let largest = largest(device, LISTED);
    if !largest.is_empty() {
        let lines: Vec<String> = largest
            .iter()
            .map(|(bytes, call)| format!("{}  {}", human(*bytes), call.as_deref().unwrap_or("?")))
            .collect();
        error = error.advise(format!("The largest arrays: {}.", lines.join("; ")));
    }
    error
        .advise("Free arrays with `rm()` and `gc()`, or `gpu_free(x)`; `gpu_memory()` shows what is held.")
        .advise("Or work on the data in pieces with `gpu_chunked()`, or in float32.")
}

/// Formats a number of bytes.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match (unit, value) {
        (0, _) => format!("{bytes} bytes"),
        (_, 100.0..) => format!("{value:.0} {}", UNITS[unit]),
        (_, 10.0..) => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}

/// Bytes of memory of this machine, or of the container's limit.
pub fn machine() -> u64 {
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

/// Bytes that this machine can provide now, by Linux's estimate; None on other systems.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    Some(field("MemAvailable:")? + field("SwapFree:").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_can_give_is_part_of_what_it_has() {
        if cfg!(target_os = "linux") {
            assert!(available().is_some_and(|bytes| bytes > 1 << 20));
        }
    }

    /// A device with 10 MiB, 6 of which a garbage collection would free.
    struct Fake {
        used: AtomicU64,
        garbage: AtomicU64,
        trims: AtomicU64,
    }

    const MIB: u64 = 1 << 20;

    impl Source for Fake {
        fn take(&self, bytes: usize) -> Result<Option<u64>> {
            if self.used.load(Ordering::Relaxed) + bytes as u64 > 10 * MIB {
                return Ok(None);
            }
            self.used.fetch_add(bytes as u64, Ordering::Relaxed);
            Ok(Some(1))
        }

        fn finish(&self) -> Result<()> {
            Ok(())
        }

        fn trim(&self) -> Result<()> {
            self.trims.fetch_add(1, Ordering::Relaxed);
            self.used.fetch_sub(self.garbage.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            Ok(())
        }

        fn device(&self) -> Device {
            Device::Cuda(60)
        }

        fn total(&self) -> u64 {
            10 * MIB
        }

        fn cached(&self) -> u64 {
            self.garbage.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn trimming_makes_room_and_a_refusal_says_what_is_held() {
        let fake = Fake { used: AtomicU64::new(8 * MIB), garbage: AtomicU64::new(6 * MIB), trims: AtomicU64::new(0) };
        assert_eq!(obtain(&fake, 4 << 20).unwrap(), 1);
        assert_eq!(fake.trims.load(Ordering::Relaxed), 1);
        let held = Held::new(Device::Cuda(60), 5 * MIB);
        let error = obtain(&fake, 6 << 20).unwrap_err();
        assert_eq!(error.kind, Kind::Memory);
        assert!(error.message.contains("6.29 MB") && error.message.contains("hold 5.24 MB"), "{error}");
        assert!(error.advice[0].contains("5.24 MB"), "{error}");
        // larger than the device: no fallback is tried
        let trims = fake.trims.load(Ordering::Relaxed);
        assert_eq!(obtain(&fake, 11 << 20).unwrap_err().kind, Kind::Memory);
        assert_eq!(fake.trims.load(Ordering::Relaxed), trims);
        drop(held);
        assert_eq!(account(Device::Cuda(60)).live(), 0);
        assert!(largest(Device::Cuda(60), 9).is_empty());
    }

    #[test]
    fn growth_counts_from_what_is_left() {
        let device = Device::Cuda(61);
        let (large, small) = (Held::new(device, 80 << 30), Held::new(device, 1 << 30));
        collected();
        assert!(account(device).next.load(Ordering::Relaxed) > 81 << 30);
        drop(large);
        assert_eq!(account(device).next.load(Ordering::Relaxed), 3 << 29);
        drop(small);
        assert_eq!(account(device).next.load(Ordering::Relaxed), GC_FLOOR);
        let held = Held::new(device, GC_FLOOR + 1);
        assert!(is_pressed() && is_still_pressed(false));
        drop(held);
    }

    #[test]
    fn bytes_read_well() {
        assert_eq!(human(12), "12 bytes");
        assert_eq!(human(80_000_000_000), "80.0 GB");
        assert_eq!(human(1_234_567), "1.23 MB");
        assert_eq!(human(800_000_000), "800 MB");
    }
}
