//! The driver's list of devices, without creating contexts, and whether this process may call the driver.

use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, Ordering};

use super::api::{self, CUdevice_attribute, CUresult};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::fork;

/// Properties of a device that are available without a context on it.
#[derive(Clone, Debug)]
pub struct Properties {
    pub ordinal: u32,
    pub name: String,
    /// Bytes of device memory.
    pub memory: u64,
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    /// Bytes of the L2 cache.
    pub cache: u32,
    /// Bytes of shared memory that a block may have after opting in.
    pub shared: u32,
    /// Whether the device shares its memory with the host.
    pub integrated: bool,
    /// Whether the device supports stream-ordered memory pools.
    pub pools: bool,
}

/// `fork::depth()` of the process that first used CUDA. Checked at every driver call.
static OWNER_FORK_DEPTH: AtomicU32 = AtomicU32::new(UNUSED);
const UNUSED: u32 = u32::MAX;

/// Whether this process may call the driver: not a child forked from one that has used it.
pub(crate) fn owns_cuda() -> bool {
    let owner = OWNER_FORK_DEPTH.load(Ordering::Relaxed);
    owner == UNUSED || owner == fork::depth()
}

/// Records that this process uses CUDA.
fn note_owner() {
    // a value that is already set stays
    _ = OWNER_FORK_DEPTH.compare_exchange(UNUSED, fork::watch(), Ordering::Relaxed, Ordering::Relaxed);
}

pub(crate) fn check_not_forked() -> Result<()> {
    if owns_cuda() {
        return Ok(());
    }
    Err(Error::new(Kind::Fork, "CUDA cannot be used in a process forked from one that has used it")
        .advise("Use a PSOCK cluster, future::plan(multisession) or mirai instead of mclapply().")
        .advise("Or move the data first: `as_gpu(x, device = \"cpu\")` arrays work in forked processes."))
}

/// How many CUDA devices there are.
///
/// # Errors
/// `Library` where there is no driver, `Fork` in a forked child.
pub fn count() -> Result<u32> {
    check_not_forked()?;
    let driver = api::driver()?;
    note_owner();
    let mut count = 0;
    // SAFETY: writes a number.
    let status = unsafe { (driver.device_count)(&mut count) };
    // this status means that there are no devices
    if api::code(status) == Some(CUresult::CUDA_ERROR_NO_DEVICE) {
        return Ok(0);
    }
    api::check(driver, status, "cuDeviceGetCount")?;
    Ok(count.max(0) as u32)
}

/// The newest CUDA version that the driver supports, as major and minor.
pub fn driver_version() -> Result<(u32, u32)> {
    check_not_forked()?;
    let driver = api::driver()?;
    let mut version = 0;
    // SAFETY: writes a number.
    api::check(driver, unsafe { (driver.driver_version)(&mut version) }, "cuDriverGetVersion")?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// The properties of a device. Creates no context.
///
/// # Errors
/// `Device` where there is no such device.
pub fn describe(ordinal: u32) -> Result<Properties> {
    let n = count()?;
    if ordinal >= n {
        return Err(no_device(ordinal, n));
    }
    let driver = api::driver()?;
    let mut device = 0;
    let mut name = [0 as c_char; 256];
    let mut memory = 0usize;
    // SAFETY: each writes to memory of the size it is told.
    unsafe {
        api::check(driver, (driver.device_get)(&mut device, ordinal as i32), "cuDeviceGet")?;
        api::check(driver, (driver.device_name)(name.as_mut_ptr(), 255, device), "cuDeviceGetName")?;
        api::check(driver, (driver.device_memory)(&mut memory, device), "cuDeviceTotalMem")?;
    }
    let get = |attribute: CUdevice_attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: writes a number.
        let status = unsafe { (driver.device_attribute)(&mut value, attribute, device) };
        api::check(driver, status, "cuDeviceGetAttribute")?;
        Ok(value.max(0) as u32)
    };
    Ok(Properties {
        ordinal,
        name: name.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect(),
        memory: memory as u64,
        capability: (
            get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1),
        cache: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        shared: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        integrated: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
        pools: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
    })
}

pub(crate) fn no_device(ordinal: u32, count: u32) -> Error {
    let message = match count {
        0 => "there is no CUDA device".to_string(),
        1 => format!("there is no device cuda:{ordinal}: the only one is cuda:0"),
        _ => format!("there is no device cuda:{ordinal}: they are cuda:0 to cuda:{}", count - 1),
    };
    Error::new(Kind::Device, message).advise("`gpu_sitrep()` shows what was found.")
}
