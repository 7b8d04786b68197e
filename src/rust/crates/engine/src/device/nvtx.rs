//! Named ranges for NVIDIA's profilers (NVTX).
//!
//! Since NVTX 3 there is no library to link. A profiler names its library in the environment variable
//! `NVTX_INJECTION64_PATH`. The process loads it, calls `InitializeInjectionNvtx2` and offers a table of slots, in
//! which the profiler stores the functions to be called. The interface is in CUDA's headers
//! `nvtx3/nvtxDetail/nvtxInitDefs.h` and `nvtxTypes.h`. Without that variable, `libnvToolsExt` is used, which CUDA
//! included up to version 12.
#![cfg_attr(target_os = "macos", allow(dead_code))] // NVIDIA has no profiler for macOS

use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

#[cfg(not(target_os = "macos"))]
use crate::backend::cuda::driver::library::Handle;

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

#[derive(Clone, Copy)]
struct Functions {
    push: Push,
    pop: Pop,
}

/// `NvtxCallbackModule`. The second is for domains, which are not used here; profilers expect both.
const CORE: c_uint = 1;
const CORE2: c_uint = 5;
/// `NvtxCallbackIdCore`: the slots used here.
const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;
/// Slots of each of the two modules; slot 0 is unused.
const SLOTS: usize = 16;
/// `NvtxExportTableID`.
const CALLBACKS: u32 = 1;

type Slot = AtomicPtr<c_void>;
type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(GetExportTable) -> c_int;

static OFFERED: [[Slot; SLOTS]; 2] = [const { [const { Slot::new(std::ptr::null_mut()) }; SLOTS] }; 2];

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    bytes: usize,
    module_functions: unsafe extern "C" fn(c_uint, *mut *const *const Slot, *mut c_uint) -> c_int,
}

/// Returns the addresses of a module's slots, and their number without slot 0.
unsafe extern "C" fn module_functions(module: c_uint, out: *mut *const *const Slot, size: *mut c_uint) -> c_int {
    struct Tables([[*const Slot; SLOTS]; 2]);
    // SAFETY: the addresses are those of statics.
    unsafe impl Sync for Tables {}
    static TABLES: Tables = {
        let mut tables = [[std::ptr::null(); SLOTS]; 2];
        let mut k = 1;
        while k < SLOTS {
            tables[0][k] = &raw const OFFERED[0][k];
            tables[1][k] = &raw const OFFERED[1][k];
            k += 1;
        }
        Tables(tables)
    };
    let table = match module {
        CORE => Some(&TABLES.0[0]),
        CORE2 => Some(&TABLES.0[1]),
        _ => None,
    };
    // SAFETY: the profiler passes addresses of its own variables, or null.
    unsafe {
        if !out.is_null() {
            *out = table.map_or(std::ptr::null(), |table| table.as_ptr());
        }
        if !size.is_null() {
            *size = if table.is_some() { SLOTS as c_uint - 1 } else { 0 };
        }
    }
    table.is_some().into()
}

unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    static TABLE: Callbacks = Callbacks { bytes: std::mem::size_of::<Callbacks>(), module_functions };
    if id == CALLBACKS {
        (&raw const TABLE).cast()
    } else {
        std::ptr::null()
    }
}

/// The functions that the profiler has stored; None if it did not store both.
fn offered() -> Option<Functions> {
    let taken = |slot: usize| OFFERED[0][slot].load(Ordering::Acquire);
    let (push, pop) = (taken(RANGE_PUSH_A), taken(RANGE_POP));
    if push.is_null() || pop.is_null() {
        return None;
    }
    // SAFETY: the profiler stores functions of these types there.
    Some(unsafe {
        Functions {
            push: std::mem::transmute::<*mut c_void, Push>(push),
            pop: std::mem::transmute::<*mut c_void, Pop>(pop),
        }
    })
}

