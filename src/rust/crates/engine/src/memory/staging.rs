//! Sources of uploads: elements of a vector, or rows of a matrix, in memory or in a file. They are copied or converted
//! while staging buffers are filled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::memory::buffer::Buffer;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;
use verdigris_ops::loops::convert::Converter;

/// A pointer that threads may share, if each of them uses a part of the memory of its own.
pub struct Shared<T = u8>(pub *mut T);
// SAFETY: see above.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: see above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    /// The memory at an offset.
    ///
    /// # Safety
    /// `at` must be within the memory.
    pub unsafe fn at(self, at: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(at) }
    }
}

/// Elements that several threads read at once by their positions, as from a file.
pub trait Elements: Send + Sync {
    /// Reads elements from index `from` on until `out`, a whole number of elements, is full.
    fn read(&self, from: usize, out: &mut [u8]) -> Result<()>;
}

/// Where the elements are.
#[derive(Clone)]
enum Source {
    Memory(*const u8),
    /// Reading may take long, and is cancelled by setting the flag.
    Stored(Arc<dyn Elements>, Arc<AtomicBool>),
}

/// Bytes that are read from a stored source at once if rows are short: fewer calls, but more bytes than needed.
const SPAN: usize = 1 << 20;
/// Runs of at least this many bytes are read directly into their place.
const DIRECT: usize = 64 << 10;

/// The source of an upload: elements in order, or some rows of a matrix, as they are or converted.
#[derive(Clone)]
pub struct UploadSource {
    source: Source,
    /// Bytes of an element in the source and in the target.
    from: usize,
    to: usize,
    n: usize,
    /// Rows to take, rows of the matrix, and the first row to take. For a vector, all rows are taken.
    rows: usize,
    stride: usize,
    first: usize,
    converter: Option<Converter>,
}

// SAFETY: the constructor's caller promises that the source lives and is not written meanwhile; it is only read.
unsafe impl Send for UploadSource {}
// SAFETY: as above.
unsafe impl Sync for UploadSource {}

impl UploadSource {
    /// `n` elements of `size` bytes from `source` on.
    ///
    /// # Safety
    /// The source must live, and not be written, while the value or a copy of it is used.
    pub unsafe fn vector(source: *const u8, size: usize, n: usize) -> UploadSource {
        UploadSource {
            source: Source::Memory(source),
            from: size,
            to: size,
            n,
            rows: n,
            stride: n,
            first: 0,
            converter: None,
        }
    }

    /// Rows `first .. first + rows` of a column-major matrix of `stride` rows and `columns` columns.
    ///
    /// # Safety
    /// As `vector`; the rows must be within the matrix.
    pub unsafe fn rows(
        source: *const u8,
        size: usize,
        stride: usize,
        columns: usize,
        first: usize,
        rows: usize,
    ) -> UploadSource {
        let source = Source::Memory(source);
        UploadSource { source, from: size, to: size, n: rows * columns, rows, stride, first, converter: None }
    }

    /// As `rows`, for stored elements.
    pub fn stored(
        source: Arc<dyn Elements>,
        size: usize,
        stride: usize,
        columns: usize,
        first: usize,
        rows: usize,
    ) -> UploadSource {
        let source = Source::Stored(source, Arc::default());
        UploadSource { source, from: size, to: size, n: rows * columns, rows, stride, first, converter: None }
    }

    /// The flag that cancels reading of stored elements; None for a source in memory.
    pub fn stop(&self) -> Option<Arc<AtomicBool>> {
        match &self.source {
            Source::Memory(_) => None,
            Source::Stored(_, stop) => Some(stop.clone()),
        }
    }

    pub fn converted(self, converter: Converter) -> UploadSource {
        UploadSource { to: converter.to, converter: Some(converter), ..self }
    }

    pub fn is_converted(&self) -> bool {
        self.converter.is_some()
    }

    /// Bytes of the target.
    pub fn bytes(&self) -> usize {
        self.n * self.to
    }

    /// The address of the source, if the target is a plain copy of contiguous memory.
    pub fn plain(&self) -> Option<*const u8> {
        let Source::Memory(source) = self.source else { return None };
        (self.converter.is_none() && (self.rows == self.stride || self.n == self.rows))
            // SAFETY: the first row is within the matrix.
            .then(|| unsafe { source.add(self.first * self.from) })
    }

    /// The position in the source of element `e`, and how many elements, up to `end`, are contiguous from there on.
    fn run(&self, e: usize, end: usize) -> (usize, usize) {
        let (column, row) = (e / self.rows, e % self.rows);
        let count = if self.rows == self.stride { end - e } else { (self.rows - row).min(end - e) };
        (column * self.stride + self.first + row, count)
    }

