//! Memory and streams of other libraries: the order of our work and theirs.

use super::api::{CUevent_flags, CUpointer_attribute, Event, Stream, SUCCESS};
use super::capture;
use super::Cuda;
use crate::error::{Error, Kind, Result};

/// `CU_STREAM_LEGACY`: waits for, and is waited for by, every stream that was not made non-blocking.
const LEGACY: Stream = Stream::from_number(1);

/// Makes `waits` wait for what is queued on `works` now.
pub(super) fn order(cuda: &Cuda, works: Stream, waits: Stream) -> Result<()> {
    let _entered = cuda.enter()?;
    let mut event = Event::NULL;
    let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    // SAFETY: live streams and an event of this context; the driver keeps the event until it has happened.
    unsafe {
        cuda.check((cuda.driver.event_create)(&mut event, flags), "cuEventCreate")?;
        let recorded = cuda.check((cuda.driver.event_record)(event, works), "cuEventRecord");
        let ordered =
            recorded.and_then(|()| cuda.check((cuda.driver.stream_wait)(waits, event, 0), "cuStreamWaitEvent"));
        (cuda.driver.event_destroy)(event);
        ordered
    }
}

/// See `Backend::release`. Takes no lock: it is called where buffers are dropped.
pub fn release(cuda: &Cuda, stream: Option<u64>) -> Result<()> {
    let done = release_to(cuda, stream);
    if cuda.is_capturing() {
        return Err(capture::refuse("memory that is given to another library"));
    }
    done
}

fn release_to(cuda: &Cuda, stream: Option<u64>) -> Result<()> {
    match stream {
        Some(stream) => {
            let waits = Stream::from_number(stream as usize);
            cuda.running_lanes().into_iter().try_for_each(|lane| order(cuda, lane.stream, waits))
        }
        None => {
            let _entered = cuda.enter()?;
            cuda.running_lanes().into_iter().try_for_each(|lane| {
                // SAFETY: our stream.
                cuda.check(unsafe { (cuda.driver.stream_synchronize)(lane.stream) }, "cuStreamSynchronize")
            })
        }
    }
}

/// See `Backend::acquire`.
pub fn acquire(cuda: &Cuda) -> Result<()> {
    cuda.running_lanes().into_iter().try_for_each(|lane| order(cuda, LEGACY, lane.stream))
}

/// See `Backend::reaches`.
pub fn reaches(cuda: &Cuda, address: u64) -> Result<()> {
    let _entered = cuda.enter()?;
    let (mut managed, mut ordinal) = (0u32, -1i32);
    let (is_managed, device_ordinal) = (
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    );
    // SAFETY: a bool of 1 byte (a word is room enough) and an int; an address that the driver does not know is an error to it.
    let status = unsafe {
        (cuda.driver.pointer_attribute)((&raw mut managed).cast(), is_managed, address);
        (cuda.driver.pointer_attribute)((&raw mut ordinal).cast(), device_ordinal, address)
    };
    if status == SUCCESS && (ordinal == cuda.properties.ordinal as i32 || managed & 0xff != 0) {
        return Ok(());
    }
    let truth = if status == SUCCESS && ordinal >= 0 { format!("of cuda:{ordinal}") } else { "no CUDA memory".into() };
    Err(Error::new(
        Kind::Device,
        format!("the tensor says that it is on {}, but {address:#x} is {truth}", cuda.device()),
    ))
}
