//! Device memory from a stream-ordered pool, and page-locked host memory.

use std::sync::Arc;

use super::capture;
use super::device::{at_home, lock, Cuda, Properties};
use crate::backend::cuda::driver::api::{self, CUmemPool_attribute, CUresult, Driver, MemoryPool, SUCCESS};
use crate::backend::cuda::launch::submit;
use crate::backend::Memory;
use crate::memory::buffer::{Buffer, Device};
use crate::memory::{self, Held, Source};
use verdigris_ops::error::Result;

/// From this size on an allocation lets the pool grow ahead.
const AHEAD: usize = 16 << 20;
/// Blocks up to this size are kept here when they are freed, by powers of two from `LEAST` on: the driver's pool takes 0.6 µs to
/// give one and get it back, a good part of what a small operation costs.
const SMALL: usize = 64 << 10;
const LEAST: usize = 256;
const SIZES: usize = (SMALL / LEAST).ilog2() as usize + 1;
/// So many bytes of each size: as many blocks as a loop of small operations drops between two of R's collections.
const KEPT: usize = 16 << 20;

/// The index of the kept size that serves these bytes; None for larger ones.
fn small(bytes: usize) -> Option<usize> {
    (bytes <= SMALL).then(|| (bytes.max(LEAST).next_power_of_two() / LEAST).ilog2() as usize)
}

/// A device's pool. It keeps what is freed until it is trimmed.
pub struct Pool {
    /// Null where the device has none and memory is taken from the driver directly.
    handle: MemoryPool,
}

/// Addresses of small blocks that are free in the order of a lane's stream.
pub(crate) type Small = [Vec<u64>; SIZES];

impl Pool {
    /// The context must be current.
    pub(crate) fn new(driver: &'static Driver, properties: &Properties) -> Result<Pool> {
        let mut handle = MemoryPool::NULL;
        if properties.pools {
            let wanted = api::pool_properties(properties.ordinal);
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let mut threshold = u64::MAX;
            // a stream that takes memory does not wait for another one that has freed some
            let follows = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
            let mut never = 0i32;
            // SAFETY: the struct is as cuda.h declares it, the first attribute 64 bits wide and the second 32.
            unsafe {
                api::check(driver, (driver.pool_create)(&mut handle, &wanted), "cuMemPoolCreate")?;
                let status = (driver.pool_set)(handle, attribute, (&raw mut threshold).cast());
                api::check(driver, status, "cuMemPoolSetAttribute")?;
                let status = (driver.pool_set)(handle, follows, (&raw mut never).cast());
                api::check(driver, status, "cuMemPoolSetAttribute")?;
            }
        }
        Ok(Pool { handle })
    }
}

/// A piece of a device's memory; freed in the order of the streams that have used it.
struct Block {
    ordinal: u32,
    address: u64,
    held: Held,
}

impl Drop for Block {
    fn drop(&mut self) {
        // nothing in a forked child
        if let Ok(cuda) = Cuda::of(self.ordinal) {
            cuda.give_back(self.address, self.held.bytes() as usize);
        }
    }
}

/// Whether the device's driver could lock the pages of this host memory, which it then transfers directly.
pub fn pin(ordinal: u32, address: *mut u8, bytes: usize) -> bool {
    let Ok(cuda) = Cuda::of(ordinal) else { return false };
    let Ok(_entered) = cuda.enter() else { return false };
    // SAFETY: the caller owns the memory, and calls `unpin` before it is freed.
    unsafe { (cuda.driver.host_register)(address.cast(), bytes, api::CU_MEMHOSTREGISTER_PORTABLE) == SUCCESS }
}

/// Undoes `pin`.
pub fn unpin(ordinal: u32, address: *mut u8) {
    let Ok(cuda) = Cuda::of(ordinal) else { return };
    let Ok(_entered) = cuda.enter() else { return };
    // SAFETY: locked by `pin`; a status cannot be used here.
    unsafe { (cuda.driver.host_unregister)(address.cast()) };
}

