//! Entries: timing and profiling.

use std::time::Instant;

use verdigris_engine::backend::{self, span::Span};
use verdigris_engine::device::{nvtx, profile};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::{self, counters};
use verdigris_ops::error::{Error, Kind, Result};

use crate::entries::entry::entries;
use crate::r::typed::{External, Taken};
use crate::r::{self, List, SEXP};

/// A running timing: clock, event and counters at its beginning.
struct Timing {
    device: Device,
    began: Instant,
    /// The device's event at the beginning; 0 on the cpu device.
    event: u64,
    launches: u64,
    up: u64,
    down: u64,
}

impl External for Timing {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "there is no timing under way")
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if let Some(streams) = backend::of(self.device).ok().and_then(|backend| backend.streams()) {
            streams.event_free(self.event);
        }
    }
}

entries! {
    /// Begins a timing, after waiting for the device.
    fn timing_begin(device: Device) -> Result<Timing> {
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
        Ok(Timing { device, began: Instant::now(), event, launches, up, down })
    }

    /// list(host, device: seconds; launches; up, down, peak: bytes). The host's time ends at the call; the device's
    /// when its queued work is done, which is waited for.
    fn timing_end(timing: Taken<Timing>) -> Result<List> {
        let Taken(timing) = timing;
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
            .add("host", host)
            .add("device", device)
            .add("launches", since(&counters::LAUNCHES, timing.launches))
            .add("up", since(&counters::BYTES_UP, timing.up))
            .add("down", since(&counters::BYTES_DOWN, timing.down))
            .add("peak", counters::take_peak() as f64))
    }

    fn profile_begin(device: Device) -> Result<()> {
        profile::begin(device)
    }

    /// list(name, kind, stream, bytes, start, end), a vector each; times in seconds, stream -1 for none.
    fn profile_end(device: Device) -> Result<List> {
        let spans = profile::end(device)?;
        let stream = |span: &Span| if span.stream == u32::MAX { -1.0 } else { f64::from(span.stream) };
        Ok(List::new(6)
            .add("name", r::strings(spans.iter().map(|s| &s.name)))
            .add("kind", r::strings(spans.iter().map(|s| s.kind)))
            .add("stream", r::reals(spans.iter().map(stream)))
            .add("bytes", r::reals(spans.iter().map(|s| s.bytes as f64)))
            .add("start", r::reals(spans.iter().map(|s| s.start)))
            .add("end", r::reals(spans.iter().map(|s| s.end))))
    }

    /// Begins an NVTX range; FALSE if no profiler is attached.
    fn range_push(name: &str) -> bool {
        nvtx::push(name)
    }

    fn range_pop() {
        nvtx::pop();
    }
}
