//! Buffers (device memory with an owner) and views of them. Also tracks which memory is shared with other libraries,
//! and which values were lost because work on a device failed.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Layout;

/// A device: where a buffer is allocated, and where work on it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    Cpu,
    /// The ordinal of a CUDA device.
    Cuda(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}

/// Whether imported memory is still at the address that it had at the import.
pub type Watch = Box<dyn Fn() -> bool + Send + Sync>;

/// A piece of memory, freed when its owner is dropped.
///
/// The content is written once, by the operation that made the buffer, and not changed afterwards. The exceptions are
/// buffers whose address was given to a kernel or another library (`share`, `ExternalBorrow`), and assignment to an
/// array that alone holds the buffer (`array/assign.rs`).
pub struct Buffer {
    pub device: Device,
    /// The address on the device; a host address for the cpu device. 0 for an empty buffer.
    pub address: u64,
    pub bytes: usize,
    /// Whether another library holds the address for as long as the buffer lives.
    shared: AtomicBool,
    address_pinned: AtomicBool,
    read_only: bool,
    /// The number of borrowers (see `ExternalBorrow`), and how many of them may write.
    lent: AtomicU32,
    lent_to_write: AtomicU32,
    /// The number of the array that lent the buffer: 0 if unknown, `SEVERAL` if there were several.
    lender: AtomicU64,
    /// The buffer that owns this memory, if it was exported and then imported again.
    origin: Option<Weak<Buffer>>,
    /// Whether it was imported as bools.
    bools: bool,
    /// Checks whether imported memory is still there, if its owner may replace it.
    watch: Option<Watch>,
    /// The number of the buffer, counted from 1 in the order in which the process made them.
    number: u64,
    /// Whether the values depend on outstanding results (see `Awaited`): `2 * period` if they may, `2 * period + 1` if
    /// they are known not to, 0 if unknown.
    origins: AtomicU64,
    /// How many entries of `LOST`, from the first on, are known not to concern this buffer.
    cleared: AtomicUsize,
    /// What a backend has computed from the content, and keeps to use it again; see `keep`.
    kept: Mutex<Vec<([u64; 4], Arc<Buffer>)>>,
    // Dropping the owner frees the memory: a block of a pool, or a foreign tensor by its deleter.
    _owner: Box<dyn Any + Send + Sync>,
}

/// The number of shared and lent buffers. While it is 0, no buffer needs to be checked.
static SHARED: AtomicUsize = AtomicUsize::new(0);

/// In place of an array's number.
const SEVERAL: u64 = u64::MAX;

/// The number of buffers made so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Buffers of a device whose values were lost: those numbered `from` to `to`, except ones known not to depend on the
/// lost results, and older ones known to depend on them.
struct Lost {
    device: Device,
    from: u64,
    to: u64,
    period: u64,
    error: Error,
}

/// Outstanding results of a device, which may be lost.
#[derive(Clone, Copy)]
pub struct Awaited {
    /// The number of the first buffer that receives such results; the greatest number if there is none.
    pub since: u64,
    /// The number of the period during which there is such a buffer; 0 if dependencies are not tracked.
    pub period: u64,
}

static LOST: Mutex<Vec<Lost>> = Mutex::new(Vec::new());

/// Records that work on a device failed to compute its results: the values of buffers from number `since` on that may
/// depend on them are lost.
pub fn note_lost_from(device: Device, awaited: Awaited, error: Error) {
    let Awaited { since: from, period } = awaited;
    let to = MADE.load(Ordering::Relaxed);
    LOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Lost { device, from, to, period, error });
}

/// Whether any buffer may be shared. Costs one atomic load.
pub fn any_shared() -> bool {
    SHARED.load(Ordering::Relaxed) > 0
}

