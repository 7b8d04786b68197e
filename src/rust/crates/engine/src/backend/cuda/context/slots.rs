//! Slots in page-locked host memory: a kernel writes a value there that the host is going to read.

use std::sync::atomic::AtomicU64;

use super::core::Core;
use crate::backend::cuda::driver::host_memory::Host;
use verdigris_ops::error::Result;

/// Words of host memory in which a kernel reports a result: 32 bits of it each, of 16 bytes and a status, below a mark.
pub(crate) type Reported = [AtomicU64; 5];

/// Bytes of a slot: a value, and the words in which the kernel reports it.
const BYTES: usize = 64;
/// Where those words are in it.
pub(super) const REPORTED: usize = BYTES - size_of::<Reported>();
/// Slots of a stream; where all are taken, a reduction waits for its value at once.
const SLOTS: usize = 4096;

/// A stream's slots.
#[derive(Default)]
pub(crate) struct Slots {
    memory: Option<Host>,
    /// How many were ever taken, and those that were given back.
    begun: usize,
    free: Vec<usize>,
    /// The last mark; every use of a slot has its own.
    mark: u32,
}

/// A slot that is in use: its number, its addresses on the host and on the device, and the mark of this use.
pub(super) struct Taken {
    pub number: usize,
    pub host: *mut u8,
    pub device: u64,
    pub mark: u32,
}

impl Slots {
    /// None where all are taken.
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
