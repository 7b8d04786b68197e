//! Orthonormal bases, as Krylov methods build them: one column at a time, written to memory that the caller allocated.

use crate::array::known;
use crate::array::{common_device, Array, Operand};
use crate::backend;
use crate::backend::basis::Growth;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// One step of growing a basis. The fields mean the same as those of `Growth`.
#[derive(Clone, Copy)]
pub struct Step {
    pub rows: usize,
    pub count: usize,
    pub near: usize,
    pub from: usize,
    pub known: Option<usize>,
    pub at: usize,
}

/// Orthogonalises `vector` against the basis, and writes it as the next column and its coefficients to `numbers`. Both
/// arrays are written in place: other arrays that view or share their memory see the change.
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
