//! Cross products of columns that are separate arrays, without joining them to a matrix.

use crate::array::{common_device, Array, Operand};
use crate::backend;
use crate::backend::gram::{Gram, MOST_COLUMNS};
use crate::memory::buffer::View;
use crate::memory::fallible;
use verdigris_ops::dtype::{self, DType};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

/// X' X, a square matrix, of float64 columns of `rows` elements; `None` is a column of ones. The rows of the first
/// `scaled` columns are multiplied by `scale`. Each column and the scale are read once. If a column has an element that
/// is not finite, its diagonal entry is not finite either. Returns `None` if the device has no kernel for it.
///
/// # Errors
/// `Shape` for other lengths or dtypes, or more columns than `MOST_COLUMNS`; `Memory`.
pub fn gram(columns: &[Option<Array>], rows: usize, scale: Option<&Array>, scaled: usize) -> Result<Option<Array>> {
    let given: Vec<Operand> = columns.iter().flatten().chain(scale).map(|x| Operand::Array(x.clone())).collect();
    let fits = |x: &Array| x.len() == rows && x.dtype() == DType::Float64;
    if given.is_empty() || columns.len() > MOST_COLUMNS || !columns.iter().flatten().chain(scale).all(fits) {
        return Err(Error::new(Kind::Shape, "columns of other lengths or dtypes, or too many"));
    }
    let device = common_device(&given)?;
    let ready = |x: &Array| x.contiguous();
    let scale = scale.map(ready).transpose()?;
    let mut views = fallible::with_capacity(columns.len())?;
    for column in columns {
        views.push(column.as_ref().map(ready).transpose()?);
    }
    let count = columns.len();
    let job = Gram { columns: &views, rows, scale: scale.as_ref(), scaled: scaled.min(count), sums: &[] };
    let backend = backend::of(device)?;
    let output = backend.allocate(count * count * DType::Float64.size())?;
    let made = backend.gram(&job, &output)?;
    Ok(made.then(|| Array::from_view(View::contiguous(output, DType::Float64, count * count))))
}

/// Records `before` plus the sum of the columns times the numbers `by`, added from first to last; `None` is a column of
/// ones. Returns `None` if no operand is an array.
///
/// # Errors
/// Those of `Array::apply`.
pub fn combination(columns: &[Option<Array>], by: &[f64], before: Option<Array>) -> Result<Option<Array>> {
    let value = |x: f64| Operand::Value(Scalar::F64(x), dtype::Kind::Double);
    let mut out = before.map(Operand::Array);
    for (column, &by) in columns.iter().zip(by) {
        let term = match column {
            Some(x) => Operand::Array(Array::apply(id::MUL, &[Operand::Array(x.clone()), value(by)], None)?),
            None => value(by),
        };
        out = Some(match (out, term) {
            (None, term) => term,
            (Some(Operand::Value(Scalar::F64(a), _)), Operand::Value(Scalar::F64(b), _)) => value(a + b),
            (Some(sum), term) => Operand::Array(Array::apply(id::ADD, &[sum, term], None)?),
        });
    }
    Ok(match out {
        Some(Operand::Array(array)) => Some(array),
        _ => None,
    })
}
