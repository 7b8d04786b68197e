//! The job description of one step of a Krylov method: orthonormalise a vector and append it to a basis. Both backends
//! implement it (`Backend::extend_basis`).

use crate::memory::buffer::View;

/// Appends one column to an orthonormal basis. The vector is made orthogonal to columns `first_pass_from .. count` (and
/// to column `first_pass_from - 1`, by a known product), a second time to columns `second_pass_from .. count`, and
/// scaled to length 1. All views are contiguous; sums are accumulated in float64.
pub struct BasisStep<'a> {
    /// Columns of `rows` elements, float32 or float64. Column `count` is written.
    pub basis: &'a View,
    pub rows: usize,
    /// The number of columns before this one.
    pub count: usize,
    /// The vector to orthonormalise, of the dtype of `basis`.
    pub vector: &'a View,
    /// First column of the first orthogonalisation.
    pub first_pass_from: usize,
    /// Index in `coefficients` of the product of `vector` with column `first_pass_from - 1`, if an earlier step has
    /// computed it.
    pub known_product: Option<usize>,
    /// First column of the second orthogonalisation, which removes the rounding errors of the first.
    pub second_pass_from: usize,
    /// float64: coefficients of this and of earlier steps. Element 0 is reserved for the device (CUDA's block counter)
    /// and is 0 between calls.
    pub coefficients: &'a View,
    /// Index in `coefficients` where this step writes: the products with columns `first_pass_from ..`, the length of
    /// the orthogonal remainder, and the fraction of the length that the second orthogonalisation left.
    pub out_offset: usize,
}

impl BasisStep<'_> {
    /// The number of elements that a step writes at `out_offset`.
    pub fn coefficient_count(&self) -> usize {
        self.count - self.first_pass_from + 2
    }
}
