//! Copies between host and device.
//!
//! Pageable host memory is copied at a fifth of the bus's speed. So it goes through page-locked chunks: several threads
//! fill or empty some chunks while others are on the bus. Numbers are converted while a chunk is filled.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::core::lock;
use super::current_stream::refuse;
use super::device::{Cuda, PerDevice};
use super::exchange::order;
use super::stream_state::StreamState;
use crate::backend::cuda::driver::api::{
    CUevent_flags, CUmemorytype, CUpointer_attribute, CUstream_flags, Event, Stream, SUCCESS,
};
use crate::backend::cuda::driver::host_memory::Host;
use crate::memory;
use crate::memory::buffer::Buffer;
use crate::memory::counters;
use crate::memory::staging::{finished, AsyncUpload, Shared, UploadSource};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::loops::convert::Converter;
use verdigris_ops::parallel;

/// The size of a chunk. On an H100's host 8 threads copied 1e8 doubles in 28, 17.8, 16.9 and 16.9 ms by chunks of 0.5,
/// 1, 2 and 4 MiB: smaller ones cost driver calls, larger ones are evicted from the cache before they are sent.
const CHUNK: usize = 2 << 20;
/// The size of a converted chunk, whose source is larger than what is sent: 1e8 doubles to float32 took 16 threads
/// 12.0, 10.1, 11.3 and 13.3 ms by chunks of 0.5, 1, 2 and 4 MiB.
const CONVERTED_CHUNK: usize = 1 << 20;
/// The most threads that copy to the device; more are not faster (8: 16.5 ms, 16: 18.1 ms).
const MOST_COPYING: usize = 8;
/// The most threads that convert to float32 while they copy (8: 14.0 ms, 12: 10.8 ms, 16: 10.4 ms).
const MOST_CONVERTING: usize = 16;
/// The most threads that read from a file, where each chunk takes one or more system calls.
const MOST_READING: usize = 16;
/// The most threads that copy to newly allocated host memory (8: 41 ms, 16: 33 ms).
const MOST_DOWN: usize = 16;

/// Up to this many half-precision numbers are converted on the host, since a kernel's launch and compilation cost more.
const SMALL_HALVES: usize = 1 << 18;

/// A page-locked chunk, and the event after which it may be reused.
struct Chunk {
    memory: Host,
    event: Event,
}

/// The chunks of a device, allocated as transfers need them.
#[derive(Default)]
struct Staging {
    chunks: Vec<Chunk>,
    next: usize,
}

/// A stream for copies that overlap with computation, and its chunks.
struct CopyStream {
    stream: Stream,
    staging: Mutex<Staging>,
}

static STAGING: PerDevice<Mutex<Staging>> = PerDevice::new();
/// The device's copy stream, created when first needed.
static COPY_STREAM: PerDevice<CopyStream> = PerDevice::new();

fn event(cuda: &Cuda) -> Result<Event> {
    let mut event = Event::NULL;
    let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    // SAFETY: writes a handle.
    cuda.check(unsafe { (cuda.driver.event_create)(&mut event, flags) }, "cuEventCreate")?;
    Ok(event)
}

impl Staging {
    /// The first `n` chunks, allocated if needed; they may be in use. The context must be current.
    fn chunks(&mut self, cuda: &Cuda, n: usize) -> Result<&mut [Chunk]> {
        while self.chunks.len() < n {
            let memory = Host::new(cuda.driver, &|status, function| cuda.check(status, function), CHUNK)?;
            self.chunks.push(Chunk { memory, event: event(cuda)? });
        }
        Ok(&mut self.chunks[..n])
    }

    /// One chunk that is free, for a copy that fits into it. The context must be current.
    fn one(&mut self, cuda: &Cuda) -> Result<&mut Chunk> {
        // alternates between a few chunks, so that small uploads need not wait for each other
        const TURNS: usize = 4;
        self.next = (self.next + 1) % TURNS;
        let next = self.next;
        let chunk = &mut self.chunks(cuda, next + 1)?[next];
        chunk.wait(cuda)?;
        Ok(chunk)
    }
}

