//! Copies between devices of this process, by NVLink or PCIe, without staging in host memory.
//!
//! Each device has a separate stream for each device that it receives from. A copy on it waits for the work queued on
//! both devices, and both devices' streams wait for the copy. All waits of an exchange are queued before its copies, so
//! that copies in opposite directions run concurrently.

use std::collections::HashMap;
use std::sync::Mutex;

use super::core::lock;
use super::device::{Cuda, PerDevice};
use super::exchange::order;
use super::transfer::within;
use crate::backend::cuda::driver::api::{self, CUdevice, CUstream_flags, Stream};
use crate::backend::AcrossDevices;
use crate::memory::buffer::Device;
use verdigris_ops::error::Result;

/// The streams on which a device receives, by the ordinal of the source; None where it cannot access the source.
type Links = Mutex<HashMap<u32, Option<Stream>>>;
static LINKS: PerDevice<Links> = PerDevice::new();

/// Queues copies between devices. Returns false, with nothing queued, where two of them cannot access each other's
/// memory or a graph is being recorded.
pub fn exchange(copies: &[AcrossDevices<'_>]) -> Result<bool> {
    let mut queued = Vec::with_capacity(copies.len());
    for copy in copies {
        let (Device::Cuda(source), Device::Cuda(target)) = (copy.source.buffer.device, copy.target.device) else {
            return Ok(false);
        };
        let (source, target) = (Cuda::of(source)?, Cuda::of(target)?);
        if source.is_capturing() || target.is_capturing() {
            return Ok(false);
        }
        let Some(link) = link(target, source)? else { return Ok(false) };
        queued.push((copy, source, target, link));
    }
    // dropping these records the uses, which must include the waits for the copies
    let mut touched = Vec::with_capacity(2 * copies.len());
    for &(copy, source, target, link) in &queued {
        touched.push(source.ordered(|t| _ = t.read(&copy.source.buffer))?);
        touched.push(target.ordered(|t| _ = t.write(copy.target))?);
        order(source, source.stream_state().handle(), link)?;
        order(target, target.stream_state().handle(), link)?;
    }
    let peers = api::peers()?;
    for &(copy, source, target, link) in &queued {
        let bytes = copy.source.len() * copy.source.dtype.size();
        let to = within(copy.target, copy.at, bytes)?;
        if bytes == 0 {
            continue;
        }
        let _entered = target.enter()?;
        let _timed = target.timed("copy", link, bytes, || format!("copy from {}", source.device()));
        // SAFETY: a contiguous view of a live buffer, and as much room in another; both are held until the copy is
        // queued, and are freed in the order of streams that wait for it.
        let status =
            unsafe { (peers.copy_async)(to, target.context, copy.source.address(), source.context, bytes, link) };
        target.check(status, "cuMemcpyPeerAsync")?;
    }
    for &(_, source, target, link) in &queued {
        order(target, link, target.stream_state().stream_for_wait())?;
        order(target, link, source.stream_state().stream_for_wait())?;
    }
    drop(touched);
    Ok(true)
}

/// The stream on which `target` receives from `source`; None where either cannot access the other's memory.
fn link(target: &'static Cuda, source: &'static Cuda) -> Result<Option<Stream>> {
    let mut links = lock(LINKS.of(target));
    let ordinal = source.properties.ordinal;
    if let Some(link) = links.get(&ordinal) {
        return Ok(*link);
    }
    let made = if reach(target, source)? && reach(source, target)? {
        let _entered = target.enter()?;
        let mut stream = Stream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        let status = unsafe { (target.driver.stream_create)(&mut stream, flags, 0) };
        target.check(status, "cuStreamCreateWithPriority")?;
        Some(stream)
    } else {
        None
    };
    links.insert(ordinal, made);
    Ok(made)
}

/// Enables access of `target` to the memory of `source`. Returns false where the hardware or driver does not allow it.
fn reach(target: &Cuda, source: &Cuda) -> Result<bool> {
    let Ok(peers) = api::peers() else { return Ok(false) };
    let handle = |cuda: &Cuda| -> Result<CUdevice> {
        let mut device = 0;
        // SAFETY: writes a handle.
        cuda.check(unsafe { (cuda.driver.device_get)(&mut device, cuda.properties.ordinal as i32) }, "cuDeviceGet")?;
        Ok(device)
    };
    let mut can = 0;
    // SAFETY: writes a number.
    target.check(unsafe { (peers.can_access)(&mut can, handle(target)?, handle(source)?) }, "cuDeviceCanAccessPeer")?;
    if can == 0 || source.pool.handle.is_null() {
        return Ok(false);
    }
    let access = api::access_of(target.properties.ordinal);
    let _entered = source.enter()?;
    // SAFETY: the pool of the source, and one description; it holds for all of the pool's memory, also later.
    source.check(unsafe { (peers.pool_access)(source.pool.handle, &access, 1) }, "cuMemPoolSetAccess")?;
    Ok(true)
}
