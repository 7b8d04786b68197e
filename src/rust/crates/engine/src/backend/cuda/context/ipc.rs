//! Copies between processes of a host, by the driver's memory handles (CUDA C++ Programming Guide, "Interprocess
//! Communication").
//!
//! Memory of a pool has no such handle, so the process that has the array copies it to memory of its own, which the
//! other process opens, copies and closes. Both copies are waited for.

use std::sync::Arc;

use super::device::Cuda;
use crate::backend::cuda::driver::api::{self, CUresult, SUCCESS};
use crate::backend::{Backend, ExportedCopy};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::Source;
use verdigris_ops::error::Result;

/// The driver places smaller allocations side by side in one block, and a handle opens the whole block.
const GRANULARITY: usize = 2 << 20;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, without which memory of another device cannot be opened.
const ENABLE_PEER_ACCESS: u32 = 1;

/// The owner of memory outside the pool: of `cuMemAlloc`, or of another process.
struct Owner {
    ordinal: u32,
    address: u64,
    release: unsafe extern "C" fn(api::CUdeviceptr) -> u32,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let Ok(cuda) = Cuda::of(self.ordinal) else { return };
        let Ok(_entered) = cuda.enter() else { return };
        // SAFETY: allocated or opened, and released once. A process that has exported memory open keeps it.
        unsafe { (self.release)(self.address) };
    }
}

/// A buffer of memory outside the pool, which `release` gives back.
fn buffer(
    cuda: &Cuda,
    address: u64,
    bytes: usize,
    release: unsafe extern "C" fn(api::CUdeviceptr) -> u32,
) -> Arc<Buffer> {
    let owner = Owner { ordinal: cuda.properties.ordinal, address, release };
    Arc::new(Buffer::new(Source::device(cuda), address, bytes, Box::new(owner)))
}

/// See `backend::export_copy`.
pub fn export_copy(view: &View) -> Result<Option<ExportedCopy>> {
    let (Device::Cuda(ordinal), Ok(ipc)) = (view.buffer.device, api::ipc()) else { return Ok(None) };
    let cuda = Cuda::of(ordinal)?;
    let size = view.dtype.size();
    let bytes = view.len() * size;
    if bytes == 0 || cuda.is_capturing() {
        return Ok(None);
    }
    let Some(memory) = allocate(cuda, bytes)? else { return Ok(None) };
    Backend::copy(cuda, &view.buffer, view.layout.offset() * size, &memory, 0, bytes)?;
    cuda.wait()?;
    let _entered = cuda.enter()?;
    let mut handle = api::CUipcMemHandle { reserved: [0; 64] };
    // SAFETY: writes a handle of live memory.
    let status = unsafe { (ipc.export)(&mut handle, memory.address) };
    Ok((status == SUCCESS).then(|| ExportedCopy { handle: handle.reserved.map(|byte| byte as u8), _memory: memory }))
}

/// See `backend::import_copy`.
pub fn import_copy(handle: &[u8; 64], target: &Arc<Buffer>) -> Result<bool> {
    let (Device::Cuda(ordinal), Ok(ipc)) = (target.device, api::ipc()) else { return Ok(false) };
    let cuda = Cuda::of(ordinal)?;
    if cuda.is_capturing() {
        return Ok(false);
    }
    let handle = api::CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
    let mut address = 0;
    {
        let _entered = cuda.enter()?;
        // SAFETY: writes an address; the driver checks the handle.
        let status = unsafe { (ipc.import)(&mut address, handle, ENABLE_PEER_ACCESS) };
        if status != SUCCESS {
            return Ok(false);
        }
    }
    let source = buffer(cuda, address, target.bytes, ipc.close);
    Backend::copy(cuda, &source, 0, target, 0, target.bytes)?;
    // it is closed after that
    cuda.wait().map(|()| true)
}

/// Memory with a handle; None if the device has no more, even after the pool has given back what it keeps.
fn allocate(cuda: &Cuda, bytes: usize) -> Result<Option<Arc<Buffer>>> {
    let bytes = bytes.next_multiple_of(GRANULARITY);
    let mut address = 0;
    for is_trimmed in [false, true] {
        if is_trimmed {
            Source::trim(cuda)?;
        }
        let _entered = cuda.enter()?;
        // SAFETY: writes an address.
        let status = unsafe { (cuda.driver.allocate)(&mut address, bytes) };
        if api::code(status) != Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            cuda.check(status, "cuMemAlloc")?;
            return Ok(Some(buffer(cuda, address, bytes, cuda.driver.free)));
        }
    }
    Ok(None)
}
