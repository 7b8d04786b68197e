//! Entries: reads of an array, in whole or in part, as R vectors or as decimal digits.

use std::sync::atomic::Ordering;

use verdigris_engine::array::transfer::HostMut;
use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::NA_I64;

use crate::array::handle::{self, Diagonal, Handle};
use crate::array::{attributes, convert, host_copy, host_vector};
use crate::entries::entry::{entries, for_c};
use crate::entries::reduce::DEFER;
use crate::r::{self, call_site, SEXP};

/// To show a few elements of a recorded array only its first elements are computed, up to this many.
const SHOWN: usize = 1 << 20;

/// An array from which to read `n` elements from `from` on: the array itself, or its computed first elements.
fn part(array: Array, from: usize, n: usize) -> Result<Array> {
    if from > array.len() || n > array.len() - from {
        return Err(Error::new(ErrorKind::Shape, "a read past the array's end"));
    }
    let prefix = if from + n <= SHOWN { array.leading(from + n)? } else { None };
    Ok(prefix.unwrap_or(array))
}

/// Copies all elements into `out`, a new vector of the array's type and length. C has allocated it, so that R's error
/// about lack of memory is raised outside Rust.
fn collect_into(array: Array, out: SEXP) -> Result<SEXP> {
    let n = array.len();
    if r::kind_of(out) != host_copy::r_type(array.dtype()) || r::len(out) != n {
        return Err(Error::new(
            ErrorKind::Argument,
            "a vector to collect into has the type and the length of the array",
        ));
    }
    // SAFETY: a vector of n elements of this type.
    unsafe { host_copy::read(&array, 0, n, host_vector::start(out))? };
    Ok(out)
}

entries! {
    /// All elements as a plain vector without attributes.
    fn collect(x: Array) -> Result<SEXP> {
        host_vector::read(&x, 0, x.len())
    }

    /// A read-only vector or matrix on the array's own memory on the cpu device, for functions of base R that only read
    /// their arguments. NULL if the memory is not in R's representation, or if others may write to it.
    fn lend(x: SEXP) -> Result<Option<SEXP>> {
        let array = convert::array(x)?;
        let as_r = matches!(array.dtype(), DType::Float64 | DType::Int32 | DType::Complex128);
        if array.device() != Device::Cpu || !as_r || array.is_empty() || array.is_volatile() {
            return Ok(None);
        }
        let view = array.contiguous()?;
        let (kind, n, start) = (host_copy::r_type(view.dtype), view.len(), view.address() as *mut u8);
        // SAFETY: the vector keeps the view; it is protected while it gets the array's attributes, which fit it.
        unsafe {
            let out = r::Rf_protect(host_vector::vector(kind, n, start, Box::new(view)));
            attributes::copy_shape(x, out);
            r::MARK_NOT_MUTABLE(out);
            r::Rf_unprotect(1);
            Ok(Some(out))
        }
    }

    /// All elements as a plain vector without attributes, of R's type for `dtype`, or for the array's own if NULL. If
    /// it pays the vector is an ordinary vector (`ordinary.rs`), which is read when R accesses it.
    fn as_vector(x: Array, dtype: Option<DType>, call: SEXP) -> Result<SEXP> {
        if let Some(vector) = handle::defer_vector(&x, dtype.unwrap_or(x.dtype()), DEFER.load(Ordering::Relaxed))? {
            return Ok(handle::vector(vector));
        }
        match dtype {
            Some(dtype) => host_vector::read_as(&x, dtype, call_site::of(call)),
            None => host_vector::read(&x, 0, x.len()),
        }
    }

    /// Whether x is an ordinary vector (`ordinary.rs`) that has not been read.
    fn is_unread(x: SEXP) -> Result<bool> {
        let Some(vector) = handle::ordinary(x).filter(|_| r::len(x) > 1) else { return Ok(false) };
        Ok(!vector.has_host() && vector.device_array_if_unread(vector.device())?.is_some())
    }

    /// `diag(value, rows, columns)` as an ordinary vector, which is filled when R accesses it.
    fn diagonal(value: f64, rows as "nrow": usize, columns as "ncol": usize) -> Result<SEXP> {
        verdigris_engine::memory::fallible::product([rows, columns, 8])?;
        Ok(handle::vector(Handle::diagonal(Diagonal { value, rows, columns })))
    }

    /// All elements of an int64 array as bit64's integer64, without the class, which the caller sets.
    fn collect_integer64(x: Array) -> Result<SEXP> {
        host_vector::read_integer64(&x)
    }

    /// `n` elements from `from` (0-based) on as a plain vector without attributes. A recorded array stays recorded,
    /// unless `from + n` is large.
    fn fetch(x: Array, from: usize, n: usize) -> Result<SEXP> {
        host_vector::read(&part(x, from, n)?, from, n)
    }

    /// `n` whole numbers from `from` (0-based) on as strings of decimal digits, or "NA". For int64, which R has no type
    /// for.
    fn digits(x: Array, from: usize, n: usize) -> Result<SEXP> {
        let array = part(x, from, n)?.cast(DType::Int64, None)?;
        let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
        host_copy::FETCHED.fetch_add(8 * n as u64, std::sync::atomic::Ordering::Relaxed);
        array.read(from, HostMut::Integer64(&mut values))?;
        Ok(r::strings(values.iter().map(|&v| if v == NA_I64 { "NA".into() } else { v.to_string() })))
    }
}

for_c! {
    collect(x);
    collect_into(x, out);
}
