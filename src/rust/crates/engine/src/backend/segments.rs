//! Segments: neighbouring elements that belong together, as a sparse matrix's columns are (or its rows, where it is
//! stored by rows). What devices compute of them, with contiguous operands.

use crate::memory::buffer::View;
use verdigris_ops::error::{Error, Kind};

/// Where segments begin and end among elements.
#[derive(Clone, Copy)]
pub struct Segments<'a> {
    /// int32 or int64, one more than there are segments: from 0 to the number of elements, never falling.
    pub offsets: &'a View,
    /// Elements.
    pub len: usize,
}

impl Segments<'_> {
    /// How many segments there are.
    pub fn count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// A sparse matrix: segments whose elements have a position (int32, from 0) and a value.
#[derive(Clone, Copy)]
pub struct Sparse<'a> {
    pub segments: Segments<'a>,
    pub positions: &'a View,
    /// float32 or float64; ones without.
    pub values: Option<&'a View>,
    /// Positions are below.
    pub extent: usize,
}

/// How a device has stored a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    ByColumns,
    ByRows,
}

/// The same elements by the other margin.
pub struct Turned {
    /// Of the offsets' dtype.
    pub offsets: View,
    /// int32, rising within a segment.
    pub positions: View,
    /// Where each element was, counted from 0.
    pub order: View,
}

/// A product of sparse matrices, by columns as its factors.
pub struct SparseProduct {
    /// int32, or int64 where these do not reach.
    pub offsets: View,
    pub positions: View,
    /// Of the values' dtype.
    pub values: View,
}

/// Products of rows of one dense matrix with rows of another, both stored row by row.
pub struct Sampled<'a> {
    pub segments: Segments<'a>,
    pub positions: &'a View,
    /// The row of an element's position ...
    pub by_position: &'a View,
    /// ... times that of its segment.
    pub by_segment: &'a View,
    /// Elements of a row.
    pub inner: usize,
    /// Rows of `by_position`.
    pub extent: usize,
}

/// A triangular system.
pub struct Triangle<'a> {
    /// The matrix, of which only the triangle is read.
    pub matrix: Sparse<'a>,
    pub upper: bool,
    /// The diagonal counts as ones, whatever is stored.
    pub unit: bool,
    /// Right sides, column by column.
    pub b: &'a View,
    pub columns: usize,
}

/// The refusal of offsets that are none.
pub fn bad_offsets() -> Error {
    Error::new(Kind::Argument, "`p` must rise from 0 to the number of elements, without a fall")
        .advise("Of a sparse matrix `p` has the numbers of elements before each column, and of all.")
}

/// The refusal of positions that are none.
pub fn bad_positions(extent: usize) -> Error {
    Error::new(Kind::Argument, format!("`i` must be positions from 0 to {}", extent.saturating_sub(1)))
        .advise("Of a sparse matrix `i` has the rows of its elements, counted from 0.")
}

/// The refusal of a product of sparse matrices for which memory is missing.
pub fn too_many_products(products: u64, error: Error) -> Error {
    match error.kind {
        Kind::Memory => error.advise(format!(
            "The product of these sparse matrices adds up {products} products of elements; multiply fewer columns at a \
             time."
        )),
        _ => error,
    }
}
