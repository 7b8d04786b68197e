//! Entries: arrays from R vectors and from other arrays.

use std::sync::Arc;

use verdigris_engine::array::Array;
use verdigris_engine::memory;
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::OpId;

use crate::array::{attributes, convert, device, handle};
use crate::entries::entry::{entries, for_c};
use crate::r::{self, call_site, preserve, values, SEXP};

/// The array of x; `None` if x is no array.
fn given(x: SEXP) -> Result<Option<Array>> {
    if handle::of(x).is_some() || r::inherits(x, "gpu_array") {
        convert::array(x).map(Some)
    } else {
        Ok(None)
    }
}

/// The call site of a cast. If the cast may warn, C looks for a handler afterwards.
fn cast_site(array: &Array, dtype: DType, call: SEXP) -> Option<CallSite> {
    if dtype != array.dtype() && OpId::cast(dtype).may_warn(array.dtype().class()) {
        call_site::recorded(call)
    } else {
        call_site::of(call)
    }
}

/// Smaller vectors, in bytes, are copied: that is cheaper than keeping the vector alive.
const WORTH: usize = 1 << 14;

/// The address and dtype of a large plain vector, if nothing else refers to it.
fn lying_alone(x: SEXP) -> Option<(u64, DType)> {
    // SAFETY: x is a valid R object.
    if unsafe { r::ALTREP(x) != 0 || r::vg_is_shared(x) != 0 } {
        return None;
    }
    values::address_and_dtype(x).filter(|(_, dtype)| r::len(x) * dtype.size() >= WORTH && *dtype != DType::UInt8)
}

entries! {
    /// An array of x, which is moved and cast if it is an array already, with its shape and names.
    fn upload(x: SEXP, dtype: Option<DType>, device: Option<Device>, call: SEXP) -> Result<SEXP> {
        let array = match given(x)? {
            Some(array) => {
                let array = match device {
                    Some(device) => array.to_device(device)?,
                    None => array,
                };
                match dtype {
                    Some(dtype) => array.cast(dtype, cast_site(&array, dtype, call))?,
                    None => array,
                }
            }
            None => {
                // a large array keeps its call for the message of a full device
                let kept = dtype.is_some() || r::len(x) >= memory::LARGE / 8 && call_site::is_light(call);
                let site = if kept { call_site::of(call) } else { None };
                convert::upload(x, dtype, device.map_or_else(device::current, Ok)?, site)?
            }
        };
        Ok(handle::new_like(array, x))
    }

    /// An array of a vector that base R has just computed, with its shape and names. On the cpu device the array uses
    /// the memory of a large vector that nothing else refers to, without a copy.
    fn result(x: SEXP, dtype: Option<DType>, device: Device) -> Result<SEXP> {
        let array = match lying_alone(x) {
            Some((address, own)) if device == Device::Cpu && dtype.is_none_or(|dtype| dtype == own) => {
                let n = r::len(x);
                // SAFETY: x is an argument of the entry. From here on R copies it before it writes.
                unsafe { r::MARK_NOT_MUTABLE(x) };
                let buffer = Buffer::new(Device::Cpu, address, n * own.size(), preserve::keep(x));
                Array::from_view(View::contiguous(Arc::new(buffer), own, n))
            }
            _ => convert::upload(x, dtype, device, None)?,
        };
        Ok(handle::new_like(array, x))
    }

    fn cast(x: SEXP, dtype: Option<DType>, call: SEXP) -> Result<SEXP> {
        let array = convert::array(x)?;
        let dtype = dtype.unwrap_or(array.dtype());
        let site = cast_site(&array, dtype, call);
        Ok(handle::new_like(array.cast(dtype, site)?, x))
    }

    /// A new vector on the same array, without attributes.
    fn bare(x: Array) -> SEXP {
        handle::new_without_attributes(x)
    }

    /// A new vector on the same array with these extents (NULL: none), its class, and no other attributes.
    fn shaped(x: Array, dim: SEXP) -> Result<SEXP> {
        if r::is_null(dim) {
            return Ok(handle::new_vector(x));
        }
        let extents = values::sizes(dim)?;
        if extents.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent)) != Some(x.len()) {
            return Err(Error::new(Kind::Shape, format!("{} elements do not fill these extents", x.len())));
        }
        handle::new_of_dim(x, &extents)
    }

    /// A new vector of the present values, without attributes. Later writes to shared memory do not change it.
    fn frozen(x: Array) -> Result<SEXP> {
        Ok(handle::new_without_attributes(x.fixed()?))
    }

    /// Sets the class that a vector's attributes imply, in place.
    fn classed(x: SEXP) -> SEXP {
        attributes::classed(x)
    }

    fn is_array(x: SEXP) -> bool {
        handle::is_array(x)
    }
}

for_c! {
    upload(x, dtype, device, call);
}
