//! Entries: arrays in and out, and what they are.

use std::sync::Arc;

use verdigris_engine::array::transfer::HostMut;
use verdigris_engine::array::Array;
use verdigris_engine::memory;
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::{Scalar, NA_I64};

use crate::array::{attributes, convert, handle, host, vectors};
use crate::entry;
use crate::r::{self, call_site, conditions, gc, preserve, values, List, SEXP};

/// Elements that lie before those that are shown are computed with them, up to so many.
const SHOWN: usize = 1 << 20;

/// What shows `n` elements from `from` on reads from: x's array, or those at its start alone.
fn part(x: SEXP, from: SEXP, n: SEXP) -> Result<(Array, usize, usize)> {
    let (from, n) = (values::size(from, "from")?, values::size(n, "n")?);
    let array = convert::array(x)?;
    if from > array.len() || n > array.len() - from {
        return Err(Error::new(ErrorKind::Shape, "a read past the array's end"));
    }
    let few = if from + n <= SHOWN { array.leading(from + n)? } else { None };
    Ok((few.unwrap_or(array), from, n))
}

/// The array of x, and whether it is one already.
fn given(x: SEXP) -> Result<Option<Array>> {
    if handle::of(x).is_some() || r::inherits(x, "gpu_array") {
        convert::array(x).map(Some)
    } else {
        Ok(None)
    }
}

/// Below this a copy costs less than a hold on the vector.
const WORTH: usize = 1 << 14;

/// Where a large ordinary vector that nobody else holds lies.
fn lying_alone(x: SEXP) -> Option<(u64, DType)> {
    // SAFETY: x is a value that R gave us.
    if unsafe { r::ALTREP(x) != 0 || r::vg_is_shared(x) != 0 } {
        return None;
    }
    values::lying(x).filter(|(_, dtype)| r::len(x) * dtype.size() >= WORTH && *dtype != DType::UInt8)
}

