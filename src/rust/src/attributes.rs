//! The attributes that a new array for R gets: its class, and those of the vector that it was made of.

use std::os::raw::c_int;

use verdigris_engine::array::Array;

use crate::handle::dressed;
use crate::r::{self, SEXP};

/// The shapes that differ in their class attribute.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Shape {
    Vector = 0,
    Matrix = 1,
    Array = 2,
    Series = 3,
    MatrixSeries = 4,
}

/// Sets the class that goes with `ndim` dimensions (0 where there is no `dim`) and with `tsp`, on a new vector.
/// Returns it; on R < 4.3 it gets the S4 bit too.
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

/// Sets the class that goes with the vector's own attributes.
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
            // R shows the dimnames of one dimension as names too, and setting those would lose the dimension's own name
            let shown = name == r::R_NamesSymbol && !r::is_null(r::Rf_getAttrib(x, r::R_DimNamesSymbol));
            if !r::is_null(value) && !shown {
                r::Rf_setAttrib(out, name, value);
            }
            r::Rf_unprotect(1);
        }
    }
}

/// A new array for R with `dim`, `dimnames`, `names` and `tsp` of `x`, which has the same length.
pub fn wrap_like(array: Array, x: SEXP) -> SEXP {
    // SAFETY: x is our caller's argument; the attributes fit a vector of x's length, so R accepts them.
    dressed(array, move |out| unsafe {
        copy_shape(x, out);
        let time = r::Rf_protect(r::Rf_getAttrib(x, r::R_TspSymbol));
        if !r::is_null(time) {
            r::Rf_setAttrib(out, r::R_TspSymbol, time);
        }
        r::Rf_unprotect(1);
        classed(out)
    })
}
