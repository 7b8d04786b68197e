//! A device's streams: the current one, and those that can be reused.

use std::sync::atomic::Ordering;

use super::core::lock;
use super::device::Cuda;
use super::stream_state::{StreamState, CAPTURING, NONE, SEVERAL};
use crate::backend::cuda::driver::api::Stream;
use verdigris_ops::error::{Error, Kind, Result};

/// What the host would have to wait for while a graph is recorded.
#[cold]
pub(crate) fn refuse(what: &str) -> Error {
    Error::new(Kind::Capture, format!("`gpu_graph()` cannot record {what}: nothing runs before the graph does"))
        .advise("Compute it before the block, or after it from the graph's results.")
}

impl Cuda {
    /// The stream on which work is queued now.
    pub(crate) fn stream_state(&self) -> &'static StreamState {
        // SAFETY: only ever the address of a stream, which is never freed.
        unsafe { &*self.stream_states.current.load(Ordering::Acquire) }
    }

    /// Its stream, for callers that queue work on it next.
    pub fn stream(&self) -> Stream {
        self.stream_state().queue()
    }

    pub(crate) fn stream_state_at(&self, index: u32) -> Option<&'static StreamState> {
        lock(&self.stream_states.all).get(index as usize).copied()
    }

    /// The stream that there is from the start.
    pub(crate) fn main(&self) -> &'static StreamState {
        lock(&self.stream_states.all)[0]
    }

    /// All streams whose work runs: not the one that is captured.
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

    /// The stream that is captured, also while `outside` leaves that aside.
    pub(crate) fn captured_stream(&self) -> Option<u32> {
        Some(self.stream_states.captured.load(Ordering::Relaxed)).filter(|index| *index != NONE)
    }

    pub(super) fn set_captured(&self, stream_state: Option<u32>) {
        self.stream_states.captured.store(stream_state.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.mode() & CAPTURING != 0
    }

    /// A stream that nobody else has.
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

    /// Gives a stream back; its work goes on.
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
