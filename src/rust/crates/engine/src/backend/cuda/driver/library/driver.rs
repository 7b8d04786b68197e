//! Loads and checks the driver's library before any other CUDA library: whether there is a driver, its CUDA version,
//! and its devices.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUresult};

use super::handle::{lacks, Handle};
use crate::backend::cuda::driver::status::{self, SUCCESS};
use verdigris_ops::error::{Error, Kind, Result};

/// The oldest CUDA version of a supported driver.
pub const OLDEST: (u32, u32) = (12, 0);

/// A working driver with at least one device.
pub struct Driver {
    pub path: PathBuf,
    /// The newest CUDA version that the driver supports.
    pub version: (u32, u32),
    /// The driver's own version, such as `580.95.05`, if the system reports it.
    pub release: Option<String>,
    /// The number of visible devices.
    pub devices: u32,
    handle: Handle,
}

/// Properties of a device that are available without a context on it.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceInfo {
    pub ordinal: u32,
    pub name: String,
    /// Total bytes of device memory.
    pub memory: u64,
    pub capability: (u32, u32),
    pub multiprocessors: u32,
}

type Init = unsafe extern "C" fn(u32) -> u32;
type GetInt = unsafe extern "C" fn(*mut c_int) -> u32;
type DeviceGet = unsafe extern "C" fn(*mut CUdevice, c_int) -> u32;
type DeviceName = unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> u32;
type DeviceMemory = unsafe extern "C" fn(*mut usize, CUdevice) -> u32;
type DeviceAttribute = unsafe extern "C" fn(*mut c_int, CUdevice_attribute, CUdevice) -> u32;

/// Paths where the driver's library may be: first the bare name, which the loader resolves, then folders that the
/// loader may not search.
pub fn candidates() -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) {
        &["nvcuda.dll"]
    } else {
        &[
            "libcuda.so.1",
            "/usr/lib/wsl/lib/libcuda.so.1",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
            "/usr/lib64/libcuda.so.1",
            "/usr/lib64/nvidia/libcuda.so.1",
            "/run/opengl-driver/lib/libcuda.so.1",
        ]
    };
    names.iter().map(PathBuf::from).collect()
}

/// Loads the first library that can be loaded, and checks it.
///
/// # Errors
/// `Library` where there is no driver or it is broken or too old, `Device` where it shows no device.
pub fn probe(candidates: &[PathBuf]) -> Result<Driver> {
    let mut tried = Vec::new();
    let mut broken = None;
    for path in candidates {
        match Handle::open(path) {
            Ok(handle) => return ask(handle, path.clone()),
            Err(failure) => {
                // for a bare name the reason already contains the files
                let known = !failure.absent && path.components().count() == 1;
                let prefix = if known { String::new() } else { format!("{}: ", path.display()) };
                tried.push(format!("{prefix}{}", failure.reason));
                if !failure.absent && broken.is_none() {
                    broken = tried.last().cloned();
                }
            }
        }
    }
    let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    let error = match broken {
        Some(reason) => Error::new(Kind::Library, format!("{BROKEN}: {reason}")).advise(
            "Reinstall the NVIDIA driver, or remove the folder of this file from LD_LIBRARY_PATH, then restart R.",
        ),
        None => Error::new(Kind::Library, format!("cannot load the NVIDIA driver's library {name}"))
            .advise(install_advice()),
    };
    Err(error.detail(tried.join("\n")))
}

/// The beginning of the message for a driver library that exists but cannot be loaded.
const BROKEN: &str = "the NVIDIA driver's library cannot be loaded";

/// Whether the error is that a driver library exists but cannot be loaded.
pub fn is_broken(error: &Error) -> bool {
    error.message.starts_with(BROKEN)
}

