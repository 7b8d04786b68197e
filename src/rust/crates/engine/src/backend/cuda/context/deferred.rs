//! Results that are on their way to the host while R goes on.
//!
//! A reduction writes its value to a slot of page-locked host memory. Who reads it waits; who computes with it has
//! it copied to the device, in the stream's order.

use std::sync::Arc;

use super::capture::{self, Arena};
use super::device::{lock, Cuda, Told};
use super::lane::Lane;
use super::pool::Host;
use crate::backend::cuda::ops::reduce;
use crate::backend::{Landing, Outcome};
use crate::memory::buffer::Buffer;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;

/// Bytes of a slot: a value, and the words in which the host is told it.
const BYTES: usize = 64;
const TOLD: usize = BYTES - size_of::<Told>();
/// Slots of a lane; where all are taken, a reduction waits for its value at once.
const SLOTS: usize = 4096;

/// A lane's slots.
#[derive(Default)]
pub(crate) struct Slots {
    memory: Option<Host>,
    /// How many were ever taken, and those that were given back.
    begun: usize,
    free: Vec<usize>,
    /// The last mark; every use of a slot has its own.
    mark: u32,
}

/// A slot that a reduction writes to. Given back when dropped: what is queued later runs later, so the next
/// one's value is written after this one's.
pub(crate) struct Slot {
    ordinal: u32,
    lane: &'static Lane,
    /// The graph whose launches write it too, which keeps it to its end.
    arena: Option<Arc<Arena>>,
    place: usize,
    host: *mut u8,
    device: u64,
    mark: u32,
}

// SAFETY: the address is of memory that is never freed; it is read only after the device has written.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// None where all are taken.
    fn take(cuda: &Cuda) -> Result<Option<Slot>> {
        let lane = cuda.lane();
        let mut slots = lock(&lane.slots);
        if slots.memory.is_none() {
            let _entered = cuda.enter()?;
            slots.memory = Some(Host::new(cuda.driver, SLOTS * BYTES)?);
        }
        let place = match slots.free.pop() {
            Some(place) => place,
            None if slots.begun < SLOTS => {
                slots.begun += 1;
                slots.begun - 1
            }
            None => return Ok(None),
        };
        slots.mark = slots.mark.wrapping_add(1);
        let mark = slots.mark;
        Ok(slots.memory.as_ref().map(|memory| Slot {
            ordinal: cuda.properties.ordinal,
            lane,
            arena: if cuda.is_capturing() { lock(&cuda.capture).clone() } else { None },
            place,
            // SAFETY: within the memory.
            host: unsafe { memory.host.add(place * BYTES) },
            device: memory.device + (place * BYTES) as u64,
            mark,
        }))
    }
}

impl Lane {
    pub(crate) fn free_slot(&self, place: usize) {
        lock(&self.slots).free.push(place);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match &self.arena {
            Some(arena) => arena.keep_slot(self.place),
            None => self.lane.free_slot(self.place),
        }
    }
}

impl Landing for Slot {
    fn outcome(&self) -> Result<Outcome> {
        let cuda = Cuda::of(self.ordinal)?;
        if cuda.is_capturing() {
            return Err(capture::refuse("a number that R reads"));
        }
        // SAFETY: within the slot, aligned, and the device writes words whole.
        let words = unsafe { &*self.host.add(TOLD).cast::<Told>() };
        Ok(reduce::outcome(cuda.await_told(self.lane, words, self.mark)?))
    }

    fn buffer(&self, bytes: usize) -> Result<Arc<Buffer>> {
        let cuda = Cuda::of(self.ordinal)?;
        if cuda.is_capturing() && self.arena.is_none() {
            // the slot serves others by the time the graph is launched
            return cuda.outside(|| self.buffer(bytes));
        }
        let buffer = cuda.allocate(bytes)?;
        let _entered = cuda.enter()?;
        if self.lane.index != cuda.lane().index {
            cuda.lane().wait_for(cuda, self.lane, self.lane.next_mark())?;
        }
        // SAFETY: both addresses are of live memory that the device reaches; the copy is in the stream's order, so it
        // comes after the reduction and before whatever is written to this slot next.
        let status = unsafe { (cuda.driver.copy_async)(buffer.address, self.device, bytes, cuda.stream()) };
        cuda.check(status, "cuMemcpyDtoDAsync")?;
        if self.lane.index != cuda.lane().index {
            // what is written to this slot next comes after the copy there too
            self.lane.wait_for(cuda, cuda.lane(), cuda.lane().next_mark())?;
        }
        Ok(buffer)
    }
}

/// Queues a reduction of everything; None where no slot is free.
pub(crate) fn reduce_later(
    cuda: &Cuda,
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
) -> Result<Option<Box<dyn Landing>>> {
    let Some(slot) = Slot::take(cuda)? else { return Ok(None) };
    let target = reduce::Target::slot(slot.device, slot.device + TOLD as u64, slot.mark);
    reduce::to_slot(cuda, plan, bound, reduction, na_rm, target)?;
    Ok(Some(Box::new(slot)))
}
