//! Hazards between streams. A table has the last write and the reads since then of each buffer, as (stream, mark). RAW:
//! a reader waits for the last write. WAR and WAW: a writer, or a free, waits for all uses.
//!
//! Backend methods declare what they touch by `Cuda::ordered`. While there is one stream, that costs one load and
//! nothing is recorded: a buffer that is not in the table was last used on stream 0, before there was a second stream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::capture;
use super::core::lock;
use super::device::{Cuda, PerDevice};
use super::stream_state::{StreamState, AWAITED, CAPTURING, LOST, SEVERAL};
use crate::backend::cuda::driver::api::{CUstream_flags, Stream};
use crate::backend::dense::Task;
use crate::backend::segments::Sparse;
use crate::backend::Touching;
use crate::memory::buffer::{note_lost_from, Awaited, Buffer, View};
use crate::plan::Bound;
use verdigris_ops::error::{Error, Result};

/// A stream's number, and a mark of that stream that follows the use.
type Use = (u32, u64);

#[derive(Clone, Default)]
struct Uses {
    write: Use,
    reads: Vec<Use>,
}

/// Last uses of buffers, by address.
#[derive(Default)]
struct Table {
    uses: HashMap<u64, Uses>,
    /// The mark of stream 0 when the second stream was created; it follows all uses before that.
    base: u64,
    /// The number of entries at which to remove completed ones. Entries of other libraries' memory are not removed
    /// otherwise.
    sweep_at: usize,
}

/// The ordering state of a device.
#[derive(Default)]
struct Order {
    table: Mutex<Table>,
    /// A stream on which memory is freed that several streams have used; it waits for all of them first.
    reaper: Mutex<Option<Stream>>,
    /// Values that other members of a team will send, and the number of communicators with outstanding receives.
    awaited: Mutex<(Option<Awaited>, usize)>,
}

static ORDER: PerDevice<Order> = PerDevice::new();

/// The next period of awaited values; see `Awaited`.
static PERIOD: AtomicU64 = AtomicU64::new(1);

/// The memory that an operation touches; the flag of each entry tells whether it is written.
#[derive(Default)]
pub(crate) struct Touched<'a> {
    buffers: Vec<(&'a Arc<Buffer>, bool)>,
    addresses: Vec<(u64, bool)>,
    /// A buffer that is written with values from the host, which do not depend on awaited values.
    uploaded: Option<&'a Buffer>,
}

impl<'a> Touched<'a> {
    pub fn uploaded(&mut self, buffer: &'a Buffer) -> &mut Self {
        self.uploaded = Some(buffer);
        self.address(buffer.address, true)
    }

    pub fn read(&mut self, buffer: &'a Arc<Buffer>) -> &mut Self {
        self.buffers.push((buffer, false));
        self
    }

    pub fn write(&mut self, buffer: &'a Arc<Buffer>) -> &mut Self {
        self.buffers.push((buffer, true));
        self
    }

    pub fn view(&mut self, view: &'a View) -> &mut Self {
        self.read(&view.buffer)
    }

    pub fn sparse(&mut self, a: &Sparse<'a>) -> &mut Self {
        self.buffers.extend(
            [Some(a.segments.offsets), Some(a.positions), a.values]
                .into_iter()
                .flatten()
                .map(|view| (&view.buffer, false)),
        );
        self
    }

    pub fn bound(&mut self, bound: &'a Bound) -> &mut Self {
        self.buffers.extend(bound.inputs.iter().map(|view| (&view.buffer, false)));
        if let Some(after) = &bound.epilogue {
            self.bound(after);
        }
        self
    }

    pub fn writes(&mut self, outputs: &'a [Arc<Buffer>]) -> &mut Self {
        self.buffers.extend(outputs.iter().map(|buffer| (buffer, true)));
        self
    }

    pub fn task(&mut self, task: &'a Task<'_>) {
        let (reads, writes) = task.operands();
        for view in reads {
            self.view(view);
        }
        for buffer in writes {
            self.address(buffer.address, true);
        }
    }

    /// Adds a buffer of which only the address is known.
    pub fn address(&mut self, address: u64, writes: bool) -> &mut Self {
        self.addresses.push((address, writes));
        self
    }
}

/// Guard for queueing work that has been ordered after other streams' work. Drop records the uses under a new mark.
#[must_use]
pub(crate) struct Ordered<'a> {
    cuda: &'a Cuda,
    stream_state: &'static StreamState,
    touched: Vec<(u64, bool)>,
}

