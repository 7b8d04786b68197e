//! Orthonormal bases that grow by a column, in memory of their own that is written in place.

use crate::array::known;
use crate::array::{common_device, Array, Operand};
use crate::backend;
use crate::backend::basis::Growth;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// Where a column comes from: see `Growth`.
#[derive(Clone, Copy)]
pub struct Step {
    pub rows: usize,
    pub count: usize,
    pub near: usize,
    pub from: usize,
    pub known: Option<usize>,
    pub at: usize,
}

/// Makes a vector the next column of an orthonormal basis. `basis` and `numbers` are the caller's own: arrays that view
/// the column, or share the memory, see it change.
pub fn extend(basis: &Array, vector: &Array, numbers: &Array, step: Step) -> Result<()> {
    let device = common_device(&[basis, vector, numbers].map(|x| Operand::Array(x.clone())))?;
    let Step { rows, count, near, from, known, at } = step;
    let dtype = basis.dtype();
    let fits = matches!(dtype, DType::Float32 | DType::Float64)
        && numbers.dtype() == DType::Float64
        && vector.len() == rows
        && near <= count
        && from <= count
        && (count + 1).checked_mul(rows).is_some_and(|n| n <= basis.len())
        && known.is_none_or(|known| near > 0 && known < numbers.len())
        && at > 0
        && at.checked_add(count - near + 2).is_some_and(|end| end <= numbers.len());
    if !fits {
        return Err(Error::new(Kind::Shape, "a column that does not fit its basis"));
    }
    let (basis, numbers) = (basis.contiguous()?, numbers.contiguous()?);
    let vector = vector.cast(dtype, None)?.contiguous()?;
    known::forget();
    backend::of(device)?.extend_basis(&Growth {
        basis: &basis,
        rows,
        count,
        vector: &vector,
        near,
        known,
        from,
        numbers: &numbers,
        at,
    })
}
