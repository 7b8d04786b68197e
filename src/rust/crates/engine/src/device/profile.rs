//! Profiles: the time span of each kernel and copy, on the device's clock or, for the cpu device, the host's.

use crate::backend;
use crate::backend::span::{begin_on_host, end_on_host, Span};
use crate::memory::buffer::Device;
use verdigris_ops::error::Result;

/// Begins to record what a device runs.
pub fn begin(device: Device) -> Result<()> {
    match backend::of(device)?.streams() {
        Some(streams) => streams.begin_profile(),
        None => {
            begin_on_host();
            Ok(())
        }
    }
}

/// Ends the recording, waits for the device, and returns the spans.
pub fn end(device: Device) -> Result<Vec<Span>> {
    match backend::of(device)?.streams() {
        Some(streams) => streams.end_profile(),
        None => Ok(end_on_host()),
    }
}
