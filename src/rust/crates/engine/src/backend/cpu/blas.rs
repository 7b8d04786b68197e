//! The host's BLAS: the one that R uses, registered by the bridge. It is called as R calls it, so that products of
//! doubles have the same bits as base R's.

use std::os::raw::c_char;
use std::sync::OnceLock;

use crate::backend::dense::{holds, stored_extents};

/// Fortran passes all arguments by address, followed by the lengths of the strings.
type Int<'a> = &'a i32;
type Flag<'a> = &'a c_char;
#[rustfmt::skip]
pub type Gemm = unsafe extern "C" fn(Flag<'_>, Flag<'_>, Int<'_>, Int<'_>, Int<'_>, &f64, *const f64, Int<'_>,
    *const f64, Int<'_>, &f64, *mut f64, Int<'_>, usize, usize);
#[rustfmt::skip]
pub type Gemv = unsafe extern "C" fn(Flag<'_>, Int<'_>, Int<'_>, &f64, *const f64, Int<'_>, *const f64, Int<'_>, &f64,
    *mut f64, Int<'_>, usize);
#[rustfmt::skip]
pub type Syrk = unsafe extern "C" fn(Flag<'_>, Flag<'_>, Int<'_>, Int<'_>, &f64, *const f64, Int<'_>, &f64, *mut f64,
    Int<'_>, usize, usize);

/// dgemm, dgemv and dsyrk.
#[derive(Clone, Copy)]
pub struct Blas {
    pub gemm: Gemm,
    pub gemv: Gemv,
    pub syrk: Syrk,
}

static BLAS: OnceLock<Blas> = OnceLock::new();

/// Registers the BLAS. Only the first call has an effect.
pub fn register(blas: Blas) {
    _ = BLAS.set(blas);
}

/// A factor in BLAS' terms: stored by columns, transposed or not, with its leading dimension.
#[derive(Clone, Copy)]
pub(super) struct Factor<'a> {
    pub values: &'a [f64],
    pub transposed: bool,
    pub leading: usize,
}

impl Factor<'_> {
    fn flag(&self) -> c_char {
        (if self.transposed { b'T' } else { b'N' }) as c_char
    }

    /// The length and number of the stored columns of a `rows × columns` factor.
    fn stored(&self, rows: usize, columns: usize) -> (usize, usize) {
        stored_extents(self.transposed, rows, columns)
    }

    /// Whether a BLAS with 32-bit integers can read a `rows × columns` factor within its values.
    fn is_readable(&self, rows: usize, columns: usize) -> bool {
        i32::try_from(self.leading).is_ok() && holds(self.values.len(), self.leading, self.stored(rows, columns))
    }
}

/// Multiplies the `m × k` factor `a` by the `k × n` factor `b`; no extent may be 0. With `own`, they are one matrix and
/// its transpose, and the result is symmetric. Returns false if no BLAS can compute it.
pub(super) fn product(a: Factor<'_>, b: Factor<'_>, [m, k, n]: [usize; 3], own: bool, out: &mut [f64]) -> bool {
    let Some(blas) = BLAS.get() else { return false };
    let int = |n: usize| i32::try_from(n).ok();
    let (Some(rows), Some(inner), Some(columns)) = (int(m), int(k), int(n)) else { return false };
    if !a.is_readable(m, k) || !b.is_readable(k, n) || out.len() != m * n {
        return false;
    }
    let (ld_a, ld_b) = (a.leading as i32, b.leading as i32);
    let (a_values, b_values, to) = (a.values.as_ptr(), b.values.as_ptr(), out.as_mut_ptr());
    // The increment between a vector's elements: contiguous, or `leading` apart.
    let step = |x: &Factor<'_>, is_row: bool| if x.transposed == is_row { 1 } else { x.leading as i32 };
    // `y = M x` for a `rows × columns` matrix
    let gemv = |matrix: Factor<'_>, rows: usize, columns: usize, x: *const f64, step: i32| {
        let (length, lines) = matrix.stored(rows, columns);
        let (length, lines, leading) = (length as i32, lines as i32, matrix.leading as i32);
        let values = matrix.values.as_ptr();
        // SAFETY: as below.
        unsafe { (blas.gemv)(&matrix.flag(), &length, &lines, &1.0, values, &leading, x, &step, &0.0, to, &1, 1) }
    };
    // SAFETY: the factors have all elements within these extents, and the output has `m * n`.
    unsafe {
        if own {
            let upper = b'U' as c_char;
            (blas.syrk)(&upper, &a.flag(), &rows, &inner, &1.0, a_values, &ld_a, &0.0, to, &rows, 1, 1);
        } else if n == 1 {
            gemv(a, m, k, b_values, step(&b, false));
        } else if m == 1 {
            // Computed as the transposed product.
            gemv(Factor { transposed: !b.transposed, ..b }, n, k, a_values, step(&a, true));
        } else {
            let (flag_a, flag_b) = (a.flag(), b.flag());
            (blas.gemm)(
                &flag_a, &flag_b, &rows, &columns, &inner, &1.0, a_values, &ld_a, b_values, &ld_b, &0.0, to, &rows, 1,
                1,
            );
        }
    }
    if own {
        for column in 0..n {
            for row in column + 1..m {
                out[row + column * m] = out[column + row * m];
            }
        }
    }
    true
}
