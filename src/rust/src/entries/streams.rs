//! Entries: streams and events.

use std::cell::Cell;
use std::time::Instant;

use verdigris_engine::backend;
use verdigris_engine::backend::streams::Streams;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::error::{Error, Kind, Result};

use crate::entries::entry::entries;
use crate::r::typed::{External, FromR};
use crate::r::{values, List, SEXP};

/// A stream made by `gpu_stream()`.
pub struct Stream {
    device: Device,
    number: u32,
    priority: i32,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(Some(streams)) = of(self.device) {
            streams.retire(self.number);
        }
    }
}

/// An event made by `gpu_event()`.
struct Event {
    device: Device,
    /// The device's event. On the cpu device it is 0, and `at` has the time.
    event: u64,
    recorded: Cell<bool>,
    at: Cell<Option<Instant>>,
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(Some(streams)) = of(self.device) {
            streams.event_free(self.event);
        }
    }
}

/// The streams of a device; `None` on the cpu device.
fn of(device: Device) -> Result<Option<Box<dyn Streams>>> {
    Ok(backend::of(device)?.streams())
}

impl External for Stream {
    fn refused(x: SEXP, _: &str) -> Error {
        Error::new(Kind::Argument, format!("`stream` must be made by gpu_stream(), not {}", values::describe(x)))
            .advise("Streams belong to one session: they do not come from files or other processes.")
    }
}

impl External for Event {
    fn refused(x: SEXP, _: &str) -> Error {
        Error::new(Kind::Argument, format!("`event` must be made by gpu_event(), not {}", values::describe(x)))
            .advise("Events belong to one session: they do not come from files or other processes.")
    }
}

impl Stream {
    pub fn device(&self) -> Device {
        self.device
    }

    /// The driver's handle, for other libraries; `None` on the cpu device.
    pub fn address(&self) -> Result<Option<u64>> {
        Ok(of(self.device)?.map(|streams| streams.raw(self.number)))
    }

    /// Makes the stream the current one of its device while the result lives.
    ///
    /// # Errors
    /// `Device` if `device` is not the stream's; `Capture` while a graph is captured.
    pub fn select(&self, device: Device) -> Result<Option<Selected>> {
        if self.device != device {
            return Err(Error::new(
                Kind::Device,
                format!("`stream` is of {}, and the work is on {device}", self.device),
            )
            .advise(format!("Use a stream of `gpu_stream(device = \"{device}\")`.")));
        }
        let Some(streams) = of(device)? else { return Ok(None) };
        let before = streams.select(self.number)?;
        Ok(Some(Selected { streams, before }))
    }
}

/// Restores the stream that was current before.
pub struct Selected {
    streams: Box<dyn Streams>,
    before: u32,
}

impl Drop for Selected {
    fn drop(&mut self) {
        // cannot fail: that stream was current, so it exists
        let _ = self.streams.select(self.before);
    }
}

/// The number of a stream, which must be on the device; of the current stream for `None`.
fn number(stream: Option<&Stream>, device: Device, streams: &dyn Streams) -> Result<u32> {
    match stream {
        None => Ok(streams.current()),
        Some(stream) if stream.device == device => Ok(stream.number),
        Some(stream) => {
            Err(Error::new(Kind::Device, format!("the event is of {device}, the stream of {}", stream.device)))
        }
    }
}

/// An error if the event was not recorded.
fn recorded(event: &Event, argument: &str) -> Result<()> {
    if event.recorded.get() {
        return Ok(());
    }
    Err(Error::new(Kind::Argument, format!("`{argument}` was not recorded"))
        .advise("Use `gpu_event_record(event)` first."))
}