impl Touching for Ordered<'_> {}

impl Drop for Ordered<'_> {
    fn drop(&mut self) {
        let Ok(_entered) = self.cuda.enter() else { return };
        // a failure is reported by the next driver call
        let Ok(mark) = self.stream_state.mark(self.cuda) else { return };
        let mut table = lock(&ORDER.of(self.cuda).table);
        for &(address, writes) in &self.touched {
            table.note(address, (self.stream_state.index, mark), writes);
        }
    }
}

impl Table {
    fn of(&self, address: u64) -> Uses {
        self.uses.get(&address).cloned().unwrap_or(Uses { write: (0, self.base), reads: Vec::new() })
    }

    fn note(&mut self, address: u64, at: Use, writes: bool) {
        let base = self.base;
        let uses = self.uses.entry(address).or_insert(Uses { write: (0, base), reads: Vec::new() });
        if writes {
            // the write waited for the earlier uses, so it stands for them
            *uses = Uses { write: at, reads: Vec::new() };
        } else {
            uses.reads.retain(|read| read.0 != at.0);
            uses.reads.push(at);
        }
    }
}

impl Cuda {
    /// Records that a communicator receives into these buffers: from now on each operation records whether its outputs
    /// depend on them. `is_first` tells that the communicator has no other receive outstanding. Returns false if there
    /// are no buffers.
    pub fn await_values<'a>(&self, received: impl Iterator<Item = &'a Arc<Buffer>> + Clone, is_first: bool) -> bool {
        let Some(since) = received.clone().map(|buffer| buffer.number()).min() else { return false };
        let mut awaited = lock(&ORDER.of(self).awaited);
        let new = || Awaited { since, period: PERIOD.fetch_add(1, Ordering::Relaxed) };
        let now = awaited.0.get_or_insert_with(new);
        now.since = now.since.min(since);
        received.for_each(|buffer| buffer.note_origins(now.period, true));
        awaited.1 += usize::from(is_first);
        self.set_mode(AWAITED, true);
        true
    }

    /// Records that a communicator has received all values that it waited for.
    pub fn values_came(&self) {
        let mut awaited = lock(&ORDER.of(self).awaited);
        awaited.1 = awaited.1.saturating_sub(1);
        if awaited.1 == 0 {
            awaited.0 = None;
            self.set_mode(AWAITED, false);
        }
    }

    /// Records that awaited values will not come. Every read of them, and of values computed from them, then fails; so
    /// does the next wait, whatever it waits for.
    pub fn lose_awaited(&self, error: Error) {
        let mut awaited = lock(&ORDER.of(self).awaited);
        if let Some(now) = std::mem::take(&mut *awaited).0 {
            note_lost_from(self.device(), now, error.clone());
            self.set_mode(LOST, true);
        }
        self.set_mode(AWAITED, false);
        drop(awaited);
        self.set_pending_error(error);
    }

    /// Records of each buffer that an operation writes whether it depends on awaited values. For outputs known only by
    /// address this cannot be recorded; then period 0 makes all buffers created since count as dependent.
    #[cold]
    fn note_origins(&self, touched: &Touched<'_>) {
        let mut awaited = lock(&ORDER.of(self).awaited);
        let Some(now) = awaited.0.as_mut().filter(|now| now.period != 0) else { return };
        if let (Some(buffer), false) = (touched.uploaded, self.is_capturing()) {
            return buffer.note_origins(now.period, false);
        }
        if self.is_capturing() || touched.addresses.iter().any(|&(_, writes)| writes) {
            now.period = 0;
            return;
        }
        let depends = !touched.addresses.is_empty()
            || touched.buffers.iter().any(|(buffer, writes)| !writes && buffer.depends(*now));
        for (buffer, _) in touched.buffers.iter().filter(|(_, writes)| *writes) {
            buffer.note_origins(now.period, depends);
        }
    }

    /// Declares what the work queued next touches, and makes the current stream wait for other streams' uses of it.
    #[inline]
    pub(crate) fn ordered<'a>(&'a self, say: impl FnOnce(&mut Touched<'a>)) -> Result<Option<Ordered<'a>>> {
        if self.mode() & (SEVERAL | CAPTURING | LOST | AWAITED) == 0 {
            return Ok(None);
        }
        let mut touched = Touched::default();
        say(&mut touched);
        if self.mode() & AWAITED != 0 {
            self.note_origins(&touched);
        }
        self.order(touched)
    }

    #[cold]
    fn order<'a>(&'a self, touched: Touched<'a>) -> Result<Option<Ordered<'a>>> {
        if self.mode() & LOST != 0 {
            // computing from a buffer without values is an error
            touched.buffers.iter().filter(|(_, writes)| !writes).try_for_each(|(buffer, _)| buffer.check_lost())?;
        }
        if self.mode() & (SEVERAL | CAPTURING) == 0 {
            return Ok(None);
        }
        if self.is_capturing() {
            // the order is established by each launch of the graph, not at capture
            capture::note(self, &touched.buffers);
            return Ok(None);
        }
        let _entered = self.enter()?;
        let stream_state = self.stream_state();
        let buffers = touched.buffers.iter().map(|(buffer, writes)| (buffer.address, *writes));
        let touched: Vec<(u64, bool)> =
            buffers.chain(touched.addresses.iter().copied()).filter(|(address, _)| *address != 0).collect();
        let table = lock(&ORDER.of(self).table);
        for &(address, writes) in &touched {
            let uses = table.of(address);
            self.stream_waits(stream_state, uses.write)?;
            if writes {
                uses.reads.iter().try_for_each(|&read| self.stream_waits(stream_state, read))?;
            }
        }
        drop(table);
        Ok(Some(Ordered { cuda: self, stream_state, touched }))
    }

    fn stream_waits(&self, stream_state: &StreamState, (other, mark): Use) -> Result<()> {
        if other == stream_state.index {
            return Ok(());
        }
        match self.stream_state_at(other) {
            Some(other) => stream_state.wait_for(self, other, mark),
            None => Ok(()),
        }
    }

    /// Starts recording uses, before a second stream is created. The context must be current.
    pub(crate) fn begin_order(&self) -> Result<()> {
        if self.mode() & SEVERAL == 0 {
            let base = self.main().mark(self)?;
            lock(&ORDER.of(self).table).base = base;
            self.set_mode(SEVERAL, true);
        }
        Ok(())
    }

    /// Records that a stream writes memory, by work queued on it just now or next.
    pub(crate) fn note_write(&self, address: u64, stream_state: &StreamState) {
        if self.mode() & SEVERAL == 0 || address == 0 {
            return;
        }
        let at = (stream_state.index, stream_state.next_mark());
        let mut table = lock(&ORDER.of(self).table);
        table.uses.insert(address, Uses { write: at, reads: Vec::new() });
        if table.uses.len() > table.sweep_at.max(1 << 12) {
            // completed uses need no entry
            let done: HashMap<u32, u64> = self
                .running_streams()
                .iter()
                .map(|stream_state| (stream_state.index, stream_state.reached_mark(self)))
                .collect();
            let happened = |at: Use| done.get(&at.0).is_some_and(|&mark| at.1 <= mark);
            table.uses.retain(|_, uses| !happened(uses.write) || !uses.reads.iter().all(|&read| happened(read)));
            table.sweep_at = 2 * table.uses.len();
        }
    }

    /// The stream on which memory may be freed without further waits. If several streams have used it, or a graph is
    /// being recorded, `Err` holds a separate stream that waits for all of them. The context must be current.
    pub(crate) fn last_stream(&self, address: u64) -> Result<std::result::Result<&'static StreamState, Stream>> {
        if self.mode() & SEVERAL == 0 {
            return Ok(Ok(self.main()));
        }
        let uses = {
            let mut table = lock(&ORDER.of(self).table);
            let uses = table.of(address);
            table.uses.remove(&address);
            uses
        };
        let first = uses.write.0;
        let captured = self.captured_stream();
        if captured.is_none() && uses.reads.iter().all(|read| read.0 == first) {
            return Ok(Ok(self.stream_state_at(first).unwrap_or_else(|| self.main())));
        }
        let reaper = self.reaper()?;
        for (stream_state, mark) in std::iter::once(uses.write).chain(uses.reads) {
            if let Some(stream_state) = self.stream_state_at(stream_state) {
                stream_state.delay(self, mark, reaper)?;
            }
        }
        Ok(Err(reaper))
    }

    fn reaper(&self) -> Result<Stream> {
        let mut reaper = lock(&ORDER.of(self).reaper);
        if let Some(stream) = *reaper {
            return Ok(stream);
        }
        let mut stream = Stream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        self.check(unsafe { (self.driver.stream_create)(&mut stream, flags, 0) }, "cuStreamCreateWithPriority")?;
        *reaper = Some(stream);
        Ok(stream)
    }
}
