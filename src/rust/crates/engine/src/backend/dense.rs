//! Dense linear algebra, as backends take it: matrices of one dtype, float or complex, column-major.

use std::cell::Cell;
use std::sync::Arc;

use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dense::{Factoring, Job};
use verdigris_ops::dtype::DType;

/// A matrix in memory, stored as it is or transposed. Columns begin `leading` elements apart, the first at the view's
/// offset; extents and strides of the view's layout are not used.
pub struct Matrix {
    pub view: View,
    pub transposed: bool,
    pub leading: usize,
}

/// Length and number of the columns in which a `rows × columns` matrix is stored.
pub(crate) fn stored_extents(transposed: bool, rows: usize, columns: usize) -> (usize, usize) {
    if transposed {
        (columns, rows)
    } else {
        (rows, columns)
    }
}

/// Whether `elements` elements hold this many columns of this length, `leading` elements apart.
pub(crate) fn holds(elements: usize, leading: usize, (length, columns): (usize, usize)) -> bool {
    leading >= length && elements >= (columns - 1) * leading + length
}

/// A batch of products. `a` and `b` are the strides from one left factor to the next and from one right factor to the
/// next, in elements; 0 repeats the same matrix.
#[derive(Clone, Copy)]
pub struct Batch {
    pub count: usize,
    pub a: usize,
    pub b: usize,
}

impl Batch {
    pub const ONE: Batch = Batch { count: 1, a: 0, b: 0 };
}

/// The precision to which factors of float32 (and complex64) are rounded before they are multiplied; sums are always
/// float32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    Float32,
    Tf32,
    BFloat16,
}

/// `a %*% b`, `m × k` by `k × n`. The output holds the products of a batch one after the other.
pub struct Product<'a> {
    pub a: &'a Matrix,
    pub b: &'a Matrix,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: Batch,
    /// The factors are one matrix and its transpose.
    pub is_self_product: bool,
    /// If `is_self_product`: only the upper triangle is to be computed, if the device can do that.
    pub upper: bool,
    pub precision: Precision,
}

/// The part of a product that a device has computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Multiplied {
    /// Base R has to compute it.
    Nothing,
    /// The upper triangle. The caller mirrors it, whatever is below the diagonal.
    UpperTriangle,
    Whole,
}

