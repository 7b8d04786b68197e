//! Conversion of R objects to arrays, operands and devices.

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{DType, Kind, Number};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::{device, handle};
use crate::r::typed::{FromR, IntoR};
use crate::r::{self, values, SEXP};

/// The array of an R object. A plain vector with class `gpu_array` (read from a file or sent by another process) is
/// uploaded.
pub fn array(x: SEXP) -> Result<Array> {
    array_or_none(x)?.ok_or_else(|| {
        Error::new(ErrorKind::Argument, format!("expected a GPU array, got {}", values::describe(x)))
            .advise("Use `as_gpu(x)` first.")
    })
}

/// As `array`; `None` for other objects.
pub fn array_or_none(x: SEXP) -> Result<Option<Array>> {
    match handle::of(x) {
        Some(handle) => handle.array_synced().map(Some),
        None if r::inherits(x, "gpu_array") => adopt(x).map(Some),
        None => Ok(None),
    }
}

/// An operand of a recorded operation: an array, a number (maybe a pending one), or a host vector uploaded to `device`.
pub fn operand(x: SEXP, device: Device) -> Result<Operand> {
    if let Some(handle) = handle::of(x) {
        return handle.array_synced().map(Operand::Array);
    }
    if let Some(array) = device_array_if_unread(x, device)? {
        let kind = array.dtype().kind();
        return Ok(Operand::Vector(array, kind));
    }
    if r::inherits(x, "gpu_array") {
        return adopt(x).map(Operand::Array);
    }
    if let Some((value, kind)) = values::scalar(x) {
        return Ok(Operand::Value(value, kind));
    }
    match (values::host(x), values::kind(x)) {
        (Some(data), Some(kind)) => Ok(Operand::Vector(Array::upload(data, None, device, None)?, kind)),
        _ => Err(values::unsuitable(x)),
    }
}

/// The elements of an ordinary vector as an array on `device`; see `Handle::device_array_if_unread`. `None` for other
/// objects.
pub fn device_array_if_unread(x: SEXP, device: Device) -> Result<Option<Array>> {
    handle::ordinary(x).map_or(Ok(None), |vector| vector.device_array_if_unread(device))
}

/// The array of a host vector, uploaded unless its elements are on the device already.
pub fn upload(x: SEXP, dtype: Option<DType>, device: Device, site: Option<CallSite>) -> Result<Array> {
    if r::len(x) > 1 {
        if let Some(array) = device_array_if_unread(x, device)? {
            return dtype.map_or(Ok(array.clone()), |dtype| array.cast(dtype, site));
        }
    }
    match values::host(x) {
        Some(data) => Array::upload(data, dtype, device, site),
        None => Err(values::unsuitable(x)),
    }
}

/// Uploads a plain vector with class `gpu_array`, from a file or another process, to the current device.
pub fn adopt(x: SEXP) -> Result<Array> {
    upload(x, Some(adopted_dtype(x)?), self::device(r::null())?, None)
}

/// The dtype that `adopt` gives the array. An error for objects that are no arrays.
pub fn adopted_dtype(x: SEXP) -> Result<DType> {
    if !r::inherits(x, "gpu_array") {
        return array(x).map(|array| array.dtype());
    }
    // SAFETY: x is an argument of the entry.
    let named = values::dtype(unsafe { r::vg_saved_dtype(x) })?;
    named.or_else(|| values::kind(x).map(Kind::default_dtype)).ok_or_else(|| values::unsuitable(x))
}

/// Whether an ordinary vector of whole numbers or logicals can be stored in a narrow integer dtype: R has one integer
/// type, so that assigning such a vector need not widen the array. False for other dtypes, and for arrays, which have a
/// dtype of their own.
pub fn fits(x: SEXP, dtype: DType) -> bool {
    // only the signed types have a bit pattern for NA
    let reach = 1 << (8 * dtype.size().min(3));
    let (low, high, takes_na) = match dtype.number() {
        Number::Int if dtype.size() <= 2 => (1 - reach / 2, reach / 2 - 1, true),
        Number::UInt => (0, reach - 1, false),
        _ => return false,
    };
    if handle::of(x).is_some() || r::inherits(x, "gpu_array") {
        return false;
    }
    let values = match values::host(x) {
        Some(Host::Integer(values) | Host::Logical(values)) => values,
        _ => return false,
    };
    values.iter().all(|&v| if v == i32::MIN { takes_na } else { (low..=high).contains(&v) })
}

/// The device of this name; the current device for NULL.
pub fn device(x: SEXP) -> Result<Device> {
    if r::is_null(x) {
        device::current()
    } else {
        device::named(values::string(x, "device").map_err(|error| match values::size(x, "device") {
            // other libraries number devices
            Ok(ordinal) => error.advise(format!("Did you mean \"cuda:{ordinal}\"?")),
            Err(_) => error,
        })?)
    }
}

// ---- arguments and results of entries ----------------------------------------------------------------

impl FromR for Device {
    fn from_r(x: SEXP, _: &'static str) -> Result<Device> {
        device(x)
    }
}

/// As its name.
impl IntoR for Device {
    fn into_r(self) -> SEXP {
        r::string(&self.to_string())
    }
}

impl FromR for Array {
    fn from_r(x: SEXP, _: &'static str) -> Result<Array> {
        array(x)
    }
}

/// As a vector with the class of a vector and no other attributes.
impl IntoR for Array {
    fn into_r(self) -> SEXP {
        handle::new_vector(self)
    }
}