/// Loads and initialises the profiler's library, which the user, or a profiler that started this process, names.
#[cfg(not(target_os = "macos"))]
fn injected(path: &Path) -> Option<Functions> {
    let library = Handle::open(path).ok()?;
    // SAFETY: the type is that of nvtxTypes.h.
    let initialize: Initialize = unsafe { library.function("InitializeInjectionNvtx2")? };
    // SAFETY: the function asks for tables and stores functions in slots.
    (unsafe { initialize(export_table) } != 0).then(offered).flatten()
}

/// The NVTX library of CUDA up to 12.
#[cfg(not(target_os = "macos"))]
fn installed() -> Option<Functions> {
    let names = if cfg!(windows) {
        ["nvToolsExt64_1.dll", "nvToolsExt64_1"]
    } else {
        ["libnvToolsExt.so.1", "libnvToolsExt.so"]
    };
    // Loading NVIDIA's library only looks for a profiler.
    let library = names.into_iter().find_map(|name| Handle::open(Path::new(name)).ok())?;
    // SAFETY: the types are those of nvToolsExt.h.
    unsafe { Some(Functions { push: library.function("nvtxRangePushA")?, pop: library.function("nvtxRangePop")? }) }
}

#[cfg(target_os = "macos")]
fn functions() -> Option<Functions> {
    None
}

#[cfg(not(target_os = "macos"))]
fn functions() -> Option<Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    *FOUND.get_or_init(|| match std::env::var_os("NVTX_INJECTION64_PATH").filter(|path| !path.is_empty()) {
        Some(path) => injected(Path::new(&path)),
        None => installed(),
    })
}

/// Begins a range on this thread. Returns whether there is a profiler.
pub fn push(name: &str) -> bool {
    let (Some(functions), Ok(name)) = (functions(), CString::new(name.replace('\0', " "))) else { return false };
    // SAFETY: a string that ends in NUL, which is copied.
    unsafe { (functions.push)(name.as_ptr()) };
    true
}

/// Ends the last range begun on this thread.
pub fn pop() {
    if let Some(functions) = functions() {
        // SAFETY: it has no arguments.
        unsafe { (functions.pop)() };
    }
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::*;

    unsafe extern "C" fn push_seen(_: *const c_char) -> c_int {
        7
    }

    unsafe extern "C" fn pop_seen() -> c_int {
        8
    }

    /// Does what a profiler's initialisation does.
    unsafe extern "C" fn profiler(get: GetExportTable) -> c_int {
        let (mut table, mut size) = (std::ptr::null(), 0);
        // SAFETY: the tables are those of `nvtxTypes.h`.
        unsafe {
            assert!(get(99).is_null());
            let callbacks = &*get(CALLBACKS).cast::<Callbacks>();
            assert!(callbacks.bytes >= 16);
            assert_eq!((callbacks.module_functions)(CORE2, &mut table, &mut size), 1);
            assert!(!table.is_null() && size == 15);
            assert_eq!((callbacks.module_functions)(2, &mut table, &mut size), 0);
            assert!(table.is_null() && size == 0);
            assert_eq!((callbacks.module_functions)(CORE, &mut table, &mut size), 1);
            assert_eq!(size, 15);
            let slots = std::slice::from_raw_parts(table, SLOTS);
            assert!(slots[0].is_null() && slots[1..].iter().all(|slot| !slot.is_null()));
            (*slots[RANGE_PUSH_A]).store(push_seen as *mut c_void, Ordering::Release);
            (*slots[RANGE_POP]).store(pop_seen as *mut c_void, Ordering::Release);
        }
        1
    }

    #[test]
    fn a_profiler_puts_its_functions_into_the_slots() {
        assert!(offered().is_none());
        // SAFETY: called as for a profiler.
        assert_eq!(unsafe { profiler(export_table) }, 1);
        let functions = offered().unwrap();
        // SAFETY: the test's functions.
        assert_eq!(unsafe { ((functions.push)(c"a".as_ptr()), (functions.pop)()) }, (7, 8));
    }

    #[test]
    fn a_library_that_is_none_is_passed_over() {
        assert!(injected(Path::new("/nonexistent/libinjection.so")).is_none());
        assert!(injected(Path::new("/dev/null")).is_none());
    }
}
