//! Hazards between streams. The table has the last write and the last reads of each buffer, as (stream, mark). RAW: a
//! reader waits for the last write. WAR and WAW: a writer, or a free, waits for all uses.
//!
//! The backend's methods declare what they touch by `Cuda::ordered`. While there is one stream, that is one load and
//! nothing is recorded: a buffer that is not in the table was last used on stream 0, before there was a second.

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

/// A stream's number, and a mark of it.
type Use = (u32, u64);

#[derive(Clone, Default)]
struct Uses {
    write: Use,
    reads: Vec<Use>,
}

/// Last uses by a buffer's address.
#[derive(Default)]
struct Table {
    uses: HashMap<u64, Uses>,
    /// The mark of stream 0 at which the second stream came.
    base: u64,
    /// When to look for entries of memory of other libraries, which nobody takes out.
    sweep_at: usize,
}

/// A device's table.
#[derive(Default)]
struct Order {
    table: Mutex<Table>,
    /// A stream that frees what several streams have used, after all of them.
    reaper: Mutex<Option<Stream>>,
    /// Values that other members of a team send, and how many communicators wait for some.
    awaited: Mutex<(Option<Awaited>, usize)>,
}

static ORDER: PerDevice<Order> = PerDevice::new();

/// Of awaited values; see `Awaited`.
static PERIOD: AtomicU64 = AtomicU64::new(1);

/// What an operation touches.
#[derive(Default)]
pub(crate) struct Touched<'a> {
    buffers: Vec<(&'a Arc<Buffer>, bool)>,
    addresses: Vec<(u64, bool)>,
    /// What is written with values of the host's.
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
        if let Some(after) = &bound.after {
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

    /// Of a buffer that is known by its address.
    pub fn address(&mut self, address: u64, writes: bool) -> &mut Self {
        self.addresses.push((address, writes));
        self
    }
}

/// While it lives work is queued that its maker has ordered; when it is dropped the uses are noted.
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
        // a failure shows at the next call
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
            // what it had to wait for is behind it
            *uses = Uses { write: at, reads: Vec::new() };
        } else {
            uses.reads.retain(|read| read.0 != at.0);
            uses.reads.push(at);
        }
    }
}

impl Cuda {
    /// Notes that a communicator receives into these buffers: from here on each operation notes whether what it writes
    /// is computed from them. `is_first` says that the communicator has no other receive outstanding. Returns false
    /// where there are no buffers.
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

    /// Notes that all that one has waited for have come.
    pub fn values_came(&self) {
        let mut awaited = lock(&ORDER.of(self).awaited);
        awaited.1 = awaited.1.saturating_sub(1);
        if awaited.1 == 0 {
            awaited.0 = None;
            self.set_mode(AWAITED, false);
        }
    }

    /// Notes that values that are awaited will not come. Each read of them, and of what is computed from them, fails, and
    /// the next wait, whatever it waits for.
    pub fn lose_awaited(&self, error: Error) {
        let mut awaited = lock(&ORDER.of(self).awaited);
        if let Some(now) = std::mem::take(&mut *awaited).0 {
            note_lost_from(self.device(), now, error.clone());
            self.set_mode(LOST, true);
        }
        self.set_mode(AWAITED, false);
        drop(awaited);
        self.note_lost(error);
    }

    /// Notes of what an operation writes whether that is computed from awaited values. Of addresses that is not known:
    /// then all buffers that were made since are taken for such.
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

    /// Says what the work that is queued next touches, and has it wait for what other streams do with that.
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
            // so what is computed from a buffer without values is an error, too
            touched.buffers.iter().filter(|(_, writes)| !writes).try_for_each(|(buffer, _)| buffer.check_lost())?;
        }
        if self.mode() & (SEVERAL | CAPTURING) == 0 {
            return Ok(None);
        }
        if self.is_capturing() {
            // the graph's launches wait, not what is captured
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

    /// From here on there are several streams. The context must be current.
    pub(crate) fn begin_order(&self) -> Result<()> {
        if self.mode() & SEVERAL == 0 {
            let base = self.main().mark(self)?;
            lock(&ORDER.of(self).table).base = base;
            self.set_mode(SEVERAL, true);
        }
        Ok(())
    }

    /// Notes that a stream writes memory by what is queued on it next or was queued just now.
    pub(crate) fn note_write(&self, address: u64, stream_state: &StreamState) {
        if self.mode() & SEVERAL == 0 || address == 0 {
            return;
        }
        let at = (stream_state.index, stream_state.next_mark());
        let mut table = lock(&ORDER.of(self).table);
        table.uses.insert(address, Uses { write: at, reads: Vec::new() });
        if table.uses.len() > table.sweep_at.max(1 << 12) {
            // what has happened needs no entry
            let done: HashMap<u32, u64> = self
                .running_streams()
                .iter()
                .map(|stream_state| (stream_state.index, stream_state.done(self)))
                .collect();
            let happened = |at: Use| done.get(&at.0).is_some_and(|&mark| at.1 <= mark);
            table.uses.retain(|_, uses| !happened(uses.write) || !uses.reads.iter().all(|&read| happened(read)));
            table.sweep_at = 2 * table.uses.len();
        }
    }

    /// The stream on which memory may be freed, with nothing left to wait for; None where several have used it: then
    /// the stream waits for all of them. The context must be current.
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