impl Chunk {
    fn wait(&self, cuda: &Cuda) -> Result<()> {
        // SAFETY: a live event; one that was never recorded is complete.
        cuda.check(unsafe { (cuda.driver.event_synchronize)(self.event) }, "cuEventSynchronize")
    }

    fn record(&self, cuda: &Cuda, stream: Stream) -> Result<()> {
        // SAFETY: a live event and a live stream.
        cuda.check(unsafe { (cuda.driver.event_record)(self.event, stream) }, "cuEventRecord")
    }

    /// Fills the chunk with bytes `at .. at + bytes` of the source and queues their upload. Returns the flag bits of
    /// the conversion.
    fn up(
        &self,
        cuda: &Cuda,
        stream: Stream,
        source: &UploadSource,
        at: usize,
        bytes: usize,
        target: u64,
    ) -> Result<u32> {
        self.wait(cuda)?;
        // SAFETY: a chunk is at least as long as the piece, and the device has finished with it.
        let bits = unsafe { source.fill(at, bytes, self.memory.host)? };
        cuda.send(stream, self.memory.host, target, bytes)?;
        self.record(cuda, stream)?;
        Ok(bits)
    }

    /// Downloads through the chunk, and waits.
    fn down(&self, cuda: &Cuda, source: u64, target: *mut u8, bytes: usize) -> Result<()> {
        // an upload from the chunk may still run on another stream
        self.wait(cuda)?;
        cuda.fetch(source, self.memory.host, bytes)?;
        self.record(cuda, cuda.stream())?;
        self.wait(cuda)?;
        // SAFETY: the caller's target has room, and the chunk is filled.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.host, target, bytes) };
        Ok(())
    }
}

/// Runs `body` for every piece of a copy, on one thread per group of chunks. Returns one of the errors, if any.
fn share(
    cuda: &Cuda,
    groups: Vec<&mut [Chunk]>,
    pieces: usize,
    body: impl Fn(&Chunk, usize) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let work = |group: &mut [Chunk]| -> Result<()> {
        let _entered = cuda.enter()?;
        for turn in 0.. {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                break;
            }
            body(&group[turn % group.len()], piece)?;
        }
        Ok(())
    };
    let attempt = |group: &mut [Chunk]| {
        if let Err(error) = work(group) {
            next.store(pieces, Ordering::Relaxed);
            *lock(&failed) = Some(error);
        }
    };
    match parallel::pool() {
        Some(pool) => pool.scope(|scope| {
            for group in groups {
                let attempt = &attempt;
                scope.spawn(move |_| attempt(group));
            }
        }),
        // without a pool the first group processes all pieces
        None => groups.into_iter().for_each(attempt),
    }
    let failed = lock(&failed).take();
    failed.map_or(Ok(()), Err)
}

/// The number of threads for a copy: the user's option, else at most `most`; at most one per piece.
fn threads(pieces: usize, most: usize) -> Result<usize> {
    Ok(memory::threads()?.unwrap_or_else(|| parallel::width().min(most)).clamp(1, pieces.max(1)))
}

/// The device address of a range of a buffer.
///
/// # Errors
/// `Argument` where the range exceeds the buffer.
pub(crate) fn within(buffer: &Buffer, offset: usize, bytes: usize) -> Result<u64> {
    if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes) {
        return Err(Error::new(
            Kind::Argument,
            format!("a copy of {bytes} bytes at {offset} leaves its buffer of {} bytes", buffer.bytes),
        ));
    }
    Ok(buffer.address + offset as u64)
}

impl Cuda {
    fn send(&self, stream: Stream, host: *const u8, target: u64, bytes: usize) -> Result<()> {
        let _timed = self.timed("upload", stream, bytes, || "upload".into());
        // SAFETY: both are live and long enough; host memory that is not page-locked has been read on return.
        let status = unsafe { (self.driver.upload_async)(target, host.cast(), bytes, stream) };
        self.check(status, "cuMemcpyHtoDAsync")
    }

