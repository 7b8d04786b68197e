//! The R vector of a handle: lookups in both directions, and new vectors.

use std::os::raw::c_int;

use verdigris_engine::array::Array;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use super::Handle;
use crate::array::{attributes, host_copy};
use crate::r::external_ptr::{self, Owned};
use crate::r::{self, conditions, finalizers, SEXP};

/// The handle of one of our vectors, also inside base's wrappers. Ends the entry where it was freed, or cannot be made
/// of what is recorded.
fn any<'a>(x: SEXP) -> Option<&'a Handle> {
    // SAFETY: C checks the class; the handle lives as long as x, which R protects as our argument.
    unsafe {
        let owned = r::vg_handle_of(x).cast::<Owned<Handle>>().as_ref();
        if owned.is_none() && r::vg_is_ours(x) != 0 {
            conditions::fail_as_left(|| finalizers::freed(true));
        }
        owned.map(|owned| &owned.value)
    }
}

/// Whether x is one of our arrays, with values or without.
pub fn is_array(x: SEXP) -> bool {
    // SAFETY: as above.
    let owned = unsafe { r::vg_handle_of(x).cast::<Owned<Handle>>().as_ref() };
    // SAFETY: asks for a class.
    owned.map_or_else(|| unsafe { r::vg_is_ours(x) } != 0 && r::inherits(x, "gpu_array"), |owned| !owned.value.ordinary)
}

/// Whether x is one of our vectors, and its values were freed when R finalized it.
pub fn is_finalized(x: SEXP) -> bool {
    // SAFETY: C checks the class.
    unsafe {
        let data = r::vg_data_of(x);
        !data.is_null() && r::kind_of(data) == r::SEXPTYPE::EXTPTRSXP && r::R_ExternalPtrAddr(data) as usize & 1 == 1
    }
}

/// The handle behind an external pointer. Ends the entry where it was freed.
pub fn behind<'a>(pointer: SEXP) -> &'a Handle {
    // SAFETY: the pointer of a vector or a cell of ours; the handle lives as long as it.
    unsafe { external_ptr::value(pointer) }.unwrap_or_else(|| conditions::fail(finalizers::freed(true)))
}

/// The handle of an array; None for anything else.
pub fn of<'a>(x: SEXP) -> Option<&'a Handle> {
    any(x).filter(|handle| !handle.ordinary)
}

/// The handle of an ordinary vector of ours; None for anything else.
pub fn ordinary<'a>(x: SEXP) -> Option<&'a Handle> {
    any(x).filter(|handle| handle.ordinary)
}

/// A new vector without attributes, not even a class. Not protected.
pub fn bare(array: Array) -> SEXP {
    vector(Handle::new(array))
}

/// A vector on a handle. Not protected.
pub fn vector(handle: Handle) -> SEXP {
    let kind = host_copy::r_type(handle.peek().dtype());
    let handle = handle.owned();
    // SAFETY: a new vector, whose first part is the pointer; it owns the handle from here on.
    unsafe {
        let x = r::vg_new(kind as c_int);
        handle.give(r::R_altrep_data1(x));
        x
    }
}

/// A vector on an array, with the attributes that `dress` gives it, and its class: R is asked for all of it at once.
/// `dress` returns what it is given, and has nothing to drop. Not protected.
pub fn dressed(array: Array, dress: impl FnOnce(SEXP) -> SEXP + Copy) -> SEXP {
    let kind = host_copy::r_type(array.dtype());
    let handle = Handle::new(array).owned();
    let n = handle.header.length;
    // SAFETY: protected while it gets its attributes. R asks for the length, which stands in place of the handle's
    // address.
    let x = r::protect(|| unsafe {
        let x = r::Rf_protect(r::vg_new(kind as c_int));
        external_ptr::set_freed(r::R_altrep_data1(x), n);
        let x = dress(x);
        r::Rf_unprotect(1);
        x
    });
    // SAFETY: as above.
    handle.give(unsafe { r::R_altrep_data1(x) });
    x
}

/// A vector for an array of this type and length, which `fill` provides, with `dim` for two or more dimensions, and its
/// class. Not protected.
///
/// # Errors
/// `Shape` for an extent that `dim` cannot represent.
pub fn empty(dtype: DType, len: usize, dim: &[usize]) -> Result<SEXP> {
    if dim.len() > 1 && dim.iter().any(|&extent| extent > i32::MAX as usize) {
        return Err(Error::new(ErrorKind::Shape, "an extent is above 2147483647, which R's `dim` cannot hold"));
    }
    // SAFETY: protected while it gets its attributes. R asks for the length, which stands in place of the handle's
    // address.
    Ok(r::protect(|| unsafe {
        if dim.len() <= 1 {
            return r::vg_new_classed(host_copy::r_type(dtype) as c_int);
        }
        let out = r::Rf_protect(r::vg_new(host_copy::r_type(dtype) as c_int));
        external_ptr::set_freed(r::R_altrep_data1(out), len as isize);
        let value = r::Rf_protect(r::Rf_allocVector(r::SEXPTYPE::INTSXP, dim.len() as isize));
        for (k, &extent) in dim.iter().enumerate() {
            *r::INTEGER(value).add(k) = extent as i32;
        }
        r::Rf_setAttrib(out, r::R_DimSymbol, value);
        let out = attributes::set_class(out, dim.len());
        r::Rf_unprotect(2);
        out
    }))
}

/// Gives an empty vector its array. Nothing fails.
pub fn fill(x: SEXP, handle: Handle) {
    // SAFETY: of `empty`, with no handle yet.
    handle.owned().give(unsafe { r::R_altrep_data1(x) });
}

/// A new array for R, with no attribute but the class of a vector. Not protected.
pub fn wrap(array: Array) -> SEXP {
    let kind = host_copy::r_type(array.dtype());
    let handle = Handle::new(array).owned();
    // SAFETY: as above.
    unsafe {
        let x = r::vg_new_classed(kind as c_int);
        handle.give(r::R_altrep_data1(x));
        x
    }
}

/// A new array for R with `dim`, `dimnames`, `names` and `tsp` of `x`, which has the same length.
pub fn wrap_like(array: Array, x: SEXP) -> SEXP {
    // SAFETY: x is our caller's argument; the attributes fit a vector of x's length, so R accepts them.
    dressed(array, move |out| unsafe {
        attributes::copy_shape(x, out);
        let time = r::Rf_protect(r::Rf_getAttrib(x, r::R_TspSymbol));
        if !r::is_null(time) {
            r::Rf_setAttrib(out, r::R_TspSymbol, time);
        }
        r::Rf_unprotect(1);
        attributes::classed(out)
    })
}

/// A vector over memory from outside, with `dim` for two or more dimensions. Not protected.
///
/// # Errors
/// `Shape` for an extent that `dim` cannot represent.
pub fn shaped(array: Array, dim: &[usize]) -> Result<SEXP> {
    let out = empty(array.dtype(), array.len(), dim)?;
    fill(out, Handle::import(array));
    Ok(out)
}