    /// Writes bytes `at .. at + bytes` of the target, whole elements, to the address `target`. Returns the flag bits of
    /// the cast, which report values that do not fit.
    ///
    /// # Errors
    /// Those of reading, and `Interrupt` if reading was cancelled.
    ///
    /// # Safety
    /// There must be space for them at `target`, aligned for an element.
    pub unsafe fn fill(&self, at: usize, bytes: usize, target: *mut u8) -> Result<u32> {
        let (e, end) = (at / self.to, (at + bytes) / self.to);
        match &self.source {
            // SAFETY: the caller's promise.
            Source::Memory(source) => Ok(unsafe { self.fill_from_memory(*source, e, end, target) }),
            // SAFETY: as above.
            Source::Stored(source, stop) => unsafe { self.fill_from_stored(&**source, stop, e, end, target) },
        }
    }

    unsafe fn fill_from_memory(&self, source: *const u8, mut e: usize, end: usize, mut out: *mut u8) -> u32 {
        let mut bits = 0;
        while e < end {
            let (at, count) = self.run(e, end);
            // SAFETY: within the source, by the promise to `vector` and `rows`, and within the target.
            unsafe {
                bits |= self.convert(source.add(at * self.from), out, count);
                out = out.add(count * self.to);
            }
            e += count;
        }
        bits
    }

    /// # Safety
    /// Both addresses are valid for `count` elements.
    unsafe fn convert(&self, from: *const u8, out: *mut u8, count: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.converter {
                Some(converter) => converter.run(from, out, count),
                None => {
                    std::ptr::copy_nonoverlapping(from, out, count * self.to);
                    0
                }
            }
        }
    }

    unsafe fn fill_from_stored(
        &self,
        source: &dyn Elements,
        stop: &AtomicBool,
        mut e: usize,
        end: usize,
        mut out: *mut u8,
    ) -> Result<u32> {
        let mut scratch: Vec<u128> = Vec::new();
        let mut bits = 0;
        while e < end {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::new(Kind::Interrupt, "interrupted"));
            }
            let (start, count) = self.run(e, end);
            let sparse = self.rows != self.stride && 2 * self.stride * self.from > SPAN;
            if self.converter.is_none() && (self.rows == self.stride || sparse || count * self.from >= DIRECT) {
                let count = count.min((2 * SPAN / self.from).max(1));
                // SAFETY: within the target.
                let room = unsafe { std::slice::from_raw_parts_mut(out, count * self.from) };
                source.read(start, room)?;
                // SAFETY: as above.
                out = unsafe { out.add(count * self.to) };
                e += count;
                continue;
            }
            if scratch.is_empty() {
                let refused = |_| Error::new(Kind::Memory, "there is no memory to read rows of a file to");
                scratch.try_reserve_exact(SPAN / 16).map_err(refused)?;
                scratch.extend(std::iter::repeat_n(0, SPAN / 16));
            }
            // Read rows of several columns at once, including the gaps between them.
            let (last, _) = self.run(end - 1, end);
            let most = if sparse { count } else { last + 1 - start };
            let span = most.min(SPAN / self.from);
            // SAFETY: within the scratch memory; any bytes are valid numbers.
            let room = unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast::<u8>(), span * self.from) };
            source.read(start, room)?;
            while e < end {
                let (at, count) = self.run(e, end);
                if at >= start + span {
                    break;
                }
                let count = count.min(start + span - at);
                // SAFETY: within what was read, and within the target.
                unsafe {
                    bits |= self.convert(room.as_ptr().add((at - start) * self.from), out, count);
                    out = out.add(count * self.to);
                }
                e += count;
            }
        }
        Ok(bits)
    }
}

/// A copy in progress.
pub trait AsyncUpload {
    /// The buffer, whose later use waits for the copy, and the flag bits of the cast, which report values that do not
    /// fit.
    fn take(self: Box<Self>) -> Result<(Arc<Buffer>, u32)>;
}

/// A completed copy.
pub struct CompletedUpload(pub Arc<Buffer>, pub u32);

impl AsyncUpload for CompletedUpload {
    fn take(self: Box<Self>) -> Result<(Arc<Buffer>, u32)> {
        Ok((self.0, self.1))
    }
}

