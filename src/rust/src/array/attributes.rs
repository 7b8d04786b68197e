//! The attributes of arrays: the class that their dimensions imply; `dim`, `dimnames` and `names`.

use std::os::raw::c_int;

use verdigris_ops::error::Result;

use crate::r::{self, values, SEXP};

/// The shapes that have class attributes of their own; the numbers are those of `vg_set_class()` in C.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Shape {
    Vector = 0,
    Matrix = 1,
    Array = 2,
    Series = 3,
    MatrixSeries = 4,
}

/// Sets the class of a new vector for `ndim` dimensions (0: no `dim`) and its `tsp`. Returns the vector.
pub fn set_class(x: SEXP, ndim: usize) -> SEXP {
    // SAFETY: x is protected by the caller; reading an attribute.
    let series = unsafe { !r::is_null(r::Rf_getAttrib(x, r::R_TspSymbol)) };
    let shape = match ndim {
        0 if series => Shape::Series,
        0 => Shape::Vector,
        2 if series => Shape::MatrixSeries,
        2 => Shape::Matrix,
        _ => Shape::Array,
    };
    // SAFETY: as above; x is of one of the four types.
    unsafe { r::vg_set_class(x, shape as c_int) }
}

/// Sets the class that the vector's `dim` and `tsp` imply. Returns the vector.
pub fn classed(x: SEXP) -> SEXP {
    // SAFETY: reading an attribute.
    let dim = unsafe { r::Rf_getAttrib(x, r::R_DimSymbol) };
    set_class(x, if r::is_null(dim) { 0 } else { r::len(dim) })
}

/// Gives a vector of x's length the `dim`, `dimnames` and `names` of `x`.
///
/// # Safety
/// Both are protected.
pub unsafe fn copy_shape(x: SEXP, out: SEXP) {
    // SAFETY: the caller's promise; the attributes fit a vector of x's length, so R accepts them.
    unsafe {
        for name in [r::R_DimSymbol, r::R_DimNamesSymbol, r::R_NamesSymbol] {
            let value = r::Rf_protect(r::Rf_getAttrib(x, name));
            // for one dimension R returns the dimnames as names; setting these would drop the names of the dimnames
            let shown = name == r::R_NamesSymbol && !r::is_null(r::Rf_getAttrib(x, r::R_DimNamesSymbol));
            if !r::is_null(value) && !shown {
                r::Rf_setAttrib(out, name, value);
            }
            r::Rf_unprotect(1);
        }
    }
}

/// Whether a vector has dimnames.
pub fn has_dimnames(x: SEXP) -> bool {
    // SAFETY: reading an attribute.
    !r::is_null(unsafe { r::Rf_getAttrib(x, r::R_DimNamesSymbol) })
}

/// The `dim` of an R vector, if it has one.
pub fn dim(x: SEXP) -> Result<Option<Vec<usize>>> {
    // SAFETY: reading an attribute.
    let dim = unsafe { r::Rf_getAttrib(x, r::R_DimSymbol) };
    if r::is_null(dim) {
        Ok(None)
    } else {
        values::sizes(dim).map(Some)
    }
}

/// Whether a vector has names, or dimnames of a single dimension.
pub fn has_names(x: SEXP) -> bool {
    // SAFETY: reading an attribute.
    !r::is_null(unsafe { r::Rf_getAttrib(x, r::R_NamesSymbol) })
}

/// The extents of an R vector: its `dim`, or its length.
pub fn extents(x: SEXP) -> Result<Vec<usize>> {
    Ok(dim(x)?.unwrap_or_else(|| vec![r::len(x)]))
}
