//! Entries: streams and events.

use std::cell::Cell;
use std::time::Instant;

use verdigris_engine::backend;
use verdigris_engine::backend::streams::Streams;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::convert;
use crate::entry;
use crate::r::{self, external_ptr, values, List, SEXP};

/// A stream of R's.
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

/// An event of R's.
struct Event {
    device: Device,
    /// The device's; on the cpu device there is the clock alone.
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

fn of(device: Device) -> Result<Option<Box<dyn Streams>>> {
    Ok(backend::of(device)?.streams())
}

/// A stream of R's.
pub fn stream<'a>(x: SEXP) -> Result<&'a Stream> {
    external_ptr::get(x).ok_or_else(|| {
        Error::new(Kind::Argument, format!("`stream` must be made by gpu_stream(), not {}", values::describe(x)))
            .advise("Streams belong to one session: they do not come from files or other processes.")
    })
}

fn event<'a>(x: SEXP) -> Result<&'a Event> {
    external_ptr::get(x).ok_or_else(|| {
        Error::new(Kind::Argument, format!("`event` must be made by gpu_event(), not {}", values::describe(x)))
            .advise("Events belong to one session: they do not come from files or other processes.")
    })
}

/// A stream that may be given as an argument.
pub fn given<'a>(x: SEXP) -> Result<Option<&'a Stream>> {
    if r::is_null(x) {
        Ok(None)
    } else {
        stream(x).map(Some)
    }
}

impl Stream {
    pub fn device(&self) -> Device {
        self.device
    }

    /// The driver's handle, for someone outside; None on the cpu device, which has none.
    pub fn address(&self) -> Result<Option<u64>> {
        Ok(of(self.device)?.map(|streams| streams.raw(self.number)))
    }

