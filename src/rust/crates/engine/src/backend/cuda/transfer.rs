//! Copies between host and device.
//!
//! Ordinary host memory moves at a fifth of the bus's speed, so it goes through page-locked chunks
//! that several threads fill or empty while others are on the bus.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::api::{CUevent_flags, CUmemorytype, CUpointer_attribute, Event, SUCCESS};
use super::device::{lock, Cuda};
use super::memory::Host;
use crate::buffer::Buffer;
use crate::counters;
use crate::error::{Error, Kind, Result};

const CHUNK: usize = 4 << 20;
/// More threads than this do not fill the bus faster.
const MOST_THREADS: usize = 8;

/// A chunk, and the event after which it may be used again.
struct Chunk {
    memory: Host,
    event: Event,
}

/// The chunks of a device, made as transfers need them.
#[derive(Default)]
pub struct Staging {
    chunks: Vec<Chunk>,
    next: usize,
}

impl Staging {
    /// At least `n` chunks. The context must be current.
    fn chunks(&mut self, cuda: &Cuda, n: usize) -> Result<&mut [Chunk]> {
        while self.chunks.len() < n {
            let memory = Host::new(cuda.driver, CHUNK)?;
            let mut event = Event::NULL;
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
            // SAFETY: writes a handle.
            cuda.check(unsafe { (cuda.driver.event_create)(&mut event, flags) }, "cuEventCreate")?;
            self.chunks.push(Chunk { memory, event });
        }
        Ok(&mut self.chunks[..n])
    }

    /// One chunk that is free. The context must be current.
    fn one(&mut self, cuda: &Cuda) -> Result<&mut Chunk> {
        // a few in turn, so that small uploads need not wait for each other
        const TURNS: usize = 4;
        self.next = (self.next + 1) % TURNS;
        let next = self.next;
        let chunk = &mut self.chunks(cuda, next + 1)?[next];
        chunk.settle(cuda)?;
        Ok(chunk)
    }
}

impl Chunk {
    fn settle(&self, cuda: &Cuda) -> Result<()> {
        // SAFETY: a live event; one that was never recorded is complete.
        cuda.check(unsafe { (cuda.driver.event_synchronize)(self.event) }, "cuEventSynchronize")
    }

    fn record(&self, cuda: &Cuda) -> Result<()> {
        // SAFETY: a live event and our stream.
        cuda.check(unsafe { (cuda.driver.event_record)(self.event, cuda.stream) }, "cuEventRecord")
    }

    fn up(&self, cuda: &Cuda, source: &[u8], target: u64) -> Result<()> {
        self.settle(cuda)?;
        // SAFETY: a chunk is at least as long as the piece, and the device has finished with it.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.memory.host, source.len()) };
        cuda.send(self.memory.host, target, source.len())?;
        self.record(cuda)
    }

    fn down(&self, cuda: &Cuda, source: u64, target: *mut u8, bytes: usize) -> Result<()> {
        cuda.fetch(source, self.memory.host, bytes)?;
        self.record(cuda)?;
        self.settle(cuda)?;
        // SAFETY: the caller's target has room, and the chunk is filled.
        unsafe { std::ptr::copy_nonoverlapping(self.memory.host, target, bytes) };
        Ok(())
    }
}

/// A host address that threads may share: each of them uses a part of its own.
#[derive(Clone, Copy)]
struct Shared(*mut u8);
// SAFETY: see above.
unsafe impl Send for Shared {}
// SAFETY: see above.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// `at` must be within the memory.
    unsafe fn at(self, at: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(at) }
    }
}

/// Runs `body` for every piece, on as many threads as there are groups of chunks.
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
    rayon::scope(|scope| {
        for group in groups {
            let (work, failed, next) = (&work, &failed, &next);
            scope.spawn(move |_| {
                if let Err(error) = work(group) {
                    next.store(pieces, Ordering::Relaxed);
                    *lock(failed) = Some(error);
                }
            });
        }
    });
    let failed = lock(&failed).take();
    failed.map_or(Ok(()), Err)
}

fn threads(pieces: usize) -> usize {
    rayon::current_num_threads().min(MOST_THREADS).min(pieces)
}

