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

impl Source for Host {
    fn take(&self, bytes: usize) -> Result<Option<u64>> {
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
