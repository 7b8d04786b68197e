//! Entries: devices, their memory, and the CUDA libraries that were found.
#![cfg_attr(target_os = "macos", allow(unused_variables))] // without CUDA some entries ignore their arguments

use verdigris_engine::backend;
use verdigris_engine::device::{self as devices, Description};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::host_pool;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::{device, handle, pending};
use crate::entries::entry::entries;
use crate::r::{self, options, values, List, SEXP};

/// A number of bytes for R; 0 means unknown, which is NA.
fn bytes(value: u64) -> f64 {
    // SAFETY: a constant of R's.
    if value == 0 {
        unsafe { r::R_NaReal }
    } else {
        value as f64
    }
}

#[cfg(not(target_os = "macos"))]
fn error_list(error: &Error) -> List {
    List::new(4)
        .add("kind", error.kind.name())
        .add("error", error.message.as_str())
        .add("advice", r::strings(error.advice.iter()))
        .add("detail", error.detail.as_deref().unwrap_or(""))
}

entries! {
    /// Reads the options that are read only once, unless that has been done.
    fn start_options() -> Result<()> {
        options::start()
    }

    /// Why the cache folder of compiled kernels cannot be used, or NULL.
    fn cache_problem() -> Option<String> {
        #[cfg(not(target_os = "macos"))]
        return verdigris_engine::backend::cuda::compile::cache::cache_problem();
        #[cfg(target_os = "macos")]
        None
    }

    /// Why the driver's library, which exists, cannot be loaded; or NULL.
    fn driver_problem() -> Result<Option<String>> {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library;
            device::refresh_paths()?;
            let broken = library::driver().err().filter(library::driver::is_broken);
            Ok(broken.map(|error| error.message))
        }
        #[cfg(target_os = "macos")]
        Ok(None)
    }

    /// Sets how expressions run on CUDA devices: "auto", "compiled" or "interpreted"; NULL changes nothing. Returns the
    /// old setting.
    fn tier(tier: Option<&str>) -> Result<Option<&'static str>> {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::compile::tier::{self, Tier};
            let wanted = tier.map(Tier::from_name).transpose()?;
            let before = tier::tier();
            if let Some(wanted) = wanted {
                tier::set_tier(wanted);
            }
            Ok(Some(before.name()))
        }
        #[cfg(target_os = "macos")]
        Ok(None)
    }

    /// list(interpreted, compiled, queued): how many plans a CUDA device has interpreted, and run as their own kernel,
    /// and how many kernels are still being compiled after waiting for them for at most `seconds`. NULL for other
    /// devices.
    fn tier_counts(device: Device, seconds: f64) -> Result<Option<List>> {
        #[cfg(not(target_os = "macos"))]
        if let Device::Cuda(ordinal) = device {
            use verdigris_engine::backend::cuda::context::background;
            use verdigris_engine::backend::cuda::context::device::Cuda;
            let cuda = Cuda::of(ordinal)?;
            background::wait(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 3600.0)));
            let counts = cuda.tier_counts();
            return Ok(Some(
                List::new(3)
                    .add("interpreted", counts.interpreted as f64)
                    .add("compiled", counts.compiled as f64)
                    .add("queued", counts.queued as f64),
            ));
        }
        Ok(None)
    }

    /// Makes a device the current one; NULL restores the default. Returns the device chosen before, or NULL.
    fn device_use(device: Option<Device>) -> Result<Option<Device>> {
        devices::set_current(device)
    }

    fn device_current() -> Result<Device> {
        device::current()
    }

    /// The name of a device; of the current one for NULL.
    fn device_name(device: Device) -> Device {
        device
    }

    /// list(device, name, memory, capability, processors), with a vector of all devices each.
    fn device_list() -> Result<List> {
        device::refresh_paths()?;
        let all: Vec<Description> = devices::list();
        let capability =
            |d: &Description| d.capability.map_or_else(String::new, |(major, minor)| format!("{major}.{minor}"));
        Ok(List::new(5)
            .add("device", r::strings(all.iter().map(|d| d.device.to_string())))
            .add("name", r::strings(all.iter().map(|d| &d.name)))
            .add("memory", r::reals(all.iter().map(|d| bytes(d.memory))))
            .add("capability", r::strings(all.iter().map(capability)))
            .add("processors", r::reals(all.iter().map(|d| f64::from(d.processors)))))
    }

    /// TRUE if the device can be used for everything; otherwise an error that says what prevents it.
    fn device_works(device: &str) -> Result<bool> {
        if let Device::Cuda(ordinal) = device::named(device)? {
            devices::works(ordinal)?;
        }
        Ok(true)
    }

    /// Waits for the device. Warnings of its work are raised when this returns.
    fn device_sync(device: Device) -> Result<()> {
        backend::of(device)?.synchronize()
    }

    /// Bytes: live, pending, cached, pinned, limit, free, total. Runs without freeing first, so that pending bytes can
    /// be seen.
    @run_without_reaping
    fn device_memory(device: Device) -> Result<[f64; 7]> {
        let memory = backend::of(device)?.memory()?;
        let pending = pending::bytes(device);
        // if the total is known, 0 free bytes are no unknown amount
        let free = if memory.total == 0 { bytes(0) } else { memory.free as f64 };
        let limit = if memory.limit == u64::MAX { bytes(0) } else { memory.limit as f64 };
        let (live, pinned) = (memory.live.saturating_sub(pending) as f64, host_pool::pinned() as f64);
        Ok([live, pending as f64, memory.cached as f64, pinned, limit, free, bytes(memory.total)])
    }

    /// Counters of this process: launches, bytes up, bytes down, kernels compiled, cache hits; the peak of bytes that
    /// arrays held on one device since the last call; relaunches of one-kernel graphs; assignments in place.
    fn counters() -> [f64; 8] {
        use verdigris_engine::memory::counters::*;
        let [launches, up, down, compiled, hits, again, in_place] =
            [&LAUNCHES, &BYTES_UP, &BYTES_DOWN, &COMPILED, &CACHE_HITS, &RELAUNCHES, &IN_PLACE].map(|c| c.get() as f64);
        [launches, up, down, compiled, hits, take_peak() as f64, again, in_place]
    }

    /// Returns the memory cached in the device's pool and in the host pool to the system.
    fn device_trim(device: Device) -> Result<()> {
        backend::of(device)?.trim()?;
        host_pool::trim();
        Ok(())
    }

    /// As `device_trim` for all devices that this process has used.
    fn device_trim_all() -> Result<()> {
        backend::trim_all()
    }

    /// The NVIDIA driver's version if the system reports it, "" if there seems to be a driver, else NULL. Does not load
    /// the driver, so that forking stays possible.
    fn device_hint() -> Option<String> {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library::driver;
            driver::hardware().then(|| driver::release().unwrap_or_default())
        }
        #[cfg(target_os = "macos")]
        None
    }

    /// list(driver, libraries), with details or the error for each.
    fn library_report() -> Result<List> {
        #[cfg(target_os = "macos")]
        return Err(Error::new(ErrorKind::Device, "there is no CUDA on macOS").advise("Use `device = \"cpu\"`."));
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library::report;
            device::refresh_paths()?;
            verdigris_engine::backend::cuda::tiers::choose::retry_nvrtc();
            let (driver, findings) = report();
            let out = List::new(2);
            let out = match driver {
                Ok(driver) => out.add(
                    "driver",
                    List::new(4)
                        .add("cuda", format!("{}.{}", driver.version.0, driver.version.1))
                        .add("version", driver.release.as_deref().unwrap_or(""))
                        .add("path", &*driver.path.to_string_lossy())
                        .add("devices", f64::from(driver.devices)),
                ),
                Err(error) => out.add("driver", error_list(&error)),
            };
            let libraries = findings.iter().fold(List::new(findings.len()), |libraries, finding| {
                let found = List::new(4);
                let found = match &finding.outcome {
                    Ok(loaded) => found
                        .add("version", loaded.version_text())
                        .add("path", &*loaded.path.to_string_lossy())
                        .add("origin", loaded.origin.label())
                        .add("purpose", finding.library.purpose()),
                    Err(error) => found
                        .add("error", error.message.as_str())
                        .add("detail", error.detail.as_deref().unwrap_or(""))
                        .add("purpose", finding.library.purpose())
                        .add("remedy", finding.remedy.as_str()),
                };
                libraries.add(finding.library.name(), found)
            });
            Ok(out.add("libraries", libraries))
        }
    }

    /// Frees an array's elements.
    fn free(x: SEXP) -> Result<()> {
        if handle::is_finalized(x) {
            return Ok(());
        }
        let handle = handle::of(x).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("expected a GPU array, got {}", values::describe(x)))
        })?;
        handle.free();
        Ok(())
    }
}
