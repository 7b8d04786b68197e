//! Products of a matrix and a vector, and of small float32 matrices, on the cpu device. Larger products go to R's BLAS on
//! copies of the factors; here copying would take longer than the product.

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

/// Multiplications of a product of two float32 matrices that is made here: R's BLAS would take them as doubles, and of few
/// the copies take longer than the product.
const SMALL: usize = 1 << 18;

/// A stored float, which is added up in float64.
trait Float: Copy + Sync {
    fn wide(self) -> f64;
    fn of(x: f64) -> Self;
}
macro_rules! floats {
    ($($type:ty)*) => { $(impl Float for $type {
        fn wide(self) -> f64 {
            self.into()
        }
        fn of(x: f64) -> $type {
            x as $type
        }
    })* };
}
floats!(f32 f64);

/// Computes the product; returns false where it does not: for other types than float64 and float32, two matrices (but
/// small ones of float32), or with NaNs, where base R decides which NaN results.
///
/// # Errors
/// `Interrupt`.
pub fn multiply(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, batch, .. } = product;
    if m * n * k == 0 || batch.count != 1 || a.view.dtype != b.view.dtype {
        return Ok(false);
    }
    match a.view.dtype {
        DType::Float64 if m.min(n) == 1 => by_vector::<f64>(product, output),
        DType::Float32 if m.min(n) == 1 => by_vector::<f32>(product, output),
        DType::Float32 if m * n * k <= SMALL => Ok(small::<f32>(product, output)),
        _ => Ok(false),
    }
}

/// A matrix times a vector: y = M x, or y = t(M) x, with M as it lies in memory.
fn by_vector<T: Float>(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, .. } = product;
    let (matrix, x, across, length) = if n == 1 { (a, b, !a.transposed && m > 1, m) } else { (b, a, b.transposed, n) };
    // a row that is all of the matrix may be stored as one column
    let leading = if length == 1 { k } else { matrix.leading };
    let x = elements::<T>(&x.view);
    let matrix = elements::<T>(&matrix.view);
    let out = Shared(output.address as *mut u8);
    // SAFETY: the output has an element for each of the `length`, and was made for this call.
    let part =
        |from: usize, to: usize| unsafe { raw_slice::slice_mut(out.at(from * size_of::<T>()).cast::<T>(), to - from) };
    if across {
        parallel(length, (TASK / k).clamp(64, ROWS), |from, to| {
            let mut sums = [0.0; ROWS];
            let sums = &mut sums[..to - from];
            for (column, &factor) in matrix.chunks(leading).zip(x) {
                let factor = factor.wide();
                for (sum, &value) in sums.iter_mut().zip(&column[from..to]) {
                    *sum += value.wide() * factor;
                }
            }
            part(from, to).iter_mut().zip(sums).for_each(|(y, &mut sum)| *y = T::of(sum));
        })?;
    } else {
        parallel(length, (TASK / k).max(1), |from, to| {
            for (sum, column) in part(from, to).iter_mut().zip(matrix[from * leading..].chunks(leading)) {
                *sum = T::of(dot(&column[..k], x));
            }
        })?;
    }
    Ok(!part(0, length).iter().any(|y| y.wide().is_nan()))
}

/// Two small matrices, a column of the result after the other.
fn small<T: Float>(product: &Product<'_>, output: &Buffer) -> bool {
    let &Product { a, b, m, n, k, .. } = product;
    let (left, right) = (elements::<T>(&a.view), elements::<T>(&b.view));
    // SAFETY: the output has m * n elements, and was made for this call.
    let out = unsafe { raw_slice::slice_mut(output.address as *mut T, m * n) };
    let (mut sums, mut column) = (vec![0.0; m], vec![0.0; k]);
    let mut any_nan = false;
    for (j, out) in out.chunks_mut(m).enumerate() {
        for (l, slot) in column.iter_mut().enumerate() {
            *slot = right[if b.transposed { j + l * b.leading } else { l + j * b.leading }].wide();
        }
        if a.transposed {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = left[i * a.leading..][..k].iter().zip(&column).map(|(x, y)| x.wide() * y).sum();
            }
        } else {
            sums.fill(0.0);
            for (l, &factor) in column.iter().enumerate() {
                sums.iter_mut().zip(&left[l * a.leading..][..m]).for_each(|(sum, x)| *sum += x.wide() * factor);
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            *out = T::of(sum);
            any_nan |= sum.is_nan();
        }
    }
    !any_nan
}

/// In eight lanes, so that additions need not wait for each other.
fn dot<T: Float>(a: &[T], b: &[T]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x.wide() * y.wide()).sum();
    for (a, b) in a.zip(b) {
        for (lane, (x, y)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += x.wide() * y.wide();
        }
    }
    lanes.iter().sum::<f64>() + rest
}
