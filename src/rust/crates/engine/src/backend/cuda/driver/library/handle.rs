//! A loaded shared library, and typed access to its functions.

use std::ffi::{c_void, CString};
use std::path::{Path, PathBuf};

use verdigris_ops::error::{Error, Kind};

#[cfg(unix)]
use libloading::os::unix as system;
#[cfg(windows)]
use libloading::os::windows as system;

/// A library that stays loaded until the process ends: CUDA's libraries start threads and register exit handlers, which
/// would crash if the library were unloaded.
pub struct Handle(std::mem::ManuallyDrop<system::Library>);

impl Handle {
    /// The library of this bare name that the process has already loaded, for example by torch.
    #[cfg(unix)]
    pub fn loaded(name: &str) -> Option<Handle> {
        const NOLOAD: i32 = if cfg!(target_os = "linux") { 4 } else { 0x10 };
        // SAFETY: nothing is loaded that was not loaded before.
        let library = unsafe { system::Library::open(Some(name), system::RTLD_NOW | NOLOAD) };
        library.ok().map(|library| Handle(std::mem::ManuallyDrop::new(library)))
    }

    #[cfg(windows)]
    pub fn loaded(name: &str) -> Option<Handle> {
        system::Library::open_already_loaded(name).ok().map(|library| Handle(std::mem::ManuallyDrop::new(library)))
    }

    /// The address of a function; `None` where the library has none of this name.
    pub fn address(&self, name: &str) -> Option<*const c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: only the address is taken; the pointer type fits any symbol.
        let address = *unsafe { self.0.get::<*const c_void>(name.as_bytes_with_nul()) }.ok()?;
        (!address.is_null()).then_some(address)
    }

    /// A function as `F`, an `unsafe extern "C" fn` type. `F` must return the status as `u32`, so that unknown codes
    /// are valid values.
    ///
    /// # Safety
    /// `F` must be a function pointer type with the signature in the library's header.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        const { assert!(std::mem::size_of::<F>() == std::mem::size_of::<*const c_void>()) };
        let address = self.address(name)?;
        // SAFETY: the sizes agree, and the caller vouches for the type; the address is not null.
        Some(unsafe { std::mem::transmute_copy::<*const c_void, F>(&address) })
    }

    /// The path of the file that contains a function of this library.
    pub fn path(&self, function: &str) -> Option<PathBuf> {
        file_of(self.address(function)?)
    }
}

/// Why a library was not loaded.
#[derive(Debug)]
pub struct Failure {
    /// No file exists at the path or with the name.
    pub absent: bool,
    pub reason: String,
}

/// Loads a library by path. `Err` holds the loader's message.
pub(super) fn load(path: &Path) -> std::result::Result<Handle, String> {
    // SAFETY: loading runs the library's initialisers. They are NVIDIA's, from a place that the user
    // or the system installed; there is no way to use CUDA without running them.
    let opened = unsafe { open(path) };
    opened.map(|library| Handle(std::mem::ManuallyDrop::new(library))).map_err(|e| reason(&e))
}

// SAFETY: a handle is a number to the loader, which locks for itself.
unsafe impl Send for Handle {}
// SAFETY: looking up symbols is safe on any thread.
unsafe impl Sync for Handle {}

/// `RTLD_NOW`: a library whose dependencies lack a symbol must fail here; with lazy binding it would end the process at
/// the first call. `RTLD_LOCAL`: the symbols must not interfere with torch's.
#[cfg(unix)]
unsafe fn open(path: &Path) -> std::result::Result<system::Library, libloading::Error> {
    // SAFETY: the caller's promise.
    unsafe { system::Library::open(Some(path), system::RTLD_NOW | system::RTLD_LOCAL) }
}

/// With a full path, Windows searches the library's own folder for its dependencies.
#[cfg(windows)]
unsafe fn open(path: &Path) -> std::result::Result<system::Library, libloading::Error> {
    let flags = if path.is_absolute() { system::LOAD_WITH_ALTERED_SEARCH_PATH } else { 0 };
    // SAFETY: the caller's promise.
    unsafe { system::Library::load_with_flags(path, flags) }
}

fn reason(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}").trim_matches('"').to_string(),
        other => other.to_string(),
    }
}

#[cfg(unix)]
fn file_of(address: *const c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    #[repr(C)]
    struct Info {
        file: *const std::ffi::c_char,
        base: *const c_void,
        name: *const std::ffi::c_char,
        start: *const c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut Info) -> std::ffi::c_int;
    }
    let mut info =
        Info { file: std::ptr::null(), base: std::ptr::null(), name: std::ptr::null(), start: std::ptr::null() };
    // SAFETY: `info` has the layout of `Dl_info`; the text it points to lives as long as the library.
    unsafe {
        if dladdr(address, &mut info) == 0 || info.file.is_null() {
            return None;
        }
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(std::ffi::CStr::from_ptr(info.file).to_bytes())))
    }
}

#[cfg(windows)]
fn file_of(address: *const c_void) -> Option<PathBuf> {
    use std::os::windows::ffi::OsStringExt;
    extern "system" {
        fn GetModuleHandleExW(flags: u32, address: *const c_void, module: *mut *mut c_void) -> i32;
        fn GetModuleFileNameW(module: *mut c_void, name: *mut u16, room: u32) -> u32;
    }
    const UNCHANGED_REFCOUNT: u32 = 2;
    const FROM_ADDRESS: u32 = 4;
    let (mut module, mut name) = (std::ptr::null_mut(), [0u16; 1024]);
    // SAFETY: writes a module's handle, which libraries that are never unloaded keep, and at most so many characters.
    unsafe {
        if GetModuleHandleExW(FROM_ADDRESS | UNCHANGED_REFCOUNT, address, &mut module) == 0 {
            return None;
        }
        match GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) as usize {
            n if n == 0 || n == name.len() => None,
            n => Some(PathBuf::from(std::ffi::OsString::from_wide(&name[..n]))),
        }
    }
}

/// The error for a library without a function.
pub fn lacks(path: &Path, function: &str) -> Error {
    Error::new(Kind::Library, format!("{} has no function `{function}`", path.display()))
}
