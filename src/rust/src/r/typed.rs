//! Conversion of an entry's arguments from R, and of its result to R. A failed conversion names the argument.

use std::any::Any;

use verdigris_engine::memory::fallible;
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scalar::Scalar;

use crate::r::{self, external_ptr, values, List, SEXP, SEXPTYPE};

/// A type of an entry's arguments.
pub trait FromR: Sized {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Self>;
}

/// A type of an entry's results, and of the elements of a list.
pub trait IntoR {
    /// The R value, not protected.
    fn into_r(self) -> SEXP;
}

/// What the body of an entry returns: a value, or a `Result` of one.
pub trait Outcome {
    fn outcome(self) -> Result<SEXP>;
}

impl<T: IntoR> Outcome for T {
    fn outcome(self) -> Result<SEXP> {
        Ok(self.into_r())
    }
}

impl<T: IntoR> Outcome for Result<T> {
    fn outcome(self) -> Result<SEXP> {
        self.map(T::into_r)
    }
}

// ---- arguments ---------------------------------------------------------------------------------------

macro_rules! arguments {
    ($($(#[$meta:meta])* $type:ty: $convert:path;)+) => {
        $($(#[$meta])* impl FromR for $type {
            fn from_r(x: SEXP, argument: &'static str) -> Result<Self> {
                $convert(x, argument)
            }
        })+
    };
}

arguments! {
    /// TRUE or FALSE.
    bool: values::flag;
    /// One double that is not NA.
    f64: values::number;
    /// One whole number, 0 or more.
    usize: values::size;
    /// Whole numbers.
    Vec<i64>: values::wholes;
    /// One string that is not NA.
    &str: values::string;
    /// Strings without NA; empty for NULL.
    Vec<String>: values::strings;
}

/// Any R value.
impl FromR for SEXP {
    fn from_r(x: SEXP, _: &'static str) -> Result<SEXP> {
        Ok(x)
    }
}

/// None for NULL.
impl<T: FromR> FromR for Option<T> {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Option<T>> {
        if r::is_null(x) {
            Ok(None)
        } else {
            T::from_r(x, argument).map(Some)
        }
    }
}

/// Whole numbers, 0 or more.
impl FromR for Vec<usize> {
    fn from_r(x: SEXP, _: &'static str) -> Result<Vec<usize>> {
        values::sizes(x)
    }
}

/// Exactly `N` whole numbers, 0 or more.
impl<const N: usize> FromR for [usize; N] {
    fn from_r(x: SEXP, argument: &'static str) -> Result<[usize; N]> {
        let sizes: Vec<usize> = FromR::from_r(x, argument)?;
        sizes.try_into().map_err(|_| Error::new(Kind::Argument, format!("`{argument}` must be {N} sizes")))
    }
}

/// Exactly `N` bytes of a raw vector.
impl<const N: usize> FromR for [u8; N] {
    fn from_r(x: SEXP, argument: &'static str) -> Result<[u8; N]> {
        if r::kind_of(x) != SEXPTYPE::RAWSXP || r::len(x) != N {
            return Err(Error::new(
                Kind::Argument,
                format!("`{argument}` must be {N} bytes, not {}", values::describe(x)),
            ));
        }
        // SAFETY: a raw vector of this length.
        Ok(std::array::from_fn(|k| unsafe { *r::RAW_RO(x).add(k) }))
    }
}

/// Doubles.
impl FromR for Vec<f64> {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Vec<f64>> {
        if r::kind_of(x) != SEXPTYPE::REALSXP {
            let message = format!("`{argument}` must be doubles, not {}", values::describe(x));
            return Err(Error::new(Kind::Argument, message));
        }
        // SAFETY: doubles, read within their length.
        fallible::collected((0..r::len(x)).map(|k| unsafe { *r::REAL(x).add(k) }))
    }
}

/// The elements of a list; empty for NULL.
impl FromR for Vec<SEXP> {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Vec<SEXP>> {
        if !r::is_null(x) && r::kind_of(x) != SEXPTYPE::VECSXP {
            let message = format!("`{argument}` must be a list, not {}", values::describe(x));
            return Err(Error::new(Kind::Argument, message));
        }
        // SAFETY: a list, read within its length.
        fallible::collected((0..r::len(x)).map(|k| unsafe { r::VECTOR_ELT(x, k as isize) }))
    }
}

/// One number of any type.
impl FromR for (Scalar, NumberKind) {
    fn from_r(x: SEXP, argument: &'static str) -> Result<(Scalar, NumberKind)> {
        let message = || format!("`{argument}` must be one number, not {}", values::describe(x));
        values::scalar(x).ok_or_else(|| Error::new(Kind::Argument, message()))
    }
}

impl FromR for DType {
    fn from_r(x: SEXP, _: &'static str) -> Result<DType> {
        values::dtype(x)?.ok_or_else(|| Error::new(Kind::Argument, "`dtype` must be named"))
    }
}

// ---- external pointers -------------------------------------------------------------------------------

/// A type whose values are external pointers in R.
pub trait External: Any {
    /// The error for an object that is no such pointer of this session.
    fn refused(x: SEXP, argument: &str) -> Error;
}

impl<T: External> FromR for &T {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Self> {
        external_ptr::get(x).ok_or_else(|| T::refused(x, argument))
    }
}

impl<T: External> IntoR for T {
    fn into_r(self) -> SEXP {
        external_ptr::new(self)
    }
}

/// A value that is taken out of its external pointer.
pub struct Taken<T>(pub T);

impl<T: External> FromR for Taken<T> {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Taken<T>> {
        external_ptr::take(x).map(Taken).ok_or_else(|| T::refused(x, argument))
    }
}

// ---- results -----------------------------------------------------------------------------------------

macro_rules! results {
    ($($type:ty: $x:ident => $value:expr;)+) => {
        $(impl IntoR for $type {
            fn into_r(self) -> SEXP {
                let $x = self;
                $value
            }
        })+
    };
}

results! {
    SEXP: x => x;
    (): _x => r::null();
    bool: x => r::logical(x);
    f64: x => r::real(x);
    Vec<f64>: x => r::reals(x.into_iter());
    &str: x => r::string(x);
    String: x => r::string(&x);
    &[String]: x => r::strings(x.iter());
    &[u8]: x => r::bytes(x);
    Vec<u8>: x => r::bytes(&x);
    List: x => x.finish();
}

impl<T: IntoR> IntoR for Option<T> {
    fn into_r(self) -> SEXP {
        self.map_or_else(r::null, T::into_r)
    }
}

impl<const N: usize> IntoR for [f64; N] {
    fn into_r(self) -> SEXP {
        r::reals(self.into_iter())
    }
}

/// A list without names.
impl<A: IntoR, B: IntoR> IntoR for (A, B) {
    fn into_r(self) -> SEXP {
        // SAFETY: protected while its elements are made; within its length.
        unsafe {
            let out = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::VECSXP, 2));
            r::SET_VECTOR_ELT(out, 0, self.0.into_r());
            r::SET_VECTOR_ELT(out, 1, self.1.into_r());
            r::Rf_unprotect(1);
            out
        }
    }
}
