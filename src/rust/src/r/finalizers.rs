//! Freeing the values of finalized external pointers. Finalizers run whenever R collects garbage, possibly in the
//! middle of an entry, so they only list the pointers as dead (`finalizers.c`). The next entry frees the values.

use std::os::raw::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use verdigris_ops::error::{Error, Kind};
use verdigris_ops::fork;

use crate::r::external_ptr::{self, Header, ALIVE, USED};
use crate::r::{self, call_site, conditions, SEXP};

/// Nonzero if there is something to free: values of dead pointers, or calls of dropped call sites.
#[no_mangle]
pub static vg_any_dead: AtomicI32 = AtomicI32::new(0);

/// Whether this process is a forked child, which must not free what the parent's handles own.
pub fn forked() -> bool {
    fork::depth() > 0
}

#[no_mangle]
extern "C" fn vg_forked() -> c_int {
    forked().into()
}

/// Makes the next entry call `reap`. From any thread.
pub fn wake() {
    vg_any_dead.store(1, Ordering::Release);
}

/// The dead pointers.
fn dead() -> impl Iterator<Item = SEXP> {
    // SAFETY: only reads R objects; nothing changes the list meanwhile.
    std::iter::successors(some(unsafe { r::vg_dead_after(std::ptr::null_mut()) }), |&pointer| {
        some(unsafe { r::vg_dead_after(pointer) })
    })
}

fn some(pointer: SEXP) -> Option<SEXP> {
    (!pointer.is_null()).then_some(pointer)
}

/// The headers of the dead pointers' values.
pub fn dead_values() -> impl Iterator<Item = &'static Header> {
    dead().filter_map(header)
}

/// The header of a pointer's value; `None` if it was freed. Does not mark the value as used.
fn header<'a>(pointer: SEXP) -> Option<&'a Header> {
    // SAFETY: an external pointer of this package; a freed value has an odd address.
    unsafe {
        let at = r::R_ExternalPtrAddr(pointer);
        if at as usize & 1 == 1 {
            return None;
        }
        at.cast::<Header>().as_ref()
    }
}

/// Frees the values of dead pointers, unless R is running a finalizer written in R. Main thread only; R may jump
/// (`r::protect`).
pub fn reap() {
    if vg_any_dead.load(Ordering::Acquire) != 0 {
        reap_now();
    }
}

#[cold]
fn reap_now() {
    // SAFETY: R's own thread; each pointer is among the dead, or protected.
    unsafe {
        vg_any_dead.store(0, Ordering::Release);
        if !r::vg_dead_after(std::ptr::null_mut()).is_null() && r::vg_in_finalizer() != 0 {
            wake();
            return;
        }
        loop {
            let pointer = r::vg_dead_after(std::ptr::null_mut());
            if pointer.is_null() {
                break;
            }
            let header = header(pointer);
            if let Some(header) = header.filter(|header| header.state.get() == USED) {
                // if registering fails, the pointer is still in the list
                wake();
                r::vg_register(pointer);
                vg_any_dead.store(0, Ordering::Release);
                header.state.set(ALIVE);
                if r::vg_dead_after(std::ptr::null_mut()) != pointer {
                    // a collection has put another object in front
                    continue;
                }
            }
            let pointer = r::Rf_protect(r::vg_next_dead());
            if let Some(header) = header.filter(|header| header.state.get() != ALIVE) {
                let value = std::ptr::from_ref(header).cast_mut().cast();
                external_ptr::set_freed(pointer, header.length);
                (header.drop)(value);
            }
            r::Rf_unprotect(1);
        }
    }
    call_site::reap();
}

/// The error for a vector whose values were freed.
pub fn freed(array: bool) -> Error {
    let what = if array { "the array" } else { "the memory of a vector that was read from a GPU array" };
    Error::new(Kind::Consumed, format!("{what} was finalized: R has collected it, and its values are freed"))
        .advise("A finalizer kept a reference to it. Keep a copy made before, such as by `as.vector(x)`.")
}

/// Leaves that error pending.
#[no_mangle]
extern "C" fn vg_leave_freed(array: c_int) {
    conditions::set_pending(freed(array != 0));
}
