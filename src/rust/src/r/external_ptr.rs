//! External pointers that own a Rust value. `finalizers.c` lists dead pointers, and `finalizers` frees their values.

use std::any::Any;
use std::cell::Cell;
use std::os::raw::{c_int, c_void};

use crate::r::{self, SEXP};

/// The first field of every such value; `vg_header` in C.
#[repr(C)]
pub struct Header {
    /// Drops the whole value.
    pub drop: unsafe extern "C" fn(*mut c_void),
    /// The length of the R vector on this value; 0 if there is none.
    pub length: isize,
    pub state: Cell<c_int>,
    pub kind: Of,
    /// The host copy of an ordinary vector that was read, for C's fast path; else null.
    pub host: Cell<*mut c_void>,
    /// Whether R has asked for a writable address of it.
    pub is_written: Cell<c_int>,
}

/// State: a finalizer has used the value after its pointer had died.
pub const USED: c_int = 2;
pub const ALIVE: c_int = 0;

#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub enum Of {
    Handle,
    Other,
}

#[repr(C)]
pub struct Owned<T> {
    pub header: Header,
    pub value: T,
}

unsafe extern "C" fn drop_owned<T>(value: *mut c_void) {
    // SAFETY: made by `Owned::new`, of this type; called once, when no external pointer refers to it.
    drop(unsafe { Box::from_raw(value.cast::<Owned<T>>()) });
}

impl<T> Owned<T> {
    pub fn new(value: T, length: usize, kind: Of) -> Box<Owned<T>> {
        let (host, is_written) = (Cell::new(std::ptr::null_mut()), Cell::new(0));
        let (drop, length, state) = (drop_owned::<T>, length as isize, Cell::new(ALIVE));
        let header = Header { drop, length, state, kind, host, is_written };
        Box::new(Owned { header, value })
    }

    /// Gives the value to an external pointer that has none yet. Cannot fail.
    pub fn give(self: Box<Owned<T>>, pointer: SEXP) {
        // SAFETY: an external pointer of `vg_new_pointer`.
        unsafe { r::R_SetExternalPtrAddr(pointer, Box::into_raw(self).cast()) };
    }
}

/// Stores the length instead of an address, as an odd number: the value was freed, or is not there yet.
pub fn set_freed(pointer: SEXP, length: isize) {
    // SAFETY: an external pointer of `vg_new_pointer`, which does not own a value any more.
    unsafe { r::R_SetExternalPtrAddr(pointer, ((length as usize) << 1 | 1) as *mut c_void) };
}

/// A new external pointer that owns a value and keeps an object alive; `kept` may be a null pointer. Not protected.
pub fn pointer<T>(value: T, tag: SEXP, kept: SEXP) -> SEXP {
    let value = Owned::new(value, 0, Of::Other);
    // SAFETY: C protects the object while it makes the pointer.
    let pointer = unsafe { r::vg_new_pointer(tag, kept) };
    value.give(pointer);
    pointer
}

/// Whether x is an external pointer with this tag.
pub fn has_tag(x: SEXP, tag: SEXP) -> bool {
    // SAFETY: the type is checked first.
    r::kind_of(x) == r::SEXPTYPE::EXTPTRSXP && unsafe { r::R_ExternalPtrTag(x) } == tag
}

/// The value of a pointer; `None` if it was freed or taken, or if the pointer comes from a file.
///
/// # Safety
/// x is an external pointer to a `T`, as its tag says, and is protected as long as the value is used.
pub unsafe fn value<'a, T>(x: SEXP) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { r::vg_value_of(x).cast::<Owned<T>>().as_ref() }.map(|owned| &owned.value)
}

/// Takes the value out of a pointer; `None` if it has none.
///
/// # Safety
/// As for `value`, and no reference to the value is in use.
pub unsafe fn take_value<T>(x: SEXP) -> Option<T> {
    // SAFETY: the caller's promise; the pointer is cleared, so the value is taken only once.
    unsafe {
        let at = r::vg_value_of(x).cast::<Owned<T>>();
        if at.is_null() {
            return None;
        }
        r::R_ClearExternalPtr(x);
        Some(Box::from_raw(at).value)
    }
}

// ---- values of any type ------------------------------------------------------------------------------

fn tag() -> SEXP {
    r::known_symbol!(c"verdigris_owned")
}

/// A new external pointer that owns a value of any type. Not protected.
pub fn new<T: Any>(value: T) -> SEXP {
    pointer::<Box<dyn Any>>(Box::new(value), tag(), std::ptr::null_mut())
}

/// Whether x was made by `new`, for a value of any type, in this or another session.
pub fn is(x: SEXP) -> bool {
    has_tag(x, tag())
}

/// The value of a pointer made by `new`; `None` for other objects, other types, and pointers from a file.
pub fn get<'a, T: Any>(x: SEXP) -> Option<&'a T> {
    if !is(x) {
        return None;
    }
    // SAFETY: made by `new`; the value lives as long as x, which is an argument and so protected by R.
    unsafe { value::<Box<dyn Any>>(x) }.and_then(|value| value.downcast_ref())
}

/// Takes the value out of a pointer made by `new`; `None` if it has none of this type.
pub fn take<T: Any>(x: SEXP) -> Option<T> {
    get::<T>(x)?;
    // SAFETY: made by `new`, of this type.
    let value = unsafe { take_value::<Box<dyn Any>>(x) }?;
    value.downcast::<T>().map(|value| *value).ok()
}