/// A task for LAPACK. Each `Buffer` is written; it holds a contiguous matrix that nothing else refers to. Each `View`
/// is read.
pub enum Task<'a> {
    /// `a` (`n × n`) becomes L and U; `pivots` (int64, from 1) are the rows exchanged.
    Lu { a: &'a Buffer, n: usize, pivots: &'a Buffer },
    /// `b` (`n × columns`) becomes the solution of `a x = b`, or of `t(a) x = b`.
    LuSolve { lu: &'a View, pivots: &'a View, n: usize, b: &'a Buffer, columns: usize, transpose: bool },
    /// The lower triangle of `a` becomes its Cholesky factor. The part above the diagonal is not read, and is undefined
    /// afterwards. (cuSOLVER takes more than twice as long for an upper one.)
    Cholesky { a: &'a Buffer, n: usize },
    /// `b` becomes the solution of `r x = b`, or of `t(r) x = b` if `transpose`, where `r` is the upper or lower
    /// triangle of the matrix (after its own transposition).
    Triangular { r: &'a Matrix, upper: bool, transpose: bool, n: usize, b: &'a Buffer, columns: usize },
    /// `a` (`m × n`) becomes R and, below the diagonal, the reflectors as LAPACK stores them; `tau` their factors.
    Qr { a: &'a Buffer, m: usize, n: usize, tau: &'a Buffer },
    /// `c` (`m × columns`) becomes `Q c` or `t(Q) c`, with the first `k` reflectors of `qr`. Real types only.
    QrApply { qr: &'a View, tau: &'a View, m: usize, k: usize, c: &'a Buffer, columns: usize, transpose: bool },
    /// Eigenvalues of the symmetric (or Hermitian) matrix whose lower triangle `a` holds: `values`, of the real type,
    /// ascending. `a` becomes the eigenvectors if `vectors`, else it is undefined.
    Symmetric { a: &'a Buffer, n: usize, values: &'a Buffer, vectors: bool },
    /// Eigenvalues of a real matrix: `values` are `n` real parts and `n` imaginary parts; `vectors` are packed as
    /// LAPACK's dgeev does.
    General { a: &'a Buffer, n: usize, values: &'a Buffer, vectors: Option<&'a Buffer> },
    /// Singular values of `a` (`m × n`, `m >= n`), which is destroyed: `d` has `n` values of the real type.
    /// `perturbation` is set to the size of the perturbation by which `Method::Polar` makes a singular matrix regular,
    /// a bound of the values' error; else 0.
    Svd {
        a: &'a Buffer,
        m: usize,
        n: usize,
        d: &'a Buffer,
        vectors: Option<Vectors<'a>>,
        method: Method,
        perturbation: &'a Cell<f64>,
    },
}

impl<'a> Task<'a> {
    /// The operands that are read, and those that are written.
    pub(crate) fn operands(&self) -> (Vec<&'a View>, Vec<&'a Buffer>) {
        match *self {
            Task::Lu { a, pivots, .. } => (vec![], vec![a, pivots]),
            Task::LuSolve { lu, pivots, b, .. } => (vec![lu, pivots], vec![b]),
            Task::Cholesky { a, .. } => (vec![], vec![a]),
            Task::Triangular { r, b, .. } => (vec![&r.view], vec![b]),
            Task::Qr { a, tau, .. } => (vec![], vec![a, tau]),
            Task::QrApply { qr, tau, c, .. } => (vec![qr, tau], vec![c]),
            Task::Symmetric { a, values, .. } => (vec![], vec![a, values]),
            Task::General { a, values, vectors, .. } => (vec![], [a, values].into_iter().chain(vectors).collect()),
            Task::Svd { a, d, vectors, .. } => {
                (vec![], [a, d].into_iter().chain(vectors.into_iter().flat_map(|v| [v.u, v.v])).collect())
            }
        }
    }
}

/// Singular vectors: `u` is `m × m` where `full`, else `m × n`.
#[derive(Clone, Copy)]
pub struct Vectors<'a> {
    pub u: &'a Buffer,
    /// `n × n`: the conjugate transpose of V from `Method::Bidiagonal`, V itself from `Method::Polar`.
    pub v: &'a Buffer,
    pub full: bool,
}

/// How singular values are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Householder bidiagonalisation and QR iterations.
    Bidiagonal,
    /// The polar decomposition, then a symmetric eigenproblem (Nakatsukasa and Higham, SIAM J. Sci. Comput. 35, 2013).
    Polar,
}

/// The real dtype of the same precision.
pub const fn real(dtype: DType) -> DType {
    match dtype {
        DType::Complex64 => DType::Float32,
        DType::Complex128 => DType::Float64,
        other => other,
    }
}

/// The most rows or columns for which the fields of `Job` can count elements.
pub const LARGEST: usize = 1 << 14;

/// The same factorisation of each of `count` matrices (`m × n`, one after the other), by this package's own code.
pub struct BatchedFactoring<'a> {
    pub factoring: Factoring,
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub a: &'a View,
    /// Contiguous right-hand sides of `columns` columns, and whether each matrix has its own. `None` for inverses.
    pub b: Option<(&'a View, bool)>,
    pub columns: usize,
    /// The results that `Factoring` names, in its order.
    pub outputs: &'a [Arc<Buffer>],
    /// int32, one a matrix.
    pub status: &'a Arc<Buffer>,
    /// See `Job`.
    pub tol: f64,
}

impl BatchedFactoring<'_> {
    /// The job for all matrices. The device adds memory for its teams.
    pub(super) fn job(&self) -> Job {
        let output = |k: usize| self.outputs.get(k).map_or(0, |buffer| buffer.address);
        Job {
            count: self.count as i64,
            from: 0,
            to: self.count as i64,
            b_step: self.b.map_or(0, |(_, own)| if own { self.n * self.columns } else { 0 }) as i64,
            a: self.a.address(),
            b: self.b.map_or(0, |(view, _)| view.address()),
            x: output(0),
            y: output(1),
            z: output(2),
            status: self.status.address,
            tol: self.tol,
            m: self.m as i32,
            n: self.n as i32,
            columns: self.columns as i32,
            ..Job::default()
        }
    }

    /// Whether buffers and views have the sizes that the extents require, and the extents fit the fields of `Job`.
    pub(super) fn fits(&self) -> bool {
        let (dtype, &BatchedFactoring { m, n, count, columns, .. }) = (self.a.dtype, self);
        let k = m.min(n);
        let results: &[(usize, DType)] = &match self.factoring {
            Factoring::Cholesky => vec![(n * n, dtype)],
            Factoring::Solve => vec![(n * columns, dtype)],
            Factoring::Qr => vec![(m * k, dtype), (k * n, dtype)],
            Factoring::Symmetric => vec![(n, real(dtype)), (n * n, dtype)],
            Factoring::Singular => vec![(n, real(dtype)), (m * n, dtype), (n * n, dtype)],
        };
        let sizes = results.iter().map(|(elements, dtype)| elements * count * dtype.size());
        let square = matches!(self.factoring, Factoring::Cholesky | Factoring::Solve | Factoring::Symmetric);
        let small = |extent: usize| extent > 0 && extent <= LARGEST;
        self.factoring.serves(dtype.class())
            && small(m)
            && small(n)
            && columns <= i32::MAX as usize
            && count > 0
            && count <= u32::MAX as usize
            && (!square || m == n)
            && (self.factoring != Factoring::Singular || m >= n)
            && self.a.len() == m * n * count
            && self.b.is_none_or(|(b, own)| b.dtype == dtype && b.len() == n * columns * if own { count } else { 1 })
            && (self.b.is_some() || self.factoring != Factoring::Solve || columns == n)
            && self.outputs.iter().map(|buffer| buffer.bytes).eq(sizes)
            && self.status.bytes == count * 4
    }
}
