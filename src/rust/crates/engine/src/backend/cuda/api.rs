//! The functions of the CUDA driver and of NVRTC, declared so that any status they give is a plain number.
//!
//! cudarc's own declarations return Rust enums, and a code that the enum does not know would be
//! undefined behaviour. Handles are `usize`, device addresses `u64`: the same registers, and they
//! may cross threads. The libraries stay loaded until the process ends.

use std::ffi::{c_char, c_void, CStr};
use std::sync::OnceLock;

use super::library;
use crate::error::{Error, Kind, Result};

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $symbol:ident($($argument:ty),* $(,)?);)* }) => {
        $(#[$doc])*
        pub struct $table { $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)* }

        impl $table {
            /// # Safety
            /// The library must be the one whose header declares these functions.
            unsafe fn find(library: &libloading::Library, name: &str) -> Result<$table> {
                Ok($table { $(
                    // SAFETY: the caller's promise; the declarations follow the header.
                    $field: unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> u32>(
                        concat!(stringify!($symbol), "\0").as_bytes()) }
                        .map(|symbol| *symbol)
                        .map_err(|_| missing(name, stringify!($symbol)))?,
                )* })
            }
        }
    };
}

fn missing(library: &str, symbol: &str) -> Error {
    Error::new(Kind::Library, format!("{library} has no function `{symbol}`: it is too old"))
        .advise("Install an NVIDIA driver that serves CUDA 12 or later.")
}

functions! {
    /// `libcuda`.
    Driver {
        error_name = cuGetErrorName(u32, *mut *const c_char);
        error_string = cuGetErrorString(u32, *mut *const c_char);
        init = cuInit(u32);
        driver_version = cuDriverGetVersion(*mut i32);
        device_count = cuDeviceGetCount(*mut i32);
        device_get = cuDeviceGet(*mut i32, i32);
        device_name = cuDeviceGetName(*mut c_char, i32, i32);
        device_memory = cuDeviceTotalMem_v2(*mut usize, i32);
        device_attribute = cuDeviceGetAttribute(*mut i32, i32, i32);
        context_retain = cuDevicePrimaryCtxRetain(*mut usize, i32);
        context_get = cuCtxGetCurrent(*mut usize);
        context_set = cuCtxSetCurrent(usize);
        stream_create = cuStreamCreate(*mut usize, u32);
        stream_synchronize = cuStreamSynchronize(usize);
        stream_query = cuStreamQuery(usize);
        stream_wait = cuStreamWaitEvent(usize, usize, u32);
        event_create = cuEventCreate(*mut usize, u32);
        event_destroy = cuEventDestroy_v2(usize);
        event_record = cuEventRecord(usize, usize);
        event_synchronize = cuEventSynchronize(usize);
        event_elapsed = cuEventElapsedTime(*mut f32, usize, usize);
        pool_create = cuMemPoolCreate(*mut usize, *const PoolProperties);
        pool_set = cuMemPoolSetAttribute(usize, i32, *mut c_void);
        pool_get = cuMemPoolGetAttribute(usize, i32, *mut c_void);
        pool_trim = cuMemPoolTrimTo(usize, usize);
        allocate_async = cuMemAllocFromPoolAsync(*mut u64, usize, usize, usize);
        free_async = cuMemFreeAsync(u64, usize);
        allocate = cuMemAlloc_v2(*mut u64, usize);
        free = cuMemFree_v2(u64);
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
        host_allocate = cuMemHostAlloc(*mut *mut c_void, usize, u32);
        host_free = cuMemFreeHost(*mut c_void);
        host_register = cuMemHostRegister_v2(*mut c_void, usize, u32);
        host_unregister = cuMemHostUnregister(*mut c_void);
        host_address = cuMemHostGetDevicePointer_v2(*mut u64, *mut c_void, u32);
        pointer_attribute = cuPointerGetAttribute(*mut c_void, i32, u64);
        upload_async = cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, usize);
        download_async = cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, usize);
        copy_async = cuMemcpyDtoDAsync_v2(u64, u64, usize, usize);
        set_async = cuMemsetD8Async(u64, u8, usize, usize);
        module_load = cuModuleLoadData(*mut usize, *const c_void);
        module_unload = cuModuleUnload(usize);
        module_function = cuModuleGetFunction(*mut usize, usize, *const c_char);
        function_attribute = cuFuncGetAttribute(*mut i32, i32, usize);
        function_set = cuFuncSetAttribute(usize, i32, i32);
        occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut i32, usize, i32, usize);
        launch = cuLaunchKernel(usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void);
    }
}

