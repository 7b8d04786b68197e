//! The Rust side of the ALTREP methods in `altrep-array.c`. A failure leaves a condition pending, which C raises.

use std::os::raw::{c_char, c_int, c_void};
use std::ptr;

use verdigris_ops::dtype::DType;
use verdigris_ops::fork;

use crate::array::handle::{self, Handle};
use crate::array::host_copy;
use crate::r::external_ptr::Owned;
use crate::r::{conditions, gc, Holder};

/// # Safety
/// `handle` comes from a living vector's external pointer.
unsafe fn of<'a>(handle: *mut c_void) -> &'a Handle {
    // SAFETY: the caller's promise; C has seen that the pointer has a value.
    unsafe { &(*handle.cast::<Owned<Handle>>()).value }
}

/// Stores the address of an ordinary vector's host copy in the header, for C's fast path. It is valid as long as the
/// vector lives.
///
/// # Safety
/// As for `of`.
unsafe fn note_host(handle: *mut c_void, writable: bool) {
    // SAFETY: the caller's promise.
    let owned = unsafe { &*handle.cast::<Owned<Handle>>() };
    if !owned.value.is_ordinary() {
        return;
    }
    if let Some(host) = owned.value.host(false) {
        owned.header.host.set(host.cast());
        owned.header.is_written.set((owned.header.is_written.get() != 0 || writable).into());
    }
}

#[no_mangle]
extern "C" fn vg_init() {
    conditions::quiet_panics();
    gc::start();
    fork::watch();
    handle::watch_forks();
}

/// Whether R sees a plain vector. Reading it is no implicit access to an array, so `verdigris.host_access` does not
/// apply.
#[no_mangle]
extern "C" fn vg_is_ordinary(handle: *mut c_void) -> c_int {
    // SAFETY: C passes a living vector's handle.
    unsafe { of(handle) }.is_ordinary() as c_int
}

#[no_mangle]
extern "C" fn vg_handle_bytes(handle: *mut c_void) -> f64 {
    // SAFETY: C passes a living vector's handle, here and below.
    unsafe { of(handle) }.host_bytes() as f64
}

#[no_mangle]
extern "C" fn vg_host_pointer(handle: *mut c_void, writable: c_int) -> *mut c_void {
    let host = unsafe { of(handle) }.host(writable != 0).map_or(ptr::null_mut(), |p| p.cast());
    unsafe { note_host(handle, writable != 0) };
    host
}

#[no_mangle]
extern "C" fn vg_host_fetch(handle: *mut c_void, writable: c_int) -> *mut c_void {
    let pointer = handle;
    let handle = unsafe { of(pointer) };
    let done = conditions::attempt(|| handle.fetch());
    conditions::collect_warnings();
    if done.is_none() {
        return ptr::null_mut();
    }
    let host = handle.fetched(writable != 0).map_or(ptr::null_mut(), |p| p.cast());
    // SAFETY: as above.
    unsafe { note_host(pointer, writable != 0) };
    host
}

/// Whether the host copy has NA for int64 elements that no double represents.
#[no_mangle]
extern "C" fn vg_is_lossy(handle: *mut c_void) -> c_int {
    unsafe { of(handle) }.is_lossy() as c_int
}

/// Leaves a warning about int64 read as NA, unless R function number `reader` was the last one warned.
#[no_mangle]
extern "C" fn vg_warn_of_lost(handle: *mut c_void, reader: isize) {
    unsafe { of(handle) }.warn_of_lost(reader);
}

#[no_mangle]
extern "C" fn vg_handle_hold(handle: *mut c_void, holder: *const Holder) {
    unsafe { of(handle).hold(&*holder) };
}

#[no_mangle]
extern "C" fn vg_region_cached(handle: *mut c_void, from: isize, n: isize, out: *mut c_void) -> c_int {
    // SAFETY: R has room for n elements.
    unsafe { of(handle).cached(from as usize, n as usize, out.cast()) as c_int }
}

#[no_mangle]
extern "C" fn vg_region(handle: *mut c_void, from: isize, n: isize, out: *mut c_void) -> c_int {
    // SAFETY: R has room for n elements.
    let done = conditions::attempt(|| unsafe { of(handle).read(from as usize, n as usize, out.cast()) });
    conditions::collect_warnings();
    // SAFETY: as above.
    unsafe { note_host(handle, false) };
    match done {
        None => 0,
        Some(lost) => 1 + c_int::from(lost),
    }
}

/// Copies the element at a 0-based position to `out`. Returns 1; 0 on failure; -1 if it must be taken by ordinary
/// subsetting.
#[no_mangle]
extern "C" fn vg_element_at(handle: *mut c_void, index: isize, out: *mut c_void) -> c_int {
    let handle = unsafe { of(handle) };
    // SAFETY: C has room for one element, here and below.
    if unsafe { handle.cached(index as usize, 1, out.cast()) } {
        return 1;
    }
    let array = handle.array_unsynced();
    if array.pending() > 0 || array.dtype() == DType::Int64 || handle.is_ordinary() {
        return -1;
    }
    let done = conditions::attempt(|| unsafe { handle.element(index as usize, out.cast()) });
    conditions::collect_warnings();
    done.is_some() as c_int
}

#[no_mangle]
extern "C" fn vg_handle_duplicate(handle: *mut c_void) -> *mut c_void {
    let handle = unsafe { of(handle) };
    // on failure R copies the elements itself, and raises its error if it cannot either
    let copy = conditions::attempt_quietly(|| handle.duplicate());
    copy.map_or(ptr::null_mut(), |copy| Box::into_raw(copy.owned()).cast())
}

/// The dtype's name; NULL if R's type implies it, and on failure.
#[no_mangle]
extern "C" fn vg_handle_dtype(handle: *mut c_void) -> *const c_char {
    let handle = unsafe { of(handle) };
    let Some(dtype) = conditions::attempt(|| handle.dtype()) else { return ptr::null() };
    if host_copy::is_natural(dtype) || handle.is_ordinary() {
        ptr::null()
    } else {
        dtype.c_name().as_ptr()
    }
}

/// A line for `.Internal(inspect(x))`, NUL-terminated and truncated to `size` bytes.
#[no_mangle]
extern "C" fn vg_handle_describe(handle: *mut c_void, out: *mut c_char, size: c_int) {
    let handle = unsafe { of(handle) };
    let array = handle.array_unsynced();
    let what = if handle.is_ordinary() { "an ordinary vector," } else { "gpu_array" };
    let mut text = format!("{what} {} [{}] on {}", array.dtype(), array.len(), array.device());
    if array.pending() > 0 {
        text += &format!(", {} operations recorded", array.pending());
    }
    if handle.has_host() {
        text += if handle.is_dirty() { ", host copy (maybe written)" } else { ", host copy" };
    }
    let n = text.len().min(size.max(1) as usize - 1);
    // SAFETY: C's buffer has `size` bytes.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), out, n);
        *out.add(n) = 0;
    }
}
