//! Batches of small dense matrices: the computations of `kernels/dense.h`, and the job that both devices pass to it.

use crate::dtype::Class;

/// The computation on each matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Factoring {
    /// The upper Cholesky factor (`x`).
    Cholesky,
    /// The solution for right-hand sides `b`, or the inverse (`x`).
    Solve,
    /// Q (`x`) and R (`y`).
    Qr,
    /// Eigenvalues (`x`) and vectors (`y`) of a symmetric or Hermitian matrix.
    Symmetric,
    /// Singular values (`x`), left (`y`) and right vectors (`z`).
    Singular,
}

impl Factoring {
    pub const ALL: [Factoring; 5] =
        [Factoring::Cholesky, Factoring::Solve, Factoring::Qr, Factoring::Symmetric, Factoring::Singular];

    /// Its name in `dense.h`.
    pub const fn name(self) -> &'static str {
        ["CHOLESKY", "SOLVE", "QR", "SYMMETRIC", "SINGULAR"][self as usize]
    }

    pub fn serves(self, class: Class) -> bool {
        match class {
            Class::F32 | Class::F64 => true,
            // base R has no Cholesky factor of complex matrices
            Class::C64 | Class::C128 => self != Factoring::Cholesky,
            Class::I32 | Class::I64 => false,
        }
    }

    /// Elements of work memory that a team needs for a matrix of `m` rows. `padded` makes leading dimensions odd;
    /// `columns` is the number of right-hand sides that are kept there.
    pub fn workspace_len(self, m: usize, n: usize, columns: usize, padded: bool) -> usize {
        let lead = |rows: usize| if padded { rows | 1 } else { rows };
        let more = match self {
            Factoring::Cholesky => 0,
            Factoring::Solve => 4 * n + lead(n) * columns,
            Factoring::Qr => m.min(n),
            Factoring::Symmetric => 6 * n,
            Factoring::Singular => n * lead(n) + 2 * n,
        };
        lead(m) * n + more
    }
}

/// The layout of `DenseJob` in `dense.h`. Addresses are integers, 0 for none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Job {
    /// The number of matrices in the batch, and the range of matrices to compute.
    pub count: i64,
    pub from: i64,
    pub to: i64,
    /// Elements from one matrix's right-hand sides to the next's.
    pub b_step: i64,
    pub a: u64,
    pub b: u64,
    pub x: u64,
    pub y: u64,
    pub z: u64,
    /// An int32 per matrix: LAPACK's `info`, or a code of `dense_team.h`.
    pub status: u64,
    /// A word that becomes `count` minus the index of the first matrix whose status is not 0. GPU only.
    pub first: u64,
    /// Work memory for teams that do not use shared memory. GPU only.
    pub work: u64,
    /// Matrices with a smaller reciprocal condition number are refused; 0 asks for no test.
    pub tol: f64,
    pub m: i32,
    pub n: i32,
    pub columns: i32,
    /// Elements of a team's work memory.
    pub room: i32,
    /// Whether right-hand sides have room in it.
    pub within: i32,
    pub pad: i32,
}

const _: () = assert!(size_of::<Job>() == 128, "kernels/dense.h has the same");

impl Job {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: plain numbers without padding between them.
        unsafe { std::slice::from_raw_parts((self as *const Job).cast(), size_of::<Job>()) }
    }
}
