//! Asynchronous copies between page-locked host memory and devices, and copies into existing arrays and vectors.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::array::kernel_call;
use crate::array::strided;
use crate::array::transfer::{Host, HostMut};
use crate::array::Array;
use crate::backend;
use crate::memory::buffer::{Device, View};
use crate::memory::host_pool::Block;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// A copy under way: the event after it, and the memory that it uses.
struct Copying {
    device: Device,
    event: u64,
    block: Arc<Block>,
}

static COPYING: Mutex<Vec<Copying>> = Mutex::new(Vec::new());

fn copying() -> MutexGuard<'static, Vec<Copying>> {
    COPYING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let Some(streams) = backend::of(self.device).ok().and_then(|backend| backend.streams()) {
            streams.event_free(self.event);
        }
    }
}

/// Lets go of the memory of copies that are done.
pub fn reap() {
    let done = {
        let mut all = copying();
        let (done, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut *all).into_iter().partition(|copy| {
            let streams = backend::of(copy.device).ok().and_then(|backend| backend.streams());
            streams.is_none_or(|streams| streams.event_is_done(copy.event).unwrap_or(true))
        });
        *all = rest;
        done
    };
    drop(done); // not under the lock
}

/// Waits for the copies that use this memory.
///
/// # Errors
/// `Interrupt`, or what the device failed with.
pub fn wait(block: &Arc<Block>) -> Result<()> {
    let waiting: Vec<(Device, u64)> =
        copying().iter().filter(|copy| Arc::ptr_eq(&copy.block, block)).map(|copy| (copy.device, copy.event)).collect();
    for (device, event) in waiting {
        if let Some(streams) = backend::of(device)?.streams() {
            streams.event_wait(event)?;
        }
    }
    reap();
    Ok(())
}

/// Keeps the memory until the copy that was just queued on the current stream is done.
fn keep(device: Device, block: &Arc<Block>) -> Result<()> {
    reap();
    let Some(streams) = backend::of(device)?.streams() else { return Ok(()) };
    if streams.is_capturing() {
        // each launch of the graph copies
        streams.hold(Box::new(block.clone()));
        return Ok(());
    }
    let event = streams.event()?;
    let kept = Copying { device, event, block: block.clone() };
    let recorded = streams.record(event, streams.current());
    copying().push(kept);
    recorded
}

fn lengths(from: usize, to: usize) -> Result<()> {
    if from == to {
        return Ok(());
    }
    Err(Error::new(Kind::Shape, format!("`from` has {from} elements, `to` has {to}")))
}

/// Writes all of an array's values; the array that the target is from now on. `holders` counts the references to the
/// target's node that are the caller's own.
fn write(target: &Array, holders: usize, put: impl FnOnce(&View) -> Result<()>) -> Result<Array> {
    let (view, other) = kernel_call::own(target, target.contiguous()?, holders, true)?;
    put(&view)?;
    Ok(other.unwrap_or_else(|| target.clone()))
}

/// The view of a target that others write to and whose elements do not lie one after the other: it is written where it
/// lies.
fn strided(target: &Array) -> Result<Option<View>> {
    if !target.is_volatile() {
        return Ok(None);
    }
    strided::refuse_overlap(target, "to")?;
    let view = target.evaluate()?;
    Ok((!view.layout.is_contiguous() && !view.buffer.is_read_only()).then_some(view))
}

/// Copies an array over another: cast where dtypes differ, and from another device through the host.
pub fn array_to_array(from: &Array, to: &Array, holders: usize) -> Result<Array> {
    lengths(from.len(), to.len())?;
    let from = from.to_device(to.device())?.cast(to.dtype(), None)?;
    if let Some(view) = strided(to)? {
        strided::store(&Array::from_view(from.contiguous()?), &view)?;
        return Ok(to.clone());
    }
    let source = from.contiguous()?;
    write(to, holders, |view| {
        let size = view.dtype.size();
        let bytes = view.len() * size;
        if bytes == 0 {
            return Ok(());
        }
        let (at, out) = (source.layout.offset() * size, view.layout.offset() * size);
        backend::of(to.device())?.copy(&source.buffer, at, &view.buffer, out, bytes)
    })
}

/// Copies a host vector over an array. Queued where it is page-locked (`block` holds it) and stored as the array is;
/// else done.
pub fn host_to_array(from: Host<'_>, block: Option<&Arc<Block>>, to: &Array, holders: usize) -> Result<Array> {
    let (wire, natural, bytes) = from.wire();
    lengths(bytes.len() / wire.size(), to.len())?;
    if wire != to.dtype() || natural == DType::Bool8 || strided(to)?.is_some() {
        let brought = Array::upload(from, Some(to.dtype()), to.device(), None)?;
        return array_to_array(&brought, to, holders);
    }
    write(to, holders, |view| {
        let backend = backend::of(to.device())?;
        let at = view.layout.offset() * wire.size();
        if let Some(block) = block {
            // SAFETY: the block is kept until the copy is done; what is written to it meanwhile is the caller's affair,
            // which was notified.
            if unsafe { backend.upload_queued(bytes, &view.buffer, at)? } {
                return keep(to.device(), block);
            }
        }
        backend.upload(bytes, &view.buffer, at)
    })
}

/// Copies an array over a page-locked host vector in R's representation: queued where the device writes it as it is
/// stored.
pub fn array_to_host(from: &Array, to: HostMut<'_>, block: &Arc<Block>) -> Result<()> {
    let (wire, bytes) = to.wire();
    lengths(from.len(), bytes.len() / wire.size())?;
    let source = from.cast(wire, None)?.contiguous()?;
    let backend = backend::of(from.device())?;
    let at = source.layout.offset() * wire.size();
    // SAFETY: as above.
    if unsafe { backend.download_queued(&source.buffer, at, bytes)? } {
        return keep(from.device(), block);
    }
    backend.download(&source.buffer, at, bytes)
}
