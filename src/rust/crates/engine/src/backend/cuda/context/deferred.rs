//! Deferred results: they travel to the host while R goes on.
//!
//! A reduction writes its value to a slot of page-locked host memory. Reading it waits; computing with it copies it to
//! the device, in the stream's order.

use std::sync::Arc;

use super::capture::{self, Arena};
use super::core::lock;
use super::current_stream::refuse;
use super::device::Cuda;
use super::slots::{Reported, Taken, REPORTED};
use super::stream_state::StreamState;
use crate::backend::{Deferred, Outcome};
use crate::memory::buffer::Buffer;
use verdigris_ops::error::Result;

/// A slot that a reduction writes to. Given back when dropped: what is queued later runs later, so the next
/// one's value is written after this one's.
pub(crate) struct Slot {
    ordinal: u32,
    stream_state: &'static StreamState,
    /// The graph whose launches write it too, which keeps it to its end.
    arena: Option<Arc<Arena>>,
    taken: Taken,
}

// SAFETY: the address is of memory that is never freed; it is read only after the device has written.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// A slot of the current stream; None where all are taken.
    pub(crate) fn take(cuda: &Cuda) -> Result<Option<Slot>> {
        let stream_state = cuda.stream_state();
        let taken = lock(&stream_state.slots).take(cuda)?;
        Ok(taken.map(|taken| Slot {
            ordinal: cuda.properties.ordinal,
            stream_state,
            arena: capture::arena(cuda),
            taken,
        }))
    }

    /// Where the device writes the value, and tells the host of it with a mark.
    pub(crate) fn target(&self) -> (u64, u64, u32) {
        (self.taken.device, self.taken.device + REPORTED as u64, self.taken.mark)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match &self.arena {
            Some(arena) => arena.keep_slot(self.taken.number),
            None => self.stream_state.free_slot(self.taken.number),
        }
    }
}

impl Deferred for Slot {
    fn outcome(&self) -> Result<Outcome> {
        let cuda = Cuda::of(self.ordinal)?;
        if cuda.is_capturing() {
            return Err(refuse("a number that R reads"));
        }
        // SAFETY: within the slot, aligned, and the device writes words whole.
        let words = unsafe { &*self.taken.host.add(REPORTED).cast::<Reported>() };
        Ok(outcome(cuda.await_reported(self.stream_state, words, self.taken.mark)?))
    }

    fn buffer(&self, bytes: usize) -> Result<Arc<Buffer>> {
        let cuda = Cuda::of(self.ordinal)?;
        if cuda.is_capturing() && self.arena.is_none() {
            // the slot serves others by the time the graph is launched
            return cuda.outside(|| self.buffer(bytes));
        }
        let buffer = cuda.allocate(bytes)?;
        let _entered = cuda.enter()?;
        if self.stream_state.index != cuda.stream_state().index {
            cuda.stream_state().wait_for(cuda, self.stream_state, self.stream_state.next_mark())?;
        }
        // SAFETY: both addresses are of live memory that the device reaches; the copy is in the stream's order, so it
        // comes after the reduction and before whatever is written to this slot next.
        let status = unsafe { (cuda.driver.copy_async)(buffer.address, self.taken.device, bytes, cuda.stream()) };
        cuda.check(status, "cuMemcpyDtoDAsync")?;
        if self.stream_state.index != cuda.stream_state().index {
            // what is written to this slot next comes after the copy there too
            self.stream_state.wait_for(cuda, cuda.stream_state(), cuda.stream_state().next_mark())?;
        }
        Ok(buffer)
    }
}

/// What a kernel has reported.
pub(crate) fn outcome(words: [u32; 5]) -> Outcome {
    let mut value = [0u8; 32];
    for (bytes, word) in value.chunks_exact_mut(4).zip(&words[..4]) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    Outcome { value, status: words[4] }
}
