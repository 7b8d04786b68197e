//! Entries: an array's dtype, device and state.

use crate::array::{convert, handle};
use crate::entry;
use crate::r::{self, List};

entry! {
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

    /// list(dtype, device, length, pending: recorded operations, state: "device", "freed", or "host" for an ordinary
    /// vector with the class, host: whether there is a host copy, dirty: whether it may have been written, address: the
    /// copy's, for tests); computes and uploads nothing.
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
}
