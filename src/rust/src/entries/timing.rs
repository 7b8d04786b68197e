//! Entries: timing and profiling of a piece of code.

use std::time::Instant;

use verdigris_engine::backend;
use verdigris_engine::device::{nvtx, profile};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::{self, counters};

use crate::array::convert;
use crate::entry;
use crate::r::{self, external_ptr, values, List};

/// What is known at the beginning.
struct Timing {
    device: Device,
    began: Instant,
    /// The device's event.
    event: u64,
    launches: u64,
    up: u64,
    down: u64,
}

impl Drop for Timing {
    fn drop(&mut self) {
        if let Some(streams) = backend::of(self.device).ok().and_then(|backend| backend.streams()) {
            streams.event_free(self.event);
        }
    }
}

entry! {
    /// Begins to time, after what was queued before has ended.
    fn timing_begin(device) {
        let device = convert::device(device)?;
        let backend = backend::of(device)?;
        backend.synchronize()?;
        let mut event = 0;
        if let Some(streams) = backend.streams() {
            event = streams.event()?;
            streams.record(event, streams.current())?;
        }
        counters::take_peak();
        counters::note_live(memory::account(device).live());
        let [launches, up, down] = [&counters::LAUNCHES, &counters::BYTES_UP, &counters::BYTES_DOWN].map(|c| c.get());
        Ok(external_ptr::new(Timing { device, began: Instant::now(), event, launches, up, down }))
    }

    /// list(host, device: seconds; launches; up, down, peak: bytes). The host's time is that until now; then the device
    /// is waited for.
    fn timing_end(timing) {
        let timing: Timing = external_ptr::take(timing, "timing under way")?;
        let host = timing.began.elapsed().as_secs_f64();
        let backend = backend::of(timing.device)?;
        let mut device = host;
        if let Some(streams) = backend.streams() {
            let (event, current) = (streams.event()?, streams.current());
            let seconds = streams
                .join(current)
                .and_then(|()| streams.record(event, current))
                .and_then(|()| backend.synchronize())
                .and_then(|()| streams.elapsed(timing.event, event));
            streams.event_free(event);
            device = seconds?;
        }
        let since = |counter: &counters::Counter, before: u64| (counter.get() - before) as f64;
        Ok(List::new(6)
            .add("host", r::real(host))
            .add("device", r::real(device))
            .add("launches", r::real(since(&counters::LAUNCHES, timing.launches)))
            .add("up", r::real(since(&counters::BYTES_UP, timing.up)))
            .add("down", r::real(since(&counters::BYTES_DOWN, timing.down)))
            .add("peak", r::real(counters::take_peak() as f64))
            .finish())
    }

    fn profile_begin(device) {
        profile::begin(convert::device(device)?)?;
        Ok(r::null())
    }

    /// list(name, kind, stream, bytes, start, end), a vector each; seconds.
    fn profile_end(device) {
        let spans = profile::end(convert::device(device)?)?;
        Ok(List::new(6)
            .add("name", r::strings(spans.iter().map(|s| &s.name)))
            .add("kind", r::strings(spans.iter().map(|s| s.kind)))
            .add(
                "stream",
                r::reals(spans.iter().map(|s| if s.stream == u32::MAX { -1.0 } else { f64::from(s.stream) })),
            )
            .add("bytes", r::reals(spans.iter().map(|s| s.bytes as f64)))
            .add("start", r::reals(spans.iter().map(|s| s.start)))
            .add("end", r::reals(spans.iter().map(|s| s.end)))
            .finish())
    }

    /// Begins a range for NVIDIA's profilers; FALSE where there is none to tell.
    fn range_push(name) {
        Ok(r::logical(nvtx::push(values::string(name, "name")?)))
    }

    fn range_pop() {
        nvtx::pop();
        Ok(r::null())
    }
}
