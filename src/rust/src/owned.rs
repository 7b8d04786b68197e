//! External pointers that own a value of ours. A finalizer only queues it, as that of a handle does.

use std::any::Any;
use std::os::raw::c_void;

use verdigris_engine::error::{Error, Kind, Result};

use crate::finalized;
use crate::r::{self, SEXP};

fn tag() -> SEXP {
    r::known_symbol!(c"verdigris_owned")
}

unsafe extern "C" fn finalize(pointer: SEXP) {
    // SAFETY: one of ours, made below; cleared, so that it is freed once.
    unsafe {
        let value = r::R_ExternalPtrAddr(pointer).cast::<Box<dyn Any>>();
        if !value.is_null() && !crate::altrep::forked() {
            r::R_ClearExternalPtr(pointer);
            finalized::bury_other(*Box::from_raw(value));
        }
    }
}

/// A pointer that owns a value. Not protected.
pub fn new<T: Any>(value: T) -> SEXP {
    let value: Box<Box<dyn Any>> = Box::new(Box::new(value));
    // SAFETY: the pointer owns the value from here on.
    unsafe {
        let pointer = r::Rf_protect(r::R_MakeExternalPtr(Box::into_raw(value).cast::<c_void>(), tag(), r::null()));
        r::R_RegisterCFinalizerEx(pointer, Some(finalize), extendr_ffi::Rboolean::FALSE);
        r::Rf_unprotect(1);
        pointer
    }
}

fn address(x: SEXP) -> *mut Box<dyn Any> {
    if is(x) {
        // SAFETY: an external pointer.
        unsafe { r::R_ExternalPtrAddr(x) }.cast()
    } else {
        std::ptr::null_mut()
    }
}

/// Whether x is such a pointer, of whatever value and session.
pub fn is(x: SEXP) -> bool {
    // SAFETY: the type is asked for first.
    r::kind_of(x) == r::SEXPTYPE::EXTPTRSXP && unsafe { r::R_ExternalPtrTag(x) } == tag()
}

/// The value of a pointer; None for anything else, such as one that came from a file.
pub fn get<'a, T: Any>(x: SEXP) -> Option<&'a T> {
    // SAFETY: made by `new`; the value lives as long as x, which R protects as our argument.
    unsafe { address(x).as_ref() }.and_then(|value| value.downcast_ref())
}

/// Takes the value out of a pointer.
///
/// # Errors
/// `Consumed` where there is none, or none of this type.
pub fn take<T: Any>(x: SEXP, what: &str) -> Result<T> {
    if get::<T>(x).is_none() {
        return Err(Error::new(Kind::Consumed, format!("there is no {what}")));
    }
    // SAFETY: made by `new`, of this type; cleared, so that it is taken once.
    let value = unsafe {
        let at = address(x);
        r::R_ClearExternalPtr(x);
        *Box::from_raw(at)
    };
    value.downcast::<T>().map(|value| *value).map_err(|_| Error::new(Kind::Panic, "a value of another type"))
}
