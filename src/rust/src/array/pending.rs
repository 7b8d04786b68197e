//! Device memory that the next entry will free, since R has collected all arrays on it.

use verdigris_engine::graph::held;
use verdigris_engine::memory::buffer::Device;

use crate::array::handle::Handle;
use crate::r::external_ptr::{Of, Owned};
use crate::r::finalizers;

/// Bytes on a device that freeing the dead handles will release: values that only dead handles refer to, directly or
/// through recorded operations.
pub fn bytes(device: Device) -> u64 {
    let dead = finalizers::dead_values().filter(|header| header.kind == Of::Handle).map(|header| {
        // SAFETY: the header of a handle, as its kind says.
        let handle = unsafe { &(*std::ptr::from_ref(header).cast::<Owned<Handle>>()).value };
        handle.array_unsynced().node().clone()
    });
    held::bytes(dead, device)
}
