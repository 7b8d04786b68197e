//! Matrix products on the cpu device: by the host's BLAS, or in parallel for matrices times vectors (large or float32).

use super::blas::{self, Factor};
use super::gather::elements;
use crate::backend::dense::{stored_extents, Matrix, Product};
use crate::memory::buffer::Buffer;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;
use verdigris_ops::raw_slice;

/// Elements of the matrix in a task.
const TASK: usize = 1 << 15;
/// Rows whose sums are computed at a time; they stay in the first-level cache.
const ROWS: usize = 1024;

/// A stored float; sums are computed in float64.
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

/// Computes the product. Returns false if base R has to compute it: for dtypes other than float64 and float32, for
/// elements that are not finite (base R decides what results), and if there is no BLAS.
///
/// # Errors
/// `Interrupt`.
pub fn multiply(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, batch, .. } = product;
    if m * n * k == 0 || batch.count != 1 || a.view.dtype != b.view.dtype {
        return Ok(false);
    }
    match a.view.dtype {
        DType::Float64 if m.min(n) == 1 && m.max(n) * k > TASK => by_vector::<f64>(product, output),
        DType::Float32 if m.min(n) == 1 => by_vector::<f32>(product, output),
        DType::Float64 => Ok(doubles(product, output)),
        DType::Float32 => singles(product, output),
        _ => Ok(false),
    }
}

fn doubles(product: &Product<'_>, output: &Buffer) -> bool {
    let &Product { a, b, m, n, k, is_self_product: own, .. } = product;
    let first = Factor { values: elements(&a.view), transposed: a.transposed, leading: a.leading };
    let second = Factor { values: elements(&b.view), transposed: b.transposed, leading: b.leading };
    if !are_finite(first.values) || !own && !are_finite(second.values) {
        return false;
    }
    // SAFETY: the output has m * n elements, and was made for this call.
    let out = unsafe { raw_slice::slice_mut(output.address as *mut f64, m * n) };
    blas::product(first, second, [m, k, n], own, out)
}

/// float32 products, computed in float64 and rounded once.
fn singles(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, is_self_product: own, .. } = product;
    let (first, second) = (widened(a, m, k)?, if own { Vec::new() } else { widened(b, k, n)? });
    if !are_finite(&first) || !are_finite(&second) {
        return Ok(false);
    }
    let compact = |x: &Matrix, rows, columns| stored_extents(x.transposed, rows, columns).0;
    let left = Factor { values: &first, transposed: a.transposed, leading: compact(a, m, k) };
    let right = if own {
        Factor { transposed: b.transposed, ..left }
    } else {
        Factor { values: &second, transposed: b.transposed, leading: compact(b, k, n) }
    };
    let mut sums = fallible::filled(0.0, m * n)?;
    if !blas::product(left, right, [m, k, n], own, &mut sums) {
        return Ok(false);
    }
    // SAFETY: the output has m * n elements, and was made for this call.
    let out = unsafe { raw_slice::slice_mut(output.address as *mut f32, m * n) };
    out.iter_mut().zip(sums).for_each(|(y, sum)| *y = sum as f32);
    Ok(true)
}

/// The stored columns of a `rows × columns` factor as doubles, without gaps between them.
fn widened(x: &Matrix, rows: usize, columns: usize) -> Result<Vec<f64>> {
    let (length, lines) = stored_extents(x.transposed, rows, columns);
    let values = elements::<f32>(&x.view);
    let mut out = fallible::with_capacity(length * lines)?;
    for line in values.chunks(x.leading).take(lines) {
        out.extend(line[..length].iter().map(|&x| f64::from(x)));
    }
    Ok(out)
}

fn are_finite(x: &[f64]) -> bool {
    // Vectorises, as it does not branch for each element.
    x.chunks(1024).all(|some| !some.iter().fold(false, |odd, x| odd | !x.is_finite()))
}

/// A matrix times a vector: y = M x, or y = t(M) x, with M as stored in memory.
fn by_vector<T: Float>(product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, .. } = product;
    let (matrix, x, across, length) = if n == 1 { (a, b, !a.transposed && m > 1, m) } else { (b, a, b.transposed, n) };
    // A matrix of a single row may be stored as one column.
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

/// A dot product with eight independent partial sums, so that additions need not wait for each other.
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
