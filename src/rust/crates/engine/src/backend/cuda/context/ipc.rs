//! Copies between processes of a host, by the driver's memory handles (CUDA C++ Programming Guide, "Interprocess
//! Communication").
//!
//! Memory of a pool has no such handle, so the process that has the array copies it to memory of its own, which the other
//! process opens, copies and closes. Both copies are waited for.

use std::sync::Arc;

use super::device::Cuda;
use super::hazards::Touched;
use crate::backend::cuda::driver::api::{self, CUresult, SUCCESS};
use crate::backend::ExportedCopy;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::Source;
use verdigris_ops::error::Result;

/// The driver places smaller allocations side by side in one block, and a handle opens the whole block.
const GRANULARITY: usize = 2 << 20;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, without which memory of another device cannot be opened.
const ENABLE_PEER_ACCESS: u32 = 1;

/// Memory of `cuMemAlloc`.
struct Allocation {
    ordinal: u32,
    address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Ok(cuda) = Cuda::of(self.ordinal) else { return };
        let Ok(_entered) = cuda.enter() else { return };
        // SAFETY: from `cuMemAlloc`, and freed once. A process that has it open keeps the memory.
        unsafe { (cuda.driver.free)(self.address) };
    }
}

/// See `backend::export_copy`.
pub fn export_copy(view: &View) -> Result<Option<ExportedCopy>> {
    let (Device::Cuda(ordinal), Ok(ipc)) = (view.buffer.device, api::ipc()) else { return Ok(None) };
    let cuda = Cuda::of(ordinal)?;
    let bytes = view.len() * view.dtype.size();
    if bytes == 0 || cuda.is_capturing() {
        return Ok(None);
    }
    let Some(memory) = allocate(cuda, bytes)? else { return Ok(None) };
    copy(cuda, view.address(), memory.address, bytes, |t| _ = t.read(&view.buffer))?;
    let _entered = cuda.enter()?;
    let mut handle = api::CUipcMemHandle { reserved: [0; 64] };
    // SAFETY: writes a handle of live memory.
    let status = unsafe { (ipc.export)(&mut handle, memory.address) };
    if status != SUCCESS {
        return Ok(None);
    }
    Ok(Some(ExportedCopy { handle: handle.reserved.map(|byte| byte as u8), _memory: Box::new(memory) }))
}

/// See `backend::import_copy`.
pub fn import_copy(handle: &[u8; 64], target: &Arc<Buffer>) -> Result<bool> {
    let (Device::Cuda(ordinal), Ok(ipc)) = (target.device, api::ipc()) else { return Ok(false) };
    let cuda = Cuda::of(ordinal)?;
    if cuda.is_capturing() {
        return Ok(false);
    }
    let handle = api::CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
    let mut source = 0;
    {
        let _entered = cuda.enter()?;
        // SAFETY: writes an address; the driver checks the handle.
        let status = unsafe { (ipc.import)(&mut source, handle, ENABLE_PEER_ACCESS) };
        if status != SUCCESS {
            return Ok(false);
        }
    }
    let copied = copy(cuda, source, target.address, target.bytes, |t| _ = t.write(target));
    let _entered = cuda.enter()?;
    // SAFETY: opened above, and nothing reads it any more.
    unsafe { (ipc.close)(source) };
    copied.map(|()| true)
}

/// Memory with a handle; None if the device has no more, even after the pool has given back what it keeps.
fn allocate(cuda: &Cuda, bytes: usize) -> Result<Option<Allocation>> {
    let bytes = bytes.next_multiple_of(GRANULARITY);
    let mut address = 0;
    for is_trimmed in [false, true] {
        if is_trimmed {
            cuda.trim()?;
        }
        let _entered = cuda.enter()?;
        // SAFETY: writes an address.
        let status = unsafe { (cuda.driver.allocate)(&mut address, bytes) };
        if api::code(status) != Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            cuda.check(status, "cuMemAlloc")?;
            return Ok(Some(Allocation { ordinal: cuda.properties.ordinal, address }));
        }
    }
    Ok(None)
}

/// Copies between two addresses that the device reaches, and waits.
fn copy<'a>(cuda: &'a Cuda, from: u64, to: u64, bytes: usize, touches: impl FnOnce(&mut Touched<'a>)) -> Result<()> {
    {
        let _ordered = cuda.ordered(touches)?;
        let _entered = cuda.enter()?;
        // SAFETY: live memory of this many bytes on both sides until the stream has been waited for.
        let status = unsafe { (cuda.driver.copy_async)(to, from, bytes, cuda.stream()) };
        cuda.check(status, "cuMemcpyDtoDAsync")?;
    }
    cuda.wait()
}
