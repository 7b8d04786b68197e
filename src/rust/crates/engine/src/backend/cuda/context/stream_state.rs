//! A stream and its state, which only that stream's work may use: flag words, slots for results, counters that kernels
//! leave at zero, and cached small blocks.
//!
//! Stream 0 is the device's main stream. Others are created for `gpu_stream()` and for CUDA graphs, and are reused once
//! nothing refers to them. None is ever destroyed, since the hazard table refers to streams by number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use super::core::{lock, Core};
use super::flags::Flags;
use super::memory_pool::Small;
use super::slots::Slots;
use crate::backend::cuda::driver::api::{CUevent_flags, CUstream_flags, Check, Driver, Event, Stream, SUCCESS};
use crate::backend::cuda::driver::host_memory::Host;
use crate::backend::cuda::driver::submitted::flush;
use verdigris_ops::error::Result;

/// The number of counters at `Cuda::tickets`.
pub const TICKETS: usize = 1 << 14;
/// Events that a stream keeps. A wait for a mark whose event has been reused waits for the oldest remaining one
/// instead.
const MARKS: u64 = 128;

/// A stream and its state.
pub struct StreamState {
    pub(crate) index: u32,
    stream: Stream,
    /// The number of times that work was queued, and that a wait for other streams' work was.
    queued: AtomicU64,
    waits: AtomicU64,
    /// The sum of both when the stream was last known to be empty.
    done: AtomicU64,
    default_waits: AtomicU64,
    /// Whether code outside this package has the handle and may queue work.
    given_out: AtomicBool,
    /// As for `cuStreamCreateWithPriority`: lower numbers are more urgent.
    pub(crate) priority: i32,
    pub(crate) flags: Flags,
    /// A block of page-locked memory for results that the host waits for at once.
    pub(crate) slot: Mutex<Host>,
    /// The mark of the last result that was asked for by `receive_reported`.
    pub(crate) reports: AtomicU32,
    pub(crate) slots: Mutex<Slots>,
    /// Device address of counters that kernels use and leave at zero.
    pub(crate) tickets: u64,
    pub(crate) small: Mutex<Small>,
    marks: Mutex<Marks>,
}

/// Marks: numbered points in a stream's work that other streams can wait for.
#[derive(Default)]
struct Marks {
    /// The number of marks so far, which is the last mark.
    last: u64,
    /// The event of mark `m` is at `m % MARKS`, until a later mark reuses it.
    ring: Vec<Event>,
    /// The latest mark of each other stream that this stream already waits for.
    awaited: HashMap<u32, u64>,
}

impl StreamState {
    /// The context must be current.
    pub(crate) fn new(driver: &'static Driver, check: Check<'_>, index: u32, priority: i32) -> Result<StreamState> {
        let mut stream = Stream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        let status = unsafe { (driver.stream_create)(&mut stream, flags, priority) };
        check(status, "cuStreamCreateWithPriority")?;
        let mut tickets = 0;
        // SAFETY: writes an address; then clears the memory that it points to.
        unsafe {
            check((driver.allocate)(&mut tickets, TICKETS * 4), "cuMemAlloc")?;
            check((driver.set_async)(tickets, 0, TICKETS * 4, stream), "cuMemsetD8Async")?;
        }
        let stream_state = StreamState {
            index,
            stream,
            queued: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            done: AtomicU64::new(u64::MAX),
            default_waits: AtomicU64::new(u64::MAX),
            given_out: AtomicBool::new(false),
            priority,
            flags: Flags::new(driver, check, stream)?,
            slot: Mutex::new(Host::new(driver, check, 256)?),
            reports: AtomicU32::new(0),
            slots: Mutex::default(),
            tickets,
            small: Mutex::default(),
            marks: Mutex::default(),
        };
        if index > 0 {
            // work captured on this stream runs on other streams, which do not wait for the clearing above
            check(unsafe { (driver.stream_synchronize)(stream) }, "cuStreamSynchronize")?;
        }
        Ok(stream_state)
    }

    /// The CUDA handle, for callers that queue work on it next.
    pub(crate) fn queue(&self) -> Stream {
        flush();
        self.stream_for_ring_launch()
    }

    /// The CUDA handle, for a launch in the launch thread's ring. All other work must be queued by `queue`, which comes
    /// after these launches.
    pub(crate) fn stream_for_ring_launch(&self) -> Stream {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.stream
    }

    /// The CUDA handle, for queries, waits and comparisons.
    pub(crate) fn handle(&self) -> Stream {
        flush();
        self.stream
    }

    /// The CUDA handle for code outside this package, which may queue work on it at any time.
    pub(crate) fn give_out(&self) -> Stream {
        self.given_out.store(true, Ordering::Relaxed);
        self.handle()
    }

    /// Whether the stream may contain work that is not counted here.
    pub(crate) fn is_given_out(&self) -> bool {
        self.given_out.load(Ordering::Relaxed)
    }

    /// The CUDA handle, to make the stream wait for other work.
    pub(crate) fn stream_for_wait(&self) -> Stream {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.handle()
    }

    /// A count of everything queued so far, for `note_done`.
    pub(crate) fn queued_count(&self) -> u64 {
        self.queued.load(Ordering::Acquire) + self.waits.load(Ordering::Acquire)
    }

    /// Records that everything counted by `queued_count` is done.
    pub(crate) fn note_done(&self, queued_count: u64) {
        self.done.store(queued_count, Ordering::Release);
    }

