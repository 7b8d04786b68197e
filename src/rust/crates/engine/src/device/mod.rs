//! The devices of this machine, their names, and the current device, which is the default for new arrays.

pub mod async_copy;
pub mod cuda_graph;
pub mod nvtx;
pub mod profile;

use std::fs;
use std::sync::{Mutex, OnceLock};

use crate::backend;
use crate::memory::buffer::Device;
use verdigris_ops::error::{Error, Kind, Result};

/// Properties of a device.
#[derive(Clone, Debug)]
pub struct Description {
    pub device: Device,
    /// The product name.
    pub name: String,
    /// Bytes; 0 if the system does not report it.
    pub memory: u64,
    /// Compute capability; None for the cpu.
    pub capability: Option<(u32, u32)>,
    /// Multiprocessors, or the threads that the cpu device uses.
    pub processors: u32,
}

/// A device by its name: `cpu`, `cuda` (the first), `cuda:1`.
///
/// # Errors
/// `Device` for any other name. Whether the device exists is not checked.
pub fn parse(name: &str) -> Result<Device> {
    let ordinal = |digits: &str| match digits.parse() {
        // `parse` would also accept a plus sign.
        Ok(ordinal) if digits.bytes().all(|b| b.is_ascii_digit()) => Some(Device::Cuda(ordinal)),
        _ => None,
    };
    let found = match name {
        "cpu" => Some(Device::Cpu),
        "cuda" => Some(Device::Cuda(0)),
        _ => name.strip_prefix("cuda:").and_then(ordinal),
    };
    found.ok_or_else(|| {
        let mut error = Error::new(Kind::Device, format!("there is no device \"{name}\""));
        if let Some(near) = meant(name) {
            error = error.advise(format!("Did you mean \"{near}\"?"));
        }
        error.advise("Devices are \"cpu\", \"cuda\", \"cuda:1\" and so on; see `gpu_devices()`.")
    })
}

/// The device that a wrong name probably means: `GPU`, `cuda0`, `gpu:1`, `1`.
fn meant(name: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let (kind, digits) = (kind.trim_end_matches([':', ' ', '-', '_']), &name[kind.len()..]);
    match kind {
        "cpu" | "host" => Some("cpu".into()),
        "gpu" | "cuda" | "nvidia" if digits.is_empty() => Some("cuda".into()),
        "gpu" | "cuda" | "nvidia" | "device" => Some(format!("cuda:{digits}")),
        "" if !digits.is_empty() => Some(format!("cuda:{digits}")),
        _ => None,
    }
}

/// The device chosen by `set_current`.
static CHOSEN: Mutex<Option<Device>> = Mutex::new(None);

fn chosen() -> std::sync::MutexGuard<'static, Option<Device>> {
    CHOSEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The device chosen by `set_current`; None if the default applies.
pub fn choice() -> Option<Device> {
    *chosen()
}

/// Makes a device the current one, or with None the default device. Returns the previous choice.
///
/// # Errors
/// Those of `backend::of` if the device cannot be used; the choice is unchanged then.
pub fn set_current(device: Option<Device>) -> Result<Option<Device>> {
    if let Some(device) = device {
        backend::of(device)?;
    }
    Ok(std::mem::replace(&mut *chosen(), device))
}

/// The first CUDA device if it works, else the cpu. Determined once.
pub fn default() -> Device {
    static DEFAULT: OnceLock<Device> = OnceLock::new();
    *DEFAULT.get_or_init(|| if works(0).is_ok() { Device::Cuda(0) } else { Device::Cpu })
}

/// Whether a CUDA device can be used. NVRTC is not needed: without it, expressions are interpreted.
///
/// # Errors
/// What prevents it, with advice on how to fix it.
#[cfg(not(target_os = "macos"))]
pub fn works(ordinal: u32) -> Result<()> {
    crate::backend::cuda::driver::library::driver()?;
    backend::of(Device::Cuda(ordinal)).map(|_| ())
}

#[cfg(target_os = "macos")]
pub fn works(ordinal: u32) -> Result<()> {
    backend::of(Device::Cuda(ordinal)).map(|_| ())
}

/// The cpu and every CUDA device that the driver lists. Creates no contexts.
pub fn list() -> Vec<Description> {
    #[cfg_attr(target_os = "macos", allow(unused_mut))]
    let mut out = vec![cpu()];
    #[cfg(not(target_os = "macos"))]
    if let Ok(driver) = crate::backend::cuda::driver::library::driver() {
        out.extend((0..driver.devices).filter_map(|ordinal| driver.device(ordinal).ok()).map(|info| Description {
            device: Device::Cuda(info.ordinal),
            name: info.name,
            memory: info.memory,
            capability: Some(info.capability),
            processors: info.multiprocessors,
        }));
    }
    out
}

fn cpu() -> Description {
    // Linux reports the processor's name; elsewhere the architecture is used.
    let field = |file: &str, key: &str| -> Option<String> {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let name = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_string());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024);
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Description { device: Device::Cpu, name, memory, capability: None, processors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_devices_or_errors() {
        assert_eq!(parse("cpu").unwrap(), Device::Cpu);
        assert_eq!(parse("cuda").unwrap(), Device::Cuda(0));
        assert_eq!(parse("cuda:12").unwrap(), Device::Cuda(12));
        for name in ["", "CPU", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:1.0", "cuda:99999999999", "cuda: 1"] {
            assert_eq!(parse(name).err().map(|e| e.kind), Some(Kind::Device), "{name}");
        }
    }

    #[test]
    fn a_choice_is_kept_and_given_back() {
        let before = set_current(Some(Device::Cpu)).unwrap();
        assert_eq!(choice(), Some(Device::Cpu));
        // an ordinal that no machine has
        assert!(set_current(Some(Device::Cuda(10_000))).is_err());
        assert_eq!(choice(), Some(Device::Cpu));
        assert_eq!(set_current(before).unwrap(), Some(Device::Cpu));
    }

    #[test]
    fn the_cpu_is_always_there() {
        let all = list();
        assert_eq!(all[0].device, Device::Cpu);
        assert!(all[0].processors >= 1 && !all[0].name.is_empty());
    }
}
