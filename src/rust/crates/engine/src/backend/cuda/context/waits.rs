//! Waits for streams, and fetches the values and warnings that have arrived on the host by then.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::core::lock;
use super::current_stream::refuse;
use super::device::Cuda;
use super::flags::Queueing;
use super::slots::Reported;
use super::stream_state::StreamState;
use crate::backend::cuda::codegen::notes::FlagBits;
use crate::backend::cuda::driver::api::{CUresult, Stream};
use crate::plan::{Bound, Register};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;

/// The offset of the reporting words in a stream's result block, behind the 64 bytes of `receive`.
const REPORT_AT: usize = 64;

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// A read of a stream's result block by this thread. Its wait may run R code, a finalizer or a handler of events, whose
/// own read would wait for this one for ever, and fails instead.
struct Reading;

impl Reading {
    fn begin() -> Result<Reading> {
        if READING.replace(true) {
            let message = "a number cannot be read from the device while this session waits for another one";
            return Err(Error::new(Kind::Device, message)
                .advise("This code runs within that wait, as a finalizer or a handler of events; run it later."));
        }
        Ok(Reading)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READING.set(false);
    }
}

impl Cuda {
    /// Waits until a stream is empty, by polling: a wait inside the driver could not be interrupted, and is no faster
    /// (a sum of 10 elements: 25 and 26 µs from R).
    ///
    /// # Errors
    /// `Interrupt`: the work continues, and memory that it uses is freed only after its end.
    /// `Capture` while a graph is recorded on the stream.
    pub(crate) fn drain(&self, stream_state: &StreamState) -> Result<()> {
        if self.is_capturing() && stream_state.index == self.stream_state().index {
            return Err(refuse("a wait for the device"));
        }
        const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
        let mut watch = None;
        let queued_count = stream_state.queued_count();
        for turn in 0u32.. {
            // SAFETY: our stream.
            let status = unsafe { (self.driver.stream_query)(stream_state.handle()) };
            if status != NOT_READY {
                self.check(status, "cuStreamQuery")?;
                stream_state.note_done(queued_count);
                return self.take_pending_error();
            }
            if turn < 64 {
                std::hint::spin_loop();
                continue;
            }
            watch.get_or_insert_with(Watch::new).rest()?;
        }
        Ok(())
    }

    /// As `drain`; returns the CUDA handle, to queue work on it next.
    fn drained(&self, stream_state: &StreamState) -> Result<Stream> {
        self.drain(stream_state)?;
        Ok(stream_state.queue())
    }

    /// Waits for all work queued on the current stream, and raises its warnings.
    pub fn wait(&self) -> Result<()> {
        self.wait_stream(self.stream_state())
    }

    pub(crate) fn wait_stream(&self, stream_state: &StreamState) -> Result<()> {
        let _entered = self.enter()?;
        stream_state.flags.collect(self, || self.drained(stream_state))?;
        if self.mode() == 0 {
            self.forget_recent();
        }
        Ok(())
    }

    /// As `wait`, for all streams.
    pub fn wait_all(&self) -> Result<()> {
        self.running_streams().into_iter().try_for_each(|stream_state| self.wait_stream(stream_state))?;
        self.forget_recent();
        Ok(())
    }

    /// Runs `queue` with the device address of 64 bytes of host memory, waits for the stream, and returns what kernels
    /// wrote there: the fastest way to read a scalar.
    pub fn receive(&self, queue: impl FnOnce(u64) -> Result<()>) -> Result<[u8; 64]> {
        if self.is_capturing() {
            return Err(refuse("a length, or a status, that depends on values"));
        }
        let _reading = Reading::begin()?;
        let slot = lock(&self.stream_state().slot);
        queue(slot.device)?;
        self.wait()?;
        let mut out = [0; 64];
        // SAFETY: the slot is larger, and the device has finished writing.
        unsafe { std::ptr::copy_nonoverlapping(slot.host, out.as_mut_ptr(), 64) };
        Ok(out)
    }

