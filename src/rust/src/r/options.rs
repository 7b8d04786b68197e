//! Options `verdigris.*` and environment variables, read when they are used. An invalid value is an error that is
//! raised before anything else is done, and names the option and how to restore its default.

use std::ffi::CStr;
#[cfg(not(target_os = "macos"))]
use std::path::PathBuf;
#[cfg(not(target_os = "macos"))]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(target_os = "macos"))]
use std::sync::Mutex;

use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scalar::Scalar;

use crate::r::{self, values, SEXP, SEXPTYPE};

/// The value of an option; NULL if it is not set.
pub fn option(name: &'static CStr) -> SEXP {
    // SAFETY: the value is R's, which keeps it.
    unsafe { r::Rf_GetOption1(r::symbol(name)) }
}

/// The error for an invalid value, with the same text as `abort_option()` in `R/utils-conditions.R`.
pub fn refused(name: &CStr, expected: &str, value: SEXP) -> Error {
    let name = name.to_string_lossy();
    Error::new(Kind::Argument, format!("Option `{name}` must be {expected}, not {}.", values::describe(value)))
        .advise(format!("`options({name} = NULL)` restores the default."))
}

/// One string that is neither NA nor empty.
fn text<'a>(x: SEXP) -> Option<&'a str> {
    if r::kind_of(x) != SEXPTYPE::STRSXP || values::is_classed(x) {
        return None;
    }
    values::string(x, "").ok().filter(|text| !text.is_empty())
}

/// One number that is neither NA nor NaN.
fn number(x: SEXP) -> Option<f64> {
    match values::scalar(x).filter(|_| !values::is_classed(x))? {
        (Scalar::F64(v), _) => Some(v).filter(|v| !v.is_nan()),
        (Scalar::I32(v), dtype::Kind::Integer) => Some(v).filter(|&v| v != i32::MIN).map(f64::from),
        _ => None,
    }
}

/// TRUE or FALSE; FALSE if the option is not set.
pub fn flag(name: &'static CStr) -> Result<bool> {
    flag_or(name, false)
}

/// TRUE or FALSE; `default` if the option is not set.
pub fn flag_or(name: &'static CStr, default: bool) -> Result<bool> {
    let value = option(name);
    if r::is_null(value) {
        return Ok(default);
    }
    if r::len(value) == 1 && !values::is_classed(value) {
        if let Ok(flag) = values::flag(value, "") {
            return Ok(flag);
        }
    }
    Err(refused(name, "TRUE or FALSE", value))
}

/// One string; `None` if the option is not set.
pub fn string<'a>(name: &'static CStr, expected: &str) -> Result<Option<&'a str>> {
    let value = option(name);
    if r::is_null(value) {
        return Ok(None);
    }
    text(value).map(Some).ok_or_else(|| refused(name, expected, value))
}

/// Paths: a character vector without NA; empty if the option is not set.
#[cfg(not(target_os = "macos"))]
pub fn paths(name: &'static CStr) -> Result<Vec<PathBuf>> {
    let value = option(name);
    if r::is_null(value) {
        return Ok(Vec::new());
    }
    let refused = || refused(name, "paths of folders or files", value);
    if r::kind_of(value) != SEXPTYPE::STRSXP || values::is_classed(value) {
        return Err(refused());
    }
    let mut out = Vec::new();
    for k in 0..r::len(value) as isize {
        // SAFETY: reads within the length; the translation is copied at once.
        unsafe {
            let path = r::STRING_ELT(value, k);
            match r::translated(path) {
                Ok(text) if path != r::R_NaString => out.push(text.into()),
                _ => return Err(refused()),
            }
        }
    }
    Ok(out)
}

// ---- amounts --------------------------------------------------------------------------------------