    /// Whether all queued work is known to be done, without a driver call.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.queued_count() && !self.is_given_out()
    }

    /// The count of queued work that CUDA's default stream should wait for; None if it already waits for all of it.
    pub(crate) fn unsynced_with_default(&self) -> Option<u64> {
        let queued = self.queued.load(Ordering::Acquire);
        let known = self.default_waits.load(Ordering::Acquire) == queued && !self.is_given_out();
        (!known).then_some(queued)
    }

    /// Records that the default stream waits for this count of queued work.
    pub(crate) fn note_default_waits(&self, queued: u64) {
        self.default_waits.store(queued, Ordering::Release);
    }

    /// Releases a slot.
    pub(crate) fn free_slot(&self, number: usize) {
        lock(&self.slots).put_back(number);
    }

    /// The number of the next mark, which will follow everything queued so far.
    pub(crate) fn next_mark(&self) -> u64 {
        lock(&self.marks).last + 1
    }

    /// Marks the end of the work queued so far. The context must be current.
    pub(crate) fn mark(&self, core: &Core) -> Result<u64> {
        self.mark_in(core, &mut lock(&self.marks))
    }

    fn mark_in(&self, core: &Core, marks: &mut Marks) -> Result<u64> {
        let next = marks.last + 1;
        let index = (next % MARKS) as usize;
        while marks.ring.len() <= index {
            let mut event = Event::NULL;
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
            // SAFETY: writes a handle.
            core.check(unsafe { (core.driver.event_create)(&mut event, flags) }, "cuEventCreate")?;
            marks.ring.push(event);
        }
        // SAFETY: a live event and a live stream; waits for its last recording wait for that.
        core.check(unsafe { (core.driver.event_record)(marks.ring[index], self.handle()) }, "cuEventRecord")?;
        marks.last = next;
        Ok(next)
    }

    /// Makes the stream `waits` wait for a mark of this stream, or for a later one if its event has been reused.
    /// Returns the mark that it waits for.
    fn let_wait(&self, core: &Core, mark: u64, waits: Stream) -> Result<u64> {
        let mut marks = lock(&self.marks);
        if mark > marks.last {
            self.mark_in(core, &mut marks)?;
        }
        let kept = mark.max((marks.last + 1).saturating_sub(MARKS)).max(1);
        let event = marks.ring[(kept % MARKS) as usize];
        // SAFETY: live handles.
        core.check(unsafe { (core.driver.stream_wait)(waits, event, 0) }, "cuStreamWaitEvent")?;
        Ok(kept)
    }

    /// Makes this stream's further work wait for a mark of another stream. The context must be current.
    pub(crate) fn wait_for(&self, core: &Core, other: &StreamState, mark: u64) -> Result<()> {
        if self.index == other.index || lock(&self.marks).awaited.get(&other.index).is_some_and(|&m| m >= mark) {
            return Ok(());
        }
        let kept = other.let_wait(core, mark, self.queue())?;
        let mut marks = lock(&self.marks);
        let awaited = marks.awaited.entry(other.index).or_default();
        *awaited = kept.max(*awaited);
        Ok(())
    }

    /// The latest mark that is known to be reached; 0 where there is none.
    pub(crate) fn reached_mark(&self, core: &Core) -> u64 {
        let marks = lock(&self.marks);
        let oldest = (marks.last + 1).saturating_sub(MARKS).max(1);
        let Some(&event) = marks.ring.get((oldest % MARKS) as usize) else { return 0 };
        // SAFETY: a live event.
        let done = marks.last > 0 && unsafe { (core.driver.event_query)(event) } == SUCCESS;
        u64::from(done) * oldest
    }

    /// As `wait_for`, for a CUDA stream without a `StreamState`.
    pub(crate) fn delay(&self, core: &Core, mark: u64, waits: Stream) -> Result<()> {
        self.let_wait(core, mark, waits).map(|_| ())
    }
}

/// Bits of `StreamStates::mode`. The mode is 0 in the usual session with one stream, so one load of it decides whether
/// any of the following must be handled.
pub(crate) const SEVERAL: u32 = 1;
pub(crate) const CAPTURING: u32 = 2;
pub(crate) const PROFILING: u32 = 4;
/// Some buffers have lost their values because work was aborted.
pub(crate) const LOST: u32 = 8;
/// Some buffers wait for values from other members of a team, which may never come.
pub(crate) const AWAITED: u32 = 16;

/// A device's streams.
pub struct StreamStates {
    /// A combination of `SEVERAL`, `CAPTURING`, `PROFILING`, `LOST` and `AWAITED`.
    pub(super) mode: AtomicU32,
    /// The stream on which R's thread queues work.
    pub(super) current: AtomicPtr<StreamState>,
    pub(super) all: Mutex<Vec<&'static StreamState>>,
    pub(super) idle: Mutex<Vec<u32>>,
    /// The number of the stream that is being captured, or `NONE`.
    pub(super) captured: AtomicU32,
}

/// Not the number of any stream.
pub(super) const NONE: u32 = u32::MAX;

impl StreamStates {
    pub(crate) fn new(main: StreamState) -> StreamStates {
        let main: &'static StreamState = Box::leak(Box::new(main));
        StreamStates {
            mode: AtomicU32::new(0),
            current: AtomicPtr::new(std::ptr::from_ref(main).cast_mut()),
            all: Mutex::new(vec![main]),
            idle: Mutex::default(),
            captured: AtomicU32::new(NONE),
        }
    }
}
