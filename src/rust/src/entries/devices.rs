//! Entries: devices, their memory, and the CUDA libraries that were found.
#![cfg_attr(target_os = "macos", allow(unused_variables))] // there is no CUDA there: some entries look at no argument

use verdigris_engine::backend;
use verdigris_engine::device::{self as devices, Description};
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::host_pool;
use verdigris_ops::error::{Error, Kind as ErrorKind};

use crate::array::{convert, device, handle, pending};
use crate::entries::entry;
use crate::entry;
use crate::r::{self, options, values, List, SEXP};

/// A number of bytes; NA where it is not known.
fn bytes(value: u64) -> f64 {
    // SAFETY: a constant of R's.
    if value == 0 {
        unsafe { r::R_NaReal }
    } else {
        value as f64
    }
}

#[cfg(not(target_os = "macos"))]
fn error_list(error: &Error) -> SEXP {
    List::new(4)
        .add("kind", r::string(error.kind.name()))
        .add("error", r::string(&error.message))
        .add("advice", r::strings(error.advice.iter()))
        .add("detail", r::string(error.detail.as_deref().unwrap_or("")))
        .finish()
}

entry! {
    /// Reads the options that are read once, unless they have been.
    fn start_options() {
        options::start()?;
        Ok(r::null())
    }

    /// Why the folder of compiled kernels is not used, or NULL.
    fn cache_problem() {
        #[cfg(not(target_os = "macos"))]
        if let Some(why) = verdigris_engine::backend::cuda::compile::cache::cache_problem() {
            return Ok(r::string(&why));
        }
        Ok(r::null())
    }

    /// What is wrong with the driver's library that is there and cannot be loaded, or NULL.
    fn driver_problem() {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library;
            device::refresh_paths()?;
            if let Some(error) = library::driver().err().filter(library::driver::is_broken) {
                return Ok(r::string(&error.message));
            }
        }
        Ok(r::null())
    }

    /// How expressions are carried out on CUDA devices from now on: "auto", "compiled" or "interpreted"; NULL changes
    /// nothing. Returns how they were.
    fn tier(name) {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::compile::tier::{set_tier, tier, Tier};
            let wanted = if r::is_null(name) { None } else { Some(Tier::from_name(values::string(name, "tier")?)?) };
            let before = tier();
            if let Some(wanted) = wanted {
                set_tier(wanted);
            }
            Ok(r::string(before.name()))
        }
        #[cfg(target_os = "macos")]
        Ok(r::null())
    }

    /// How often a CUDA device interpreted and ran kernels of a plan's own, and how many are being compiled, after
    /// waiting for these, at most so many seconds.
    fn tier_counts(device, seconds) {
        #[cfg(not(target_os = "macos"))]
        if let Device::Cuda(ordinal) = convert::device(device)? {
            use verdigris_engine::backend::cuda::context::device::Cuda;
            use verdigris_engine::backend::cuda::context::background;
            let cuda = Cuda::of(ordinal)?;
            background::wait(std::time::Duration::from_secs_f64(values::number(seconds, "seconds")?.clamp(0.0, 3600.0)));
            let counts = cuda.tier_counts();
            return Ok(List::new(3)
                .add("interpreted", r::real(counts.interpreted as f64))
                .add("compiled", r::real(counts.compiled as f64))
                .add("queued", r::real(counts.queued as f64))
                .finish());
        }
        Ok(r::null())
    }

    /// Makes a device the current one; NULL goes back to the default. Returns the name of the one chosen before, or
    /// NULL.
    fn device_use(name) {
        let device = if r::is_null(name) { None } else { Some(convert::device(name)?) };
        let before = devices::set_current(device)?;
        Ok(before.map_or_else(r::null, |device| r::string(&device.to_string())))
    }

    fn device_current() {
        Ok(r::string(&device::current()?.to_string()))
    }

    /// The name of a device, the current one for NULL.
    fn device_name(device) {
        Ok(r::string(&convert::device(device)?.to_string()))
    }

    /// list(device, name, memory, capability, processors), a vector each.
    fn device_list() {
        device::refresh_paths()?;
        let all: Vec<Description> = devices::list();
        let capability =
            |d: &Description| d.capability.map_or_else(String::new, |(major, minor)| format!("{major}.{minor}"));
        Ok(List::new(5)
            .add("device", r::strings(all.iter().map(|d| d.device.to_string())))
            .add("name", r::strings(all.iter().map(|d| &d.name)))
            .add("memory", r::reals(all.iter().map(|d| bytes(d.memory))))
            .add("capability", r::strings(all.iter().map(capability)))
            .add("processors", r::reals(all.iter().map(|d| f64::from(d.processors))))
            .finish())
    }

    /// TRUE where the device can be used for everything; else the error says what is in the way.
    fn device_works(name) {
        match device::named(values::string(name, "device")?)? {
            Device::Cpu => {}
            Device::Cuda(ordinal) => devices::works(ordinal)?,
        }
        Ok(r::logical(true))
    }

    /// Waits for the device; the warnings of what it computed come with the return.
    fn device_sync(device) {
        backend::of(convert::device(device)?)?.synchronize()?;
        Ok(r::null())
    }

    /// What the process has done so far: c(launches, bytes up, bytes down, compiled, cache hits), the peak of the
    /// bytes that arrays held on one device since the last call, and launches that were graphs of one kernel.
    fn counters() {
        use verdigris_engine::memory::counters::*;
        let [launches, up, down, compiled, hits, again, in_place] =
            [&LAUNCHES, &BYTES_UP, &BYTES_DOWN, &COMPILED, &CACHE_HITS, &RELAUNCHES, &IN_PLACE].map(|c| c.get() as f64);
        Ok(r::reals([launches, up, down, compiled, hits, take_peak() as f64, again, in_place].into_iter()))
    }

    /// Gives what the device's pool keeps, and what is kept on the host, back to the system.
    fn device_trim(device) {
        backend::of(convert::device(device)?)?.trim()?;
        host_pool::trim();
        Ok(r::null())
    }

    /// The NVIDIA driver's version where the system shows one, "" where it looks as if there is one, NULL otherwise.
    /// Loads nothing, so that forks stay possible.
    fn device_hint() {
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library::driver;
            if driver::hardware() {
                return Ok(r::string(&driver::release().unwrap_or_default()));
            }
        }
        Ok(r::null())
    }

    /// list(driver, libraries): what was found, or the error.
    fn library_report() {
        #[cfg(target_os = "macos")]
        return Err(Error::new(ErrorKind::Device, "there is no CUDA on macOS").advise("Use `device = \"cpu\"`."));
        #[cfg(not(target_os = "macos"))]
        {
            use verdigris_engine::backend::cuda::driver::library::report;
            device::refresh_paths()?;
            verdigris_engine::backend::cuda::tiers::choose::look_again();
            let (driver, findings) = report();
            let out = List::new(2);
            let found = match driver {
                Ok(driver) => List::new(4)
                    .add("cuda", r::string(&format!("{}.{}", driver.version.0, driver.version.1)))
                    .add("version", r::string(driver.release.as_deref().unwrap_or("")))
                    .add("path", r::string(&driver.path.to_string_lossy()))
                    .add("devices", r::real(f64::from(driver.devices)))
                    .finish(),
                Err(error) => error_list(&error),
            };
            let out = out.add("driver", found);
            let mut libraries = List::new(findings.len());
            for finding in &findings {
                let value = match &finding.outcome {
                    Ok(loaded) => List::new(4)
                        .add("version", r::string(&loaded.version_text()))
                        .add("path", r::string(&loaded.path.to_string_lossy()))
                        .add("origin", r::string(loaded.origin.label()))
                        .add("purpose", r::string(finding.library.purpose()))
                        .finish(),
                    Err(error) => List::new(4)
                        .add("error", r::string(&error.message))
                        .add("detail", r::string(error.detail.as_deref().unwrap_or("")))
                        .add("purpose", r::string(finding.library.purpose()))
                        .add("remedy", r::string(&finding.remedy))
                        .finish(),
                };
                libraries = libraries.add(finding.library.name(), value);
            }
            let libraries = libraries.finish();
            Ok(out.add("libraries", libraries).finish())
        }
    }

    /// Lets go of an array's elements.
    fn free(x) {
        if handle::is_finalized(x) {
            return Ok(r::null());
        }
        match handle::of(x) {
            Some(handle) => handle.free(),
            None => {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("expected a GPU array, got {}", values::describe(x)),
                ));
            }
        }
        Ok(r::null())
    }
}

/// Bytes: live, pending, cached, pinned, limit, free, total. Not by `entry!`, which would free what is pending before.
#[export_name = "vg_device_memory"]
extern "C" fn device_memory(device: SEXP) -> SEXP {
    entry::run_as_it_is(|| {
        let device = convert::device(device)?;
        let memory = backend::of(device)?.memory()?;
        let pending = pending::bytes(device);
        // an amount of 0 is known where the total is
        let free = if memory.total == 0 { bytes(0) } else { memory.free as f64 };
        let limit = if memory.limit == u64::MAX { bytes(0) } else { memory.limit as f64 };
        let (live, pinned) = (memory.live.saturating_sub(pending) as f64, host_pool::pinned() as f64);
        let all = [live, pending as f64, memory.cached as f64, pinned, limit, free, bytes(memory.total)];
        Ok(r::reals(all.into_iter()))
    })
}
