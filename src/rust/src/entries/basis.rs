//! Entries: orthonormal bases that grow by a column, for Krylov methods.

use verdigris_engine::array::basis::{self, Step};
use verdigris_engine::array::Array;
use verdigris_ops::error::Result;

use crate::entries::entry::entries;

entries! {
    /// Makes a vector the next column. `sizes`: rows; columns before it; those from which on it is made orthogonal, and
    /// once more; where its numbers begin, and where the product with the column before is known, or 0. NULL.
    fn basis_extend(basis: Array, vector: Array, numbers: Array, sizes: [usize; 6]) -> Result<Option<Array>> {
        let [rows, count, near, from, at, known] = sizes;
        let step = Step { rows, count, near, from, known: (known > 0).then_some(known), at };
        basis::extend(&basis, &vector, &numbers, step).map(|()| None)
    }
}
