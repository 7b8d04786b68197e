//! Entries: exchange of tensors with torch for R, in both directions by DLPack. `torch_bridge.cpp` has the layouts.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use verdigris_engine::array::strided;
use verdigris_engine::array::Array;
use verdigris_engine::interop::dlpack::{self, Copying, Order, Raw, Terms};
use verdigris_engine::interop::host_memory;
use verdigris_engine::memory::buffer::Watch;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::{attributes, convert, handle};
use crate::entries::entry::{entries, for_c};
use crate::r::{self, values, SEXP};

/// torch for R works on CUDA's legacy default stream.
const STREAM: u64 = 1;

/// libtorch's error message, without the stack trace that it appends.
fn said(message: &[c_char]) -> String {
    // SAFETY: the buffer was zeroed and is ended in NUL by snprintf.
    let text = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy();
    text.lines().next().unwrap_or_default().to_string()
}

/// The error for a `Status` of `torch_bridge.cpp`.
fn refused(status: c_int, message: &[c_char], x: SEXP) -> Error {
    match status {
        1 => Error::new(ErrorKind::Argument, format!("expected a torch tensor, got {}", values::describe(x))).advise(
            "A tensor that was saved and read again, or sent by another process, is empty: send an array instead.",
        ),
        2 => Error::new(ErrorKind::Argument, "the tensor is sparse, quantized, or of another kind without strides")
            .advise("Make an ordinary one first: `x$to_dense()` or `x$dequantize()`."),
        3 => Error::new(ErrorKind::Argument, "the tensor requires a gradient, which an array cannot record")
            .advise("Use `as_gpu(x, detach = TRUE)`, or `x$detach()`, for its values."),
        4 => Error::new(
            ErrorKind::Argument,
            "the tensor is marked as conjugated or negated, and its memory holds other values",
        )
        .advise("Use `x$resolve_conj()`, or `x$contiguous()$clone()`, first."),
        6 => Error::new(ErrorKind::Argument, "the tensor is undefined: it has no values")
            .advise("A gradient has them after `loss$backward()`."),
        _ => Error::new(ErrorKind::Argument, format!("torch cannot share the tensor: {}", said(message))),
    }
}

/// Whether an address range is in the heap, and so certainly mapped. For `torch_bridge.cpp`, before it reads.
#[no_mangle]
extern "C" fn vg_is_heap(address: *const c_void, bytes: usize) -> c_int {
    host_memory::is_heap(address as u64, bytes).into()
}

/// A torch tensor on the memory of an array.
fn torch_export(x: SEXP) -> Result<SEXP> {
    // lent for writing: torch may write to the tensor
    let mut array = match handle::of(x) {
        Some(handle) => handle.lend_in_order()?,
        None => convert::array(x)?,
    };
    let dim = attributes::extents(x)?;
    let mut view = array.evaluate()?;
    if view.layout.strides().iter().any(|&step| step < 0) {
        // torch has no negative strides
        view = array.contiguous()?;
        array = Array::from_view(view.clone());
    }
    if view.buffer.is_read_only() {
        // torch has no read-only tensors
        array = Array::duplicate(&view)?;
        view = array.evaluate()?;
    }
    // torch itself refuses to write to tensors with overlapping elements
    let writable = !strided::overlaps(&view.layout);
    drop(view);
    let terms = Terms { versioned: false, order: Order::Stream(STREAM), writable };
    let raw = dlpack::export_as(&array, &dim, terms)?;
    drop(array);
    let (mut status, mut message) = (0, [0 as c_char; 512]);
    // SAFETY: passes ownership of the tensor; R's errors are caught inside.
    let made = unsafe { r::vg_torch_take(raw.pointer(), &mut status, message.as_mut_ptr(), message.len() as c_int) };
    if status == 0 {
        Ok(made)
    } else {
        Err(Error::new(ErrorKind::Library, format!("torch did not take the array: {}", said(&message))))
    }
}

entries! {
    /// An array on the memory of a torch tensor.
    fn torch_import(x: SEXP) -> Result<SEXP> {
        let (mut status, mut message) = (0, [0 as c_char; 512]);
        // SAFETY: the status and the message have room.
        let given = unsafe { r::vg_torch_give(x, &mut status, message.as_mut_ptr(), message.len() as c_int) };
        let raw = Raw::from_capsule(Raw::LEGACY, given).ok_or_else(|| refused(status, &message, x))?;
        let address = given as usize;
        // SAFETY: the tensor exists as long as the watch is called.
        let watch: Watch = Box::new(move || unsafe { r::vg_torch_is_there(address as *const c_void) != 0 });
        // SAFETY: libtorch made the tensor, and has given it up.
        let taken = unsafe { dlpack::import_on(raw, Copying::IfNeeded, Some(STREAM), Some(watch)) };
        if taken.is_err() {
            // SAFETY: a failed import does not take ownership.
            unsafe { raw.delete() };
        }
        let (array, dim) = taken?;
        handle::shaped(array, &dim)
    }
}

for_c! {
    torch_import(x);
    torch_export(x);
}
