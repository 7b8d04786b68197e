//! Buffers (device memory with an owner) and views of them; records which memory is shared with other libraries and may
//! change.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Layout;

/// Where a buffer lives and work on it runs.
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

/// Whether memory is where it was when it came in.
pub type Watch = Box<dyn Fn() -> bool + Send + Sync>;

/// A piece of memory, freed when its owner is dropped.
///
/// The content is written once, by the operation that made the buffer, and not changed afterwards, unless a kernel or
/// someone outside was given the address (`share`, `Lent`), or an array that alone holds the buffer is assigned to
/// (`array/assign.rs`).
pub struct Buffer {
    pub device: Device,
    /// The address on the device; a host address where the device is the cpu. 0 where empty.
    pub address: u64,
    pub bytes: usize,
    /// Whether someone outside holds the address for as long as the buffer lives.
    shared: AtomicBool,
    fixed: AtomicBool,
    read_only: bool,
    /// Number of borrowers outside, and how many of them may write.
    lent: AtomicU32,
    lent_to_write: AtomicU32,
    /// The lender: the number of an array, 0 where that is not known, `SEVERAL` for more than one.
    lender: AtomicU64,
    /// The buffer whose memory this is, where it left and came back.
    origin: Option<Weak<Buffer>>,
    /// Whether it came in as bools.
    bools: bool,
    /// Tells whether foreign memory is still there, where its owner may replace it.
    watch: Option<Watch>,
    /// Which buffer of the process it is, from 1.
    number: u64,
    /// What its values are computed from while others are awaited that may never come: twice the period's number, and
    /// one more where that is known to be none of them. 0: not known.
    origins: AtomicU64,
    /// How many of the earlier losses are known not to be its own.
    cleared: AtomicUsize,
    // Dropping it frees the memory: a pool's block, or a foreign tensor's deleter.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Number of shared and lent buffers. At zero no buffer is checked one by one.
static SHARED: AtomicUsize = AtomicUsize::new(0);

/// No array's number.
const SEVERAL: u64 = u64::MAX;

/// How many buffers were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Buffers of a device that work has left without values: those of the numbers from the first to the last but for those
/// that are known to be computed from others, and older ones that were written since with what is computed from them.
struct Lost {
    device: Device,
    from: u64,
    to: u64,
    period: u64,
    error: Error,
}

/// Values of a device that are on their way, and may never come.
#[derive(Clone, Copy)]
pub struct Awaited {
    /// The number of the first buffer that receives some; the greatest number where there is none.
    pub since: u64,
    /// A number for the time from when there is such a buffer to when there is none; 0 where origins are not known.
    pub period: u64,
}

static LOST: Mutex<Vec<Lost>> = Mutex::new(Vec::new());

/// Notes that work on a device has ended without values: of the buffer of this number, and of those made since, which
/// may be computed from it.
pub fn note_lost_from(device: Device, awaited: Awaited, error: Error) {
    let Awaited { since: from, period } = awaited;
    let to = MADE.load(Ordering::Relaxed);
    LOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Lost { device, from, to, period, error });
}

