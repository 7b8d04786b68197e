//! Streams, events, graphs and profiles of the user interface: the CUDA side of the `Streams` trait.

use std::any::Any;
use std::sync::Arc;

use super::current_stream::refuse;
use super::device::Cuda;
use super::stream_state::StreamState;
use crate::backend::cuda::driver::api::{CUevent_flags, CUresult, Event};
use crate::backend::span::Span;
use crate::backend::streams::{Replay, Streams};
use crate::backend::Backend;
use crate::memory::buffer::Buffer;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;

const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;

fn event_of(event: u64) -> Event {
    Event::from_number(event as usize)
}

impl Cuda {
    /// The stream with a number.
    fn known(&self, stream: u32) -> Result<&'static StreamState> {
        self.stream_state_at(stream).ok_or_else(|| Error::new(Kind::Argument, "this stream no longer exists"))
    }

    /// The stream with a number, which must not be the one that is being captured.
    fn running(&self, stream: u32) -> Result<&'static StreamState> {
        if self.is_capturing() && self.stream_state().index == stream {
            return Err(refuse("an event, or a wait for the stream"));
        }
        self.known(stream)
    }
}

/// A device, which lives until the process ends.
pub(crate) struct OfDevice(pub &'static Cuda);

impl Streams for OfDevice {
    fn make(&self, priority: i32) -> Result<u32> {
        let cuda = self.0;
        let _entered = cuda.enter()?;
        let (least, greatest) = self.priorities()?;
        cuda.begin_order()?;
        Ok(cuda.new_stream_state(priority.clamp(greatest, least))?.index)
    }

    fn retire(&self, stream: u32) {
        self.0.retire(stream);
    }

    fn current(&self) -> u32 {
        self.0.stream_state().index
    }

    fn select(&self, stream: u32) -> Result<u32> {
        let before = self.current();
        if before != stream && self.0.is_capturing() {
            return Err(Error::new(Kind::Capture, "the stream cannot be changed while a graph is recorded")
                .advise("Run the graph on the stream: `with_gpu_stream(s, g())`."));
        }
        self.0.set_stream_state(self.0.known(stream)?);
        Ok(before)
    }

    fn wait(&self, stream: u32) -> Result<()> {
        self.0.wait_stream(self.0.running(stream)?)
    }

    fn is_idle(&self, stream: u32) -> Result<bool> {
        let stream_state = self.0.running(stream)?;
        let _entered = self.0.enter()?;
        // SAFETY: our stream.
        let status = unsafe { (self.0.driver.stream_query)(stream_state.handle()) };
        if status == NOT_READY {
            return Ok(false);
        }
        self.0.check(status, "cuStreamQuery").map(|()| true)
    }

    fn priorities(&self) -> Result<(i32, i32)> {
        let _entered = self.0.enter()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: writes two numbers.
        let status = unsafe { (self.0.driver.stream_priorities)(&mut least, &mut greatest) };
        self.0.check(status, "cuCtxGetStreamPriorityRange")?;
        Ok((least, greatest))
    }

    fn raw(&self, stream: u32) -> u64 {
        self.0.stream_state_at(stream).map_or(0, |stream_state| stream_state.give_out().number() as u64)
    }

    fn event(&self) -> Result<u64> {
        let _entered = self.0.enter()?;
        let mut event = Event::NULL;
        // SAFETY: writes a handle.
        let status = unsafe { (self.0.driver.event_create)(&mut event, CUevent_flags::CU_EVENT_DEFAULT as u32) };
        self.0.check(status, "cuEventCreate")?;
        Ok(event.number() as u64)
    }

    fn event_free(&self, event: u64) {
        if let Ok(_entered) = self.0.enter() {
            // SAFETY: made by `event`, freed once; the driver keeps it until it has happened.
            unsafe { (self.0.driver.event_destroy)(event_of(event)) };
        }
    }

    fn record(&self, event: u64, stream: u32) -> Result<()> {
        let stream_state = self.0.running(stream)?;
        let _entered = self.0.enter()?;
        // SAFETY: live handles.
        self.0.check(unsafe { (self.0.driver.event_record)(event_of(event), stream_state.handle()) }, "cuEventRecord")
    }

    fn await_event(&self, event: u64, stream: u32) -> Result<()> {
        let stream_state = self.0.running(stream)?;
        let _entered = self.0.enter()?;
        // SAFETY: live handles.
        self.0.check(
            unsafe { (self.0.driver.stream_wait)(stream_state.queue(), event_of(event), 0) },
            "cuStreamWaitEvent",
        )
    }

    fn event_wait(&self, event: u64) -> Result<()> {
        let mut watch = Watch::new();
        while !self.event_is_done(event)? {
            watch.rest()?;
        }
        Ok(())
    }

    fn event_is_done(&self, event: u64) -> Result<bool> {
        let _entered = self.0.enter()?;
        // SAFETY: a live event.
        let status = unsafe { (self.0.driver.event_query)(event_of(event)) };
        if status == NOT_READY {
            return Ok(false);
        }
        self.0.check(status, "cuEventQuery").map(|()| true)
    }

    fn elapsed(&self, from: u64, to: u64) -> Result<f64> {
        let _entered = self.0.enter()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: writes a number; two live events.
        let status = unsafe { (self.0.driver.event_elapsed)(&mut milliseconds, event_of(from), event_of(to)) };
        self.0.check(status, "cuEventElapsedTime")?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    fn join(&self, stream: u32) -> Result<()> {
        let stream_state = self.0.running(stream)?;
        let _entered = self.0.enter()?;
        let others = self.0.running_streams();
        others.iter().try_for_each(|other| stream_state.wait_for(self.0, other, other.next_mark()))
    }

    fn begin_profile(&self) -> Result<()> {
        self.0.begin_profile()
    }

    fn end_profile(&self) -> Result<Vec<Span>> {
        self.0.end_profile()
    }

    fn is_capturing(&self) -> bool {
        self.0.is_capturing()
    }

    fn copy_outside_capture(
        &self,
        source: &Arc<Buffer>,
        from: usize,
        target: &Arc<Buffer>,
        bytes: usize,
    ) -> Result<()> {
        self.0.outside(|| Backend::copy(self.0, source, from, target, 0, bytes))
    }

    fn hold(&self, what: Box<dyn Any + Send + Sync>) {
        self.0.hold(what);
    }

    fn begin_capture(&self) -> Result<u32> {
        self.0.begin_capture()
    }

    fn end_capture(&self, before: u32) -> Result<Box<dyn Replay>> {
        self.0.end_capture(before)
    }
}
