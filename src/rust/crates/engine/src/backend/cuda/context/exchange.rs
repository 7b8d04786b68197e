//! Memory and streams shared with other libraries: orders this package's work and theirs.

use std::cell::Cell;
use std::ffi::c_void;

use super::current_stream::refuse;
use super::device::MOST_DEVICES as DEVICES;
use super::stream_state::StreamState;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{CUevent_flags, CUmemorytype, CUpointer_attribute, Event, Stream, SUCCESS};
use verdigris_ops::error::{Error, Kind, Result};

/// `CU_STREAM_LEGACY`, the default stream. It synchronises with every stream that was not created non-blocking.
const LEGACY: Stream = Stream::from_number(1);

thread_local! {
    /// One event per device and thread for `order`. `cuStreamWaitEvent` refers to the record at the time of the call,
    /// so the event can be recorded again at once; but no other thread may record it between the two calls.
    static EVENTS: [Cell<Event>; DEVICES] = const { [const { Cell::new(Event::NULL) }; DEVICES] };
}

/// Makes the stream `waits` wait for all work queued so far on the stream `works`.
pub(crate) fn order(cuda: &Cuda, works: Stream, waits: Stream) -> Result<()> {
    let _entered = cuda.enter()?;
    let ordinal = cuda.properties.ordinal as usize % DEVICES;
    let mut event = EVENTS.with(|events| events[ordinal].get());
    if event == Event::NULL {
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: an event of this context, for as long as the process lives.
        unsafe { cuda.check((cuda.driver.event_create)(&mut event, flags), "cuEventCreate")? };
        EVENTS.with(|events| events[ordinal].set(event));
    }
    // SAFETY: live streams and an event of this context.
    unsafe {
        cuda.check((cuda.driver.event_record)(event, works), "cuEventRecord")?;
        cuda.check((cuda.driver.stream_wait)(waits, event, 0), "cuStreamWaitEvent")
    }
}

/// See `Backend::release`. Takes no lock, because it is called when buffers are dropped.
pub fn release(cuda: &Cuda, stream: Option<u64>) -> Result<()> {
    let done = release_to(cuda, stream);
    if cuda.is_capturing() {
        return Err(refuse("memory that is shared with another library"));
    }
    done
}

fn release_to(cuda: &Cuda, stream: Option<u64>) -> Result<()> {
    match stream {
        Some(stream) => {
            let waits = Stream::from_number(stream as usize);
            each_stream(cuda, |stream_state| {
                if stream_state.is_done() {
                    return Ok(());
                }
                if waits != LEGACY {
                    return order(cuda, stream_state.handle(), waits);
                }
                let Some(queued) = stream_state.unsynced_with_default() else { return Ok(()) };
                order(cuda, stream_state.handle(), waits)?;
                stream_state.note_default_waits(queued);
                Ok(())
            })
        }
        None => each_stream(cuda, |stream_state| {
            if stream_state.is_done() {
                return Ok(());
            }
            let queued_count = stream_state.queued_count();
            let _entered = cuda.enter()?;
            // SAFETY: our stream.
            cuda.check(unsafe { (cuda.driver.stream_synchronize)(stream_state.handle()) }, "cuStreamSynchronize")?;
            stream_state.note_done(queued_count);
            Ok(())
        }),
    }
}

/// Calls `body` for each stream except a captured one. Allocates no list in the usual case of one stream.
fn each_stream(cuda: &Cuda, body: impl Fn(&StreamState) -> Result<()>) -> Result<()> {
    if cuda.mode() == 0 {
        return body(cuda.stream_state());
    }
    cuda.running_streams().into_iter().try_for_each(body)
}

/// See `Backend::acquire`.
pub fn acquire(cuda: &Cuda) -> Result<()> {
    each_stream(cuda, |stream_state| order(cuda, LEGACY, stream_state.stream_for_wait()))
}

/// See `Backend::reaches`. An allocator may have composed one block of several adjacent driver allocations, which are
/// looked up one after the other.
pub fn reaches(cuda: &Cuda, address: u64, bytes: usize) -> Result<()> {
    /// The most allocations to look up; memory behind them is assumed to exist.
    const PIECES: usize = 4096;
    let _entered = cuda.enter()?;
    let end = address.saturating_add(bytes as u64);
    let mut at = address;
    for _ in 0..PIECES {
        let next = piece(cuda, at).map_err(|truth| {
            if at > address {
                let held = at - address;
                return Error::new(
                    Kind::Argument,
                    format!("the data would be {bytes} bytes from {address:#x} on, but that memory ends after {held}"),
                );
            }
            let device = cuda.device();
            Error::new(Kind::Device, format!("the data are said to be on {device}, but {address:#x} is {truth}"))
        })?;
        if next >= end {
            return Ok(());
        }
        at = next;
    }
    Ok(())
}

/// The end of the driver allocation that contains an address. `Err` describes what the address is if it is not memory
/// of this device.
fn piece(cuda: &Cuda, address: u64) -> std::result::Result<u64, String> {
    use CUpointer_attribute as Attribute;
    let (mut managed, mut ordinal, mut kind) = (0u32, -1i32, 0u32);
    let (mut start, mut bytes) = (0u64, 0usize);
    let mut asked = [
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    ];
    let mut answers: [*mut c_void; 5] = [
        (&raw mut managed).cast(),
        (&raw mut ordinal).cast(),
        (&raw mut kind).cast(),
        (&raw mut start).cast(),
        (&raw mut bytes).cast(),
    ];
    // SAFETY: room for each answer (a bool takes one byte); of an address that the driver does not know it answers 0.
    let status = unsafe {
        (cuda.driver.pointer_attributes)(asked.len() as u32, asked.as_mut_ptr(), answers.as_mut_ptr(), address)
    };
    if status != SUCCESS || kind == 0 {
        return Err("no CUDA memory".into());
    }
    if managed & 0xff == 0 {
        if kind != CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 {
            return Err("host memory".into());
        }
        if ordinal != cuda.properties.ordinal as i32 {
            return Err(format!("of cuda:{ordinal}"));
        }
    }
    // a driver that does not report the range is trusted
    Ok(if bytes == 0 || address < start { u64::MAX } else { start.saturating_add(bytes as u64).max(address + 1) })
}