functions! {
    /// `libnvrtc`.
    Nvrtc {
        version = nvrtcVersion(*mut i32, *mut i32);
        arch_count = nvrtcGetNumSupportedArchs(*mut i32);
        archs = nvrtcGetSupportedArchs(*mut i32);
        create = nvrtcCreateProgram(*mut usize, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char);
        destroy = nvrtcDestroyProgram(*mut usize);
        compile = nvrtcCompileProgram(usize, i32, *const *const c_char);
        cubin_size = nvrtcGetCUBINSize(usize, *mut usize);
        cubin = nvrtcGetCUBIN(usize, *mut u8);
        ptx_size = nvrtcGetPTXSize(usize, *mut usize);
        ptx = nvrtcGetPTX(usize, *mut u8);
        log_size = nvrtcGetProgramLogSize(usize, *mut usize);
        log = nvrtcGetProgramLog(usize, *mut u8);
    }
}

/// `CUmemPoolProps`.
#[repr(C)]
pub struct PoolProperties {
    /// 1: pinned (that is, not managed) device memory.
    pub allocation: i32,
    pub handles: i32,
    /// 1: a device.
    pub location: i32,
    pub ordinal: i32,
    pub security: usize,
    pub rest: [u64; 8],
}

// Attributes and flags, from cuda.h.
pub const DEVICE_MAX_SHARED: i32 = 97; // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
pub const DEVICE_SMS: i32 = 16;
pub const DEVICE_MAJOR: i32 = 75;
pub const DEVICE_MINOR: i32 = 76;
pub const DEVICE_L2: i32 = 38;
pub const DEVICE_INTEGRATED: i32 = 18;
pub const DEVICE_POOLS: i32 = 115;
pub const POOL_RELEASE_THRESHOLD: i32 = 4;
pub const POOL_RESERVED: i32 = 5;
pub const POOL_USED: i32 = 7;
pub const FUNCTION_MAX_THREADS: i32 = 0;
pub const FUNCTION_SHARED: i32 = 1;
pub const FUNCTION_LOCAL: i32 = 3;
pub const FUNCTION_REGISTERS: i32 = 4;
pub const FUNCTION_MAX_DYNAMIC_SHARED: i32 = 8;
pub const STREAM_NON_BLOCKING: u32 = 1;
pub const EVENT_NO_TIMING: u32 = 2;
pub const HOST_PORTABLE: u32 = 1;
pub const HOST_MAPPED: u32 = 2;
pub const OUT_OF_MEMORY: u32 = 2;

/// The driver's functions, with `cuInit` done.
///
/// # Errors
/// `Library` where there is no driver, with what `library` found out.
pub fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    library::driver()?;
    let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    // SAFETY: the probe has just loaded this library without harm.
    let loaded = unsafe { libloading::Library::new(name) }
        .map_err(|e| Error::new(Kind::Library, format!("{name} cannot be loaded: {e}")))?;
    // SAFETY: this is the driver.
    let table = unsafe { Driver::find(&loaded, name) }?;
    std::mem::forget(loaded);
    // SAFETY: takes a number.
    check(&table, unsafe { (table.init)(0) }, "cuInit")?;
    Ok(DRIVER.get_or_init(|| table))
}

/// NVRTC's functions.
///
/// # Errors
/// `Library` where it is not found.
pub fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    if let Some(nvrtc) = NVRTC.get() {
        return Ok(nvrtc);
    }
    let path = &library::load(library::Library::Nvrtc)?.path;
    // SAFETY: `library` has loaded this file without harm.
    let loaded = unsafe { libloading::Library::new(path) }
        .map_err(|e| Error::new(Kind::Library, format!("{} cannot be loaded: {e}", path.display())))?;
    // SAFETY: this is NVRTC.
    let table = unsafe { Nvrtc::find(&loaded, &path.to_string_lossy()) }?;
    std::mem::forget(loaded);
    Ok(NVRTC.get_or_init(|| table))
}

/// What a status code is called and what the driver says of it.
pub fn describe(driver: &Driver, status: u32) -> String {
    let text = |f: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
        let mut at: *const c_char = std::ptr::null();
        // SAFETY: gives null or a string that lives as long as the driver.
        unsafe {
            if f(status, &mut at) != 0 || at.is_null() {
                return None;
            }
            Some(CStr::from_ptr(at).to_string_lossy().into_owned())
        }
    };
    match (text(driver.error_name), text(driver.error_string)) {
        (Some(name), Some(sentence)) => format!("{name} ({status}): {sentence}"),
        (Some(name), None) => format!("{name} ({status})"),
        _ => format!("code {status}"),
    }
}

/// Whether no call on this context can succeed after the status.
pub fn is_sticky(status: u32) -> bool {
    // ECC and NVLink failures, faults of kernels (illegal address, timeout, assert, stack, instruction,
    // alignment, address space, program counter, launch failed, tensor leak), and a destroyed context
    matches!(status, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
}

/// # Errors
/// An error of the fitting kind, naming the function, where the status is not success.
pub fn check(driver: &Driver, status: u32, function: &str) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let kind = match status {
        2 => Kind::Memory,
        3 | 4 | 34 | 46 | 100..=103 | 803 | 804 => Kind::Device,
        200 | 209 | 218 | 221..=223 => Kind::Compile,
        300..=304 => Kind::Library,
        _ => Kind::Launch,
    };
    Err(Error::new(kind, format!("`{function}` failed: {}", describe(driver, status))))
}
