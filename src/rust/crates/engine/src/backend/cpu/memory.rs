//! Buffers of the cpu device: blocks of host memory, within the device's limit.

use std::sync::Arc;

use crate::buffer::{Buffer, Device};
use crate::error::Result;
use crate::host::{self, Block};
use crate::memory::{self, Held, Source};

/// A block, counted as the device's while it lives.
struct Owned {
    _block: Block,
    _held: Held,
}

struct Host;

/// From here on the system is asked whether it has as much: it promises memory that it does not have, and ends the process that uses it.
const ASKED: usize = 1 << 30;

impl Source for Host {
    fn take(&self, bytes: usize) -> Result<Option<u64>> {
        if bytes >= ASKED && !host::has_kept(bytes) && self.left().is_some_and(|left| left < bytes as u64) {
            return Ok(None);
        }
        // the address of the block itself: `allocate` takes it over
        Ok(Some(Box::into_raw(Box::new(Block::new(bytes, Device::Cpu)?)) as u64))
    }

    fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self) -> Result<()> {
        host::trim();
        Ok(())
    }

    fn device(&self) -> Device {
        Device::Cpu
    }

    fn total(&self) -> u64 {
        memory::machine()
    }

    fn cached(&self) -> u64 {
        host::cached()
    }

    fn left(&self) -> Option<u64> {
        memory::available()
    }
}

/// A buffer, not initialised.
pub fn allocate(bytes: usize) -> Result<Arc<Buffer>> {
    if bytes == 0 {
        return Ok(Arc::new(Buffer::new(Device::Cpu, 0, 0, Box::new(()))));
    }
    // SAFETY: `take` has made it by Box::into_raw, for us alone.
    let block = unsafe { *Box::from_raw(memory::obtain(&Host, bytes)? as *mut Block) };
    let address = block.start() as u64;
    let owner = Owned { _block: block, _held: Held::new(Device::Cpu, bytes as u64) };
    Ok(Arc::new(Buffer::new(Device::Cpu, address, bytes, Box::new(owner))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_left_is_not_taken() {
        if cfg!(target_os = "linux") {
            assert_eq!(Host.take(1 << 46).unwrap(), None);
        }
    }
}
