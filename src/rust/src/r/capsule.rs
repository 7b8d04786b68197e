//! DLPack capsules in R: external pointers with the capsule's name as tag (the convention of vignettes/dlpack.Rmd).
//!
//! A capsule owns its tensor until it is used. Then the tag becomes `used_...`, as the name of Python's capsules, and
//! the address is cleared.

use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

use verdigris_engine::interop::dlpack::Raw;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::r::{self, external_ptr, finalizers, values, SEXP, SEXPTYPE};

/// The symbols that are tags of capsules.
struct Words {
    legacy: SEXP,
    versioned: SEXP,
    used_legacy: SEXP,
    used_versioned: SEXP,
}

fn words() -> Words {
    Words {
        legacy: r::known_symbol!(Raw::LEGACY),
        versioned: r::known_symbol!(Raw::VERSIONED),
        used_legacy: r::known_symbol!(c"used_dltensor"),
        used_versioned: r::known_symbol!(c"used_dltensor_versioned"),
    }
}

/// Whether an external pointer is a capsule, used or not.
pub fn is_capsule(x: SEXP) -> bool {
    let words = words();
    [words.legacy, words.versioned, words.used_legacy, words.used_versioned]
        .iter()
        .any(|&tag| external_ptr::has_tag(x, tag))
}

/// The class attribute of capsules, preserved.
fn class() -> SEXP {
    static CLASS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut class = CLASS.load(Ordering::Relaxed);
    if class.is_null() {
        // SAFETY: preserved for good, while it is protected.
        unsafe {
            let made = r::Rf_protect(r::string("dlpack_capsule"));
            r::R_PreserveObject(made);
            r::Rf_unprotect(1);
            class = made.cast();
        }
        CLASS.store(class, Ordering::Relaxed);
    }
    class.cast()
}

/// Frees the tensor of a capsule that was never used. Runs during a garbage collection, so the deleter must not call R.
extern "C" fn finalize(capsule: SEXP) {
    if finalizers::forked() {
        return; // the parent process frees it
    }
    if let Some(raw) = raw_in(capsule) {
        // SAFETY: the capsule owned the tensor, and is cleared.
        unsafe {
            r::R_ClearExternalPtr(capsule);
            raw.delete();
        }
    }
}

/// A new capsule without a tensor. Not protected.
pub fn empty(versioned: bool) -> SEXP {
    let tag = if versioned { words().versioned } else { words().legacy };
    let class = class();
    // SAFETY: protected while it is made.
    r::protect(|| unsafe {
        let capsule = r::Rf_protect(r::R_MakeExternalPtr(std::ptr::null_mut(), tag, r::R_NilValue));
        r::R_RegisterCFinalizerEx(capsule, Some(finalize), r::Rboolean::FALSE);
        r::Rf_setAttrib(capsule, r::R_ClassSymbol, class);
        r::Rf_unprotect(1);
        capsule
    })
}

/// The name of the tag; empty if it is no symbol.
pub fn tag<'a>(capsule: SEXP) -> &'a CStr {
    // SAFETY: an external pointer; symbols and their names are never freed.
    unsafe {
        let tag = r::R_ExternalPtrTag(capsule);
        if r::kind_of(tag) == SEXPTYPE::SYMSXP {
            CStr::from_ptr(r::R_CHAR(r::PRINTNAME(tag)))
        } else {
            c""
        }
    }
}

/// The tensor that a capsule owns. Safe in a finalizer: allocates nothing in R.
fn raw_in(capsule: SEXP) -> Option<Raw> {
    let words = words();
    // SAFETY: an external pointer.
    let (name, pointer) = unsafe { (r::R_ExternalPtrTag(capsule), r::R_ExternalPtrAddr(capsule)) };
    match () {
        () if pointer.is_null() => None,
        () if name == words.legacy => Some(Raw::Legacy(pointer.cast())),
        () if name == words.versioned => Some(Raw::Versioned(pointer.cast())),
        () => None,
    }
}

/// The tensor of a capsule that was not used yet, which still owns it; an error otherwise.
pub fn tensor(capsule: SEXP) -> Result<Raw> {
    if r::kind_of(capsule) != SEXPTYPE::EXTPTRSXP {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("expected a DLPack capsule, got {}", values::describe(capsule)),
        )
        .advise("A capsule comes from `as_dlpack(x)`, or from another package's export."));
    }
    let words = words();
    // SAFETY: an external pointer.
    let name = unsafe { r::R_ExternalPtrTag(capsule) };
    if name == words.used_legacy || name == words.used_versioned {
        return Err(Error::new(ErrorKind::Consumed, "the capsule has already been used: it can be used only once")
            .advise("Make a new one with `as_dlpack(x)`; that copies nothing."));
    }
    if name != words.legacy && name != words.versioned {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("an external pointer tagged \"{}\" is not a DLPack capsule", tag(capsule).to_string_lossy()),
        ));
    }
    raw_in(capsule).ok_or_else(|| {
        Error::new(
            ErrorKind::Consumed,
            "the capsule is empty: it was saved, comes from another process, or R has finalized it",
        )
        .advise("Memory cannot be shared that way; send the array itself.")
    })
}

/// Marks a capsule as used: it no longer owns its tensor.
pub fn mark_used(capsule: SEXP, raw: Raw) {
    let used = match raw {
        Raw::Legacy(_) => words().used_legacy,
        Raw::Versioned(_) => words().used_versioned,
    };
    // SAFETY: an external pointer; a symbol.
    unsafe {
        r::R_SetExternalPtrTag(capsule, used);
        r::R_ClearExternalPtr(capsule);
    }
}
