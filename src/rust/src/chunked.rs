//! Entries: copies that go on while something else is computed, for `gpu_chunked()`.

use std::os::raw::c_void;

use verdigris_engine::array::{Array, Coming, Host};
use verdigris_engine::error::{Error, Kind, Result};

use crate::r::{self, SEXP};
use crate::{convert, entry, handle};

fn tag() -> SEXP {
    r::symbol(c"verdigris_upload")
}

unsafe extern "C" fn finalize(pointer: SEXP) {
    // SAFETY: one of ours, made below.
    unsafe {
        let coming = r::R_ExternalPtrAddr(pointer).cast::<Coming>();
        if !coming.is_null() && !crate::altrep::forked() {
            r::R_ClearExternalPtr(pointer);
            // waits for the copy, which reads what the pointer keeps alive
            drop(Box::from_raw(coming));
        }
    }
}

fn part<T>(values: &[T], from: usize, n: usize) -> Result<&[T]> {
    from.checked_add(n)
        .and_then(|end| values.get(from..end))
        .ok_or_else(|| Error::new(Kind::Shape, "the chunk is not within the vector"))
}

entry! {
    /// Starts a copy of `n` elements of a host vector from `from` (0 is the first) on; or, where `rows` is not NULL, of `n` rows
    /// from row `from` on of a matrix of `rows` rows. Returns what `upload_take` makes an array of.
    fn upload_ahead(x, from, n, rows, dtype, device) {
        let (from, n) = (convert::size(from, "from")?, convert::size(n, "n")?);
        let device = convert::device(device)?;
        let dtype = convert::dtype(dtype)?;
        let data = convert::host(x).ok_or_else(|| {
            Error::new(Kind::DType, format!("an array cannot hold {}", convert::describe(x)))
                .advise("Chunks hold doubles, integers, logicals, complex numbers or integer64.")
        })?;
        let (data, rows) = if r::is_null(rows) {
            (match data {
                Host::Logical(v) => Host::Logical(part(v, from, n)?),
                Host::Integer(v) => Host::Integer(part(v, from, n)?),
                Host::Integer64(v) => Host::Integer64(part(v, from, n)?),
                Host::Double(v) => Host::Double(part(v, from, n)?),
                Host::Complex(v) => Host::Complex(part(v, from, n)?),
            }, None)
        } else {
            (data, Some((convert::size(rows, "rows")?, from, n)))
        };
        // SAFETY: the pointer below protects x, and its finalizer ends the copy; who calls does not write to x.
        let coming = Box::into_raw(Box::new(unsafe { Array::upload_ahead(data, rows, dtype, device, None)? }));
        // SAFETY: the pointer owns the copy.
        unsafe {
            let pointer = r::Rf_protect(r::R_MakeExternalPtr(coming.cast::<c_void>(), tag(), x));
            r::R_RegisterCFinalizerEx(pointer, Some(finalize), extendr_ffi::Rboolean::FALSE);
            r::Rf_unprotect(1);
            Ok(pointer)
        }
    }

    /// The array of a copy under way; its use waits for the copy.
    fn upload_take(pointer) {
        // SAFETY: the type and tag are checked; the address is cleared, so that it is taken once.
        let coming = unsafe {
            let ours = r::kind_of(pointer) == r::SEXPTYPE::EXTPTRSXP && r::R_ExternalPtrTag(pointer) == tag();
            let at = if ours { r::R_ExternalPtrAddr(pointer).cast::<Coming>() } else { std::ptr::null_mut() };
            if at.is_null() {
                return Err(Error::new(Kind::Consumed, "there is no copy under way"));
            }
            r::R_ClearExternalPtr(pointer);
            Box::from_raw(at)
        };
        let array = coming.take()?;
        // SAFETY: an external pointer; the copy has read what it kept alive.
        unsafe { r::R_SetExternalPtrProtected(pointer, r::null()) };
        Ok(handle::wrap(array))
    }
}
