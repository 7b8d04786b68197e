//! Batches of small dense matrices: what `kernels/dense.h` computes of each, and the job that both devices pass to it.

use crate::dtype::Class;

/// What is computed of each matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Factoring {
    /// The upper Cholesky factor (`x`).
    Cholesky,
    /// The solution for right sides `b`, or the inverse (`x`).
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

    /// Elements of memory that a team needs for a matrix of `m` rows, an odd number more where `padded`; `columns` of
    /// right sides beside it.
    pub fn room(self, m: usize, n: usize, columns: usize, padded: bool) -> usize {
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

/// `DenseJob` in `dense.h`. Addresses are whole numbers, 0 where there is nothing.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Job {
    /// Matrices, and which of them are computed.
    pub count: i64,
    pub from: i64,
    pub to: i64,
    /// Elements from one right side to the next.
    pub b_step: i64,
    pub a: u64,
    pub b: u64,
    pub x: u64,
    pub y: u64,
    pub z: u64,
    /// An int32 a matrix: LAPACK's `info`, or what `dense.h` says.
    pub status: u64,
    /// A word that becomes `count` less the first matrix whose status is not 0. On a GPU.
    pub first: u64,
    /// Memory for teams where they have none of their own. On a GPU.
    pub work: u64,
    /// Reciprocal condition numbers below it are refused; 0 where nothing is asked.
    pub tol: f64,
    pub m: i32,
    pub n: i32,
    pub columns: i32,
    /// Elements of a team's memory.
    pub room: i32,
    /// Whether right sides have room in it.
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
