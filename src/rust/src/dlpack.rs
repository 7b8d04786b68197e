//! DLPack capsules in R: external pointers with the capsule's name as tag (section "DLPack" of ARCHITECTURE.md).
//!
//! A capsule owns its tensor until it is used; then the tag says `used_...`, as Python's capsules do, and the
//! pointer is cleared.

use std::ffi::{c_void, CStr};

use verdigris_engine::array::Array;
use verdigris_engine::error::{Error, Kind as ErrorKind, Result};
use verdigris_engine::interop::dlpack::{self, Copying, Raw};

use crate::r::{self, List, SEXP, SEXPTYPE};
use crate::{altrep, convert, entry, handle};

/// R frees what nobody has used. Runs in gc: the deleter uses no R.
extern "C" fn finalize(capsule: SEXP) {
    if altrep::forked() {
        return; // the parent's to free
    }
    if let Ok(raw) = tensor(capsule) {
        // SAFETY: the capsule owned it, and gives it up.
        unsafe {
            r::R_ClearExternalPtr(capsule);
            raw.delete();
        }
    }
}

/// A capsule that will own a tensor; not protected.
fn empty(versioned: bool) -> SEXP {
    let name = if versioned { Raw::VERSIONED } else { Raw::LEGACY };
    // SAFETY: protected while it is made.
    unsafe {
        let tag = r::Rf_install(name.as_ptr());
        let capsule = r::Rf_protect(r::R_MakeExternalPtr(std::ptr::null_mut(), tag, r::R_NilValue));
        r::R_RegisterCFinalizerEx(capsule, Some(finalize), r::Rboolean::FALSE);
        let class = r::Rf_protect(r::string("dlpack_capsule"));
        r::Rf_setAttrib(capsule, r::R_ClassSymbol, class);
        r::Rf_unprotect(2);
        capsule
    }
}

fn tag(capsule: SEXP) -> &'static CStr {
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

/// The tensor of a capsule that was not used.
fn tensor(capsule: SEXP) -> Result<Raw> {
    if r::kind_of(capsule) != SEXPTYPE::EXTPTRSXP {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("expected a DLPack capsule, got {}", convert::describe(capsule)),
        )
        .advise("A capsule comes from `as_dlpack(x)`, or from another package's export."));
    }
    let name = tag(capsule);
    // SAFETY: an external pointer.
    let pointer = unsafe { r::R_ExternalPtrAddr(capsule) };
    if name.to_bytes().starts_with(b"used_") {
        return Err(Error::new(ErrorKind::Consumed, "the capsule has been used: a capsule gives its tensor away once")
            .advise("Make a new one with `as_dlpack(x)`; that copies nothing."));
    }
    if name != Raw::LEGACY && name != Raw::VERSIONED {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("an external pointer tagged \"{}\" is no DLPack capsule", name.to_string_lossy()),
        ));
    }
    Raw::from_capsule(name, pointer).ok_or_else(|| {
        Error::new(ErrorKind::Consumed, "the capsule is empty: it was saved, or comes from another process")
            .advise("Memory cannot be shared that way; send the array itself.")
    })
}

/// The capsule gives its tensor away.
fn mark_used(capsule: SEXP, raw: Raw) {
    let used = match raw {
        Raw::Legacy(_) => c"used_dltensor",
        Raw::Versioned(_) => c"used_dltensor_versioned",
    };
    // SAFETY: an external pointer; a symbol.
    unsafe {
        r::R_SetExternalPtrTag(capsule, r::Rf_install(used.as_ptr()));
        r::R_ClearExternalPtr(capsule);
    }
}

fn too_long() -> Error {
    Error::new(ErrorKind::Shape, "an extent is above 2147483647, which R's `dim` cannot say")
}

/// A vector on an array, with `dim` where there are two dimensions or more. Not protected.
pub fn shaped(array: Array, dim: &[usize]) -> Result<SEXP> {
    if dim.len() > 1 && dim.iter().any(|&extent| extent > i32::MAX as usize) {
        return Err(too_long());
    }
    // SAFETY: protected while it gets its attributes.
    unsafe {
        let out = r::Rf_protect(handle::bare(array));
        if dim.len() > 1 {
            let value = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::INTSXP, dim.len() as isize));
            for (k, &extent) in dim.iter().enumerate() {
                *r::INTEGER(value).add(k) = extent as i32;
            }
            r::Rf_setAttrib(out, r::R_DimSymbol, value);
            r::Rf_unprotect(1);
        }
        let out = handle::classed(out);
        r::Rf_unprotect(1);
        Ok(out)
    }
}

