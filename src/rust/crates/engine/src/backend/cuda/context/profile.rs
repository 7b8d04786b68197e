//! Profiles: while one is recorded, each launch and copy is enclosed in a pair of events.

use std::sync::Mutex;

use super::core::lock;
use super::device::{Cuda, PerDevice};
use super::stream_state::PROFILING;
use crate::backend::cuda::driver::api::{CUevent_flags, Event, Stream};
use crate::backend::span::Span;
use verdigris_ops::error::{Error, Kind, Result};

/// A profile that is being recorded: the event at its start, and the spans so far.
struct Profile {
    base: Event,
    noted: Vec<Noted>,
}

static PROFILE: PerDevice<Mutex<Option<Profile>>> = PerDevice::new();

/// A span whose times have not been read yet.
struct Noted {
    name: String,
    kind: &'static str,
    stream: Stream,
    bytes: usize,
    start: Event,
    end: Event,
}

/// Guard of a span: covers the work queued on the stream while it lives.
pub(crate) struct Timed<'a> {
    cuda: &'a Cuda,
    name: String,
    kind: &'static str,
    stream: Stream,
    bytes: usize,
    start: Event,
}

/// The stream number in spans of copies that overlap on internal streams, which have no number.
const INTERNAL_STREAM: u32 = u32::MAX;

/// Records a new event on a stream.
fn record_event(cuda: &Cuda, stream: Stream) -> Result<Event> {
    let mut event = Event::NULL;
    // SAFETY: writes a handle; then live ones.
    unsafe {
        cuda.check((cuda.driver.event_create)(&mut event, CUevent_flags::CU_EVENT_DEFAULT as u32), "cuEventCreate")?;
        cuda.check((cuda.driver.event_record)(event, stream), "cuEventRecord")?;
    }
    Ok(event)
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let Ok(_entered) = self.cuda.enter() else { return };
        let Ok(end) = record_event(self.cuda, self.stream) else { return };
        if let Some(profile) = lock(PROFILE.of(self.cuda)).as_mut() {
            profile.noted.push(Noted {
                name: std::mem::take(&mut self.name),
                kind: self.kind,
                stream: self.stream,
                bytes: self.bytes,
                start: self.start,
                end,
            });
        }
    }
}

impl Cuda {
    /// Starts a span on a stream; None unless a profile is being recorded.
    #[inline]
    pub(crate) fn timed(
        &self,
        kind: &'static str,
        stream: Stream,
        bytes: usize,
        name: impl FnOnce() -> String,
    ) -> Option<Timed<'_>> {
        if self.mode() & PROFILING == 0 || self.is_capturing() {
            return None;
        }
        let _entered = self.enter().ok()?;
        let start = record_event(self, stream).ok()?;
        Some(Timed { cuda: self, name: name(), kind, stream, bytes, start })
    }

    pub(crate) fn begin_profile(&self) -> Result<()> {
        if self.mode() & PROFILING != 0 {
            return Err(
                Error::new(Kind::Argument, "a profile is already being recorded").advise("Profiles cannot be nested.")
            );
        }
        self.wait_all()?;
        let _entered = self.enter()?;
        *lock(PROFILE.of(self)) = Some(Profile { base: record_event(self, self.stream())?, noted: Vec::new() });
        self.set_mode(PROFILING, true);
        Ok(())
    }

    /// Ends the profile, waits for all streams, and returns the spans in order of their start.
    pub(crate) fn end_profile(&self) -> Result<Vec<Span>> {
        self.set_mode(PROFILING, false);
        let profile = lock(PROFILE.of(self)).take();
        let waited = self.wait_all();
        let Some(profile) = profile else { return Ok(Vec::new()) };
        let _entered = self.enter()?;
        let stream_states = self.running_streams();
        let since = |event: Event| {
            let mut milliseconds = 0.0f32;
            // SAFETY: live events that have happened.
            unsafe { (self.driver.event_elapsed)(&mut milliseconds, profile.base, event) };
            f64::from(milliseconds) / 1e3
        };
        let mut spans: Vec<Span> = profile
            .noted
            .iter()
            .map(|noted| Span {
                name: noted.name.clone(),
                kind: noted.kind,
                stream: stream_states
                    .iter()
                    .find(|stream_state| stream_state.handle() == noted.stream)
                    .map_or(INTERNAL_STREAM, |stream_state| stream_state.index),
                bytes: noted.bytes as u64,
                start: since(noted.start),
                end: since(noted.end),
            })
            .collect();
        for event in profile.noted.iter().flat_map(|noted| [noted.start, noted.end]).chain([profile.base]) {
            // SAFETY: made above, destroyed once.
            unsafe { (self.driver.event_destroy)(event) };
        }
        spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        waited.map(|()| spans)
    }
}
