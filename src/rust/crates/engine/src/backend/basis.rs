//! Orthonormal bases that grow by a column, of which Krylov methods make their steps: what devices compute of them.

use crate::memory::buffer::View;

/// A column more. All views are contiguous; sums are added as doubles.
pub struct Growth<'a> {
    /// Columns of `rows` elements, float32 or float64. Column `count` is written.
    pub basis: &'a View,
    pub rows: usize,
    /// Columns before the new one.
    pub count: usize,
    /// What becomes the column, of the basis' dtype.
    pub vector: &'a View,
    /// It is made orthogonal to the columns from here on.
    pub near: usize,
    /// Where in `numbers` its product with the column before these is known.
    pub known: Option<usize>,
    /// It is made orthogonal once more to the columns from here on.
    pub from: usize,
    /// float64: what is known of the columns. The first element is the device's own, and 0.
    pub numbers: &'a View,
    /// Where this column's begin: products with the columns from `near` on, the length of what is orthogonal to them,
    /// and the part of the length that the second time has left.
    pub at: usize,
}

impl Growth<'_> {
    /// How many numbers a column has.
    pub fn noted(&self) -> usize {
        self.count - self.near + 2
    }
}
