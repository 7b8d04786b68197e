//! Slots in page-locked host memory, to which kernels write values for the host.

use std::sync::atomic::AtomicU64;

use super::core::Core;
use crate::backend::cuda::driver::host_memory::Host;
use verdigris_ops::error::Result;

/// The words by which a kernel reports a result: four of value (16 bytes) and one of status. The low half of each has
/// 32 bits of the result, the high half the mark.
pub(crate) type Reported = [AtomicU64; 5];

/// Bytes of a slot: the value, followed by the words that report it.
const BYTES: usize = 64;
/// The offset of these words in a slot.
pub(super) const REPORTED: usize = BYTES - size_of::<Reported>();
/// Slots of a stream. If all are in use, a reduction waits for its value at once.
const SLOTS: usize = 4096;

/// A stream's slots.
#[derive(Default)]
pub(crate) struct Slots {
    memory: Option<Host>,
    /// The number of slots that have ever been used, and those of them that are free again.
    begun: usize,
    free: Vec<usize>,
    /// The last mark. Each use of a slot has a mark of its own, so the host can tell a new report from an old one.
    mark: u32,
}

/// A slot in use: its number, its addresses on the host and on the device, and the mark of this use.
pub(super) struct Taken {
    pub number: usize,
    pub host: *mut u8,
    pub device: u64,
    pub mark: u32,
}

impl Slots {
    /// Takes a free slot; None where all are in use.
    pub(super) fn take(&mut self, core: &Core) -> Result<Option<Taken>> {
        let memory = match &self.memory {
            Some(memory) => memory,
            None => {
                let _entered = core.enter()?;
                let check = |status, function: &str| core.check(status, function);
                self.memory.insert(Host::new(core.driver, &check, SLOTS * BYTES)?)
            }
        };
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.begun < SLOTS => {
                self.begun += 1;
                self.begun - 1
            }
            None => return Ok(None),
        };
        self.mark = self.mark.wrapping_add(1);
        Ok(Some(Taken {
            number,
            // SAFETY: within the memory.
            host: unsafe { memory.host.add(number * BYTES) },
            device: memory.device + (number * BYTES) as u64,
            mark: self.mark,
        }))
    }

    pub(super) fn put_back(&mut self, number: usize) {
        self.free.push(number);
    }
}
