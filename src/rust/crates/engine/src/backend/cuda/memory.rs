//! Device memory from a stream-ordered pool, and page-locked host memory.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use super::api::{self, CUmemPool_attribute, CUresult, Driver, MemoryPool, SUCCESS};
use super::device::{at_home, Cuda, Properties};
use crate::backend::Memory;
use crate::buffer::Buffer;
use crate::counters;
use crate::error::{Error, Kind, Result};

/// A device's pool. It keeps what is freed until it is trimmed.
pub struct Pool {
    /// Null where the device has none and memory is taken from the driver directly.
    handle: MemoryPool,
    live: AtomicU64,
    buffers: AtomicU64,
}

impl Pool {
    /// The context must be current.
    pub(super) fn new(driver: &'static Driver, properties: &Properties) -> Result<Pool> {
        let mut handle = MemoryPool::NULL;
        if properties.pools {
            let wanted = api::pool_properties(properties.ordinal);
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let mut threshold = u64::MAX;
            // SAFETY: the struct is as cuda.h declares it, and the attribute 64 bits wide.
            unsafe {
                api::check(driver, (driver.pool_create)(&mut handle, &wanted), "cuMemPoolCreate")?;
                let status = (driver.pool_set)(handle, attribute, (&raw mut threshold).cast());
                api::check(driver, status, "cuMemPoolSetAttribute")?;
            }
        }
        Ok(Pool { handle, live: AtomicU64::new(0), buffers: AtomicU64::new(0) })
    }
}

/// A piece of a device's memory; freed in the stream's order.
struct Block {
    ordinal: u32,
    address: u64,
    bytes: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        // nothing in a forked child
        let Ok(cuda) = Cuda::of(self.ordinal) else { return };
        cuda.pool.live.fetch_sub(self.bytes, Ordering::Relaxed);
        cuda.pool.buffers.fetch_sub(1, Ordering::Relaxed);
        // a broken context, or one that is gone at exit, has freed everything itself
        let Ok(_entered) = cuda.enter() else { return };
        // SAFETY: the address came from this pool and is freed once.
        unsafe {
            if !cuda.pool.handle.is_null() {
                (cuda.driver.free_async)(self.address, cuda.stream);
            } else {
                (cuda.driver.free)(self.address);
            }
        }
    }
}

/// What may free device memory when it runs out: the bridge lets R collect its garbage. Called
/// without locks held, on the thread that asked for memory.
pub type PressureHook = fn();
static PRESSURE: AtomicUsize = AtomicUsize::new(0);

pub fn set_pressure_hook(hook: Option<PressureHook>) {
    PRESSURE.store(hook.map_or(0, |f| f as usize), Ordering::Release);
}

fn relieve() {
    let hook = PRESSURE.load(Ordering::Acquire);
    if hook != 0 {
        // SAFETY: only `set_pressure_hook` stores here, and it stores a function of this type.
        let hook: PressureHook = unsafe { std::mem::transmute::<usize, PressureHook>(hook) };
        hook();
    }
}

/// Bytes as people read them.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{value:.3} {}", UNITS[unit]).replace(".000", "")
    }
}

impl Cuda {
    /// A buffer of this many bytes, not initialised, aligned to 256.
    ///
    /// # Errors
    /// `Memory`, once waiting, trimming and the pressure hook have not helped.
    pub fn allocate(&self, bytes: usize) -> Result<Arc<Buffer>> {
        if bytes == 0 {
            return Ok(Arc::new(Buffer::new(self.device(), 0, 0, Box::new(()))));
        }
        let address = self.find_room(bytes)?;
        let before = self.pool.live.fetch_add(bytes as u64, Ordering::Relaxed);
        counters::note_live(before + bytes as u64);
        self.pool.buffers.fetch_add(1, Ordering::Relaxed);
        let block = Block { ordinal: self.properties.ordinal, address, bytes: bytes as u64 };
        Ok(Arc::new(Buffer::new(self.device(), address, bytes, Box::new(block))))
    }

    fn find_room(&self, bytes: usize) -> Result<u64> {
        for step in 0..4 {
            match step {
                0 => {}
                // what the stream has yet to free
                1 => self.wait()?,
                2 => relieve(),
                // pieces that are too small, or that another pool could use
                _ => {
                    self.wait()?;
                    self.trim()?;
                }
            }
            let _entered = self.enter()?;
            let mut address = 0;
            // SAFETY: writes an address.
            let status = unsafe {
                if !self.pool.handle.is_null() {
                    (self.driver.allocate_async)(&mut address, bytes, self.pool.handle, self.stream)
                } else {
                    (self.driver.allocate)(&mut address, bytes)
                }
            };
            if status == SUCCESS {
                return Ok(address);
            }
            if api::code(status) != Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
                self.check(status, "cuMemAllocFromPoolAsync")?;
            }
        }
        let memory = self.memory()?;
        Err(Error::new(
            Kind::Memory,
            format!(
                "device {} has no room for {}: {} of {} are free, arrays hold {}, the pool keeps {}",
                self.device(),
                human(bytes as u64),
                human(memory.free),
                human(memory.total),
                human(memory.live),
                human(memory.cached)
            ),
        )
        .advise("Free arrays with `rm()` and `gc()`, or `gpu_free(x)`; `gpu_memory()` shows what is held.")
        .advise("Or compute in float32 (`dtype = \"float32\"`), or in pieces."))
    }

    fn pool_attribute(&self, attribute: CUmemPool_attribute) -> Result<u64> {
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
        let live = self.pool.live.load(Ordering::Relaxed);
        let cached = if self.pool.handle.is_null() {
            0
        } else {
            let reserved = self.pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
            reserved.saturating_sub(self.pool_attribute(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?)
        };
        Ok(Memory { live, cached, free: free as u64, total: total as u64 })
    }

    /// How many buffers are alive.
    pub fn buffers(&self) -> u64 {
        self.pool.buffers.load(Ordering::Relaxed)
    }

    /// Gives what the pool keeps back to the system.
    pub fn trim(&self) -> Result<()> {
        let _entered = self.enter()?;
        if self.pool.handle.is_null() {
            return Ok(());
        }
        // SAFETY: our pool.
        self.check(unsafe { (self.driver.pool_trim)(self.pool.handle, 0) }, "cuMemPoolTrimTo")
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
            // SAFETY: allocated in `new`, freed once; a status cannot be used here.
            unsafe { (self.driver.host_free)(self.host.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_read_well() {
        assert_eq!(human(12), "12 bytes");
        assert_eq!(human(80_000_000_000), "80 GB");
        assert_eq!(human(1_234_567), "1.235 MB");
    }
}