fn ask(handle: Handle, path: PathBuf) -> Result<Driver> {
    let path = handle.path("cuInit").unwrap_or(path);
    let missing = |name| lacks(&path, name).advise(install_advice());
    // SAFETY: the signatures are those of cuda.h, with the status as the number that it is.
    let (init, version, count) = unsafe {
        (
            handle.function::<Init>("cuInit").ok_or_else(|| missing("cuInit"))?,
            handle.function::<GetInt>("cuDriverGetVersion").ok_or_else(|| missing("cuDriverGetVersion"))?,
            handle.function::<GetInt>("cuDeviceGetCount").ok_or_else(|| missing("cuDeviceGetCount"))?,
        )
    };
    // the version is checked first: it needs no cuInit, and for an old driver gives a better message than
    // "initialisation failed"
    let mut number: c_int = 0;
    // SAFETY: the function writes one int.
    let code = unsafe { version(&mut number) };
    let version = (number.max(0) as u32 / 1000, number.max(0) as u32 % 1000 / 10);
    if code == SUCCESS && version < OLDEST {
        return Err(Error::new(
            Kind::Library,
            format!(
                "the NVIDIA driver supports CUDA {}.{}; CUDA {}.{} or later is needed",
                version.0, version.1, OLDEST.0, OLDEST.1
            ),
        )
        .advise("Update the NVIDIA driver to 525 or later: <https://www.nvidia.com/drivers>."));
    }
    // SAFETY: 0 is the only flag there is.
    let code = match unsafe { init(0) } {
        SUCCESS => code,
        code => code.max(1),
    };
    if code != SUCCESS {
        return Err(status_error(&handle, "cuInit", code));
    }
    let mut devices: c_int = 0;
    // SAFETY: the function writes one int.
    match unsafe { count(&mut devices) } {
        SUCCESS if devices > 0 => {}
        SUCCESS => return Err(status_error(&handle, "cuDeviceGetCount", CUresult::CUDA_ERROR_NO_DEVICE as u32)),
        code => return Err(status_error(&handle, "cuDeviceGetCount", code)),
    }
    Ok(Driver { path, version, release: release(), devices: devices as u32, handle })
}

impl Driver {
    /// A function of the driver's library.
    ///
    /// # Safety
    /// As for `Handle::function`.
    ///
    /// # Errors
    /// `Library` where this driver has no such function.
    pub unsafe fn symbol<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        unsafe { self.handle.function(name) }.ok_or_else(|| {
            lacks(&self.path, name).advise("Update the NVIDIA driver: <https://www.nvidia.com/drivers>.")
        })
    }

    /// The meaning of a status code, by the driver's own text if it knows the code.
    pub fn explain(&self, code: u32) -> String {
        explain(&self.handle, code)
    }

    /// The properties of a device. Creates no context.
    ///
    /// # Errors
    /// `Device` where there is no device of this number.
    pub fn device(&self, ordinal: u32) -> Result<DeviceInfo> {
        if ordinal >= self.devices {
            let have = if self.devices == 1 {
                "there is one device, `cuda:0`".into()
            } else {
                format!("there are {} devices, `cuda:0` to `cuda:{}`", self.devices, self.devices - 1)
            };
            return Err(Error::new(Kind::Device, format!("there is no device `cuda:{ordinal}`: {have}"))
                .advise("`gpu_devices()` lists the devices."));
        }
        // SAFETY: the signatures are those of cuda.h.
        let (get, name, memory, attribute) = unsafe {
            (
                self.symbol::<DeviceGet>("cuDeviceGet")?,
                self.symbol::<DeviceName>("cuDeviceGetName")?,
                self.symbol::<DeviceMemory>("cuDeviceTotalMem_v2")?,
                self.symbol::<DeviceAttribute>("cuDeviceGetAttribute")?,
            )
        };
        let check = |function: &str, code: u32| match code {
            0 => Ok(()),
            code => Err(status_error(&self.handle, function, code)),
        };
        let mut device: c_int = 0;
        let mut text = [0u8; 256];
        let mut bytes: usize = 0;
        let wanted = [
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        ];
        let mut facts: [c_int; 3] = [0; 3];
        // SAFETY: each function writes one value where it is told, the name no more than it is told.
        unsafe {
            check("cuDeviceGet", get(&mut device, ordinal as c_int))?;
            check("cuDeviceGetName", name(text.as_mut_ptr().cast(), text.len() as c_int - 1, device))?;
            check("cuDeviceTotalMem", memory(&mut bytes, device))?;
            for (fact, which) in facts.iter_mut().zip(wanted) {
                check("cuDeviceGetAttribute", attribute(fact, which, device))?;
            }
        }
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Ok(DeviceInfo {
            ordinal,
            name: String::from_utf8_lossy(&text[..end]).into_owned(),
            memory: bytes as u64,
            capability: (facts[0] as u32, facts[1] as u32),
            multiprocessors: facts[2] as u32,
        })
    }
}

/// The driver's name and text of a code: `CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected (100)`.
fn explain(handle: &Handle, code: u32) -> String {
    type Text = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
    let ask = |function: &str| {
        // SAFETY: the signature of cuGetErrorName and cuGetErrorString; they give static text or null.
        unsafe {
            let text: Text = handle.function(function)?;
            let mut at: *const c_char = std::ptr::null();
            if text(code, &mut at) != SUCCESS || at.is_null() {
                return None;
            }
            Some(std::ffi::CStr::from_ptr(at).to_string_lossy().into_owned())
        }
    };
    match (ask("cuGetErrorName"), ask("cuGetErrorString")) {
        (Some(name), Some(text)) => format!("{name}, {text} ({code})"),
        (Some(name), None) => format!("{name} ({code})"),
        _ => format!("CUDA error {code}"),
    }
}

