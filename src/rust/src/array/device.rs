//! Devices by name, the current device, and the options passed to CUDA before a device is used.

use std::sync::Mutex;

use verdigris_engine::backend;
use verdigris_engine::device as devices;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::error::Result;

use crate::r::options;

/// Folders that R told when the package was loaded: those of the `cuda12.8`-like packages, and torch's.
static FOLDERS: Mutex<(Vec<String>, Vec<String>)> = Mutex::new((Vec::new(), Vec::new()));

/// Remembers them.
pub fn set_folders(packages: Vec<String>, torch: Vec<String>) {
    *FOLDERS.lock().unwrap_or_else(|p| p.into_inner()) = (packages, torch);
}

/// Passes on the option that says where CUDA's libraries are.
///
/// # Errors
/// `Argument` for an invalid value of this option, or of an option that is read once.
#[cfg(not(target_os = "macos"))]
pub fn refresh_paths() -> Result<()> {
    use verdigris_engine::backend::cuda::driver::library::{set_search_paths, SearchPaths};
    options::start()?;
    let paths = |list: &[String]| list.iter().map(Into::into).collect();
    // R is asked before anything is locked
    let option = options::paths(c"verdigris.cuda_path")?;
    let folders = FOLDERS.lock().unwrap_or_else(|p| p.into_inner());
    set_search_paths(SearchPaths { option, packages: paths(&folders.0), torch: paths(&folders.1) });
    Ok(())
}

#[cfg(target_os = "macos")]
pub fn refresh_paths() -> Result<()> {
    Ok(())
}

/// Hands on whether each launch is to be checked at once, the option as it is now.
#[cfg(not(target_os = "macos"))]
pub fn refresh_debug() -> Result<()> {
    verdigris_engine::backend::cuda::context::core::check_launches(options::flag(c"verdigris.debug")?);
    Ok(())
}

#[cfg(target_os = "macos")]
pub fn refresh_debug() -> Result<()> {
    Ok(())
}

/// A device by name.
pub fn named(name: &str) -> Result<Device> {
    let device = devices::parse(name)?;
    if device != Device::Cpu {
        refresh_paths()?;
    }
    Ok(device)
}

/// Where arrays go that name no device: the choice of `gpu_use()`, else option `verdigris.device`, else the default.
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

/// Whether a graph is recorded on the device's current stream, which nothing may wait for.
///
/// # Errors
/// Those of starting the device.
pub fn is_capturing(device: Device) -> Result<bool> {
    Ok(backend::of(device)?.streams().is_some_and(|streams| streams.is_capturing()))
}