impl Buffer {
    pub fn new(device: Device, address: u64, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Buffer {
        Buffer {
            device,
            address,
            bytes,
            shared: AtomicBool::new(false),
            address_pinned: AtomicBool::new(false),
            read_only: false,
            lent: AtomicU32::new(0),
            lent_to_write: AtomicU32::new(0),
            lender: AtomicU64::new(0),
            origin: None,
            bools: false,
            watch: None,
            number: MADE.fetch_add(1, Ordering::Relaxed) + 1,
            origins: AtomicU64::new(0),
            cleared: AtomicUsize::new(0),
            kept: Mutex::new(Vec::new()),
            _owner: owner,
        }
    }

    /// What `keep` was given for this key, if the content has not changed since.
    pub fn kept(&self, key: [u64; 4]) -> Option<Arc<Buffer>> {
        self.all_kept().iter().find(|(known, _)| *known == key).map(|(_, kept)| kept.clone())
    }

    /// Keeps what was computed from the content, until the buffer is freed, written to or lent. Only what few keys
    /// stand for is kept. Does nothing if the content may change unnoticed.
    pub fn keep(&self, key: [u64; 4], computed: &Arc<Buffer>) {
        const MOST: usize = 4;
        if self.is_private() {
            let mut kept = self.all_kept();
            kept.truncate(MOST - 1);
            kept.insert(0, (key, computed.clone()));
        }
    }

    /// Must be called where the content changes.
    pub fn forget_kept(&self) {
        drop(std::mem::take(&mut *self.all_kept()));
    }

    fn all_kept(&self) -> MutexGuard<'_, Vec<([u64; 4], Arc<Buffer>)>> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The number of the buffer, in the order in which the process made them.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Checks that the values were not lost.
    ///
    /// # Errors
    /// The error of the work that should have computed the values.
    #[cold]
    pub fn check_lost(&self) -> Result<()> {
        let lost = LOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let origins = self.origins.load(Ordering::Acquire);
        let is_lost = |lost: &&Lost| {
            let within = (lost.from..=lost.to).contains(&self.number);
            let known = lost.period != 0 && origins / 2 == lost.period;
            lost.device == self.device && if known { origins.is_multiple_of(2) } else { within }
        };
        lost.iter()
            .skip(self.cleared.load(Ordering::Relaxed))
            .find(is_lost)
            .map_or(Ok(()), |lost| Err(lost.error.clone()))
    }

    /// Whether the values may depend on these outstanding results.
    pub fn depends(&self, awaited: Awaited) -> bool {
        let origins = self.origins.load(Ordering::Acquire);
        if origins / 2 == awaited.period {
            origins.is_multiple_of(2)
        } else {
            self.number >= awaited.since
        }
    }

    /// Notes that queued work writes the buffer. If the work `depends` on outstanding results, or the buffer did before
    /// (only part of it may be written), it depends on them afterwards.
    pub fn note_origins(&self, period: u64, depends: bool) {
        if self.check_lost().is_ok() {
            // The new note does not cover earlier periods, so record that their losses do not concern this buffer.
            self.cleared.store(LOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len(), Ordering::Relaxed);
        }
        if depends {
            self.origins.store(2 * period, Ordering::Release);
        } else if self.origins.load(Ordering::Acquire) != 2 * period {
            self.origins.store(2 * period + 1, Ordering::Release);
        }
    }

    /// Whether not even a kernel may write to it, because its owner shared it read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn set_read_only(&mut self) {
        self.read_only = true;
    }

    /// Notes that another library imported or exported the memory as bools.
    pub fn set_bools(&mut self) {
        self.bools = true;
    }

    /// The greatest valid byte of a bool, if others may write to the memory; else None. 2 is NA, which only memory of
    /// this engine can hold.
    pub fn greatest_bool(&self) -> Option<i32> {
        match self.origin.as_ref().and_then(Weak::upgrade) {
            Some(origin) if self.bools || origin.bools => Some(if origin.bools { 1 } else { 2 }),
            Some(_) => None,
            None => self.bools.then_some(1),
        }
        .filter(|_| self.is_volatile())
    }

    pub fn set_watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// Whether the owner has replaced the memory.
    pub fn is_gone(&self) -> bool {
        self.watch.as_ref().is_some_and(|is_there| !is_there())
            || self.origin.as_ref().and_then(Weak::upgrade).is_some_and(|origin| origin.is_gone())
    }

    /// An error if the owner has replaced the memory.
    pub fn check(&self) -> Result<()> {
        if !any_shared() || !self.is_gone() {
            return Ok(());
        }
        Err(Error::new(Kind::Consumed, "the tensor's memory was replaced after the array was made, as by `resize_()`")
            .advise("Make the array again with `as_gpu(tensor)`."))
    }

