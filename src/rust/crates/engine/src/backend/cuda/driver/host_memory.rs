//! Page-locked host memory.

use super::api::{self, Check, Driver};
use super::devices::owns_cuda;
use super::submitted::flush;
use verdigris_ops::error::Result;

/// An allocation of page-locked host memory that the device can read and write.
pub struct Host {
    pub host: *mut u8,
    /// The address by which the device accesses it.
    pub device: u64,
    driver: &'static Driver,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Host {}
// SAFETY: the fields are only read; writers through the pointer synchronise among themselves.
unsafe impl Sync for Host {}

impl Host {
    /// Allocates memory filled with zeros. The context must be current.
    pub fn new(driver: &'static Driver, check: Check<'_>, bytes: usize) -> Result<Host> {
        let mut host = std::ptr::null_mut();
        let mut device = 0;
        // SAFETY: writes an address; the memory is as long as asked for.
        unsafe {
            let flags = api::CU_MEMHOSTALLOC_PORTABLE | api::CU_MEMHOSTALLOC_DEVICEMAP;
            check((driver.host_allocate)(&mut host, bytes, flags), "cuMemHostAlloc")?;
            let status = (driver.host_address)(&mut device, host, 0);
            if let Err(error) = check(status, "cuMemHostGetDevicePointer") {
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
        if owns_cuda() {
            flush();
            // SAFETY: allocated in `new`, freed once, with nothing queued that uses it; a status cannot be used here.
            unsafe { (self.driver.host_free)(self.host.cast()) };
        }
    }
}
