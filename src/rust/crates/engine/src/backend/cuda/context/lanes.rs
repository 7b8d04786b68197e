//! A device's streams: which one is current, and which serve again.

use std::sync::atomic::Ordering;

use super::core::lock;
use super::device::Cuda;
use super::lane::{Lane, CAPTURING, NONE, SEVERAL};
use crate::backend::cuda::driver::api::Stream;
use verdigris_ops::error::{Error, Kind, Result};

/// What the host would have to wait for while a graph is recorded.
#[cold]
pub(crate) fn refuse(what: &str) -> Error {
    Error::new(Kind::Capture, format!("`gpu_graph()` cannot record {what}: nothing runs before the graph does"))
        .advise("Compute it before the block, or after it from the graph's results.")
}

impl Cuda {
    /// The lane on which work is queued now.
    pub(crate) fn lane(&self) -> &'static Lane {
        // SAFETY: only ever the address of a lane, which is never freed.
        unsafe { &*self.lanes.current.load(Ordering::Acquire) }
    }

    /// Its stream, for who queues work on it next.
    pub fn stream(&self) -> Stream {
        self.lane().queue()
    }

    pub(crate) fn lane_at(&self, index: u32) -> Option<&'static Lane> {
        lock(&self.lanes.all).get(index as usize).copied()
    }

    /// The lane that there is from the start.
    pub(crate) fn main(&self) -> &'static Lane {
        lock(&self.lanes.all)[0]
    }

    /// All lanes whose work runs: not the one that is captured.
    pub(crate) fn running_lanes(&self) -> Vec<&'static Lane> {
        if self.mode() & (SEVERAL | CAPTURING) == 0 {
            return vec![self.main()];
        }
        let captured = self.captured_lane();
        lock(&self.lanes.all).iter().copied().filter(|lane| Some(lane.index) != captured).collect()
    }

    pub(crate) fn set_lane(&self, lane: &'static Lane) {
        self.lanes.current.store(std::ptr::from_ref(lane).cast_mut(), Ordering::Release);
    }

    pub(crate) fn mode(&self) -> u32 {
        self.lanes.mode.load(Ordering::Relaxed)
    }

    pub(crate) fn set_mode(&self, bit: u32, on: bool) {
        if on {
            self.lanes.mode.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.lanes.mode.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The lane that is captured, also while `outside` leaves that aside.
    pub(crate) fn captured_lane(&self) -> Option<u32> {
        Some(self.lanes.captured.load(Ordering::Relaxed)).filter(|index| *index != NONE)
    }

    pub(super) fn set_captured(&self, lane: Option<u32>) {
        self.lanes.captured.store(lane.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.mode() & CAPTURING != 0
    }

    /// A lane that nobody else has.
    pub(crate) fn new_lane(&self, priority: i32) -> Result<&'static Lane> {
        let _entered = self.enter()?;
        let mut all = lock(&self.lanes.all);
        let mut idle = lock(&self.lanes.idle);
        if let Some(at) = idle.iter().position(|&index| all[index as usize].priority == priority) {
            return Ok(all[idle.swap_remove(at) as usize]);
        }
        let lane: &'static Lane = Box::leak(Box::new(Lane::new(self.driver, all.len() as u32, priority)?));
        all.push(lane);
        Ok(lane)
    }

    /// Gives a lane back; its work goes on.
    pub(crate) fn retire(&self, index: u32) {
        if index == 0 {
            return;
        }
        if self.lane().index == index {
            self.set_lane(self.main());
        }
        let mut idle = lock(&self.lanes.idle);
        if !idle.contains(&index) {
            idle.push(index);
        }
    }
}
