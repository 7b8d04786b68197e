//! Devices by name, the current device, and the options that the CUDA backend gets before a device is used.

use std::sync::Mutex;

use verdigris_engine::backend;
use verdigris_engine::device as devices;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::error::Result;

use crate::r::options;

/// Folders to search for CUDA's libraries, set when the package is loaded: those of R packages such as `cuda12.8`, and
/// those of torch.
static FOLDERS: Mutex<(Vec<String>, Vec<String>)> = Mutex::new((Vec::new(), Vec::new()));

/// Sets these folders.
pub fn set_folders(packages: Vec<String>, torch: Vec<String>) {
    *FOLDERS.lock().unwrap_or_else(|p| p.into_inner()) = (packages, torch);
}

/// Passes option `verdigris.cuda_path` and the folders to the CUDA backend.
///
/// # Errors
/// `Argument` for an invalid value of this option, or of an option that is read once.
#[cfg(not(target_os = "macos"))]
pub fn refresh_paths() -> Result<()> {
    use verdigris_engine::backend::cuda::driver::library::{set_search_paths, SearchPaths};
    options::start()?;
    let paths = |list: &[String]| list.iter().map(Into::into).collect();
    // read the option before taking the lock: R may run code
    let option = options::paths(c"verdigris.cuda_path")?;
    let folders = FOLDERS.lock().unwrap_or_else(|p| p.into_inner());
    set_search_paths(SearchPaths { option, packages: paths(&folders.0), torch: paths(&folders.1) });
    Ok(())
}

#[cfg(target_os = "macos")]
pub fn refresh_paths() -> Result<()> {
    Ok(())
}

/// Passes on option `verdigris.debug`, whether each launch is checked at once.
#[cfg(not(target_os = "macos"))]
pub fn refresh_debug() -> Result<()> {
    verdigris_engine::backend::cuda::context::core::check_launches(options::flag(c"verdigris.debug")?);
    Ok(())
}

#[cfg(target_os = "macos")]
pub fn refresh_debug() -> Result<()> {
    Ok(())
}

/// The device of this name.
pub fn named(name: &str) -> Result<Device> {
    let device = devices::parse(name)?;
    if device != Device::Cpu {
        refresh_paths()?;
    }
    Ok(device)
}

/// The device of new arrays: the choice of `gpu_use()`, else option `verdigris.device`, else the default.
pub fn current() -> Result<Device> {
    if let Some(device) = devices::choice() {
        return Ok(device);
    }
    if let Some(name) = options::string(c"verdigris.device", "the name of a device")? {
        let advice = "Option `verdigris.device` names it; `options(verdigris.device = NULL)` restores the default.";
        return named(name).map_err(|error| error.advise(advice));
    }
    refresh_paths()?;
    Ok(devices::default())
}

/// Whether a CUDA graph is being captured on the device's current stream. Nothing may wait for that stream then.
///
/// # Errors
/// Those of starting the device.
pub fn is_capturing(device: Device) -> Result<bool> {
    Ok(backend::of(device)?.streams().is_some_and(|streams| streams.is_capturing()))
}
