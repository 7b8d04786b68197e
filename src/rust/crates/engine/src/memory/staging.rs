//! Sources of uploads: elements of a vector, or rows of a matrix, which are copied or converted while staging chunks
//! are filled.

use std::sync::Arc;

use crate::memory::buffer::Buffer;
use verdigris_ops::error::Result;
use verdigris_ops::loops::convert::Converter;

/// A host address that threads may share: each of them uses a part of its own.
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
    /// # Safety
    /// `at` must be within the memory.
    pub unsafe fn at(self, at: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(at) }
    }
}

/// Elements on the host that become bytes of a buffer: in order, or some rows of a matrix; as they are, or converted.
#[derive(Clone, Copy)]
pub struct Filling {
    source: *const u8,
    /// Bytes of an element, here and there.
    from: usize,
    to: usize,
    n: usize,
    /// Rows of the slab and of the matrix, and the first row; of a vector the slab is everything.
    rows: usize,
    stride: usize,
    first: usize,
    converter: Option<Converter>,
}

// SAFETY: the maker promises that the source lives and is not written meanwhile; it is only read.
unsafe impl Send for Filling {}
// SAFETY: as above.
unsafe impl Sync for Filling {}

impl Filling {
    /// `n` elements of `size` bytes from `source` on.
    ///
    /// # Safety
    /// The source must live, and not be written, while the value or a copy of it is used.
    pub unsafe fn vector(source: *const u8, size: usize, n: usize) -> Filling {
        Filling { source, from: size, to: size, n, rows: n, stride: n, first: 0, converter: None }
    }

    /// Rows `first .. first + rows` of a matrix of `stride` rows and `columns` columns, a column after the other.
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
    ) -> Filling {
        Filling { source, from: size, to: size, n: rows * columns, rows, stride, first, converter: None }
    }

    pub fn converted(self, converter: Converter) -> Filling {
        Filling { to: converter.to, converter: Some(converter), ..self }
    }

    pub fn is_converted(&self) -> bool {
        self.converter.is_some()
    }

    /// Bytes that it becomes.
    pub fn bytes(&self) -> usize {
        self.n * self.to
    }

    /// The source where it is just these bytes.
    pub fn plain(&self) -> Option<*const u8> {
        (self.converter.is_none() && (self.rows == self.stride || self.n == self.rows))
            // SAFETY: the first row is within the matrix.
            .then(|| unsafe { self.source.add(self.first * self.from) })
    }

    /// Writes bytes `at .. at + bytes`, whole elements. Returns the flag bits of the cast, which tell of values that do
    /// not fit.
    ///
    /// # Safety
    /// There is space for them at `target`, aligned for an element.
    pub unsafe fn fill(&self, at: usize, bytes: usize, target: *mut u8) -> u32 {
        let (mut e, end) = (at / self.to, (at + bytes) / self.to);
        let (mut out, mut bits) = (target, 0);
        while e < end {
            let (column, row) = (e / self.rows, e % self.rows);
            // what follows in memory too
            let count = if self.rows == self.stride { end - e } else { (self.rows - row).min(end - e) };
            // SAFETY: within the source as `vector` and `rows` were told, and within the room.
            unsafe {
                let from = self.source.add((column * self.stride + self.first + row) * self.from);
                match &self.converter {
                    Some(converter) => bits |= converter.run(from, out, count),
                    None => std::ptr::copy_nonoverlapping(from, out, count * self.to),
                }
                out = out.add(count * self.to);
            }
            e += count;
        }
        bits
    }
}

/// A copy under way.
pub trait Ahead {
    /// The buffer, whose use from here on waits for the copy, and the bits of the cast that found what does not fit.
    fn take(self: Box<Self>) -> Result<(Arc<Buffer>, u32)>;
}

/// A copy that is done.
pub struct Done(pub Arc<Buffer>, pub u32);

impl Ahead for Done {
    fn take(self: Box<Self>) -> Result<(Arc<Buffer>, u32)> {
        Ok((self.0, self.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_ops::dtype::DType;

    #[test]
    fn rows_of_a_matrix_in_pieces() {
        let matrix: Vec<f64> = (0..7 * 5).map(f64::from).collect();
        // SAFETY: the matrix lives, and the room is enough, here and below.
        let slab = unsafe { Filling::rows(matrix.as_ptr().cast(), 8, 7, 5, 2, 3) };
        assert!(slab.plain().is_none());
        let expected: Vec<f64> = (0..5).flat_map(|c| (2..5).map(move |r| f64::from(c * 7 + r))).collect();
        let mut out = vec![0f64; 15];
        for piece in [1, 2, 4, 15] {
            out.fill(-1.0);
            for at in (0..15).step_by(piece) {
                let n = piece.min(15 - at);
                unsafe { slab.fill(at * 8, n * 8, out[at..].as_mut_ptr().cast()) };
            }
            assert_eq!(out, expected);
        }
        let mut narrow = vec![0i16; 15];
        let slab = slab.converted(Converter::new(DType::Float64, DType::Int16).unwrap());
        assert_eq!(slab.bytes(), 30);
        unsafe { slab.fill(0, 30, narrow.as_mut_ptr().cast()) };
        assert!(narrow.iter().zip(&expected).all(|(a, b)| f64::from(*a) == *b));
    }

    #[test]
    fn a_vector_and_a_whole_matrix_are_plain() {
        let x = [1f64; 6];
        // SAFETY: never read.
        unsafe {
            assert_eq!(Filling::vector(x.as_ptr().cast(), 8, 6).plain(), Some(x.as_ptr().cast()));
            assert_eq!(Filling::rows(x.as_ptr().cast(), 8, 3, 2, 0, 3).plain(), Some(x.as_ptr().cast()));
            // rows of one column follow each other
            assert_eq!(Filling::rows(x.as_ptr().cast(), 8, 6, 1, 2, 3).plain(), Some(x[2..].as_ptr().cast()));
        }
    }
}