    /// Makes the stream current for its device while the result lives.
    ///
    /// # Errors
    /// `Device` where work is on another device; `Capture` while a graph is recorded.
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

/// Brings the stream before back.
pub struct Selected {
    streams: Box<dyn Streams>,
    before: u32,
}

impl Drop for Selected {
    fn drop(&mut self) {
        // it was current, so it is there
        let _ = self.streams.select(self.before);
    }
}

/// The number of a stream, of the current one for NULL; it must be of the device.
fn number(x: SEXP, device: Device, streams: &dyn Streams) -> Result<u32> {
    if r::is_null(x) {
        return Ok(streams.current());
    }
    let stream = stream(x)?;
    if stream.device != device {
        return Err(Error::new(Kind::Device, format!("the event is of {device}, the stream of {}", stream.device)));
    }
    Ok(stream.number)
}

fn recorded(event: &Event, argument: &str) -> Result<()> {
    if event.recorded.get() {
        return Ok(());
    }
    Err(Error::new(Kind::Argument, format!("`{argument}` was not recorded"))
        .advise("Use `gpu_event_record(event)` first."))
}

entry! {
    fn stream_new(device, priority) {
        let device = convert::device(device)?;
        let wanted = values::number(priority, "priority")?.clamp(-1e6, 1e6) as i32;
        let (number, priority) = match of(device)? {
            None => (0, 0),
            Some(streams) => {
                // people's higher numbers are more urgent, the driver's are less
                let (least, greatest) = streams.priorities()?;
                let taken = (-wanted).clamp(greatest, least);
                (streams.make(taken)?, -taken)
            }
        };
        Ok(external_ptr::new(Stream { device, number, priority }))
    }

    /// list(device, number, priority, idle, address) of a stream; the address is the driver's handle, as a string.
    fn stream_info(x) {
        let stream = stream(x)?;
        let (idle, raw) = match of(stream.device)? {
            None => (true, 0),
            Some(streams) => (streams.is_idle(stream.number)?, streams.raw(stream.number)),
        };
        Ok(List::new(5)
            .add("device", r::string(&stream.device.to_string()))
            .add("number", r::real(f64::from(stream.number)))
            .add("priority", r::real(f64::from(stream.priority)))
            .add("idle", r::logical(idle))
            .add("address", r::string(&format!("{raw:#x}")))
            .finish())
    }

    /// Has work of a device queued on a stream from here on; NULL is the one that there is from the start. Returns the
    /// device's name.
    fn stream_select(x, device) {
        let (device, number) = if r::is_null(x) {
            (convert::device(device)?, 0)
        } else {
            let stream = stream(x)?;
            (stream.device, stream.number)
        };
        if let Some(streams) = of(device)? {
            streams.select(number)?;
        }
        Ok(r::string(&device.to_string()))
    }

    /// Waits for the stream's work.
    fn stream_sync(x) {
        let stream = stream(x)?;
        if let Some(streams) = of(stream.device)? {
            streams.wait(stream.number)?;
        }
        Ok(r::null())
    }

    /// A stream waits for all that another, or every one, has been given so far.
    fn stream_join(x, waits) {
        let stream = stream(x)?;
        if let Some(streams) = of(stream.device)? {
            let waits = number(waits, stream.device, streams.as_ref())?;
            if waits != stream.number {
                let event = streams.event()?;
                let done = streams.record(event, stream.number).and_then(|()| streams.await_event(event, waits));
                streams.event_free(event);
                done?;
            }
        }
        Ok(r::null())
    }

    fn event_new(device) {
        let device = convert::device(device)?;
        let event = match of(device)? {
            None => 0,
            Some(streams) => streams.event()?,
        };
        Ok(external_ptr::new(Event { device, event, recorded: Cell::new(false), at: Cell::new(None) }))
    }

    /// The event happens when the stream's work so far is done.
    fn event_record(x, stream) {
        let event = event(x)?;
        match of(event.device)? {
            None => {
                if !r::is_null(stream) {
                    self::stream(stream)?;
                }
                event.at.set(Some(Instant::now()));
            }
            Some(streams) => streams.record(event.event, number(stream, event.device, streams.as_ref())?)?,
        }
        event.recorded.set(true);
        Ok(r::null())
    }

    /// The stream's further work waits for the event.
    fn event_await(x, stream) {
        let event = event(x)?;
        recorded(event, "event")?;
        match of(event.device)? {
            Some(streams) => streams.await_event(event.event, number(stream, event.device, streams.as_ref())?)?,
            None if r::is_null(stream) => {}
            None => _ = self::stream(stream)?,
        }
        Ok(r::null())
    }

    /// Waits here for the event.
    fn event_sync(x) {
        let event = event(x)?;
        recorded(event, "event")?;
        if let Some(streams) = of(event.device)? {
            streams.event_wait(event.event)?;
        }
        Ok(r::null())
    }

    /// c(recorded, done), and the device's name.
    fn event_info(x) {
        let event = event(x)?;
        let done = match of(event.device)? {
            Some(streams) if event.recorded.get() => streams.event_is_done(event.event)?,
            _ => event.recorded.get(),
        };
        Ok(List::new(3)
            .add("device", r::string(&event.device.to_string()))
            .add("recorded", r::logical(event.recorded.get()))
            .add("done", r::logical(done))
            .finish())
    }

    /// Seconds from one event to another; waits for both.
    fn event_elapsed(from, to) {
        let (from, to) = (event(from)?, event(to)?);
        recorded(from, "from")?;
        recorded(to, "to")?;
        if from.device != to.device {
            return Err(Error::new(Kind::Device, format!("`from` is of {}, `to` of {}", from.device, to.device)));
        }
        let seconds = match of(from.device)? {
            Some(streams) => {
                streams.event_wait(from.event)?;
                streams.event_wait(to.event)?;
                streams.elapsed(from.event, to.event)?
            }
            None => match (from.at.get(), to.at.get()) {
                (Some(a), Some(b)) if b >= a => (b - a).as_secs_f64(),
                (Some(a), Some(b)) => -(a - b).as_secs_f64(),
                _ => 0.0,
            },
        };
        Ok(r::real(seconds))
    }
}
