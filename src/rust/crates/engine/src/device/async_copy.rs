//! Asynchronous copies between page-locked host memory and devices, and copies into existing arrays and host vectors.

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

/// A copy in progress: the event recorded after it, and the page-locked block that it uses.
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

/// Drops the blocks of copies that have completed.
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
    drop(done); // freed after the lock is released
}

/// Waits for the copies that use this block.
///
/// # Errors
/// `Interrupt`, or the device's failure.
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

/// Keeps the block until the copy that was just queued on the current stream has completed.
fn keep(device: Device, block: &Arc<Block>) -> Result<()> {
    reap();
    let Some(streams) = backend::of(device)?.streams() else { return Ok(()) };
    if streams.is_capturing() {
        // Each launch of the graph copies from or to the block.
        streams.hold(Box::new(block.clone()));
        return Ok(());
    }
    let event = match streams.event() {
        Ok(event) => event,
        Err(error) => {
            // the copy is queued: the block must outlive it
            backend::of(device)?.synchronize()?;
            return Err(error);
        }
    };
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

/// Overwrites all values of `target` by `put`. Returns the array that replaces `target`: itself, or new memory if
/// something else refers to the old values. `holders` is the number of the caller's own references to the target's
/// node.
fn write(target: &Array, holders: usize, put: impl FnOnce(&View) -> Result<()>) -> Result<Array> {
    let (view, other) = kernel_call::own(target, target.contiguous()?, holders, true)?;
    put(&view)?;
    Ok(other.unwrap_or_else(|| target.clone()))
}

/// The target's view if others may write to the memory and it is not contiguous: such a target is written in place.
fn strided(target: &Array) -> Result<Option<View>> {
    if !target.is_volatile() {
        return Ok(None);
    }
    strided::refuse_overlap(target, "to")?;
    let view = target.evaluate()?;
    Ok((!view.layout.is_contiguous() && !view.buffer.is_read_only()).then_some(view))
}

/// Copies an array over another, with a cast if dtypes differ, and through the host if the source is on another device.
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

/// Copies a host vector over an array. The copy is queued if the vector is page-locked (in `block`) and has the array's
/// dtype; otherwise this waits.
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
            // SAFETY: the block is kept until the copy has completed. The caller was warned not to write to the vector
            // until then.
            if unsafe { backend.upload_queued(bytes, &view.buffer, at)? } {
                return keep(to.device(), block);
            }
        }
        backend.upload(bytes, &view.buffer, at)
    })
}

/// Copies an array over a page-locked host vector in R's representation. The copy is queued if the device can write it
/// directly; otherwise this waits.
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
