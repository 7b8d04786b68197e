//! Named ranges for NVIDIA's profilers, where their library (`libnvToolsExt`, of CUDA up to 12) is on the loader's path.

use std::ffi::{c_char, CString};
use std::sync::OnceLock;

struct Functions {
    push: unsafe extern "C" fn(*const c_char) -> i32,
    pop: unsafe extern "C" fn() -> i32,
}

fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    let find = || {
        let names = if cfg!(windows) {
            ["nvToolsExt64_1.dll", "nvToolsExt64_1"]
        } else {
            ["libnvToolsExt.so.1", "libnvToolsExt.so"]
        };
        // SAFETY: NVIDIA's library, whose loading does nothing but look for a profiler.
        let library = names.into_iter().find_map(|name| unsafe { libloading::Library::new(name) }.ok())?;
        // SAFETY: the types are those of nvToolsExt.h.
        let found = unsafe {
            Functions { push: *library.get(b"nvtxRangePushA\0").ok()?, pop: *library.get(b"nvtxRangePop\0").ok()? }
        };
        std::mem::forget(library);
        Some(found)
    };
    FOUND.get_or_init(find).as_ref()
}

/// Begins a range of this thread; whether there is a library to tell.
pub fn push(name: &str) -> bool {
    let (Some(functions), Ok(name)) = (functions(), CString::new(name.replace('\0', " "))) else { return false };
    // SAFETY: a string that ends in NUL, which is copied.
    unsafe { (functions.push)(name.as_ptr()) };
    true
}

/// Ends the last one that was begun.
pub fn pop() {
    if let Some(functions) = functions() {
        // SAFETY: takes nothing.
        unsafe { (functions.pop)() };
    }
}
