//! Entries: an array's dtype, device and state.

use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

use crate::array::{convert, device, handle};
use crate::entries::entry::entries;
use crate::r::{self, List, SEXP};

/// The dtype and device that a plain vector with class `gpu_array` gets when it is uploaded.
fn adopted(x: SEXP) -> Result<(DType, Device)> {
    Ok((convert::adopted_dtype(x)?, device::current()?))
}

entries! {
    fn dtype(x: SEXP) -> Result<&'static str> {
        Ok(match handle::of(x) {
            Some(handle) => handle.dtype()?.name(),
            None => convert::adopted_dtype(x)?.name(),
        })
    }

    fn device(x: SEXP) -> Result<Device> {
        match handle::of(x) {
            Some(handle) => Ok(handle.array_unsynced().device()),
            None => adopted(x).map(|(_, device)| device),
        }
    }

    /// list(dtype, device, length, pending: recorded operations, state: "device", "freed", or "host" for a plain vector
    /// with the class, host: whether there is a host copy, dirty: whether R may have written to it, address: its
    /// address, for tests). Computes nothing, and uploads only int64 elements that R may have written to.
    fn info(x: SEXP) -> Result<List> {
        let ((dtype, device), pending, state, copy, dirty, address) = match handle::of(x) {
            Some(handle) => {
                let dirty = handle.is_dirty();
                handle.dtype()?;
                let (array, address) = (handle.array_unsynced(), handle.host(false).map_or(0.0, |p| p as usize as f64));
                let state = if handle.is_freed() { "freed" } else { "device" };
                let known = (array.dtype(), array.device());
                (known, array.pending(), state, handle.has_host(), dirty, address)
            }
            None => (adopted(x)?, 0, "host", true, false, 0.0),
        };
        Ok(List::new(8)
            .add("dtype", dtype.name())
            .add("device", device)
            .add("length", r::len(x) as f64)
            .add("pending", f64::from(pending))
            .add("state", state)
            .add("host", copy)
            .add("dirty", dirty)
            .add("address", address))
    }
}