entries! {
    fn stream_new(device: Device, priority: f64) -> Result<Stream> {
        let wanted = priority.clamp(-1e6, 1e6) as i32;
        let (number, priority) = match of(device)? {
            None => (0, 0),
            Some(streams) => {
                // in R higher numbers are more urgent, in the driver lower ones
                let (least, greatest) = streams.priorities()?;
                let taken = (-wanted).clamp(greatest, least);
                (streams.make(taken)?, -taken)
            }
        };
        Ok(Stream { device, number, priority })
    }

    /// list(device, number, priority, idle, address) of a stream; the address is the driver's handle, as a string.
    fn stream_info(stream: &Stream) -> Result<List> {
        let (idle, raw) = match of(stream.device)? {
            None => (true, 0),
            Some(streams) => (streams.is_idle(stream.number)?, streams.raw(stream.number)),
        };
        Ok(List::new(5)
            .add("device", stream.device)
            .add("number", f64::from(stream.number))
            .add("priority", f64::from(stream.priority))
            .add("idle", idle)
            .add("address", format!("{raw:#x}")))
    }

    /// Makes a stream the current one of its device. NULL is the initial stream of `device`, which is otherwise
    /// ignored. Returns the device.
    fn stream_select(stream: Option<&Stream>, device: SEXP) -> Result<Device> {
        let (device, number) = match stream {
            None => (Device::from_r(device, "device")?, 0),
            Some(stream) => (stream.device, stream.number),
        };
        if let Some(streams) = of(device)? {
            streams.select(number)?;
        }
        Ok(device)
    }

    /// Waits for the stream's work.
    fn stream_sync(stream: &Stream) -> Result<()> {
        match of(stream.device)? {
            Some(streams) => streams.wait(stream.number),
            None => Ok(()),
        }
    }

    /// Makes stream `waits` (NULL: the current one) wait for the work queued so far on `stream`.
    fn stream_join(stream: &Stream, waits: Option<&Stream>) -> Result<()> {
        let Some(streams) = of(stream.device)? else { return Ok(()) };
        let waits = number(waits, stream.device, streams.as_ref())?;
        if waits == stream.number {
            return Ok(());
        }
        let event = streams.event()?;
        let done = streams.record(event, stream.number).and_then(|()| streams.await_event(event, waits));
        streams.event_free(event);
        done
    }

    fn event_new(device: Device) -> Result<Event> {
        let event = match of(device)? {
            None => 0,
            Some(streams) => streams.event()?,
        };
        Ok(Event { device, event, recorded: Cell::new(false), at: Cell::new(None) })
    }

    /// Records the event after the work queued so far on the stream (NULL: the current one).
    fn event_record(event: &Event, stream: Option<&Stream>) -> Result<()> {
        match of(event.device)? {
            None => event.at.set(Some(Instant::now())),
            Some(streams) => streams.record(event.event, number(stream, event.device, streams.as_ref())?)?,
        }
        event.recorded.set(true);
        Ok(())
    }

    /// Makes later work on the stream (NULL: the current one) wait for the event.
    fn event_await(event: &Event, stream: Option<&Stream>) -> Result<()> {
        recorded(event, "event")?;
        match of(event.device)? {
            Some(streams) => streams.await_event(event.event, number(stream, event.device, streams.as_ref())?),
            None => Ok(()),
        }
    }

    /// Waits on the host for the event.
    fn event_sync(event: &Event) -> Result<()> {
        recorded(event, "event")?;
        match of(event.device)? {
            Some(streams) => streams.event_wait(event.event),
            None => Ok(()),
        }
    }

    /// list(device, recorded, done).
    fn event_info(event: &Event) -> Result<List> {
        let done = match of(event.device)? {
            Some(streams) if event.recorded.get() => streams.event_is_done(event.event)?,
            _ => event.recorded.get(),
        };
        Ok(List::new(3).add("device", event.device).add("recorded", event.recorded.get()).add("done", done))
    }

    /// Seconds from one event to another; waits for both.
    fn event_elapsed(from: &Event, to: &Event) -> Result<f64> {
        recorded(from, "from")?;
        recorded(to, "to")?;
        if from.device != to.device {
            return Err(Error::new(Kind::Device, format!("`from` is of {}, `to` of {}", from.device, to.device)));
        }
        if let Some(streams) = of(from.device)? {
            streams.event_wait(from.event)?;
            streams.event_wait(to.event)?;
            return streams.elapsed(from.event, to.event);
        }
        Ok(match (from.at.get(), to.at.get()) {
            (Some(a), Some(b)) if b >= a => (b - a).as_secs_f64(),
            (Some(a), Some(b)) => -(a - b).as_secs_f64(),
            _ => 0.0,
        })
    }
}
