//! Accessors of a device's streams: the current one, all, and those that can be reused.

use std::sync::atomic::Ordering;

use super::core::lock;
use super::device::Cuda;
use super::stream_state::{StreamState, CAPTURING, NONE, SEVERAL};
use crate::backend::cuda::driver::api::Stream;
use verdigris_ops::error::{Error, Kind, Result};

/// The error of an operation that needs the host to wait for a value while a graph is recorded.
#[cold]
pub(crate) fn refuse(what: &str) -> Error {
    Error::new(Kind::Capture, format!("`gpu_graph()` cannot record {what}: nothing runs before the graph does"))
        .advise("Compute it before the block, or after it from the graph's results.")
}

impl Cuda {
    /// The stream on which R's thread currently queues work.
    pub(crate) fn stream_state(&self) -> &'static StreamState {
        // SAFETY: only ever the address of a stream, which is never freed.
        unsafe { &*self.stream_states.current.load(Ordering::Acquire) }
    }

    /// The CUDA handle of the current stream, for callers that queue work on it next.
    pub fn stream(&self) -> Stream {
        self.stream_state().queue()
    }

    pub(crate) fn stream_state_at(&self, index: u32) -> Option<&'static StreamState> {
        lock(&self.stream_states.all).get(index as usize).copied()
    }

    /// The device's main stream, number 0.
    pub(crate) fn main(&self) -> &'static StreamState {
        lock(&self.stream_states.all)[0]
    }

    /// All streams except the one that is being captured.
    pub(crate) fn running_streams(&self) -> Vec<&'static StreamState> {
        if self.mode() & (SEVERAL | CAPTURING) == 0 {
            return vec![self.main()];
        }
        let captured = self.captured_stream();
        lock(&self.stream_states.all)
            .iter()
            .copied()
            .filter(|stream_state| Some(stream_state.index) != captured)
            .collect()
    }

    pub(crate) fn set_stream_state(&self, stream_state: &'static StreamState) {
        self.stream_states.current.store(std::ptr::from_ref(stream_state).cast_mut(), Ordering::Release);
    }

    pub(crate) fn mode(&self) -> u32 {
        self.stream_states.mode.load(Ordering::Relaxed)
    }

    pub(crate) fn set_mode(&self, bit: u32, on: bool) {
        if on {
            self.stream_states.mode.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.stream_states.mode.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The number of the stream that is being captured, also within `outside`.
    pub(crate) fn captured_stream(&self) -> Option<u32> {
        Some(self.stream_states.captured.load(Ordering::Relaxed)).filter(|index| *index != NONE)
    }

    pub(super) fn set_captured(&self, stream_state: Option<u32>) {
        self.stream_states.captured.store(stream_state.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.mode() & CAPTURING != 0
    }

    /// A new stream of this priority, or a retired one to reuse.
    pub(crate) fn new_stream_state(&self, priority: i32) -> Result<&'static StreamState> {
        let _entered = self.enter()?;
        let mut all = lock(&self.stream_states.all);
        let mut idle = lock(&self.stream_states.idle);
        if let Some(at) = idle.iter().position(|&index| all[index as usize].priority == priority) {
            return Ok(all[idle.swap_remove(at) as usize]);
        }
        let check = |status, function: &str| self.check(status, function);
        let made = StreamState::new(self.driver, &check, all.len() as u32, priority)?;
        let stream_state: &'static StreamState = Box::leak(Box::new(made));
        all.push(stream_state);
        Ok(stream_state)
    }

    /// Marks a stream as reusable; its queued work continues. Stream 0 is never retired.
    pub(crate) fn retire(&self, index: u32) {
        if index == 0 {
            return;
        }
        if self.stream_state().index == index {
            self.set_stream_state(self.main());
        }
        let mut idle = lock(&self.stream_states.idle);
        if !idle.contains(&index) {
            idle.push(index);
        }
    }
}
