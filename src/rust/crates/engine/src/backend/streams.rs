//! Streams, events and graphs, for backends that have them. The cpu device has none: its work is done when a call
//! returns.

use std::any::Any;
use std::sync::Arc;

use crate::backend::span::Span;
use crate::memory::buffer::Buffer;
use verdigris_ops::error::Result;

/// A recorded graph, which can be launched again.
pub trait Replay: Send + Sync {
    /// Queues the graph on the current stream.
    fn launch(&self) -> Result<()>;

    /// The number of kernels, copies and fills.
    fn nodes(&self) -> usize;

    /// Bytes of device memory that the graph owns.
    fn bytes(&self) -> u64;
}

/// Streams of a device, by number, and events, by the driver's handle. Stream 0 always exists.
pub trait Streams: Send + Sync {
    /// Makes a stream. Lower numbers are more urgent; priorities outside the device's range are clamped to it.
    fn make(&self, priority: i32) -> Result<u32>;

    /// Gives the stream back for reuse; work that is queued on it goes on.
    fn retire(&self, stream: u32);

    fn current(&self) -> u32;

    /// Makes the stream current: work is queued on it from here on. Returns the previous one.
    ///
    /// # Errors
    /// `Capture` while a graph is recorded.
    fn select(&self, stream: u32) -> Result<u32>;

    /// Waits on the host for the stream's work.
    fn wait(&self, stream: u32) -> Result<()>;

    /// Whether the stream's work is done.
    fn is_idle(&self, stream: u32) -> Result<bool>;

    /// The least urgent priority, and the most urgent.
    fn priorities(&self) -> Result<(i32, i32)>;

    /// The driver's handle, for another library, which may then queue work on the stream at any time.
    fn raw(&self, stream: u32) -> u64;

    /// Makes an event, which `event_free` destroys.
    fn event(&self) -> Result<u64>;

    fn event_free(&self, event: u64);

    /// Records the event, which completes when the stream's work so far is done.
    fn record(&self, event: u64, stream: u32) -> Result<()>;

    /// Makes the stream's later work wait for the event.
    fn await_event(&self, event: u64, stream: u32) -> Result<()>;

    /// Waits on the host for the event.
    fn event_wait(&self, event: u64) -> Result<()>;

    fn event_is_done(&self, event: u64) -> Result<bool>;

    /// Seconds between two completed events.
    fn elapsed(&self, from: u64, to: u64) -> Result<f64>;

    /// Makes the stream's later work wait for all work that is queued on any stream so far.
    fn join(&self, stream: u32) -> Result<()>;

    /// Begins to record a span for each kernel and copy.
    fn begin_profile(&self) -> Result<()>;

    /// Ends the recording, waits for the work, and returns the spans.
    fn end_profile(&self) -> Result<Vec<Span>>;

    /// Whether a graph is being recorded.
    fn is_capturing(&self) -> bool;

    /// While a graph is being recorded: queues a copy now, on stream 0 and not as part of the graph, from the byte
    /// offset `from` to the beginning of `target`.
    fn copy_outside_capture(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, bytes: usize)
        -> Result<()>;

    /// Keeps a value alive as long as the graph that is being recorded.
    fn hold(&self, what: Box<dyn Any + Send + Sync>);

    /// Begins to record a graph: work is recorded from here on instead of run. Returns the argument for `end_capture`.
    fn begin_capture(&self) -> Result<u32>;

    /// Ends the recording, and launches the graph once.
    fn end_capture(&self, before: u32) -> Result<Box<dyn Replay>>;
}