/// The extents of an R vector: its `dim`, or its length.
pub fn extents(x: SEXP) -> Result<Vec<usize>> {
    // SAFETY: reading an attribute.
    let dim = unsafe { r::Rf_getAttrib(x, r::R_DimSymbol) };
    if r::is_null(dim) {
        Ok(vec![r::len(x)])
    } else {
        convert::sizes(dim)
    }
}

entry! {
    /// A capsule with the array's memory. `stream`: NULL, or a CUDA stream's address as a double.
    fn dlpack_export(x, versioned, stream) {
        let versioned = convert::flag(versioned, "versioned")?;
        let stream = if r::is_null(stream) { None } else { Some(convert::size(stream, "stream")? as u64) };
        let array = handle::array(x)?;
        let dim = extents(x)?;
        // SAFETY: protected while the tensor is made; an empty capsule frees nothing.
        unsafe {
            let capsule = r::Rf_protect(empty(versioned));
            let raw = dlpack::export(&array, &dim, versioned, stream);
            r::Rf_unprotect(1);
            r::R_SetExternalPtrAddr(capsule, raw?.pointer());
            Ok(capsule)
        }
    }

    /// An array over a capsule's memory, with `dim` where it has two dimensions or more.
    fn dlpack_import(capsule, copy) {
        let copying = match () {
            () if r::is_null(copy) => Copying::IfNeeded,
            () if convert::flag(copy, "copy")? => Copying::Always,
            () => Copying::Never,
        };
        let raw = tensor(capsule)?;
        // SAFETY: who tagged the pointer so says that it is such a tensor, and has not been used.
        let description = unsafe { raw.describe()? };
        if description.shape.len() > 1 && description.shape.iter().any(|&d| d > i64::from(i32::MAX)) {
            return Err(too_long());
        }
        // SAFETY: as above; after it the tensor is the array's, or deleted.
        let (array, dim) = unsafe { dlpack::import(raw, copying)? };
        mark_used(capsule, raw);
        shaped(array, &dim)
    }

    /// list(tag, device, dtype, shape, strides, address, version, read_only): of a used one only the tag.
    fn dlpack_describe(capsule) {
        let raw = match tensor(capsule) {
            Ok(raw) => raw,
            Err(error) if error.kind == ErrorKind::Consumed => return Ok(r::string(&tag(capsule).to_string_lossy())),
            Err(error) => return Err(error),
        };
        // SAFETY: the capsule owns a whole tensor.
        let d = unsafe { raw.describe()? };
        let out = List::new(8)
            .add("tag", r::string(&tag(capsule).to_string_lossy()))
            .add("device", r::string(&d.device))
            .add("dtype", r::string(&d.dtype))
            .add("shape", r::reals(d.shape.iter().map(|&n| n as f64)))
            .add("strides", r::reals(d.strides.iter().map(|&n| n as f64)))
            .add("address", r::real(d.address as f64));
        let version = d.version.map_or_else(r::null, |(major, minor)| r::string(&format!("{major}.{minor}")));
        Ok(out.add("version", version).add("read_only", r::logical(d.read_only)).finish())
    }

    /// A capsule for a tensor at an address, which Python gave away.
    fn dlpack_capsule(address, versioned) {
        let address = convert::size(address, "address")?;
        let capsule = empty(convert::flag(versioned, "versioned")?);
        // SAFETY: an external pointer.
        unsafe { r::R_SetExternalPtrAddr(capsule, address as *mut c_void) };
        Ok(capsule)
    }

    /// The address of a capsule's tensor, which is the caller's from here on.
    fn dlpack_take(capsule) {
        let raw = tensor(capsule)?;
        let address = r::real(raw.pointer() as usize as f64);
        mark_used(capsule, raw);
        Ok(address)
    }
}
