//! Products of two sparse matrices by general array operations: all products of elements are expanded, sorted by their
//! place in the result, and added in the order of the second matrix's elements (Bell, Dalton and Olson 2012).

use super::{array, Made};
use crate::array::{host_bytes, Array, Operand};
use crate::backend::segments::{bad_positions, too_many_products, Segments};
use crate::backend::{self, Backend};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::{Scalar, NA_I64};
use verdigris_ops::scan::Scan;
use verdigris_ops::{id, OpId};

fn apply(op: OpId, operands: [&Array; 2]) -> Result<Array> {
    Array::apply(op, &operands.map(|x| Operand::Array(x.clone())), None)
}

fn with(op: OpId, x: &Array, number: i64) -> Result<Array> {
    Array::apply(op, &[Operand::Array(x.clone()), Operand::Value(Scalar::I64(number), Kind::Integer64)], None)
}

/// 0, 1, ..., n - 1 as int64.
fn counting(n: usize, like: &Array) -> Result<Array> {
    let steps = [Scalar::I64(0), Scalar::I64(1)];
    Array::source(id::SEQ, Class::I64, DType::Int64, n, like.device(), &steps)
}

/// All elements but the last (`start` is 0) or but the first (`start` is 1).
fn beside(x: &Array, start: usize) -> Result<Array> {
    x.view(&[x.len()], &[Axis { of: 0, start, step: 1, extent: x.len() - 1 }])
}

fn joined(parts: &[Array]) -> Result<Array> {
    Array::join(parts, DType::Int64, parts[0].device())
}

fn one(value: i64, like: &Array) -> Result<Array> {
    Array::full(Scalar::I64(value), DType::Int64, 1, like.device())
}

/// Multiplies two matrices given by columns, each as offsets, positions and values. `[rows, columns]` are the extents
/// of the product.
pub(super) fn multiply(
    a: &[Option<Array>; 3],
    b: &[Option<Array>; 3],
    [rows, columns]: [usize; 2],
    dtype: DType,
) -> Result<Made> {
    let ([Some(pa), Some(ia), xa], [Some(pb), Some(ib), xb]) = (a, b) else { unreachable!("a matrix has a structure") };
    let backend = backend::of(pa.device())?;
    if ib.is_empty() {
        return none(pa, columns, dtype);
    }
    // For each element of b: the first element of its column of a, and the number of products before it.
    let (pa, ib_wide) = (pa.cast(DType::Int64, None)?, ib.cast(DType::Int64, None)?);
    let begin = pa.gather(&ib_wide)?;
    let lengths = apply(id::SUB, [&pa.gather(&with(id::ADD, &ib_wide, 1)?)?, &begin])?;
    let (until, unfit) = lengths.scan(Scan::Sum)?;
    let last = until.view(&[until.len()], &[Axis { of: 0, start: until.len() - 1, step: 1, extent: 1 }])?;
    let last = host_bytes(&last.contiguous()?)?;
    let total = i64::from_ne_bytes(last[..8].try_into().expect("eight bytes"));
    if unfit || total == NA_I64 || total < 0 {
        return Err(bad_positions(pa.len() - 1));
    }
    if total == 0 {
        return none(&pa, columns, dtype);
    }
    let before = joined(&[one(0, &pa)?, until])?;
    let shift = apply(id::SUB, [&begin, &beside(&before, 0)?])?;
    expand_and_add(
        backend,
        total as usize,
        &before,
        &shift,
        [ia, pb],
        [xa.as_ref(), xb.as_ref()],
        [rows, columns],
        dtype,
    )
    .map_err(|error| too_many_products(total as u64, error))
}

fn none(like: &Array, columns: usize, dtype: DType) -> Result<Made> {
    let full = |dtype, n| Array::full(Scalar::I32(0), dtype, n, like.device());
    Ok(Made { offsets: full(DType::Int32, columns + 1)?, positions: full(DType::Int32, 0)?, values: full(dtype, 0)? })
}

/// The 0-based segment number of each of `len` elements.
fn expand(backend: &dyn Backend, offsets: &Array, len: usize) -> Result<Array> {
    let (view, output) = (offsets.contiguous()?, backend.allocate(len * 4)?);
    backend.segment_expand(&Segments { offsets: &view, len }, &output)?;
    Ok(array(output, DType::Int32, len))
}