    /// Marks this buffer as an alias of `origin`, whose writes are visible here. The alias is read-only unless `origin`
    /// may be written by a borrower.
    pub fn set_origin(&mut self, origin: &Arc<Buffer>) {
        if origin.origin.is_none() {
            self.read_only |= origin.read_only || !origin.is_volatile();
            self.origin = Some(Arc::downgrade(origin));
        } else {
            self.read_only |= origin.read_only;
            self.origin.clone_from(&origin.origin);
        }
    }

    /// Whether this is an alias, and the original buffer may be written by this engine or by a borrower.
    fn is_written_elsewhere(&self) -> bool {
        let Some(origin) = self.origin.as_ref().and_then(Weak::upgrade) else { return false };
        // Any reference may be used to write, except the borrowers' references and the upgraded one.
        !origin.read_only && (origin.is_volatile() || Arc::strong_count(&origin) > 1 + origin.lent())
    }

    /// Notes that the values must stay at this address: a CUDA graph writes there on each launch.
    pub fn pin_address(&self) {
        self.address_pinned.store(true, Ordering::Release);
    }

    pub fn is_address_pinned(&self) -> bool {
        self.address_pinned.load(Ordering::Acquire)
    }

    /// Notes that another library holds the address from now on, and may write unless the buffer is read-only.
    pub fn share(&self) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            SHARED.fetch_add(1, Ordering::AcqRel);
            self.forget_kept();
        }
    }

    /// Whether another library holds the address, so that facts read from the content may become outdated.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent.load(Ordering::Acquire) > 0
    }

    /// Whether the memory was allocated by this engine and its address is known neither to another library nor to a
    /// CUDA graph.
    pub fn is_private(&self) -> bool {
        !self.is_shared()
            && !self.is_address_pinned()
            && !self.read_only
            && self.origin.is_none()
            && self.watch.is_none()
    }

    /// Notes that the array of this number is about to lend the buffer.
    pub fn note_lender(&self, number: u64) {
        if self.lent() == 0 {
            self.lender.store(number, Ordering::Release);
        } else if self.lender.load(Ordering::Acquire) != number {
            self.lender.store(SEVERAL, Ordering::Release);
        }
    }

    /// Whether this array, and no other one, has lent the buffer. A borrower sees changes of the array that lent it,
    /// but not of other arrays.
    pub fn is_lent_by(&self, number: u64) -> bool {
        self.lender.load(Ordering::Acquire) == number
    }

    /// The number of borrowers; each of them has a reference to the buffer.
    pub fn lent(&self) -> usize {
        self.lent.load(Ordering::Acquire) as usize
    }

    /// Whether this engine's work on it must be ordered with that of another library: because the other one may write
    /// to it, or owns it. A read-only borrower was promised constant memory, and needs no ordering.
    pub fn needs_ordering(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent_to_write.load(Ordering::Acquire) > 0
    }

    /// Whether the content may change at any time other than through this buffer. Operations on such memory are
    /// computed at once.
    pub fn is_volatile(&self) -> bool {
        self.shared.load(Ordering::Acquire) && !self.read_only
            || self.lent_to_write.load(Ordering::Acquire) > 0
            || self.is_written_elsewhere()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if *self.shared.get_mut() {
            SHARED.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Lent memory by its first address: the end, the buffer, and the number of `ExternalBorrow` values.
type Borrowed = BTreeMap<u64, (u64, Weak<Buffer>, u32)>;
static BORROWED: Mutex<Borrowed> = Mutex::new(BTreeMap::new());

fn borrowed() -> MutexGuard<'static, Borrowed> {
    BORROWED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The lent buffer that contains these bytes; None if there is none.
pub fn origin_of(device: Device, address: u64, bytes: usize) -> Option<Arc<Buffer>> {
    if bytes == 0 || !any_shared() {
        return None;
    }
    // Buffers do not overlap, unless foreign memory was imported twice; so only a few entries need checking.
    const MOST_PROBED: usize = 4;
    let end = address.checked_add(bytes as u64)?;
    let found = {
        let borrowed = borrowed();
        let mut below = borrowed.range(..=address).rev().take(MOST_PROBED);
        below.find(|(_, (last, buffer, _))| end <= *last && buffer.strong_count() > 0).map(|(_, found)| found.1.clone())
    };
    found?.upgrade().filter(|buffer| buffer.device == device)
}

/// A buffer that another library borrows while this value lives. May be dropped on any thread.
pub struct ExternalBorrow {
    buffer: Arc<Buffer>,
    writes: bool,
}

impl ExternalBorrow {
    /// `writes`: whether the borrower may write.
    pub fn new(buffer: Arc<Buffer>, writes: bool) -> ExternalBorrow {
        SHARED.fetch_add(1, Ordering::AcqRel);
        buffer.lent.fetch_add(1, Ordering::AcqRel);
        buffer.lent_to_write.fetch_add(u32::from(writes), Ordering::AcqRel);
        buffer.forget_kept();
        if buffer.bytes > 0 {
            let end = buffer.address + buffer.bytes as u64;
            let mut borrowed = borrowed();
            let entry = borrowed.entry(buffer.address).or_insert_with(|| (end, Weak::new(), 0));
            if entry.1.strong_count() == 0 {
                (entry.0, entry.1) = (end, Arc::downgrade(&buffer));
            }
            entry.2 += 1;
        }
        ExternalBorrow { buffer, writes }
    }

    /// Whether the borrower may write.
    pub fn writes(&self) -> bool {
        self.writes
    }

    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }
}

impl Drop for ExternalBorrow {
    fn drop(&mut self) {
        if self.buffer.bytes > 0 {
            let mut borrowed = borrowed();
            if let Some(entry) = borrowed.get_mut(&self.buffer.address) {
                entry.2 -= 1;
                if entry.2 == 0 {
                    borrowed.remove(&self.buffer.address);
                }
            }
        }
        self.buffer.lent_to_write.fetch_sub(u32::from(self.writes), Ordering::AcqRel);
        self.buffer.lent.fetch_sub(1, Ordering::AcqRel);
        SHARED.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A layout of elements of a dtype in a buffer.
#[derive(Clone)]
pub struct View {
    pub buffer: Arc<Buffer>,
    pub dtype: DType,
    pub layout: Layout,
}

impl View {
    pub fn contiguous(buffer: Arc<Buffer>, dtype: DType, n: usize) -> View {
        View { buffer, dtype, layout: Layout::contiguous(n) }
    }

    pub fn len(&self) -> usize {
        self.layout.len()
    }

    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The address of the first element, offset included.
    pub fn address(&self) -> u64 {
        self.buffer.address + (self.layout.offset() * self.dtype.size()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_buffers_fail_at_each_read_and_others_do_not() {
        let device = Device::Cuda(77);
        let made = |device| Buffer::new(device, 0, 0, Box::new(()));
        let (before, first) = (made(device), made(device));
        let (elsewhere, second) = (made(Device::Cuda(78)), made(device));
        let awaited = Awaited { since: first.number(), period: 0 };
        note_lost_from(device, awaited, Error::new(Kind::Member, "values were lost: a test"));
        let after = made(device);
        for _ in 0..2 {
            for lost in [&first, &second] {
                assert_eq!(lost.check_lost().unwrap_err().kind, Kind::Member);
            }
            for kept in [&before, &elsewhere, &after] {
                assert!(kept.check_lost().is_ok());
            }
        }
    }

    #[test]
    fn buffers_are_lost_with_what_they_are_computed_from() {
        let device = Device::Cuda(79);
        let made = || Buffer::new(device, 0, 0, Box::new(()));
        let (old, updated, awaited) = (made(), made(), made());
        let now = Awaited { since: awaited.number(), period: 5 };
        awaited.note_origins(5, true);
        let (computed, other, unknown) = (made(), made(), made());
        assert!(awaited.depends(now) && unknown.depends(now) && !old.depends(now));
        computed.note_origins(5, awaited.depends(now));
        other.note_origins(5, old.depends(now));
        updated.note_origins(5, computed.depends(now));
        // only a part of a buffer with outstanding results is written
        awaited.note_origins(5, false);
        note_lost_from(device, now, Error::new(Kind::Member, "values were lost: a test"));
        for lost in [&awaited, &computed, &updated, &unknown] {
            assert!(lost.check_lost().is_err());
        }
        for kept in [&old, &other, &made()] {
            assert!(kept.check_lost().is_ok());
        }
        // dependencies in one period say nothing of another one
        let later = Awaited { since: other.number(), period: 6 };
        assert!(other.depends(later) && !updated.depends(later));
    }
}
