//! Streams, events and graphs, for backends that have them. The cpu device has none: its work is done when a call
//! returns.

use std::any::Any;
use std::sync::Arc;

use crate::backend::span::Span;
use crate::memory::buffer::Buffer;
use verdigris_ops::error::Result;

/// What was recorded, to be run again.
pub trait Replay: Send + Sync {
    /// Queues it on the current stream.
    fn launch(&self) -> Result<()>;

    /// Kernels, copies and fills.
    fn nodes(&self) -> usize;

    /// Bytes of device memory that are its own.
    fn bytes(&self) -> u64;
}

/// Streams of a device, by number; 0 is there from the start. Events by their handle.
pub trait Streams: Send + Sync {
    /// Lower priorities go first; beyond the device's range the nearest one is taken.
    fn make(&self, priority: i32) -> Result<u32>;

    /// It may be another's from here on; its work goes on.
    fn retire(&self, stream: u32);

    fn current(&self) -> u32;

    /// Makes the stream current: work is queued on it from here on. Returns the previous one.
    ///
    /// # Errors
    /// `Capture` while a graph is recorded.
    fn select(&self, stream: u32) -> Result<u32>;

    /// Waits for its work.
    fn wait(&self, stream: u32) -> Result<()>;

    fn is_idle(&self, stream: u32) -> Result<bool>;

    /// The least urgent priority, and the most urgent.
    fn priorities(&self) -> Result<(i32, i32)>;

    /// The driver's own handle.
    fn raw(&self, stream: u32) -> u64;

    fn event(&self) -> Result<u64>;

    fn event_free(&self, event: u64);

    /// The event happens when the stream's work so far is done.
    fn record(&self, event: u64, stream: u32) -> Result<()>;

    /// The stream's further work waits for the event.
    fn await_event(&self, event: u64, stream: u32) -> Result<()>;

    /// Waits here for the event.
    fn event_wait(&self, event: u64) -> Result<()>;

    fn event_is_done(&self, event: u64) -> Result<bool>;

    /// Seconds between two events that have happened.
    fn elapsed(&self, from: u64, to: u64) -> Result<f64>;

    /// The stream's further work waits for what all streams have been given so far.
    fn join(&self, stream: u32) -> Result<()>;

    /// Notes a span for each kernel and copy from here on.
    fn begin_profile(&self) -> Result<()>;

    /// Ends that, waits, and gives the spans.
    fn end_profile(&self) -> Result<Vec<Span>>;

    fn is_capturing(&self) -> bool;

    /// While a graph is recorded: a copy of a whole buffer that is done now, on the stream that is there from the
    /// start.
    fn copy_aside(&self, source: &Arc<Buffer>, from: usize, target: &Arc<Buffer>, bytes: usize) -> Result<()>;

    /// Keeps something as long as the graph that is being recorded.
    fn hold(&self, what: Box<dyn Any + Send + Sync>);

    /// What is queued from here on is recorded instead of run. Returns what `end_capture` is to be told.
    fn begin_capture(&self) -> Result<u32>;

    /// Ends it, and runs what was recorded once.
    fn end_capture(&self, before: u32) -> Result<Box<dyn Replay>>;
}