/// The element of a numeric vector that applies to a device: by the device's name ("cuda:0") or family ("cuda"); the
/// first element of a vector without names.
fn element(value: SEXP, device: Option<Device>) -> Option<f64> {
    // SAFETY: types and lengths are checked.
    unsafe {
        let n = r::len(value);
        let number = |k: usize| match r::kind_of(value) {
            SEXPTYPE::REALSXP => r::REAL_ELT(value, k as isize),
            SEXPTYPE::INTSXP if r::INTEGER_ELT(value, k as isize) != i32::MIN => {
                f64::from(r::INTEGER_ELT(value, k as isize))
            }
            _ => f64::NAN,
        };
        let names = r::Rf_getAttrib(value, r::R_NamesSymbol);
        if r::is_null(names) {
            return (n > 0).then(|| number(0));
        }
        let device = device?;
        let whole = device.to_string();
        let family = if device == Device::Cpu { "cpu" } else { "cuda" };
        let named = |wanted: &str| {
            (0..n).find(|&k| r::chars(r::STRING_ELT(names, k as isize)) == wanted.as_bytes()).map(number)
        };
        named(&whole).or_else(|| named(family))
    }
}

/// Whether an option's value is one number, or, if `by_device`, numbers with names of devices.
fn is_limit(value: SEXP, by_device: bool) -> bool {
    if !matches!(r::kind_of(value), SEXPTYPE::REALSXP | SEXPTYPE::INTSXP) || values::is_classed(value) {
        return false;
    }
    // SAFETY: reading an attribute of a vector; names are strings, as many as elements.
    unsafe {
        let names = r::Rf_getAttrib(value, r::R_NamesSymbol);
        if r::is_null(names) || !by_device {
            return r::len(value) == 1;
        }
        r::len(value) > 0
            && (0..r::len(value)).all(|k| {
                let name = r::chars(r::STRING_ELT(names, k as isize));
                name == b"cpu" || name == b"cuda" || name.starts_with(b"cuda:")
            })
    }
}

/// The value of an option in bytes: up to 1 it is a fraction of `total`, above a number of bytes.
fn bytes_of(name: &'static CStr, device: Option<Device>, total: u64) -> Result<Option<u64>> {
    let value = option(name);
    if r::is_null(value) {
        return Ok(None);
    }
    let refused = || {
        let by_device = if device.is_some() { ", or a vector of these with names of devices" } else { "" };
        refused(name, &format!("a number of bytes, or a fraction up to 1{by_device}"), value)
    };
    if !is_limit(value, device.is_some()) {
        return Err(refused());
    }
    match element(value, device) {
        None => Ok(None),
        Some(part) if part > 0.0 && part <= 1.0 && total > 0 => Ok(Some((part * total as f64) as u64)),
        Some(bytes) if bytes > 1.0 => Ok(Some(bytes.min(1e18) as u64)),
        Some(_) => Err(refused()),
    }
}

/// The limit of a device's memory for arrays, in bytes.
pub fn memory_limit(device: Device, total: u64) -> Result<Option<u64>> {
    bytes_of(c"verdigris.memory_limit", Some(device), total)
}

/// The limit of page-locked memory, in bytes.
pub fn pinned_limit(total: u64) -> Result<Option<u64>> {
    let name = c"verdigris.pinned_limit";
    // here 0 is valid too
    if number(option(name)) == Some(0.0) {
        return Ok(Some(0));
    }
    bytes_of(name, None, total)
}

/// The number of threads that copy to and from a GPU.
pub fn transfer_threads() -> Result<Option<usize>> {
    const MOST: f64 = 256.0;
    let name = c"verdigris.transfer_threads";
    let value = option(name);
    if r::is_null(value) {
        return Ok(None);
    }
    match number(value) {
        Some(n) if (1.0..=MOST).contains(&n) && n.fract() == 0.0 => Ok(Some(n as usize)),
        _ => Err(refused(name, "a whole number from 1 to 256", value)),
    }
}

// ---- options that are read once -------------------------------------------------------------------

/// The default folder for compiled kernels.
#[cfg(not(target_os = "macos"))]
static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
/// Whether the options below have been read. As long as one is invalid, every use of a GPU fails.
#[cfg(not(target_os = "macos"))]
static READ: AtomicBool = AtomicBool::new(false);

