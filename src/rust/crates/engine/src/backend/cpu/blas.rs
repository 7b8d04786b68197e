//! The host's BLAS: R's, which its owner chose, and whose functions the bridge registers. Called as R itself calls it, so
//! that a product of doubles has the bits of base R's.

use std::os::raw::c_char;
use std::sync::OnceLock;

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

    /// Rows and columns as it lies in memory, of a `rows × columns` factor.
    fn lying(&self, rows: usize, columns: usize) -> (usize, usize) {
        if self.transposed {
            (columns, rows)
        } else {
            (rows, columns)
        }
    }

    /// Whether a BLAS that counts in 32 bits can read it, and no more than it has.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let (rows, columns) = self.lying(rows, columns);
        i32::try_from(self.leading).is_ok()
            && self.leading >= rows
            && self.values.len() >= self.leading * (columns - 1) + rows
    }
}

/// The `m × k` factor `a` times the `k × n` factor `b`, no extent of which is 0; with `own` they are one matrix and its
/// transpose, and the result is symmetric. False where there is no BLAS for it.
pub(super) fn product(a: Factor<'_>, b: Factor<'_>, [m, k, n]: [usize; 3], own: bool, out: &mut [f64]) -> bool {
    let Some(blas) = BLAS.get() else { return false };
    let int = |n: usize| i32::try_from(n).ok();
    let (Some(rows), Some(inner), Some(columns)) = (int(m), int(k), int(n)) else { return false };
    if !a.holds(m, k) || !b.holds(k, n) || out.len() != m * n {
        return false;
    }
    let (ld_a, ld_b) = (a.leading as i32, b.leading as i32);
    let (a_values, b_values, to) = (a.values.as_ptr(), b.values.as_ptr(), out.as_mut_ptr());
    // a vector's elements lie side by side, or `leading` apart
    let step = |x: &Factor<'_>, is_row: bool| if x.transposed == is_row { 1 } else { x.leading as i32 };
    // SAFETY: the factors have the elements that these extents reach, and the output `m * n`.
    unsafe {
        if own {
            let upper = b'U' as c_char;
            (blas.syrk)(&upper, &a.flag(), &rows, &inner, &1.0, a_values, &ld_a, &0.0, to, &rows, 1, 1);
        } else if n == 1 {
            let (down, across) = a.lying(m, k);
            let (down, across) = (down as i32, across as i32);
            (blas.gemv)(&a.flag(), &down, &across, &1.0, a_values, &ld_a, b_values, &step(&b, false), &0.0, to, &1, 1);
        } else if m == 1 {
            // of the transposed product
            let other = Factor { transposed: !b.transposed, ..b };
            let (down, across) = other.lying(n, k);
            let (down, across) = (down as i32, across as i32);
            let flag = other.flag();
            (blas.gemv)(&flag, &down, &across, &1.0, b_values, &ld_b, a_values, &step(&a, true), &0.0, to, &1, 1);
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