    fn fetch(&self, source: u64, host: *mut u8, bytes: usize) -> Result<()> {
        let _timed = self.timed("download", self.stream(), bytes, || "download".into());
        // SAFETY: both are live and long enough; the caller waits before reading.
        let status = unsafe { (self.driver.download_async)(host.cast(), source, bytes, self.stream()) };
        self.check(status, "cuMemcpyDtoHAsync")
    }

    /// Whether host memory is page-locked, so that the device can access it directly.
    fn is_pinned(&self, host: *const u8) -> bool {
        let mut kind = 0u32;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: writes a number; an unknown address gives an error status.
        let status = unsafe { (self.driver.pointer_attribute)((&raw mut kind).cast(), attribute, host as u64) };
        status == SUCCESS && kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32
    }

    /// Waits without checking for interrupts, for short copies that access R's memory.
    fn synchronize_uninterruptible(&self) -> Result<()> {
        // SAFETY: our stream.
        self.check(unsafe { (self.driver.stream_synchronize)(self.stream()) }, "cuStreamSynchronize")
    }

    /// Uploads through chunks. Returns the flag bits of the conversion, once the source may be changed again.
    fn stage(&self, staging: &Mutex<Staging>, stream: Stream, source: &UploadSource, to: u64) -> Result<u32> {
        let bytes = source.bytes();
        counters::BYTES_UP.add(bytes as u64);
        let mut staging = lock(staging);
        if bytes <= CHUNK {
            return staging.one(self)?.up(self, stream, source, 0, bytes, to);
        }
        let (size, most) = match source.is_converted() {
            true => (CONVERTED_CHUNK, MOST_CONVERTING),
            false if source.stop().is_some() => (CHUNK, MOST_READING),
            false => (CHUNK, MOST_COPYING),
        };
        let pieces = bytes.div_ceil(size);
        let bits = AtomicU32::new(0);
        // two chunks per thread: one is filled while the other is on the bus
        let groups = staging.chunks(self, 2 * threads(pieces, most)?)?.chunks_mut(2).collect();
        share(self, groups, pieces, |chunk, piece| {
            let at = piece * size;
            let found = chunk.up(self, stream, source, at, size.min(bytes - at), to + at as u64)?;
            bits.fetch_or(found, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(bits.into_inner())
    }

    fn send_filled(&self, source: &UploadSource, to: u64) -> Result<u32> {
        if source.bytes() == 0 {
            return Ok(0);
        }
        let _entered = self.enter()?;
        if source.bytes() > CHUNK {
            // the copies would wait for earlier work anyway, and this wait can be interrupted
            self.wait()?;
            if let Some(host) = source.plain().filter(|&host| self.is_pinned(host)) {
                counters::BYTES_UP.add(source.bytes() as u64);
                self.send(self.stream(), host, to, source.bytes())?;
                self.synchronize_uninterruptible()?;
                return Ok(0);
            }
        }
        self.stage(STAGING.of(self), self.stream(), source, to)
    }

    pub(crate) fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()> {
        let to = within(target, offset, source.len())?;
        // SAFETY: the source lives until the copy has read it.
        let source = unsafe { UploadSource::vector(source.as_ptr(), 1, source.len()) };
        if self.is_capturing() {
            return self.send_constant(&source, to).map(|_| ());
        }
        self.send_filled(&source, to).map(|_| ())
    }

    /// Uploads while a graph is recorded: the graph keeps the current bytes in device memory, and each launch copies
    /// them.
    #[cold]
    fn send_constant(&self, source: &UploadSource, to: u64) -> Result<u32> {
        let (kept, bits) = self.outside(|| {
            let kept = self.allocate(source.bytes())?;
            let bits = self.send_filled(source, kept.address)?;
            self.wait()?;
            Ok((kept, bits))
        })?;
        let _entered = self.enter()?;
        // SAFETY: both are live and long enough; the graph holds the first.
        let status = unsafe { (self.driver.copy_async)(to, kept.address, kept.bytes, self.stream()) };
        self.hold(Box::new(kept));
        self.check(status, "cuMemcpyDtoDAsync").map(|()| bits)
    }

    /// Queues a copy from page-locked memory. Returns false, with nothing queued, where the source is not page-locked.
    ///
    /// # Safety
    /// The source must live, and not be written, until the copy is done.
    pub(crate) unsafe fn upload_queued(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<bool> {
        let to = within(target, offset, source.len())?;
        let _entered = self.enter()?;
        if source.is_empty() || !self.is_pinned(source.as_ptr()) {
            return Ok(source.is_empty());
        }
        counters::BYTES_UP.add(source.len() as u64);
        self.send(self.stream(), source.as_ptr(), to, source.len()).map(|()| true)
    }

    /// Queues a copy to page-locked memory. Returns false, with nothing queued, where the target is not page-locked.
    ///
    /// # Safety
    /// The target must live, and nobody may use it, until the copy is done.
    pub(crate) unsafe fn download_queued(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<bool> {
        let from = within(source, offset, target.len())?;
        let _entered = self.enter()?;
        if target.is_empty() || !self.is_pinned(target.as_ptr()) {
            return Ok(target.is_empty());
        }
        counters::BYTES_DOWN.add(target.len() as u64);
        self.fetch(from, target.as_mut_ptr(), target.len()).map(|()| true)
    }

    /// The conversion of elements during an upload; None where the device should convert instead. Halves take a few
    /// instructions on the device, but branches on the host.
    fn conversion(wire: DType, dtype: DType, n: usize) -> Option<Converter> {
        if dtype.is_half() && n > SMALL_HALVES {
            return None;
        }
        Converter::new(wire, dtype)
    }

    /// Uploads elements of dtype `wire` as `dtype`. Returns the flag bits of the conversion; None, with nothing copied,
    /// where the device should convert.
    pub(crate) fn upload_as(&self, source: &[u8], wire: DType, target: &Buffer, dtype: DType) -> Result<Option<u32>> {
        let n = source.len() / wire.size();
        let Some(converter) = Cuda::conversion(wire, dtype, n) else { return Ok(None) };
        let to = within(target, 0, n * dtype.size())?;
        // SAFETY: the source lives until the copy has read it.
        let source = unsafe { UploadSource::vector(source.as_ptr(), wire.size(), n) }.converted(converter);
        if self.is_capturing() {
            return self.send_constant(&source, to).map(Some);
        }
        self.send_filled(&source, to).map(Some)
    }

    fn copy_stream(&self) -> Result<&CopyStream> {
        if let Some(found) = COPY_STREAM.get(self) {
            return Ok(found);
        }
        let mut stream = Stream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        self.check(unsafe { (self.driver.stream_create)(&mut stream, flags, 0) }, "cuStreamCreateWithPriority")?;
        Ok(COPY_STREAM.get_or(self, || CopyStream { stream, staging: Mutex::default() }))
    }

    /// Starts an upload on a separate stream and a separate thread, so that it overlaps with work queued from now on.
    pub(crate) fn upload_ahead(
        &'static self,
        source: UploadSource,
        convert: Option<(DType, DType)>,
    ) -> Result<Box<dyn AsyncUpload>> {
        if self.is_capturing() {
            return Err(refuse("an asynchronous copy"));
        }
        let converter = convert.and_then(|(wire, dtype)| Converter::new(wire, dtype));
        let source = match converter {
            Some(converter) => source.converted(converter),
            None => source,
        };
        let buffer = self.allocate(source.bytes())?;
        let _entered = self.enter()?;
        let copy_stream = self.copy_stream()?;
        // earlier work on the current stream may still use the memory that the pool returned
        let stream_state = self.stream_state();
        order(self, stream_state.handle(), copy_stream.stream)?;
        let (to, stop) = (buffer.address, source.stop());
        let copy = move |source: UploadSource| -> Result<u32> {
            if source.bytes() == 0 {
                return Ok(0);
            }
            let _entered = self.enter()?;
            self.stage(&copy_stream.staging, copy_stream.stream, &source, to)
        };
        // the source is passed by channel, so that it is still available if no thread can be created
        let (hand_over, taken) = sync_channel(1);
        let work = move || taken.recv().map_or(Ok(0), copy);
        let thread = match std::thread::Builder::new().name("verdigris-copy".into()).spawn(work) {
            Ok(thread) => {
                let _ = hand_over.send(source);
                Ok(thread)
            }
            // without a thread the copy runs here
            Err(_) => Err(copy(source)),
        };
        Ok(Box::new(Copying { cuda: self, stream_state, copy_stream, buffer, stop, thread: Some(thread) }))
    }

    pub(crate) fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        if self.is_capturing() {
            return Err(refuse("elements that R reads"));
        }
        let from = within(source, offset, target.len())?;
        counters::BYTES_DOWN.add(target.len() as u64);
        let _entered = self.enter()?;
        let mut staging = lock(STAGING.of(self));
        if target.len() <= CHUNK {
            let chunk = staging.one(self)?;
            self.fetch(from, chunk.memory.host, target.len())?;
            if let Err(error) = self.wait() {
                // after an interrupt the copy may still be under way: nobody may use the chunk before it
                chunk.record(self, self.stream())?;
                return Err(error);
            }
            // SAFETY: the chunk is at least as long as the target and the device has filled it.
            unsafe { std::ptr::copy_nonoverlapping(chunk.memory.host, target.as_mut_ptr(), target.len()) };
            return Ok(());
        }
        if self.is_pinned(target.as_ptr()) {
            // this wait can be interrupted; a copy that writes to R's memory must complete
            self.wait()?;
            self.fetch(from, target.as_mut_ptr(), target.len())?;
            return self.synchronize_uninterruptible();
        }
        // errors of earlier work are reported here, not on the threads
        self.wait()?;
        let (bytes, to) = (target.len(), Shared(target.as_mut_ptr()));
        let pieces = bytes.div_ceil(CHUNK);
        let groups = staging.chunks(self, threads(pieces, MOST_DOWN)?)?.chunks_mut(1).collect();
        share(self, groups, pieces, |chunk, piece| {
            let at = piece * CHUNK;
            // SAFETY: within the target, and no other thread has this piece.
            chunk.down(self, from + at as u64, unsafe { to.at(at) }, CHUNK.min(bytes - at))
        })
    }

    pub(crate) fn copy(&self, source: &Buffer, from: usize, target: &Buffer, to: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (from, to) = (within(source, from, bytes)?, within(target, to, bytes)?);
        let _entered = self.enter()?;
        let _timed = self.timed("copy", self.stream(), bytes, || "copy".into());
        // SAFETY: both ranges are within live buffers.
        let status = unsafe { (self.driver.copy_async)(to, from, bytes, self.stream()) };
        self.check(status, "cuMemcpyDtoDAsync")
    }
}

/// An upload on a separate thread.
struct Copying {
    cuda: &'static Cuda,
    /// The stream in whose order the buffer was allocated.
    stream_state: &'static StreamState,
    copy_stream: &'static CopyStream,
    buffer: Arc<Buffer>,
    /// Flag that stops a copy from a file early.
    stop: Option<Arc<AtomicBool>>,
    /// The thread, or the result of the copy if no thread could be created.
    thread: Option<std::result::Result<JoinHandle<Result<u32>>, Result<u32>>>,
}

impl Copying {
    fn finish(&mut self) -> Result<u32> {
        let Some(thread) = self.thread.take() else { return Ok(0) };
        let done = thread.map_or_else(|done| done, |thread| finished(thread, self.stop.as_deref()));
        let _entered = self.cuda.enter()?;
        // also after a failure: the buffer may be freed next, in that stream's order
        order(self.cuda, self.copy_stream.stream, self.stream_state.queue())?;
        self.cuda.note_write(self.buffer.address, self.stream_state);
        done
    }
}

impl AsyncUpload for Copying {
    fn take(mut self: Box<Self>) -> Result<(Arc<Buffer>, u32)> {
        let bits = self.finish()?;
        Ok((self.buffer.clone(), bits))
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let Some(stop) = &self.stop {
            stop.store(true, Ordering::Relaxed);
        }
        // the caller may free the source after dropping it
        let _ = self.finish();
    }
}