    /// As `receive`, for one kernel that reports its result at its end. `queue` gets the addresses for the value and
    /// for the reporting words, and the mark to report.
    pub fn receive_reported(&self, queue: impl FnOnce(u64, u64, u32) -> Result<()>) -> Result<[u32; 5]> {
        if self.is_capturing() {
            return Err(refuse("a number that the host reads at once"));
        }
        let _reading = Reading::begin()?;
        let stream_state = self.stream_state();
        let slot = lock(&stream_state.slot);
        // SAFETY: the slot has 256 bytes, aligned to 64.
        let words = unsafe { &*slot.host.add(REPORT_AT).cast::<Reported>() };
        // The word in the slot is no counter: after an interrupted wait a kernel has yet to write its mark there.
        let mark = stream_state.reports.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        queue(slot.device, slot.device + REPORT_AT as u64, mark)?;
        self.await_reported(stream_state, words, mark)
    }

    /// Waits until a kernel has reported a result with this mark, which is the last thing that it does. Polling host
    /// memory is some microseconds faster than querying the stream.
    pub(crate) fn await_reported(&self, stream_state: &StreamState, words: &Reported, mark: u32) -> Result<[u32; 5]> {
        // after this time the few microseconds do not matter, and a wait that yields the processor is better
        const LONGEST: std::time::Duration = std::time::Duration::from_millis(2);
        let load = || words.each_ref().map(|word| word.load(Ordering::Acquire));
        let began = std::time::Instant::now();
        let mut seen = false;
        while !seen && !stream_state.flags.any_pending() && began.elapsed() < LONGEST {
            seen = (0..64).any(|_| {
                std::hint::spin_loop();
                load().iter().all(|word| (word >> 32) as u32 == mark)
            });
        }
        if !seen {
            self.wait_stream(stream_state)?;
        }
        self.take_pending_error()?;
        Ok(load().map(|word| word as u32))
    }

    /// Copies up to 64 bytes from the device to the host, and waits.
    pub fn read(&self, address: u64, bytes: usize) -> Result<[u8; 64]> {
        assert!(bytes <= 64, "a scalar has at most 64 bytes");
        self.receive(|slot| {
            let _entered = self.enter()?;
            // SAFETY: both addresses are of live memory that the device reaches.
            let status = unsafe { (self.driver.copy_async)(slot, address, bytes, self.stream()) };
            self.check(status, "cuMemcpyDtoDAsync")
        })
    }

    /// The device address of `TICKETS` words that are zero whenever no kernel runs. A kernel that counts its blocks
    /// with them must leave them at zero.
    pub fn tickets(&self) -> u64 {
        self.stream_state().tickets
    }

    /// Fills memory with a byte, in stream order.
    pub fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<()> {
        let _entered = self.enter()?;
        let _timed = self.timed("fill", self.stream(), bytes, || "fill".into());
        // SAFETY: the caller's memory is live.
        let status = unsafe { (self.driver.set_async)(address, byte, bytes, self.stream()) };
        self.check(status, "cuMemsetD8Async")
    }

    /// The flag words of a launch, null if nobody collects its warnings. The guard must live until the kernel is
    /// queued.
    pub(crate) fn flag_words(
        &self,
        bits: &[(Register, FlagBits)],
        words: usize,
        bound: &Bound,
    ) -> Result<((u64, u64), Option<Queueing<'_>>)> {
        // kernels of a graph do not warn: the call that recorded them has returned when they run again
        if words == 0 || bound.sites.is_empty() || self.is_capturing() {
            return Ok(((0, 0), None));
        }
        let sites: Vec<_> = bound
            .sites
            .iter()
            .flat_map(|(register, site)| {
                let own = bits.iter().filter(move |(r, _)| r == register);
                own.map(move |(_, bits)| (*bits, site.clone()))
            })
            .collect();
        let stream_state = self.stream_state();
        let (flags, queueing) = stream_state.flags.take(self, words, &sites, || self.drained(stream_state))?;
        Ok((flags, Some(queueing)))
    }
}
