//! Entries: raw addresses, in and out.

use std::ffi::c_void;

use verdigris_engine::array::strided;
use verdigris_engine::interop::array_interface;
use verdigris_engine::interop::pointer::{self as raw, Given};
use verdigris_engine::memory::buffer::Lent;
use verdigris_ops::dtype::{Class, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::Scalar;

use crate::r::{self, List, SEXP, SEXPTYPE};
use crate::{convert, dlpack, entry, handle, owned, owners};

/// An address: a number, a string ("0x..." or decimal), an integer64 or an external pointer.
pub fn address(x: SEXP, argument: &str) -> Result<u64> {
    let refused = |what: &str| {
        Error::new(ErrorKind::Argument, format!("`{argument}` must be an address, not {what}")).advise(
            "An address is a whole number, a string such as \"0x7f00c0de0000\", an integer64 or an external pointer.",
        )
    };
    match r::kind_of(x) {
        SEXPTYPE::EXTPTRSXP if owned::is(x) => Err(refused(&convert::describe(x))),
        SEXPTYPE::EXTPTRSXP if dlpack::is_capsule(x) => {
            Err(refused("a DLPack capsule").advise("`from_dlpack()` takes a capsule."))
        }
        SEXPTYPE::EXTPTRSXP => {
            check_loan(x)?;
            // SAFETY: an external pointer.
            Ok(unsafe { r::R_ExternalPtrAddr(x) } as u64)
        }
        SEXPTYPE::STRSXP => {
            let text = convert::string(x, argument)?.trim();
            let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
                Some(_) => return Err(refused(&format!("\"{text}\""))),
                None => text.parse(),
            };
            parsed.map_err(|_| refused(&format!("\"{text}\"")))
        }
        _ if convert::is_stamped(x) => Err(refused(&convert::describe(x))),
        _ => match convert::scalar(x) {
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
            _ => Err(refused(&convert::describe(x))),
        },
    }
}

fn tag() -> SEXP {
    r::known_symbol!(c"gpu_memory")
}

/// The loan of a `gpu_pointer()`, which its inner external pointer has; None where it has ended.
fn loan_of<'a>(x: SEXP) -> Option<&'a Lent> {
    // SAFETY: made below; the pointer keeps the inner one, which has a loan.
    unsafe {
        let inner = r::R_ExternalPtrProtected(x);
        if r::kind_of(inner) == SEXPTYPE::EXTPTRSXP {
            owned::value::<Lent>(inner)
        } else {
            None
        }
    }
}

/// Before the memory of a `gpu_pointer()` is used: its loan, which the pointer keeps, must not have ended.
fn check_loan(x: SEXP) -> Result<()> {
    // SAFETY: an external pointer; one of a file has no address, of which something else is said.
    if !owned::has_tag(x, tag()) || unsafe { r::R_ExternalPtrAddr(x) }.is_null() {
        return Ok(());
    }
    loan_of(x).map(|_| ()).ok_or_else(|| {
        Error::new(ErrorKind::Consumed, "the memory of the pointer is freed: R has finalized it")
            .advise("Make a new one with `gpu_pointer(x)`.")
    })
}

/// The same of what keeps a `gpu_pointer()`: the external pointer, a list that holds it, or an object with it as attribute `owner`.
fn check_owner(x: SEXP) -> Result<()> {
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

/// Whether what keeps an array's memory was made with the promise that nobody will write.
fn is_for_reading(owner: SEXP) -> bool {
    owned::has_tag(owner, tag()) && loan_of(owner).is_some_and(|lent| !lent.writes())
}

entry! {
    /// list(address, strides, owner, typestr): where an array's elements lie. `stream` as for `dlpack_export`.
    fn pointer(x, writable, stream) {
        let handle = handle::of(x).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("`x` must be a GPU array, not {}", convert::describe(x)))
                .advise("Use `as_gpu(x)` first.")
        })?;
        let writable = convert::flag(writable, "writable")?;
        let array = if writable { handle.lend()? } else { handle.lend_to_read()? };
        let dim = dlpack::extents(x)?;
        let mut view = array.settle()?;
        let strides = match strided::strides_of(&view.layout, &dim) {
            Some(strides) => strides,
            None => {
                view = array.contiguous()?;
                strided::column_major(&dim)
            }
        };
        if writable && view.buffer.is_read_only() {
            return Err(Error::new(ErrorKind::Argument, "`x` lies in memory that its owner has shared as read-only")
                .advise("`x + 0` has memory of its own, and `writable = FALSE` promises not to write."));
        }
        dlpack::order(stream, x)?.arrange(array.device())?;
        let address = if view.is_empty() { 0 } else { view.address() };
        let lent = Lent::new(view.buffer, writable);
        // SAFETY: each is protected while the next is made; the loan is the inner pointer's from here on.
        unsafe {
            let inner = r::Rf_protect(owned::pointer(lent, r::null(), std::ptr::null_mut()));
            let owner = r::Rf_protect(r::R_MakeExternalPtr(address as *mut c_void, tag(), inner));
            let out = List::new(3)
                .add("address", r::real(address as f64))
                .add("strides", r::reals(strides.iter().map(|&s| s as f64)))
                .add("owner", owner)
                .finish();
            r::Rf_unprotect(2);
            Ok(out)
        }
    }

    /// An array over memory at an address. `owner` is kept, and `on_free` called, until or when the memory is let go of.
    fn from_pointer(address, dim, dtype, strides, device, owner, on_free, read_only) {
        check_owner(owner)?;
        let given = Given {
            address: crate::pointer::address(address, "address")?,
            dim: convert::sizes(dim)?,
            strides: if r::is_null(strides) { None } else { Some(convert::wholes(strides, "strides")?) },
            dtype: convert::dtype(dtype)?.ok_or_else(|| Error::new(ErrorKind::Argument, "`dtype` must be named"))?,
            device: convert::device(device)?,
            read_only: convert::flag(read_only, "read_only")? || is_for_reading(address) || is_for_reading(owner),
            within: if owned::has_tag(address, tag()) {
                loan_of(address).map(|lent| (lent.buffer().address, lent.buffer().bytes))
            } else {
                None
            },
        };
        let dim = given.dim.clone();
        // SAFETY: what the user says of his memory, as far as it can be checked.
        let array = unsafe { raw::from_pointer(given, || owners::keep_and_tell(owner, on_free))? };
        dlpack::shaped(array, &dim)
    }

    /// The type string of an array interface for a dtype's name; or, where `back`, the dtype's name for a type string.
    fn typestr(name, back) {
        if convert::flag(back, "back")? {
            return Ok(r::string(array_interface::dtype(convert::string(name, "typestr")?)?.name()));
        }
        let dtype = convert::dtype(name)?.ok_or_else(|| Error::new(ErrorKind::Argument, "`dtype` must be named"))?;
        Ok(r::string(&array_interface::typestr(dtype)?))
    }
}
