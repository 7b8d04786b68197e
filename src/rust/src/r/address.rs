//! Raw addresses in R, and the objects that keep their memory alive.

use verdigris_engine::memory::buffer::ExternalBorrow;
use verdigris_ops::dtype::{Class, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::Scalar;

use crate::r::{self, capsule, external_ptr, values, SEXP, SEXPTYPE};

/// An address: a number, a string ("0x..." or decimal), an integer64 or an external pointer.
pub fn of(x: SEXP, argument: &str) -> Result<u64> {
    let refused = |what: &str| {
        Error::new(ErrorKind::Argument, format!("`{argument}` must be an address, not {what}")).advise(
            "An address is a whole number, a string such as \"0x7f00c0de0000\", an integer64 or an external pointer.",
        )
    };
    match r::kind_of(x) {
        SEXPTYPE::EXTPTRSXP if external_ptr::is(x) => Err(refused(&values::describe(x))),
        SEXPTYPE::EXTPTRSXP if capsule::is_capsule(x) => {
            Err(refused("a DLPack capsule").advise("`from_dlpack()` takes a capsule."))
        }
        SEXPTYPE::EXTPTRSXP => {
            check_loan(x)?;
            // SAFETY: an external pointer.
            Ok(unsafe { r::R_ExternalPtrAddr(x) } as u64)
        }
        SEXPTYPE::STRSXP => {
            let text = values::string(x, argument)?.trim();
            let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
                Some(_) => return Err(refused(&format!("\"{text}\""))),
                None => text.parse(),
            };
            parsed.map_err(|_| refused(&format!("\"{text}\"")))
        }
        _ if values::is_factor_or_time(x) => Err(refused(&values::describe(x))),
        _ => match values::scalar(x) {
            Some((value, kind @ (Kind::Integer | Kind::Double | Kind::Integer64))) => {
                let whole = match value {
                    Scalar::F64(v) if v.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&v) => {
                        Some(v as u64)
                    }
                    Scalar::F64(_) => None,
                    _ => match value.to(Class::I64) {
                        Scalar::I64(v) if v >= 0 => Some(v as u64),
                        _ => None,
                    },
                };
                let what = if kind == Kind::Double {
                    "a number that is negative, too large or not whole"
                } else {
                    "a negative number or NA"
                };
                whole.ok_or_else(|| refused(what))
            }
            _ => Err(refused(&values::describe(x))),
        },
    }
}

/// The tag of the external pointers of `gpu_pointer()`.
pub fn tag() -> SEXP {
    r::known_symbol!(c"gpu_memory")
}

/// The loan of a `gpu_pointer()`, the value of its inner external pointer; `None` if R has finalized it.
pub fn loan_of<'a>(x: SEXP) -> Option<&'a ExternalBorrow> {
    // SAFETY: made by `gpu_pointer()`; the pointer keeps the inner one, whose value is a loan.
    unsafe {
        let inner = r::R_ExternalPtrProtected(x);
        if r::kind_of(inner) == SEXPTYPE::EXTPTRSXP {
            external_ptr::value::<ExternalBorrow>(inner)
        } else {
            None
        }
    }
}

/// An error if x is a `gpu_pointer()` whose loan has ended. Call before its memory is used.
fn check_loan(x: SEXP) -> Result<()> {
    // SAFETY: an external pointer. One from a file has a null address, for which other errors are raised.
    if !external_ptr::has_tag(x, tag()) || unsafe { r::R_ExternalPtrAddr(x) }.is_null() {
        return Ok(());
    }
    loan_of(x).map(|_| ()).ok_or_else(|| {
        Error::new(ErrorKind::Consumed, "the memory of the pointer is freed: R has finalized it")
            .advise("Make a new one with `gpu_pointer(x)`.")
    })
}

/// The same for an object that keeps a `gpu_pointer()`: the external pointer itself, a list that contains it, or an
/// object with it as attribute `owner`.
pub fn check_owner(x: SEXP) -> Result<()> {
    check_loan(x)?;
    // SAFETY: reading an attribute, and a list within its length.
    unsafe {
        check_loan(r::Rf_getAttrib(x, r::known_symbol!(c"owner")))?;
        if r::kind_of(x) == SEXPTYPE::VECSXP {
            for k in 0..r::len(x) {
                check_loan(r::VECTOR_ELT(x, k as isize))?;
            }
        }
    }
    Ok(())
}

/// Whether `owner` is a `gpu_pointer()` that was lent for reading only.
pub fn is_for_reading(owner: SEXP) -> bool {
    external_ptr::has_tag(owner, tag()) && loan_of(owner).is_some_and(|lent| !lent.writes())
}