/// Whether any buffer may be shared: one load.
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
            fixed: AtomicBool::new(false),
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
            _owner: owner,
        }
    }

    /// Its place in the order in which the process has made buffers.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// # Errors
    /// That of the work that should have written the values, if it has ended without.
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

    /// Whether its values may depend on those that are awaited.
    pub fn depends(&self, awaited: Awaited) -> bool {
        let origins = self.origins.load(Ordering::Acquire);
        if origins / 2 == awaited.period {
            origins.is_multiple_of(2)
        } else {
            self.number >= awaited.since
        }
    }

    /// Notes that work is queued that writes it. What was awaited stays so where a part alone is written.
    pub fn note_origins(&self, period: u64, depends: bool) {
        if self.check_lost().is_ok() {
            // what is noted now says nothing of earlier periods
            self.cleared.store(LOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len(), Ordering::Relaxed);
        }
        if depends {
            self.origins.store(2 * period, Ordering::Release);
        } else if self.origins.load(Ordering::Acquire) != 2 * period {
            self.origins.store(2 * period + 1, Ordering::Release);
        }
    }

    /// Whether not even a kernel may write: a foreign library said so.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn set_read_only(&mut self) {
        self.read_only = true;
    }

    /// Notes that these are bools, as others know them.
    pub fn set_bools(&mut self) {
        self.bools = true;
    }

    /// The greatest byte of bools that someone else may write; None where nobody else writes. 2 is NA, in memory of
    /// ours alone.
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

    /// Whether its owner has put other memory in the place of this.
    pub fn is_gone(&self) -> bool {
        self.watch.as_ref().is_some_and(|is_there| !is_there())
            || self.origin.as_ref().and_then(Weak::upgrade).is_some_and(|origin| origin.is_gone())
    }

    /// An error where it is gone.
    pub fn check(&self) -> Result<()> {
        if !any_shared() || !self.is_gone() {
            return Ok(());
        }
        Err(Error::new(Kind::Consumed, "the tensor's memory was replaced after the array was made, as by `resize_()`")
            .advise("Make the array again with `as_gpu(tensor)`."))
    }

    /// Marks this buffer as an alias of `origin`: writes there show here. It is read-only unless `origin` was lent to a
    /// writer.
    pub fn set_origin(&mut self, origin: &Arc<Buffer>) {
        if origin.origin.is_none() {
            self.read_only |= origin.read_only || !origin.is_volatile();
            self.origin = Some(Arc::downgrade(origin));
        } else {
            self.read_only |= origin.read_only;
            self.origin.clone_from(&origin.origin);
        }
    }

    /// Whether this is memory of another buffer that somebody here, or who was given that one, may write to.
    fn is_written_elsewhere(&self) -> bool {
        let Some(origin) = self.origin.as_ref().and_then(Weak::upgrade) else { return false };
        // all references can write, but for borrowers' and this one
        !origin.read_only && (origin.is_volatile() || Arc::strong_count(&origin) > 1 + origin.lent())
    }

    /// Notes that the values belong to this address: a graph writes there each time that it runs.
    pub fn fix(&self) {
        self.fixed.store(true, Ordering::Release);
    }

    pub fn is_fixed(&self) -> bool {
        self.fixed.load(Ordering::Acquire)
    }

    /// Notes that someone outside holds the address from now on, and, unless the buffer is read-only, may write.
    pub fn share(&self) {
        if !self.shared.swap(true, Ordering::AcqRel) {
            SHARED.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether someone outside holds the address: nothing that was read of the content holds for long.
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent.load(Ordering::Acquire) > 0
    }

    /// Whether the memory came from here and nobody outside knows the address: no other library, and no recorded graph.
    pub fn is_private(&self) -> bool {
        !self.is_shared() && !self.is_fixed() && !self.read_only && self.origin.is_none() && self.watch.is_none()
    }

    /// Notes that an array, by a number of its own, is about to lend it.
    pub fn note_lender(&self, number: u64) {
        if self.lent() == 0 {
            self.lender.store(number, Ordering::Release);
        } else if self.lender.load(Ordering::Acquire) != number {
            self.lender.store(SEVERAL, Ordering::Release);
        }
    }

    /// Whether this array has lent it, and no other one: who borrowed it sees what this array becomes, and of others he
    /// does not.
    pub fn is_lent_by(&self, number: u64) -> bool {
        self.lender.load(Ordering::Acquire) == number
    }

    /// Number of borrowers outside; each of them has a reference to it.
    pub fn lent(&self) -> usize {
        self.lent.load(Ordering::Acquire) as usize
    }

    /// Whether our work on it and work of someone outside are to be kept in order: he may write to it, or it is his.
    /// A read-only borrower that was promised constant memory needs no ordering.
    pub fn is_contested(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.lent_to_write.load(Ordering::Acquire) > 0
    }

    /// Whether someone may write at any time by another way than this buffer: what is computed from the content is
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

/// Memory that someone outside holds, by where it begins: where it ends, the buffer, and how often it is held.
type Given = BTreeMap<u64, (u64, Weak<Buffer>, u32)>;
static GIVEN: Mutex<Given> = Mutex::new(BTreeMap::new());

fn given() -> MutexGuard<'static, Given> {
    GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The buffer of ours in whose memory these bytes lie, if it was given out and is held.
pub fn origin_of(device: Device, address: u64, bytes: usize) -> Option<Arc<Buffer>> {
    if bytes == 0 || !any_shared() {
        return None;
    }
    // memory of buffers does not overlap, unless foreign memory came in twice
    const MOST_PROBED: usize = 4;
    let end = address.checked_add(bytes as u64)?;
    let found = {
        let given = given();
        let mut below = given.range(..=address).rev().take(MOST_PROBED);
        below.find(|(_, (last, buffer, _))| end <= *last && buffer.strong_count() > 0).map(|(_, found)| found.1.clone())
    };
    found?.upgrade().filter(|buffer| buffer.device == device)
}

/// A buffer that someone outside holds, for as long as this lives. Dropped on any thread.
pub struct Lent {
    buffer: Arc<Buffer>,
    writes: bool,
}

impl Lent {
    /// `writes`: whether he may write.
    pub fn new(buffer: Arc<Buffer>, writes: bool) -> Lent {
        SHARED.fetch_add(1, Ordering::AcqRel);
        buffer.lent.fetch_add(1, Ordering::AcqRel);
        buffer.lent_to_write.fetch_add(u32::from(writes), Ordering::AcqRel);
        if buffer.bytes > 0 {
            let end = buffer.address + buffer.bytes as u64;
            let mut given = given();
            let entry = given.entry(buffer.address).or_insert_with(|| (end, Weak::new(), 0));
            if entry.1.strong_count() == 0 {
                (entry.0, entry.1) = (end, Arc::downgrade(&buffer));
            }
            entry.2 += 1;
        }
        Lent { buffer, writes }
    }

    /// Whether the holder may write.
    pub fn writes(&self) -> bool {
        self.writes
    }

    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.buffer.bytes > 0 {
            let mut given = given();
            if let Some(entry) = given.get_mut(&self.buffer.address) {
                entry.2 -= 1;
                if entry.2 == 0 {
                    given.remove(&self.buffer.address);
                }
            }
        }
        self.buffer.lent_to_write.fetch_sub(u32::from(self.writes), Ordering::AcqRel);
        self.buffer.lent.fetch_sub(1, Ordering::AcqRel);
        SHARED.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Elements of a type in a buffer.
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

    /// The address of the first element (offset folded in).
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
        // a part of what is awaited is written
        awaited.note_origins(5, false);
        note_lost_from(device, now, Error::new(Kind::Member, "values were lost: a test"));
        for lost in [&awaited, &computed, &updated, &unknown] {
            assert!(lost.check_lost().is_err());
        }
        for kept in [&old, &other, &made()] {
            assert!(kept.check_lost().is_ok());
        }
        // what was known in another period says nothing of this one
        let later = Awaited { since: other.number(), period: 6 };
        assert!(other.depends(later) && !updated.depends(later));
    }
}