impl Source for Cuda {
    fn take(&self, bytes: usize) -> Result<Option<u64>> {
        let mut bytes = bytes;
        let lane = self.lane();
        if let Some(size) = small(bytes).filter(|_| !self.pool.handle.is_null()) {
            if let Some(address) = lock(&lane.small)[size].pop() {
                self.note_write(address, lane);
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
                (self.driver.allocate_async)(&mut address, bytes, self.pool.handle, lane.queue())
            } else {
                (self.driver.allocate)(&mut address, bytes)
            }
        };
        if api::code(status) == Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            return Ok(None);
        }
        self.check(status, "cuMemAllocFromPoolAsync")?;
        self.note_write(address, lane);
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
        for lane in self.running_lanes() {
            for address in lock(&lane.small).iter_mut().flat_map(std::mem::take) {
                // SAFETY: from this pool, and in nobody's use.
                unsafe { (self.driver.free_async)(address, lane.queue()) };
            }
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
    /// A buffer of this many bytes, not initialised, aligned to 256.
    ///
    /// # Errors
    /// `Memory`, once all that `memory::obtain` tries has not helped.
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

    /// Frees memory that `obtain` gave for so many bytes, after what uses it.
    pub(crate) fn give_back(&self, address: u64, bytes: usize) {
        if self.pool.handle.is_null() {
            // SAFETY: from the driver, and freed once; the driver waits for what uses it.
            if let Ok(_entered) = self.enter() {
                unsafe { (self.driver.free)(address) };
            }
            return;
        }
        let lane = match self.mode() {
            0 => Ok(self.lane()),
            // a broken context, or one that is gone at exit, has freed everything itself
            _ => match self.enter().and_then(|_entered| self.last_lane(address)) {
                Ok(lane) => lane,
                Err(_) => return,
            },
        };
        let stream = match (lane, small(bytes)) {
            (Ok(lane), Some(size)) => {
                let kept = &mut lock(&lane.small)[size];
                if kept.len() < KEPT / (LEAST << size) {
                    return kept.push(address);
                }
                lane.queue()
            }
            (Ok(lane), None) => lane.queue(),
            (Err(stream), _) => stream,
        };
        let Ok(_entered) = self.enter() else { return };
        // SAFETY: the address came from this pool and is freed once.
        unsafe { (self.driver.free_async)(address, stream) };
    }

    /// Lets a pool that must grow do so by more than is asked for: the driver maps memory at some 0.6 ms a GB, and the
    /// results of a loop, which stay until R collects them, would each wait for it. The context must be current.
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

    /// How many buffers are alive.
    pub fn buffers(&self) -> u64 {
        memory::account(self.device()).buffers()
    }
}

/// Page-locked host memory that the device can read and write.
pub struct Host {
    pub host: *mut u8,
    /// Its address on the device.
    pub device: u64,
    driver: &'static Driver,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Host {}
// SAFETY: the fields are only read; who writes through the pointer must see to it.
unsafe impl Sync for Host {}

impl Host {
    /// Cleared memory. The context must be current.
    pub fn new(driver: &'static Driver, bytes: usize) -> Result<Host> {
        let mut host = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: writes an address; the memory is as long as asked for.
        unsafe {
            let flags = api::CU_MEMHOSTALLOC_PORTABLE | api::CU_MEMHOSTALLOC_DEVICEMAP;
            api::check(driver, (driver.host_allocate)(&mut host, bytes, flags), "cuMemHostAlloc")?;
            let status = (driver.host_address)(&mut device, host, 0);
            if let Err(error) = api::check(driver, status, "cuMemHostGetDevicePointer") {
                (driver.host_free)(host);
                return Err(error);
            }
            std::ptr::write_bytes(host.cast::<u8>(), 0, bytes);
        }
        Ok(Host { host: host.cast(), device, driver })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if at_home() {
            submit::settle();
            // SAFETY: allocated in `new`, freed once, with nothing queued that uses it; a status cannot be used here.
            unsafe { (self.driver.host_free)(self.host.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_are_kept_by_powers_of_two() {
        assert_eq!(
            [1, LEAST, LEAST + 1, SMALL, SMALL + 1].map(small),
            [Some(0), Some(0), Some(1), Some(SIZES - 1), None]
        );
        for bytes in [1, 255, 256, 257, 4096, 40_000, SMALL] {
            let size = small(bytes).unwrap();
            assert!(LEAST << size >= bytes && (size == 0 || LEAST << size < 2 * bytes));
        }
    }
}
