//! R vectors and their handles: the handle of a vector, and new vectors on handles.

use std::os::raw::c_int;

use verdigris_engine::array::Array;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use super::Handle;
use crate::array::{attributes, host_copy};
use crate::r::external_ptr::{self, Owned};
use crate::r::{self, conditions, finalizers, SEXP};

/// The handle of a vector of this package, also in base R's wrappers. Fails the entry if the handle was freed, or
/// cannot be made of a recorded vector.
fn any<'a>(x: SEXP) -> Option<&'a Handle> {
    // SAFETY: C checks the class; the handle lives as long as x, which is an argument and so protected by R.
    unsafe {
        let owned = r::vg_handle_of(x).cast::<Owned<Handle>>().as_ref();
        if owned.is_none() && r::vg_is_ours(x) != 0 {
            conditions::fail_as_left(|| finalizers::freed(true));
        }
        owned.map(|owned| &owned.value)
    }
}

/// Whether x is an array, also one whose values were freed.
pub fn is_array(x: SEXP) -> bool {
    // SAFETY: as above.
    let owned = unsafe { r::vg_handle_of(x).cast::<Owned<Handle>>().as_ref() };
    // SAFETY: reads the class attribute.
    owned.map_or_else(|| unsafe { r::vg_is_ours(x) } != 0 && r::inherits(x, "gpu_array"), |owned| !owned.value.ordinary)
}

/// Whether x is a vector of this package whose values were freed after R had finalized it.
pub fn is_finalized(x: SEXP) -> bool {
    // SAFETY: C checks the class.
    unsafe {
        let data = r::vg_data_of(x);
        !data.is_null() && r::kind_of(data) == r::SEXPTYPE::EXTPTRSXP && r::R_ExternalPtrAddr(data) as usize & 1 == 1
    }
}

/// The handle of an external pointer. Fails the entry if it was freed.
pub fn behind<'a>(pointer: SEXP) -> &'a Handle {
    // SAFETY: the pointer of a vector or a lazy cell; the handle lives as long as the pointer.
    unsafe { external_ptr::value(pointer) }.unwrap_or_else(|| conditions::fail(finalizers::freed(true)))
}

/// The handle of an array; `None` for other objects.
pub fn of<'a>(x: SEXP) -> Option<&'a Handle> {
    any(x).filter(|handle| !handle.ordinary)
}

/// The handle of an ordinary vector (`ordinary.rs`); `None` for other objects.
pub fn ordinary<'a>(x: SEXP) -> Option<&'a Handle> {
    any(x).filter(|handle| handle.ordinary)
}

/// A new vector without any attributes, not even a class. Not protected.
pub fn new_without_attributes(array: Array) -> SEXP {
    vector(Handle::new(array))
}

/// A new vector on a handle, without attributes. Not protected.
pub fn vector(handle: Handle) -> SEXP {
    let kind = host_copy::r_type(handle.array_unsynced().dtype());
    let handle = handle.owned();
    // SAFETY: a new vector, whose first part is the pointer; it owns the handle from here on.
    unsafe {
        let x = r::vg_new(kind as c_int);
        handle.give(r::R_altrep_data1(x));
        x
    }
}