/// Sets the default folder for compiled kernels.
#[cfg(not(target_os = "macos"))]
pub fn set_folder(folder: Option<PathBuf>) {
    *FOLDER.lock().unwrap_or_else(|p| p.into_inner()) = folder;
}

/// Reads the options for the tier, the cache of compiled kernels and the preloading of libraries, once: when the
/// package is loaded, or at the first use of a GPU after an invalid value was corrected.
///
/// # Errors
/// `Argument` for the first invalid option or environment variable; none of them is used then.
#[cfg(not(target_os = "macos"))]
pub fn start() -> Result<()> {
    use verdigris_engine::backend::cuda::compile::cache::set_cache_dir;
    use verdigris_engine::backend::cuda::compile::tier;
    use verdigris_engine::backend::cuda::launch::submit;
    use verdigris_engine::backend::cuda::preload_libraries;
    if READ.load(Ordering::Relaxed) {
        return Ok(());
    }
    let tier = match string(c"verdigris.tier", tier::NAMES)? {
        Some(name) => {
            let named = tier::Tier::from_name(name);
            Some(named.map_err(|_| refused(c"verdigris.tier", tier::NAMES, option(c"verdigris.tier")))?)
        }
        None => {
            variable("VERDIGRIS_TIER", tier::NAMES, |name| tier::Tier::from_name(name).is_ok())?;
            None
        }
    };
    variable("VERDIGRIS_SUBMIT", submit::SUBMIT_MODES, submit::is_submit_mode)?;
    let size = {
        let name = c"verdigris.cache_size";
        let value = option(name);
        if r::is_null(value) {
            256e6
        } else {
            number(value).filter(|&n| n >= 0.0).ok_or_else(|| refused(name, "a number of bytes", value))?
        }
    };
    let folder = folder()?;
    preload_libraries(flag_or(c"verdigris.preload", true)?);
    set_cache_dir(folder, size as u64);
    if let Some(tier) = tier {
        tier::set_tier(tier);
    }
    READ.store(true, Ordering::Relaxed);
    Ok(())
}

#[cfg(target_os = "macos")]
pub fn start() -> Result<()> {
    Ok(())
}

/// The folder for compiled kernels; `None` if the option is NA or FALSE.
#[cfg(not(target_os = "macos"))]
fn folder() -> Result<Option<PathBuf>> {
    let name = c"verdigris.cache_dir";
    let value = option(name);
    if r::is_null(value) {
        return Ok(FOLDER.lock().unwrap_or_else(|p| p.into_inner()).clone());
    }
    if r::len(value) == 1 && !values::is_classed(value) {
        // SAFETY: the types are checked, and the length is 1.
        let is_none = unsafe {
            match r::kind_of(value) {
                SEXPTYPE::LGLSXP => r::LOGICAL_ELT(value, 0) != 1,
                SEXPTYPE::STRSXP => r::STRING_ELT(value, 0) == r::R_NaString,
                _ => false,
            }
        };
        if is_none {
            return Ok(None);
        }
    }
    match text(value) {
        // absolute, so that setwd() does not change it
        Some(path) => Ok(Some(std::path::absolute(r::expanded(path)).unwrap_or_else(|_| path.into()))),
        None => Err(refused(name, "the path of a folder, or NA for none", value)),
    }
}

/// Checks an environment variable, if it is set and not empty.
#[cfg(not(target_os = "macos"))]
fn variable(name: &str, expected: &str, means: impl Fn(&str) -> bool) -> Result<()> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(()) };
    let value = value.to_string_lossy();
    if means(&value) {
        return Ok(());
    }
    let text = format!("Environment variable `{name}` must be {expected}, not \"{value}\".");
    Err(Error::new(Kind::Argument, text).advise(format!("`Sys.unsetenv(\"{name}\")` restores the default.")))
}
