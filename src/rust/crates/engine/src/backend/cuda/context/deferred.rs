//! Deferred results: values of reductions that R holds before the device has computed them.
//!
//! A reduction writes its value to a slot of page-locked host memory. Reading the value waits for the reduction;
//! computing with it copies the slot to the device in stream order, without waiting.

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

/// The slot that a reduction writes to, released on drop. It can be reused at once: the next reduction to write it is
/// queued later on the same stream.
pub(crate) struct Slot {
    ordinal: u32,
    stream_state: &'static StreamState,
    /// The graph that was being recorded. Its launches write the slot too, so it keeps the slot until it is destroyed.
    arena: Option<Arc<Arena>>,
    taken: Taken,
}

// SAFETY: the address is of memory that is never freed; it is read only after the device has written.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// A slot of the current stream; None where all are in use.
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

    /// The device addresses of the value and of the words that report it to the host, and the mark that those words
    /// carry.
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
            // the slot may be reused before the graph is launched, so it is copied now and not by the graph
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
            // the next kernel to write this slot, on its own stream, must run after the copy
            self.stream_state.wait_for(cuda, cuda.stream_state(), cuda.stream_state().next_mark())?;
        }
        Ok(buffer)
    }
}

/// The outcome in the words that a kernel has reported: 16 bytes of value, and a status.
pub(crate) fn outcome(words: [u32; 5]) -> Outcome {
    let mut value = [0u8; 32];
    for (bytes, word) in value.chunks_exact_mut(4).zip(&words[..4]) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    Outcome { value, status: words[4] }
}