/// A new vector on an array, with the attributes and class that `dress` sets, all within one `r::protect`. `dress`
/// returns the vector that it is given, and must own nothing that needs dropping. Not protected.
pub fn new_with_attributes(array: Array, dress: impl FnOnce(SEXP) -> SEXP + Copy) -> SEXP {
    let kind = host_copy::r_type(array.dtype());
    let handle = Handle::new(array).owned();
    let n = handle.header.length;
    // SAFETY: protected while it gets its attributes. R asks for the length, which is stored as the address until the
    // handle is.
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

/// A new vector on an array with these extents, which multiply to its length, and no other attributes. Not protected.
///
/// # Errors
/// `Shape` for an extent that `dim` cannot represent.
pub fn new_of_dim(array: Array, dim: &[usize]) -> Result<SEXP> {
    check_extents(dim)?;
    // SAFETY: protected while it gets its attributes; the product of the extents is the array's length.
    Ok(new_with_attributes(array, move |out| unsafe { set_dim(out, dim) }))
}

fn check_extents(dim: &[usize]) -> Result<()> {
    if dim.len() > 1 && dim.iter().any(|&extent| extent > i32::MAX as usize) {
        return Err(Error::new(ErrorKind::Shape, "an extent is above 2147483647, which R's `dim` cannot hold"));
    }
    Ok(())
}

/// Sets `dim` and the class that it implies. Returns the vector.
///
/// # Safety
/// The vector is protected; the extents multiply to its length, and none is above `i32::MAX`.
unsafe fn set_dim(out: SEXP, dim: &[usize]) -> SEXP {
    // SAFETY: the caller's promise; `value` is as long as `dim`.
    unsafe {
        let value = r::Rf_protect(r::Rf_allocVector(r::SEXPTYPE::INTSXP, dim.len() as isize));
        for (k, &extent) in dim.iter().enumerate() {
            *r::INTEGER(value).add(k) = extent as i32;
        }
        r::Rf_setAttrib(out, r::R_DimSymbol, value);
        r::Rf_unprotect(1);
        attributes::set_class(out, dim.len())
    }
}

/// A new vector without handle for an array of this dtype and length, with its class, and with `dim` if there are two
/// or more dimensions. `fill` sets the handle. Not protected.
///
/// # Errors
/// `Shape` for an extent that `dim` cannot represent.
pub fn empty(dtype: DType, len: usize, dim: &[usize]) -> Result<SEXP> {
    check_extents(dim)?;
    // SAFETY: protected while it gets its attributes. R asks for the length, which is stored as the address until the
    // handle is.
    Ok(r::protect(|| unsafe {
        if dim.len() <= 1 {
            return r::vg_new_classed(host_copy::r_type(dtype) as c_int);
        }
        let out = r::Rf_protect(r::vg_new(host_copy::r_type(dtype) as c_int));
        external_ptr::set_freed(r::R_altrep_data1(out), len as isize);
        let out = set_dim(out, dim);
        r::Rf_unprotect(1);
        out
    }))
}

/// Sets the handle of a vector made by `empty`. Cannot fail.
pub fn fill(x: SEXP, handle: Handle) {
    // SAFETY: of `empty`, with no handle yet.
    handle.owned().give(unsafe { r::R_altrep_data1(x) });
}

/// A new vector on an array, with the class of a vector and no other attributes. Not protected.
pub fn new_vector(array: Array) -> SEXP {
    let kind = host_copy::r_type(array.dtype());
    let handle = Handle::new(array).owned();
    // SAFETY: as above.
    unsafe {
        let x = r::vg_new_classed(kind as c_int);
        handle.give(r::R_altrep_data1(x));
        x
    }
}

/// A new vector on an array, with its class and with `dim`, `dimnames`, `names` and `tsp` of `x`, which has the same
/// length.
pub fn new_like(array: Array, x: SEXP) -> SEXP {
    // SAFETY: x is an argument of the entry; the attributes fit a vector of x's length, so R accepts them.
    new_with_attributes(array, move |out| unsafe {
        attributes::copy_shape(x, out);
        let time = r::Rf_protect(r::Rf_getAttrib(x, r::R_TspSymbol));
        if !r::is_null(time) {
            r::Rf_setAttrib(out, r::R_TspSymbol, time);
        }
        r::Rf_unprotect(1);
        attributes::classed(out)
    })
}

/// A new vector on imported memory, with `dim` if there are two or more dimensions. Not protected.
///
/// # Errors
/// `Shape` for an extent that `dim` cannot represent.
pub fn shaped(array: Array, dim: &[usize]) -> Result<SEXP> {
    let out = empty(array.dtype(), array.len(), dim)?;
    fill(out, Handle::import(array));
    Ok(out)
}