/// `before`: for each element of b, the number of products before it. `shift`: what to add to a product's index to get
/// its element of a.
#[allow(clippy::too_many_arguments)]
fn expand_and_add(
    backend: &dyn Backend,
    total: usize,
    before: &Array,
    shift: &Array,
    [ia, pb]: [&Array; 2],
    [xa, xb]: [Option<&Array>; 2],
    [rows, columns]: [usize; 2],
    dtype: DType,
) -> Result<Made> {
    let of_b = expand(backend, before, total)?;
    let of_a = apply(id::ADD, [&counting(total, ia)?, &shift.gather(&of_b)?])?;
    of_a.compute()?;
    let row = ia.gather(&of_a)?;
    row.compute()?;
    let column = expand(backend, pb, before.len() - 1)?.gather(&of_b)?;
    column.compute()?;
    let place = apply(
        id::ADD,
        [&with(id::MUL, &column.cast(DType::Int64, None)?, rows as i64)?, &row.cast(DType::Int64, None)?],
    )?;
    let terms = match (xa, xb) {
        (None, None) => None,
        (Some(x), None) => Some(x.gather(&of_a)?),
        (None, Some(x)) => Some(x.gather(&of_b)?),
        (Some(x), Some(y)) => Some(apply(id::MUL, [&x.gather(&of_a)?, &y.gather(&of_b)?])?),
    };
    if let Some(terms) = &terms {
        terms.compute()?;
    }
    drop((of_a, of_b));
    let (sorted, order) = place.sort(false, true)?;
    drop(place);
    let order = order.expect("positions were asked for");
    // The indices at which a new place of the result begins.
    let starts = match total {
        1 => one(0, ia)?,
        _ => {
            let new = apply(id::NE, [&beside(&sorted, 1)?, &beside(&sorted, 0)?])?;
            joined(&[one(0, ia)?, with(id::ADD, &new.positions(false)?, 1)?])?
        }
    };
    drop(sorted);
    let count = starts.len();
    if count > i32::MAX as usize {
        return Err(Error::new(
            ErrorKind::Shape,
            format!("the product of these sparse matrices has {count} elements, more than 2^31 - 1"),
        )
        .advise("Multiply fewer columns at a time."));
    }
    let first = order.gather(&starts)?;
    let (positions, column) = (row.gather(&first)?, column.gather(&first)?);
    positions.compute()?;
    let begun = counting(columns + 1, ia)?.cast(DType::Int32, None)?;
    let offsets = begun.search(&column, true)?;
    let ends = joined(&[starts, one(total as i64, ia)?])?;
    let values = match terms {
        Some(terms) => {
            let terms = terms.gather(&order)?.contiguous()?;
            let result = Reduction::Sum.result(terms.dtype.class());
            let (view, output) = (ends.contiguous()?, backend.allocate(count * result.size())?);
            backend.segment_reduce(&Segments { offsets: &view, len: total }, &terms, Reduction::Sum, false, &output)?;
            array(output, result, count).cast(dtype, None)?
        }
        None => apply(id::SUB, [&beside(&ends, 1)?, &beside(&ends, 0)?])?.cast(dtype, None)?,
    };
    values.compute()?;
    Ok(Made { offsets, positions, values })
}

#[cfg(test)]
mod tests {
    use super::super::{self as segments, Matrix};
    use super::*;
    use crate::array::transfer::Host;
    use crate::memory::buffer::Device;
    use crate::testing::{array as doubles, values};

    #[test]
    fn what_is_expanded_adds_up_to_the_same() {
        let integers = |x: &[i32]| Array::upload(Host::Integer(x), Some(DType::Int32), Device::Cpu, None).unwrap();
        // 4 x 3 and 3 x 4; the last column of the second matrix is empty
        let (pa, ia) = (integers(&[0, 2, 2, 5]), integers(&[0, 3, 0, 1, 3]));
        let (pb, ib) = (integers(&[0, 2, 3, 5, 5]), integers(&[0, 2, 1, 0, 2]));
        let (xa, xb) = (doubles(&[1.0, 2.0, 3.0, 4.0, -2.0]), doubles(&[1.0, 1.0, 5.0, 2.0, 0.5]));
        for (xa, xb) in [(Some(xa.clone()), Some(xb.clone())), (Some(xa), None), (None, Some(xb)), (None, None)] {
            let a = Matrix { offsets: &pa, positions: &ia, values: xa.as_ref(), extent: 4 };
            let b = Matrix { offsets: &pb, positions: &ib, values: xb.as_ref(), extent: 3 };
            let wanted = segments::multiply(&a, &b).unwrap();
            let operands = |matrix: &Matrix<'_>| {
                [Some(matrix.offsets.clone()), Some(matrix.positions.clone()), matrix.values.cloned()]
            };
            let found = multiply(&operands(&a), &operands(&b), [4, 4], DType::Float64).unwrap();
            for (wanted, found) in [
                (&wanted.offsets, &found.offsets),
                (&wanted.positions, &found.positions),
                (&wanted.values, &found.values),
            ] {
                let numbers = |x: &Array| values(&x.cast(DType::Float64, None).unwrap());
                assert_eq!(numbers(wanted), numbers(found));
            }
        }
    }
}
