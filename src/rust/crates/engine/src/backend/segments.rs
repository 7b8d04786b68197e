//! Segments are runs of neighbouring elements, such as the columns of a sparse matrix (or its rows, if it is stored by
//! rows). These are the operands and results of the devices' operations on them; operands are contiguous.

use crate::memory::buffer::View;
use verdigris_ops::error::{Error, Kind};

/// The bounds of segments.
#[derive(Clone, Copy)]
pub struct Segments<'a> {
    /// int32 or int64, one more than there are segments: non-decreasing, from 0 to the number of elements.
    pub offsets: &'a View,
    /// The number of elements.
    pub len: usize,
}

impl Segments<'_> {
    /// The number of segments.
    pub fn count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// A sparse matrix: segments whose elements have a position (int32, from 0) and a value.
#[derive(Clone, Copy)]
pub struct Sparse<'a> {
    pub segments: Segments<'a>,
    pub positions: &'a View,
    /// float32 or float64; `None` stands for ones.
    pub values: Option<&'a View>,
    /// The exclusive upper bound of positions: the other dimension of the matrix.
    pub extent: usize,
}

/// The order in which a device has stored a dense matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    ByColumns,
    ByRows,
}

/// The elements regrouped along the other dimension of the matrix.
pub struct Transposed {
    /// Of the original offsets' dtype.
    pub offsets: View,
    /// int32, ascending within a segment.
    pub positions: View,
    /// The former index of each element, from 0.
    pub order: View,
}

/// A product of sparse matrices, stored by columns like its factors.
pub struct SparseProduct {
    /// int32, or int64 if there are too many elements for int32.
    pub offsets: View,
    pub positions: View,
    /// Of the values' dtype.
    pub values: View,
}

/// For each element of a sparse matrix the inner product of a row of one dense matrix and a row of another. Both are
/// stored row by row.
pub struct Sampled<'a> {
    pub segments: Segments<'a>,
    pub positions: &'a View,
    /// Its row is chosen by the element's position.
    pub by_position: &'a View,
    /// Its row is chosen by the element's segment.
    pub by_segment: &'a View,
    /// Elements of a row.
    pub inner: usize,
    /// Rows of `by_position`.
    pub extent: usize,
}

/// A triangular system.
pub struct TriangularSystem<'a> {
    /// The matrix, of which only the triangle is read.
    pub matrix: Sparse<'a>,
    pub upper: bool,
    /// The diagonal is taken to be ones, whatever is stored.
    pub unit: bool,
    /// Right-hand sides, column by column.
    pub b: &'a View,
    pub columns: usize,
}

/// The error for invalid offsets.
pub fn bad_offsets() -> Error {
    Error::new(Kind::Argument, "`p` must rise from 0 to the number of elements, without a fall")
        .advise("Of a sparse matrix `p` has the numbers of elements before each column, and of all.")
}

/// The error for positions out of bounds.
pub fn bad_positions(extent: usize) -> Error {
    Error::new(Kind::Argument, format!("`i` must be positions from 0 to {}", extent.saturating_sub(1)))
        .advise("Of a sparse matrix `i` has the rows of its elements, counted from 0.")
}

/// Adds advice to an error of a product of sparse matrices, if memory is short.
pub fn too_many_products(products: u64, error: Error) -> Error {
    match error.kind {
        Kind::Memory => error.advise(format!(
            "The product of these sparse matrices adds up {products} products of elements; multiply fewer columns at a \
             time."
        )),
        _ => error,
    }
}
