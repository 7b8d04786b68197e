//! Entries: orthonormal bases that grow by a column, for Krylov methods.

use verdigris_engine::array::basis::{self, Step};
use verdigris_engine::array::Array;
use verdigris_ops::error::Result;

use crate::entries::entry::entries;

entries! {
    /// Appends a vector as a column, orthonormalised against the columns before. `sizes`: the number of rows; of
    /// columns so far; the columns (from 0) from which on it is orthogonalised, and orthogonalised again; the position
    /// in `numbers` of its coefficients; and of its product with the column before `near`, or 0 if that is not known.
    /// Returns NULL.
    fn basis_extend(basis: Array, vector: Array, numbers: Array, sizes: [usize; 6]) -> Result<Option<Array>> {
        let [rows, count, near, from, at, known] = sizes;
        let step = Step { rows, count, first_pass_from: near, second_pass_from: from, known_product: (known > 0).then_some(known), out_offset: at };
        basis::extend(&basis, &vector, &numbers, step).map(|()| None)
    }
}