entry! {
    /// From .onLoad: the namespace, and a list of vectors that base has wrapped.
    fn attach(namespace, wrapped) {
        // SAFETY: R passes an environment and a list.
        unsafe {
            r::vg_set_namespace(namespace);
            for k in 0..r::len(wrapped) {
                r::vg_learn_wrapper(r::VECTOR_ELT(wrapped, k as isize));
            }
        }
        Ok(r::null())
    }

    /// An array of x (moved and cast if it is one) with its shape and names.
    fn upload(x, dtype, device, call) {
        let dtype = values::dtype(dtype)?;
        let array = match given(x)? {
            Some(array) => {
                let array = if r::is_null(device) { array } else { array.to_device(convert::device(device)?)? };
                match dtype {
                    Some(dtype) => array.cast(dtype, call_site::of(call))?,
                    None => array,
                }
            }
            None => {
                // a large array keeps the call for messages of full devices
                let kept = dtype.is_some() || r::len(x) >= memory::LARGE / 8 && call_site::is_light(call);
                let site = if kept { call_site::of(call) } else { None };
                convert::upload(x, dtype, convert::device(device)?, site)?
            }
        };
        Ok(handle::wrap_like(array, x))
    }

    /// An array of what base R has just computed, with its shape and names. On the cpu device a large vector that nobody else
    /// holds is not copied: its memory becomes the array's.
    fn result(x, dtype, device) {
        let (dtype, device) = (values::dtype(dtype)?, convert::device(device)?);
        let array = match lying_alone(x) {
            Some((address, own)) if device == Device::Cpu && dtype.is_none_or(|dtype| dtype == own) => {
                let n = r::len(x);
                // SAFETY: x is our caller's argument. From here on R copies it before it writes.
                unsafe { r::MARK_NOT_MUTABLE(x) };
                let buffer = Buffer::new(Device::Cpu, address, n * own.size(), preserve::keep(x));
                Array::from_view(View::contiguous(Arc::new(buffer), own, n))
            }
            _ => convert::upload(x, dtype, device, None)?,
        };
        Ok(handle::wrap_like(array, x))
    }

    fn cast(x, dtype, call) {
        let array = convert::array(x)?;
        let dtype = values::dtype(dtype)?.unwrap_or(array.dtype());
        Ok(handle::wrap_like(array.cast(dtype, call_site::of(call))?, x))
    }

    fn to_device(x, device) {
        Ok(handle::wrap_like(convert::array(x)?.to_device(convert::device(device)?)?, x))
    }

    /// All elements as an ordinary vector without attributes.
    fn collect(x) {
        let array = convert::array(x)?;
        vectors::read(&array, 0, array.len())
    }

    /// All elements, put into an ordinary vector of their type and number, which nobody else holds. R has made it, since its
    /// error where there is no memory could not pass through here.
    fn collect_into(x, out) {
        let array = convert::array(x)?;
        let n = array.len();
        if r::kind_of(out) != host::r_type(array.dtype()) || r::len(out) != n {
            return Err(Error::new(ErrorKind::Argument, "a vector to collect into has the type and the length of the array"));
        }
        // SAFETY: an ordinary vector of n elements of this type.
        unsafe { host::read(&array, 0, n, vectors::start(out))? };
        Ok(out)
    }

    /// The elements in the cpu device's own memory, as a vector or matrix that R does not write to: for functions of base R that
    /// read their arguments and let them go. NULL where that memory is not as R has it, or where someone else may write.
    fn lend(x) {
        let array = convert::array(x)?;
        let as_r = matches!(array.dtype(), DType::Float64 | DType::Int32 | DType::Complex128);
        if array.device() != Device::Cpu || !as_r || array.is_empty() || array.is_volatile() {
            return Ok(r::null());
        }
        let view = array.contiguous()?;
        let (kind, n, start) = (host::r_type(view.dtype), view.len(), view.address() as *mut u8);
        // SAFETY: the vector keeps the view; it is protected while it gets the array's attributes, which fit it.
        unsafe {
            let out = r::Rf_protect(vectors::vector(kind, n, start, Box::new(view)));
            attributes::copy_shape(x, out);
            r::MARK_NOT_MUTABLE(out);
            r::Rf_unprotect(1);
            Ok(out)
        }
    }

    /// All elements as an ordinary vector of the type of another dtype, without attributes.
    fn collect_as(x, dtype, call) {
        let array = convert::array(x)?;
        let dtype = values::dtype(dtype)?.unwrap_or(array.dtype());
        vectors::read_as(&array, dtype, call_site::of(call))
    }

    /// All elements of an int64 array, as integer64 keeps them in doubles; the class is the caller's to set.
    fn collect_integer64(x) {
        let array = convert::array(x)?;
        vectors::read_integer64(&array)
    }

    /// `n` elements from `from` (0 is the first) on as an ordinary vector without attributes. An array that is recorded
    /// stays so, unless many elements lie before these.
    fn fetch(x, from, n) {
        let (array, from, n) = part(x, from, n)?;
        vectors::read(&array, from, n)
    }

    /// `n` whole numbers from `from` on, in decimal digits; "NA" where one is missing. For int64, which R has no type for.
    fn digits(x, from, n) {
        let (array, from, n) = part(x, from, n)?;
        let array = array.cast(DType::Int64, None)?;
        let mut values = verdigris_engine::memory::fallible::filled(0i64, n)?;
        host::FETCHED.fetch_add(8 * n as u64, std::sync::atomic::Ordering::Relaxed);
        array.read(from, HostMut::Integer64(&mut values))?;
        Ok(r::strings(values.iter().map(|&v| if v == NA_I64 { "NA".into() } else { v.to_string() })))
    }

    /// The same elements as a new vector without attributes.
    fn bare(x) {
        Ok(handle::bare(convert::array(x)?))
    }

    /// The values of this moment as a new vector without attributes, whatever is written to the memory of x later.
    fn frozen(x) {
        Ok(handle::bare(convert::array(x)?.fixed()?))
    }

    /// Gives a bare vector the class that its attributes ask for, in place.
    fn classed(x) {
        Ok(attributes::classed(x))
    }

    fn is_array(x) {
        Ok(r::logical(handle::is_array(x)))
    }

    fn dtype(x) {
        let name = match handle::of(x) {
            Some(handle) => handle.peek().dtype().name(),
            None => convert::adopted_dtype(x)?.name(),
        };
        Ok(r::string(name))
    }

    fn device(x) {
        let device = match handle::of(x) {
            Some(handle) => handle.peek().device(),
            None => {
                convert::adopted_dtype(x)?;
                convert::device(r::null())?
            }
        };
        Ok(r::string(&device.to_string()))
    }

    /// list(dtype, device, length, pending: recorded operations, state: "device", "freed", or "host" for an ordinary vector
    /// with the class, host: whether there is a host copy, dirty: whether it may have been written, address: the copy's, for
    /// tests); computes and uploads nothing.
    fn info(x) {
        let (dtype, device, pending, state, copy, dirty, address) = match handle::of(x) {
            Some(handle) => {
                let (array, address) = (handle.peek(), handle.host(false).map_or(0.0, |p| p as usize as f64));
                let state = if handle.is_freed() { "freed" } else { "device" };
                (array.dtype(), array.device(), array.pending(), state, handle.has_host(), handle.is_dirty(), address)
            }
            None => (convert::adopted_dtype(x)?, convert::device(r::null())?, 0, "host", true, false, 0.0),
        };
        Ok(List::new(8)
            .add("dtype", r::string(dtype.name()))
            .add("device", r::string(&device.to_string()))
            .add("length", r::real(r::len(x) as f64))
            .add("pending", r::real(pending.into()))
            .add("state", r::string(state))
            .add("host", r::logical(copy))
            .add("dirty", r::logical(dirty))
            .add("address", r::real(address))
            .finish())
    }

    /// `n` times a value of length one.
    fn full(value, n, dtype, device) {
        let n = values::size(n, "dim")?;
        let device = convert::device(device)?;
        let (scalar, kind) = values::scalar(value).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("`value` must be one number, not {}", values::describe(value)))
        })?;
        let dtype = values::dtype(dtype)?.unwrap_or(kind.default_dtype());
        Ok(handle::wrap(Array::full(scalar, dtype, n, device)?))
    }

    /// `from + by * (0, 1, ...)`.
    fn sequence(from, by, n, dtype, device) {
        let n = values::size(n, "length.out")?;
        let device: Device = convert::device(device)?;
        let (from, kind) = values::scalar(from).ok_or_else(|| Error::new(ErrorKind::Argument, "`from` must be one number"))?;
        let (by, _) = values::scalar(by).ok_or_else(|| Error::new(ErrorKind::Argument, "`by` must be one number"))?;
        let dtype = values::dtype(dtype)?.unwrap_or(kind.default_dtype());
        let class = match from {
            Scalar::I32(_) => Class::I32,
            Scalar::I64(_) => Class::I64,
            _ => Class::F64,
        };
        Ok(handle::wrap(Array::source(verdigris_ops::id::SEQ, class, dtype, n, device, &[from.to(class), by.to(class)])?))
    }

    /// c(handles, bytes on the host that R reads) that are alive, the bytes and elements that came to the host so far, and the
    /// seconds of collections that memory asked for: for tests.
    fn live() {
        use std::sync::atomic::Ordering::Relaxed;
        let alive = [handle::LIVE.load(Relaxed) as f64, memory::host_account().live() as f64];
        let fetched = [host::FETCHED.load(Relaxed) as f64, host::READ.load(Relaxed) as f64];
        let counts: Vec<f64> = alive.into_iter().chain(fetched).chain([gc::spent()]).collect();
        Ok(r::reals(counts.into_iter()))
    }

    /// Fails as asked: for tests of conditions.
    fn test_condition(what, text) {
        let text = values::string(text, "text")?;
        match values::string(what, "what")? {
            "panic" => panic!("{text}"),
            "warning" => {
                conditions::warn(text, None);
                Ok(r::logical(true))
            }
            _ => Err(Error::new(ErrorKind::Shape, text).advise(text).detail(text)),
        }
    }
}
