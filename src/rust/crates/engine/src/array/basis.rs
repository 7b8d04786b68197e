//! Orthonormal bases, as Krylov methods build them: one column at a time, written to memory that the caller allocated.

use crate::array::fact_cache;
use crate::array::{common_device, Array, Operand};
use crate::backend;
use crate::backend::basis::BasisStep;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// One step of growing a basis. The fields mean the same as those of `BasisStep`.
#[derive(Clone, Copy)]
pub struct Step {
    pub rows: usize,
    pub count: usize,
    pub first_pass_from: usize,
    pub second_pass_from: usize,
    pub known_product: Option<usize>,
    pub out_offset: usize,
}

/// Orthogonalises `vector` against the basis, and writes it as the next column and its coefficients to `coefficients`.
/// Both arrays are written in place: other arrays that view or share their memory see the change.
pub fn extend(basis: &Array, vector: &Array, coefficients: &Array, step: Step) -> Result<()> {
    let device = common_device(&[basis, vector, coefficients].map(|x| Operand::Array(x.clone())))?;
    let Step { rows, count, first_pass_from, second_pass_from, known_product, out_offset } = step;
    let dtype = basis.dtype();
    let fits = matches!(dtype, DType::Float32 | DType::Float64)
        && coefficients.dtype() == DType::Float64
        && vector.len() == rows
        && first_pass_from <= count
        && second_pass_from <= count
        && (count + 1).checked_mul(rows).is_some_and(|n| n <= basis.len())
        && known_product.is_none_or(|known| first_pass_from > 0 && known < coefficients.len())
        && out_offset > 0
        && out_offset.checked_add(count - first_pass_from + 2).is_some_and(|end| end <= coefficients.len());
    if !fits {
        return Err(Error::new(Kind::Shape, "a column that does not fit its basis"));
    }
    let (basis, coefficients) = (basis.contiguous()?, coefficients.contiguous()?);
    let vector = vector.cast(dtype, None)?.contiguous()?;
    fact_cache::invalidate(&basis.buffer);
    fact_cache::invalidate(&coefficients.buffer);
    backend::of(device)?.extend_basis(&BasisStep {
        basis: &basis,
        rows,
        count,
        vector: &vector,
        first_pass_from,
        known_product,
        second_pass_from,
        coefficients: &coefficients,
        out_offset,
    })
}
