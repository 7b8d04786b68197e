//! Stream-ordered allocation from the device's memory pool, and frees that follow all streams that use the memory.

use std::sync::Arc;

use super::capture;
use super::core::lock;
use super::device::Cuda;
use super::memory_pool::{small, KEPT, LEAST};
use crate::backend::cuda::driver::api::{self, CUmemPool_attribute, CUresult, SUCCESS};
use crate::backend::Memory;
use crate::memory::buffer::{Buffer, Device};
use crate::memory::{self, Held, Source};
use verdigris_ops::error::Result;

/// Allocations of at least this many bytes may grow the pool ahead of need.
const AHEAD: usize = 16 << 20;
/// An allocation on a device. Drop frees it, in the order of the streams that have used it.
struct Block {
    ordinal: u32,
    address: u64,
    held: Held,
}

impl Drop for Block {
    fn drop(&mut self) {
        // a forked child frees nothing
        if let Ok(cuda) = Cuda::of(self.ordinal) {
            cuda.give_back(self.address, self.held.bytes() as usize);
        }
    }
}

impl Source for Cuda {
    fn take(&self, bytes: usize) -> Result<Option<u64>> {
        let mut bytes = bytes;
        let stream_state = self.stream_state();
        if let Some(size) = small(bytes).filter(|_| !self.pool.handle.is_null()) {
            if let Some(address) = lock(&stream_state.small)[size].pop() {
                self.note_write(address, stream_state);
                return Ok(Some(address));
            }
            bytes = LEAST << size;
        }
        let _entered = self.enter()?;
        if bytes >= AHEAD {
            self.grow(bytes as u64);
        }
        let mut address = 0;
        // SAFETY: writes an address.
        let status = unsafe {
            if !self.pool.handle.is_null() {
                (self.driver.allocate_async)(&mut address, bytes, self.pool.handle, stream_state.queue())
            } else {
                (self.driver.allocate)(&mut address, bytes)
            }
        };
        if api::code(status) == Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            return Ok(None);
        }
        self.check(status, "cuMemAllocFromPoolAsync")?;
        self.note_write(address, stream_state);
        Ok(Some(address))
    }

    fn finish(&self) -> Result<()> {
        self.wait_all()
    }

    fn trim(&self) -> Result<()> {
        let _entered = self.enter()?;
        if self.pool.handle.is_null() {
            return Ok(());
        }
        for stream_state in self.running_streams() {
            for address in lock(&stream_state.small).iter_mut().flat_map(std::mem::take) {
                // SAFETY: from this pool, and in nobody's use.
                unsafe { (self.driver.free_async)(address, stream_state.queue()) };
            }
        }
        self.wait_all()?;
        // The driver keeps what was freed on a stream until the host has synchronised with it. Asking whether it is
        // empty, as our waits do, is not enough.
        for stream_state in self.running_streams() {
            // SAFETY: our stream, which is empty.
            self.check(unsafe { (self.driver.stream_synchronize)(stream_state.handle()) }, "cuStreamSynchronize")?;
        }
        // SAFETY: our pool.
        self.check(unsafe { (self.driver.pool_trim)(self.pool.handle, 0) }, "cuMemPoolTrimTo")
    }

    fn device(&self) -> Device {
        Device::Cuda(self.properties.ordinal)
    }

    fn total(&self) -> u64 {
        self.properties.memory
    }

    fn cached(&self) -> u64 {
        if self.pool.handle.is_null() {
            return 0;
        }
        let reserved = self.pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT).unwrap_or(0);
        reserved.saturating_sub(memory::account(Source::device(self)).live())
    }
}

impl Cuda {
    /// An uninitialised buffer of this many bytes, aligned to 256. While a graph is recorded, the memory belongs to the
    /// graph.
    ///
    /// # Errors
    /// `Memory`, when all steps of `memory::obtain` have failed.
    pub fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Ok(Arc::new(Buffer::new(self.device(), 0, 0, Box::new(()))));
        }
        if self.is_capturing() {
            return capture::allocate(self, bytes);
        }
        let address = memory::obtain(self, bytes)?;
        let held = Held::new(self.device(), bytes as u64);
        let block = Block { ordinal: self.properties.ordinal, address, held };
        Ok(Arc::new(Buffer::new(self.device(), address, bytes, Box::new(block))))
    }

    /// Frees memory from `memory::obtain` of this many bytes, once the work that uses it is done.
    pub(crate) fn give_back(&self, address: u64, bytes: usize) {
        if self.pool.handle.is_null() {
            // SAFETY: from the driver, and freed once; the driver waits for what uses it.
            if let Ok(_entered) = self.enter() {
                unsafe { (self.driver.free)(address) };
            }
            return;
        }
        let stream_state = match self.mode() {
            0 => Ok(self.stream_state()),
            // a broken context, or one that is destroyed at exit, has freed all its memory
            _ => match self.enter().and_then(|_entered| self.last_stream(address)) {
                Ok(stream_state) => stream_state,
                Err(_) => return,
            },
        };
        let stream = match (stream_state, small(bytes)) {
            (Ok(stream_state), Some(size)) => {
                let kept = &mut lock(&stream_state.small)[size];
                if kept.len() < KEPT / (LEAST << size) {
                    return kept.push(address);
                }
                stream_state.queue()
            }
            (Ok(stream_state), None) => stream_state.queue(),
            (Err(stream), _) => stream,
        };
        let Ok(_entered) = self.enter() else { return };
        // SAFETY: the address came from this pool and is freed once.
        unsafe { (self.driver.free_async)(address, stream) };
    }

    /// If the pool must grow, grows it by more than is requested: the driver maps memory at some 0.6 ms a GB, and each
    /// result of a loop, which lives until R collects it, would wait for that. The context must be current.
    fn grow(&self, bytes: u64) {
        if self.pool.handle.is_null() {
            return;
        }
        let get = |attribute| self.pool_attribute(attribute).unwrap_or(0);
        let reserved = get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        let used = get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        let step = reserved.clamp(1 << 30, 8 << 30);
        let most = memory::account(self.device()).limit() / 4 * 3;
        if reserved.saturating_sub(used) >= bytes || step <= bytes || reserved.saturating_add(step) > most {
            return;
        }
        let mut address = 0;
        // SAFETY: writes an address, which is freed at once; where there is no room the pool stays as it is.
        unsafe {
            if (self.driver.allocate_async)(&mut address, step as usize, self.pool.handle, self.stream()) == SUCCESS {
                (self.driver.free_async)(address, self.stream());
            }
        }
    }

    fn pool_attribute(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let _entered = self.enter()?;
        let mut value = 0u64;
        // SAFETY: these attributes are 64 bits wide.
        let status = unsafe { (self.driver.pool_get)(self.pool.handle, attribute, (&raw mut value).cast()) };
        self.check(status, "cuMemPoolGetAttribute")?;
        Ok(value)
    }

    pub fn memory(&self) -> Result<Memory> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        self.check(unsafe { (self.driver.memory_info)(&mut free, &mut total) }, "cuMemGetInfo")?;
        let limit = memory::refresh_limit(self.device(), self.properties.memory)?;
        let live = memory::account(self.device()).live();
        Ok(Memory { live, cached: self.cached(), limit, free: free as u64, total: total as u64 })
    }

    /// The number of live buffers.
    pub fn buffers(&self) -> u64 {
        memory::account(self.device()).buffers()
    }
}
