//! Cross products of columns on the cpu device: blocks of rows are packed into a matrix that fits a core's cache, which
//! BLAS multiplies.

use super::blas::{self, Factor};
use super::gather::elements;
use crate::backend::gram::Gram;
use crate::memory::buffer::Buffer;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;
use verdigris_ops::raw_slice;

/// Elements of a block.
const BLOCK: usize = 1 << 17;
/// Rows of one column that a task packs.
const TASK: usize = 1 << 13;

/// Writes the cross products, and the sums after them, to `output`.
pub fn gram(job: &Gram<'_>, output: &Buffer) -> Result<()> {
    let m = job.columns.len();
    // SAFETY: the output has this many elements, and was made for this call.
    let out = unsafe { raw_slice::slice_mut(output.address as *mut f64, m * m + job.sums.len()) };
    let (out, totals) = out.split_at_mut(m * m);
    out.fill(0.0);
    for (total, column) in totals.iter_mut().zip(job.sums) {
        *total = sum(elements(column))?;
    }
    if m == 0 {
        return Ok(());
    }
    let block = (BLOCK / m).max(1).min(job.rows.max(1));
    let mut packed = fallible::filled(0.0, block * m)?;
    let mut sums = fallible::filled(0.0, m * m)?;
    let scale = job.scale.map(elements::<f64>);
    let mut from = 0;
    while from < job.rows {
        let rows = block.min(job.rows - from);
        pack(job, scale, from, rows, &mut packed)?;
        let values = &packed[..rows * m];
        let [left, right] = [true, false].map(|transposed| Factor { values, transposed, leading: rows });
        if !blas::product(left, right, [m, rows, m], true, &mut sums) {
            multiply(values, rows, m, &mut sums);
        }
        out.iter_mut().zip(&sums).for_each(|(out, sum)| *out += sum);
        from += rows;
    }
    Ok(())
}

/// The sum of a column: of the sums of its parts, in order.
fn sum(column: &[f64]) -> Result<f64> {
    let parts = column.len().div_ceil(TASK);
    let mut sums = fallible::filled(0.0, parts)?;
    let to = Shared(sums.as_mut_ptr());
    parallel(parts, 1, |first, last| {
        for part in first..last {
            let own = &column[part * TASK..column.len().min((part + 1) * TASK)];
            // SAFETY: a task has this sum to itself.
            unsafe { *to.at(part) = own.iter().sum() };
        }
    })?;
    Ok(sums.iter().sum())
}

/// Packs rows `from .. from + rows` of the columns, scaled, one column after the other.
fn pack(job: &Gram<'_>, scale: Option<&[f64]>, from: usize, rows: usize, packed: &mut [f64]) -> Result<()> {
    let to = Shared(packed.as_mut_ptr());
    let parts = rows.div_ceil(TASK);
    parallel(job.columns.len() * parts, 1, |first, last| {
        for task in first..last {
            let (column, begin) = (task / parts, task % parts * TASK);
            let end = (begin + TASK).min(rows);
            // SAFETY: a task has these rows of the column to itself.
            let own = unsafe { raw_slice::slice_mut(to.at(column * rows + begin), end - begin) };
            let range = from + begin..from + end;
            let scale = scale.filter(|_| column < job.scaled).map(|scale| &scale[range.clone()]);
            match (&job.columns[column], scale) {
                (None, None) => own.fill(1.0),
                (None, Some(scale)) => own.copy_from_slice(scale),
                (Some(view), None) => own.copy_from_slice(&elements::<f64>(view)[range]),
                (Some(view), Some(scale)) => own
                    .iter_mut()
                    .zip(&elements::<f64>(view)[range])
                    .zip(scale)
                    .for_each(|((own, x), scale)| *own = x * scale),
            }
        }
    })
}

/// The cross products of a packed block, for when there is no BLAS.
fn multiply(values: &[f64], rows: usize, m: usize, sums: &mut [f64]) {
    for (i, left) in values.chunks_exact(rows).enumerate() {
        for (j, right) in values.chunks_exact(rows).take(i + 1).enumerate() {
            let sum = left.iter().zip(right).map(|(x, y)| x * y).sum();
            sums[i + j * m] = sum;
            sums[j + i * m] = sum;
        }
    }
}