fn status_error(handle: &Handle, function: &str, code: u32) -> Error {
    let text = explain(handle, code);
    let error = |kind, message: &str| Error::new(kind, format!("{message}: `{function}` says {text}"));
    let mismatch = || {
        error(Kind::Library, "the NVIDIA driver's library and its kernel module do not match")
            .advise("Restart the machine, or reinstall the driver: <https://www.nvidia.com/drivers>.")
    };
    match status::code(code) {
        Some(CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_INVALID_DEVICE) => {
            let error = error(Kind::Device, "the NVIDIA driver shows no device");
            match std::env::var("CUDA_VISIBLE_DEVICES") {
                Ok(shown) => error.advise(format!(
                    "CUDA_VISIBLE_DEVICES is \"{shown}\" and may hide the devices: `Sys.unsetenv(\"CUDA_VISIBLE_DEVICES\")` in a fresh R session."
                )),
                Err(_) => error.advise("Check what the driver sees: `nvidia-smi`. In a container, start it with `--gpus all`."),
            }
        }
        Some(CUresult::CUDA_ERROR_NOT_INITIALIZED | CUresult::CUDA_ERROR_DEINITIALIZED) => {
            error(Kind::Fork, "CUDA cannot be used in this process, which may be a forked child").advise(
                "Initialise CUDA in each process separately: use a PSOCK cluster, mirai or callr instead of a fork.",
            )
        }
        Some(CUresult::CUDA_ERROR_STUB_LIBRARY) => {
            error(Kind::Library, "a stub of the driver's library was loaded, which is for linking only")
                .advise("Remove the toolkit's `stubs` folder from LD_LIBRARY_PATH.")
        }
        Some(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) => mismatch(),
        // 35 is not a code of the driver API, but the runtime's cudaErrorInsufficientDriver
        None if code == 35 => mismatch(),
        Some(CUresult::CUDA_ERROR_SYSTEM_NOT_READY) => error(Kind::Device, "the system is not ready for CUDA")
            .advise("Start the fabric manager: `sudo systemctl start nvidia-fabricmanager`."),
        _ => error(Kind::Device, "CUDA cannot be initialised").advise("Check what the driver sees: `nvidia-smi`."),
    }
}

/// The driver's own version, read without loading CUDA.
pub fn release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let line = text.lines().find(|line| line.contains("NVRM"))?;
    line.split_whitespace()
        .find(|word| word.split('.').count() >= 2 && word.split('.').all(|p| p.parse::<u32>().is_ok()))
        .map(str::to_string)
}

/// Whether the system seems to have an NVIDIA GPU. Loads nothing, so that a process that only attaches the package can
/// still fork.
pub fn hardware() -> bool {
    [
        "/proc/driver/nvidia/version",
        "/dev/nvidiactl",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "C:\\Windows\\System32\\nvcuda.dll",
    ]
    .iter()
    .any(|path| std::path::Path::new(path).exists())
}

fn install_advice() -> String {
    if cfg!(windows) {
        "Install the NVIDIA driver, then restart R: <https://www.nvidia.com/drivers>.".into()
    } else if hardware() {
        "The kernel module is there; install the driver's CUDA library: `sudo apt install libcuda1` (Debian), \
         `libnvidia-compute-<version>` (Ubuntu), `nvidia-driver-cuda-libs` (Fedora)."
            .into()
    } else {
        "If the machine has an NVIDIA GPU, install its driver: `sudo ubuntu-drivers install` (Ubuntu), \
         `sudo apt install nvidia-driver` (Debian). Without one, use `device = \"cpu\"`."
            .into()
    }
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs tests/windows/nvcuda.c as nvcuda.dll on the path: `make windows`"]
    fn a_driver_without_devices_is_found_and_asked() {
        let library = Handle::open(&candidates()[0]).map_err(|failure| failure.reason).unwrap();
        let file = library.path("cuInit").expect("the system knows the file of a function");
        assert!(file.is_absolute() && file.ends_with("nvcuda.dll"), "{}", file.display());
        let error = probe(&candidates()).err().expect("it shows no device");
        assert_eq!(error.kind, Kind::Device, "{error}");
    }
}
