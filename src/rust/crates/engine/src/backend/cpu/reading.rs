//! Arrays that background threads read from a file while the caller computes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::memory;
use crate::memory::buffer::Buffer;
use crate::memory::staging::{finished, AsyncUpload, CompletedUpload, Shared, UploadSource};
use verdigris_ops::error::Result;
use verdigris_ops::parallel;

/// Bytes that a thread reads at a time: a multiple of the size of any element.
const PIECE: usize = 1 << 20;
/// More threads would take time from computing, and few disks need more requests at once.
const MOST: usize = 4;

struct Reading {
    source: UploadSource,
    buffer: Arc<Buffer>,
    threads: Vec<JoinHandle<Result<u32>>>,
}

/// Starts to fill a buffer, whose memory is at `out`.
pub fn start(source: UploadSource, buffer: Arc<Buffer>, out: Shared) -> Result<Box<dyn AsyncUpload>> {
    let bytes = source.bytes();
    let next = Arc::new(AtomicUsize::new(0));
    let work = move |source: UploadSource, next: Arc<AtomicUsize>| {
        let mut bits = 0;
        loop {
            let at = next.fetch_add(PIECE, Ordering::Relaxed);
            if at >= bytes {
                return Ok(bits);
            }
            // SAFETY: within the buffer, which lives until the threads have ended, and no other thread has this part.
            let found = unsafe { source.fill(at, PIECE.min(bytes - at), out.at(at)) };
            match found {
                Ok(found) => bits |= found,
                Err(error) => {
                    next.store(bytes, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let wanted = memory::threads()?.unwrap_or_else(parallel::width).min(MOST).min(bytes.div_ceil(PIECE));
    let mut reading = Reading { source: source.clone(), buffer, threads: Vec::new() };
    for _ in 0..wanted {
        let (source, next) = (source.clone(), next.clone());
        let thread = Builder::new().name("verdigris-read".into()).spawn(move || work(source, next));
        // The threads that were started do the work.
        let Ok(thread) = thread else { break };
        reading.threads.push(thread);
    }
    if reading.threads.is_empty() {
        let bits = work(source, next)?;
        return Ok(Box::new(CompletedUpload(reading.buffer.clone(), bits)));
    }
    Ok(Box::new(reading))
}

impl Reading {
    fn finish(&mut self) -> Result<u32> {
        let stop = self.source.stop();
        let mut bits = Ok(0);
        for thread in self.threads.drain(..) {
            let found = finished(thread, stop.as_deref());
            bits = bits.and_then(|bits| found.map(|found| bits | found));
        }
        bits
    }
}

impl AsyncUpload for Reading {
    fn take(mut self: Box<Self>) -> Result<(Arc<Buffer>, u32)> {
        let bits = self.finish()?;
        Ok((self.buffer.clone(), bits))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The threads must end before the buffer is freed.
        if let Some(stop) = self.source.stop() {
            stop.store(true, Ordering::Relaxed);
        }
        let _ = self.finish();
    }
}