/// Joins the thread of a copy. If the copy can be cancelled, because it may take long, checks for interrupts meanwhile.
///
/// # Errors
/// Those of the copy, and `Interrupt`.
pub fn finished(thread: JoinHandle<Result<u32>>, stop: Option<&AtomicBool>) -> Result<u32> {
    let mut watch = Watch::new();
    let mut interrupted = Ok(());
    while let (Some(stop), Ok(())) = (stop, &interrupted) {
        if thread.is_finished() {
            break;
        }
        interrupted = watch.check();
        if interrupted.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(NAP);
    }
    let panicked = || Error::new(Kind::Panic, "an internal error: the thread of a copy has panicked");
    let done = thread.join().unwrap_or_else(|_| Err(panicked()));
    interrupted.and(done)
}

/// The time between two checks of a thread that reads.
const NAP: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_ops::dtype::DType;

    #[test]
    fn rows_of_a_matrix_in_pieces() {
        let matrix: Vec<f64> = (0..7 * 5).map(f64::from).collect();
        // SAFETY: the matrix lives, and the target is large enough, here and below.
        let slab = unsafe { UploadSource::rows(matrix.as_ptr().cast(), 8, 7, 5, 2, 3) };
        assert!(slab.plain().is_none());
        let expected: Vec<f64> = (0..5).flat_map(|c| (2..5).map(move |r| f64::from(c * 7 + r))).collect();
        let mut out = vec![0f64; 15];
        for piece in [1, 2, 4, 15] {
            out.fill(-1.0);
            for at in (0..15).step_by(piece) {
                let n = piece.min(15 - at);
                unsafe { slab.fill(at * 8, n * 8, out[at..].as_mut_ptr().cast()) }.unwrap();
            }
            assert_eq!(out, expected);
        }
        let mut narrow = vec![0i16; 15];
        let slab = slab.converted(Converter::new(DType::Float64, DType::Int16).unwrap());
        assert_eq!(slab.bytes(), 30);
        unsafe { slab.fill(0, 30, narrow.as_mut_ptr().cast()) }.unwrap();
        assert!(narrow.iter().zip(&expected).all(|(a, b)| f64::from(*a) == *b));
    }

    #[test]
    fn a_vector_and_a_whole_matrix_are_plain() {
        let x = [1f64; 6];
        // SAFETY: the pointers are never dereferenced.
        unsafe {
            assert_eq!(UploadSource::vector(x.as_ptr().cast(), 8, 6).plain(), Some(x.as_ptr().cast()));
            assert_eq!(UploadSource::rows(x.as_ptr().cast(), 8, 3, 2, 0, 3).plain(), Some(x.as_ptr().cast()));
            // rows of a single column are contiguous
            assert_eq!(UploadSource::rows(x.as_ptr().cast(), 8, 6, 1, 2, 3).plain(), Some(x[2..].as_ptr().cast()));
        }
    }

    /// A float64 matrix in column-major order, each element of which is its own position.
    struct Positions;

    impl Elements for Positions {
        fn read(&self, from: usize, out: &mut [u8]) -> Result<()> {
            for (k, bytes) in out.chunks_mut(8).enumerate() {
                bytes.copy_from_slice(&((from + k) as f64).to_ne_bytes());
            }
            Ok(())
        }
    }

    #[test]
    fn stored_rows_are_those_of_memory() {
        // short runs, long ones, runs that are far apart, and the whole matrix
        for (stride, columns, first, rows) in [
            (7, 5, 2, 3),
            (40_000, 4, 10_000, 20_000),
            (200_000, 3, 7, 5),
            (50, 9_000, 0, 50),
            (300_000, 1, 0, 300_000),
        ] {
            let expected = (0..columns).flat_map(|c| (first..first + rows).map(move |r| (c * stride + r) as f64));
            let slab = UploadSource::stored(Arc::new(Positions), 8, stride, columns, first, rows);
            let n = rows * columns;
            let mut out = vec![0f64; n];
            for at in (0..n).step_by(11_111) {
                let count = 11_111.min(n - at);
                // SAFETY: within the memory, here and below.
                unsafe { slab.fill(at * 8, count * 8, out[at..].as_mut_ptr().cast()) }.unwrap();
            }
            assert!(out.iter().copied().eq(expected.clone()));
            let mut narrow = vec![0f32; n];
            let converted = slab.clone().converted(Converter::new(DType::Float64, DType::Float32).unwrap());
            unsafe { converted.fill(0, n * 4, narrow.as_mut_ptr().cast()) }.unwrap();
            assert!(narrow.iter().copied().eq(expected.map(|x| x as f32)));
            slab.stop().unwrap().store(true, Ordering::Relaxed);
            let stopped = unsafe { slab.fill(0, 8, out.as_mut_ptr().cast()) };
            assert_eq!(stopped.unwrap_err().kind, Kind::Interrupt);
        }
    }
}
