//! Products of a matrix and a vector on the cpu device. Larger products go to R's BLAS on copies of the factors; here
//! copying would take longer than the product.

use super::gather::elements;
use crate::backend::dense::Product;
use crate::memory::buffer::Buffer;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;
use verdigris_ops::raw_slice;

/// Elements of the matrix that one task takes.
const TASK: usize = 1 << 15;
/// Rows that are added to at a time: they stay in the first-level cache.
const ROWS: usize = 1024;

/// Computes the product; returns false where it does not: for types other than double, without a vector, or with NaNs,
/// where base R decides which NaN results.
///
/// # Errors
/// `Interrupt`.
pub fn multiply(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, batch, .. } = product;
    if a.view.dtype != DType::Float64 || m.min(n) != 1 || m * n * k == 0 || batch.count != 1 {
        return Ok(false);
    }
    // y = M x, or y = t(M) x, with M as it lies in memory
    let (matrix, x, across, length) = if n == 1 { (a, b, !a.transposed && m > 1, m) } else { (b, a, b.transposed, n) };
    // a row that is all of the matrix may be stored as one column
    let leading = if length == 1 { k } else { matrix.leading };
    let x = elements::<f64>(&x.view);
    let matrix = elements::<f64>(&matrix.view);
    let out = Shared(output.address as *mut u8);
    // SAFETY: the output has an element for each of the `length`, and was made for this call.
    let part = |from: usize, to: usize| unsafe { raw_slice::slice_mut(out.at(from * 8).cast::<f64>(), to - from) };
    if across {
        parallel(length, (TASK / k).clamp(64, ROWS), |from, to| {
            let y = part(from, to);
            y.fill(0.0);
            for (column, &factor) in matrix.chunks(leading).zip(x) {
                for (sum, &value) in y.iter_mut().zip(&column[from..to]) {
                    *sum += value * factor;
                }
            }
        })?;
    } else {
        parallel(length, (TASK / k).max(1), |from, to| {
            for (sum, column) in part(from, to).iter_mut().zip(matrix[from * leading..].chunks(leading)) {
                *sum = dot(&column[..k], x);
            }
        })?;
    }
    Ok(!part(0, length).iter().any(|y| y.is_nan()))
}

/// In eight lanes, so that additions need not wait for each other.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a.zip(b) {
        for (lane, (x, y)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += x * y;
        }
    }
    lanes.iter().sum::<f64>() + rest
}
