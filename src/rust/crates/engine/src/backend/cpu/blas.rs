//! The host's BLAS: R's, which its owner chose, and whose functions the bridge registers. Called as R itself calls it,
//! so that a product of doubles has the bits of base R's.

use std::os::raw::c_char;
use std::sync::OnceLock;

use crate::backend::dense::{holds, stored_extents};

/// Fortran's functions take addresses, and after them the lengths of the strings.
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

/// Makes a BLAS known, once.
pub fn register(blas: Blas) {
    _ = BLAS.set(blas);
}

/// A factor as BLAS takes it: column-major, read as it lies or transposed.
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

    /// Length and number of the stored columns of a `rows × columns` factor.
    fn stored(&self, rows: usize, columns: usize) -> (usize, usize) {
        stored_extents(self.transposed, rows, columns)
    }

    /// Whether a BLAS with 32-bit integers can read a `rows × columns` factor, and no more than it has.
    fn is_readable(&self, rows: usize, columns: usize) -> bool {
        i32::try_from(self.leading).is_ok() && holds(self.values.len(), self.leading, self.stored(rows, columns))
    }
}

/// The `m × k` factor `a` times the `k × n` factor `b`, no extent of which is 0; with `own` they are one matrix and
/// its transpose, and the result is symmetric. False where there is no BLAS for it.
pub(super) fn product(a: Factor<'_>, b: Factor<'_>, [m, k, n]: [usize; 3], own: bool, out: &mut [f64]) -> bool {
    let Some(blas) = BLAS.get() else { return false };
    let int = |n: usize| i32::try_from(n).ok();
    let (Some(rows), Some(inner), Some(columns)) = (int(m), int(k), int(n)) else { return false };
    if !a.is_readable(m, k) || !b.is_readable(k, n) || out.len() != m * n {
        return false;
    }
    let (ld_a, ld_b) = (a.leading as i32, b.leading as i32);
    let (a_values, b_values, to) = (a.values.as_ptr(), b.values.as_ptr(), out.as_mut_ptr());
    // a vector's elements are contiguous, or `leading` apart
    let step = |x: &Factor<'_>, is_row: bool| if x.transposed == is_row { 1 } else { x.leading as i32 };
    // `y = M x` of an `rows × columns` matrix
    let gemv = |matrix: Factor<'_>, rows: usize, columns: usize, x: *const f64, step: i32| {
        let (length, lines) = matrix.stored(rows, columns);
        let (length, lines, leading) = (length as i32, lines as i32, matrix.leading as i32);
        let values = matrix.values.as_ptr();
        // SAFETY: as below.
        unsafe { (blas.gemv)(&matrix.flag(), &length, &lines, &1.0, values, &leading, x, &step, &0.0, to, &1, 1) }
    };
    // SAFETY: the factors have the elements that these extents reach, and the output `m * n`.
    unsafe {
        if own {
            let upper = b'U' as c_char;
            (blas.syrk)(&upper, &a.flag(), &rows, &inner, &1.0, a_values, &ld_a, &0.0, to, &rows, 1, 1);
        } else if n == 1 {
            gemv(a, m, k, b_values, step(&b, false));
        } else if m == 1 {
            // of the transposed product
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