fn within(buffer: &Buffer, offset: usize, bytes: usize) -> Result<u64> {
    if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes) {
        return Err(Error::new(
            Kind::Argument,
            format!("a copy of {bytes} bytes at {offset} leaves its buffer of {} bytes", buffer.bytes),
        ));
    }
    Ok(buffer.address + offset as u64)
}

impl Cuda {
    fn send(&self, host: *const u8, target: u64, bytes: usize) -> Result<()> {
        // SAFETY: both are live and long enough; host memory that is not page-locked has been read on return.
        let status = unsafe { (self.driver.upload_async)(target, host.cast(), bytes, self.stream) };
        self.check(status, "cuMemcpyHtoDAsync")
    }

    fn fetch(&self, source: u64, host: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: both are live and long enough; who calls waits before reading.
        let status = unsafe { (self.driver.download_async)(host.cast(), source, bytes, self.stream) };
        self.check(status, "cuMemcpyDtoHAsync")
    }

    /// Whether the device reaches this host memory by itself.
    fn is_pinned(&self, host: *const u8) -> bool {
        let mut kind = 0u32;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: writes a number; an unknown address gives an error status.
        let status = unsafe { (self.driver.pointer_attribute)((&raw mut kind).cast(), attribute, host as u64) };
        status == SUCCESS && kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32
    }

    pub(super) fn upload(&self, source: &[u8], target: &Buffer, offset: usize) -> Result<()> {
        if source.is_empty() {
            return Ok(());
        }
        let to = within(target, offset, source.len())?;
        counters::BYTES_UP.add(source.len() as u64);
        let _entered = self.enter()?;
        let mut staging = lock(&self.staging);
        if source.len() <= CHUNK {
            let chunk = staging.one(self)?;
            return chunk.up(self, source, to);
        }
        if self.is_pinned(source.as_ptr()) {
            self.send(source.as_ptr(), to, source.len())?;
            return self.wait();
        }
        let pieces = source.len().div_ceil(CHUNK);
        // two chunks a thread: one is filled while the other is on the bus
        let groups = staging.chunks(self, 2 * threads(pieces))?.chunks_mut(2).collect();
        share(self, groups, pieces, |chunk, piece| {
            let from = piece * CHUNK;
            let part = &source[from..source.len().min(from + CHUNK)];
            chunk.up(self, part, to + from as u64)
        })
    }

    pub(super) fn download(&self, source: &Buffer, offset: usize, target: &mut [u8]) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        let from = within(source, offset, target.len())?;
        counters::BYTES_DOWN.add(target.len() as u64);
        let _entered = self.enter()?;
        let mut staging = lock(&self.staging);
        if target.len() <= CHUNK {
            let chunk = staging.one(self)?;
            self.fetch(from, chunk.memory.host, target.len())?;
            self.wait()?;
            // SAFETY: the chunk is at least as long as the target and the device has filled it.
            unsafe { std::ptr::copy_nonoverlapping(chunk.memory.host, target.as_mut_ptr(), target.len()) };
            return Ok(());
        }
        if self.is_pinned(target.as_ptr()) {
            self.fetch(from, target.as_mut_ptr(), target.len())?;
            return self.wait();
        }
        // faults and failures of the work before show here, not on the threads
        self.wait()?;
        let (bytes, to) = (target.len(), Shared(target.as_mut_ptr()));
        let pieces = bytes.div_ceil(CHUNK);
        let groups = staging.chunks(self, threads(pieces))?.chunks_mut(1).collect();
        share(self, groups, pieces, |chunk, piece| {
            let at = piece * CHUNK;
            // SAFETY: within the target, and no other thread has this piece.
            chunk.down(self, from + at as u64, unsafe { to.at(at) }, CHUNK.min(bytes - at))
        })
    }

    pub(super) fn copy(&self, source: &Buffer, from: usize, target: &Buffer, to: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (from, to) = (within(source, from, bytes)?, within(target, to, bytes)?);
        let _entered = self.enter()?;
        // SAFETY: both ranges are within live buffers.
        let status = unsafe { (self.driver.copy_async)(to, from, bytes, self.stream) };
        self.check(status, "cuMemcpyDtoDAsync")
    }
}
