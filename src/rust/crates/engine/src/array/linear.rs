//! Matrix products, factorisations and solves. Callers have checked shapes by base R's rules, and call base R's LAPACK
//! themselves for arrays on the cpu device.
//!
//! Operands are cast to the type of the computation: float64 for integers and logicals, float32 for halves.

use std::cell::Cell;
use std::sync::Arc;

use crate::array::{common_device, Array, Operand};
use crate::backend::dense::{real, Batch, Matrix, Method, Multiplied, Precision, Product, Task, Vectors};
use crate::backend::{self, Backend};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::{natural_dtype, Class, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::id;
use verdigris_ops::layout::{Axis, Layout};
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::rule::{self, Typed};
use verdigris_ops::scalar::Scalar;

/// From this many columns on, a matrix times its own transpose is computed by syrk (one triangle). Below, gemm is
/// faster, because it splits the inner extent among more blocks.
const SYRK_FROM: usize = 1024;

/// The dtype that products are computed in.
fn product_dtype(a: DType, b: DType) -> DType {
    let meet = rule::promote(&[Typed::Array(a), Typed::Array(b)]);
    if meet.kind() < Kind::Double {
        DType::Float64
    } else {
        meet
    }
}

/// The dtype that matrices are factored in.
pub fn factor_dtype(dtype: DType) -> DType {
    match dtype {
        dtype if dtype.is_half() => DType::Float32,
        dtype if dtype.kind() < Kind::Double => DType::Float64,
        dtype => dtype,
    }
}

/// A stack of `count` matrices (`rows × columns`) in place if a library can read its layout, else as a contiguous copy;
/// and the distance in elements from one matrix to the next.
fn stored(x: &Array, rows: usize, columns: usize, count: usize) -> Result<(Matrix, usize)> {
    let view = x.evaluate()?;
    // strides_for() gives an extent of one a stride of 0.
    let strides = view.layout.strides_for(&[rows, columns, count]).and_then(|strides| {
        let [down, across, next] = [strides[0], strides[1], strides[2]].map(|s| usize::try_from(s).ok());
        let (down, across, next) = (down?, across?, next?);
        let plain = (down == 1 || rows == 1) && (across >= rows || columns == 1);
        let turned = (across == 1 || columns == 1) && (down >= columns || rows == 1);
        let (transposed, leading, lines) = if plain {
            (false, if columns == 1 { rows } else { across }, (rows, columns))
        } else if turned {
            (true, if rows == 1 { columns } else { down }, (columns, rows))
        } else {
            return None;
        };
        Some((transposed, leading, next, (count - 1) * next + leading * (lines.1 - 1) + lines.0))
    });
    let (view, (transposed, leading, next, span)) = match strides {
        Some(strides) => (view, strides),
        None => (x.contiguous()?, (false, rows, rows * columns, rows * columns * count)),
    };
    let layout = Layout::new(view.layout.offset(), &[span], &[1]);
    Ok((Matrix { view: View { layout, ..view }, transposed, leading }, next))
}

/// A factor of a product. Vectors are made contiguous.
fn product_factor(x: &Array, rows: usize, columns: usize) -> Result<Matrix> {
    if rows.min(columns) == 1 {
        x.contiguous()?;
    }
    stored(x, rows, columns, 1).map(|(matrix, _)| matrix)
}

/// Whether two factors are one matrix and its transpose.
fn is_own_transpose(a: &Matrix, b: &Matrix) -> bool {
    a.view.address() == b.view.address() && a.leading == b.leading && a.transposed != b.transposed
}

/// Options of a product.
#[derive(Clone, Copy)]
pub struct Options {
    pub precision: Precision,
    /// Whether to compute only one triangle of a matrix times its own transpose; None: the extents decide.
    pub halves: Option<bool>,
}

/// `a %*% b`, where `a` is `m × k` and `b` is `k × n`, in their common type (integers become float64). Returns `None`
/// if base R has to compute it. A view that a library can read in place is not copied. The product of a matrix and its
/// own transpose is exactly symmetric.
pub fn multiply(a: &Array, b: &Array, [m, k, n]: [usize; 3], options: Options) -> Result<Option<Array>> {
    let dtype = product_dtype(a.dtype(), b.dtype());
    let backend = backend::of(common_device(&[Operand::Array(a.clone()), Operand::Array(b.clone())])?)?;
    if m * n == 0 || k == 0 {
        return Ok(Some(Array::full(Scalar::I32(0), dtype, m * n, a.device())?));
    }
    let first = product_factor(&a.cast(dtype, None)?, m, k)?;
    let second = product_factor(&b.cast(dtype, None)?, k, n)?;
    let own = m == n && m > 1 && is_own_transpose(&first, &second);
    let single = options.precision == Precision::Float32 && !dtype.is_half();
    let upper = own && single && options.halves.unwrap_or(m >= SYRK_FROM);
    let output = backend.allocate(m * n * dtype.size())?;
    let (batch, precision) = (Batch::ONE, options.precision);
    let product = Product { a: &first, b: &second, m, n, k, batch, is_self_product: own, upper, precision };
    let made = backend.multiply(&product, &output)?;
    let out = Array::from_view(View::contiguous(output, dtype, m * n));
    Ok(match made {
        Multiplied::Nothing => None,
        Multiplied::UpperTriangle => Some(mirrored(&out, m)?),
        Multiplied::Whole => Some(out),
    })
}

/// The products of `count` pairs of matrices, the slices of two three-dimensional arrays. A factor whose `many` is
/// false has a single slice, used in each product. Returns `None` if the device leaves the products to the host's BLAS.
pub fn multiply_batched(
    a: &Array,
    b: &Array,
    [m, k, n]: [usize; 3],
    count: usize,
    many: [bool; 2],
    options: Options,
) -> Result<Option<Array>> {
    let dtype = product_dtype(a.dtype(), b.dtype());
    let backend = backend::of(common_device(&[Operand::Array(a.clone()), Operand::Array(b.clone())])?)?;
    if m * n * count == 0 || k == 0 {
        return Ok(Some(Array::full(Scalar::I32(0), dtype, m * n * count, a.device())?));
    }
    let slices = |many: bool| if many { count } else { 1 };
    let (first, next_a) = stored(&a.cast(dtype, None)?, m, k, slices(many[0]))?;
    let (second, next_b) = stored(&b.cast(dtype, None)?, k, n, slices(many[1]))?;
    let output = backend.allocate(m * n * count * dtype.size())?;
    let step = |many: bool, next: usize| if many { next } else { 0 };
    let batch = Batch { count, a: step(many[0], next_a), b: step(many[1], next_b) };
    let precision = options.precision;
    let product = Product { a: &first, b: &second, m, n, k, batch, is_self_product: false, upper: false, precision };
    let done = backend.multiply(&product, &output)? != Multiplied::Nothing;
    Ok(done.then(|| Array::from_view(View::contiguous(output, dtype, m * n * count))))
}

// ---- triangles -----------------------------------------------------------------------------------------

/// A view of a vector as a matrix whose columns all equal it, or, `along_rows`, whose rows do.
fn spread(x: &Array, rows: usize, columns: usize, along_rows: bool) -> Result<Array> {
    let step = |of_rows: bool| (of_rows == along_rows) as isize;
    let axes = [
        Axis { of: 0, start: 0, step: step(true), extent: rows },
        Axis { of: 0, start: 0, step: step(false), extent: columns },
    ];
    x.view(&[x.len()], &axes)
}

/// The mask `row <= column` (or `<` without `diagonal`), computed from an element's index. Separate arrays of rows and
/// columns would take two more kernels.
fn is_upper(x: &Array, rows: usize, columns: usize, diagonal: bool) -> Result<Operand> {
    let n = rows * columns;
    let is_wide = i32::try_from(n).is_err();
    let (class, kind) = if is_wide { (Class::I64, Kind::Integer64) } else { (Class::I32, Kind::Integer) };
    let number = |k: usize| if is_wide { Scalar::I64(k as i64) } else { Scalar::I32(k as i32) };
    let place = Array::source(id::SEQ, class, natural_dtype(class), n, x.device(), &[0, 1].map(number))?;
    let by_rows = |op| {
        let operands = [Operand::Array(place.clone()), Operand::Value(number(rows), kind)];
        Array::apply(op, &operands, None).map(Operand::Array)
    };
    let (i, j) = (by_rows(id::MOD)?, by_rows(id::INTDIV)?);
    Array::apply(if diagonal { id::LE } else { id::LT }, &[i, j], None).map(Operand::Array)
}

fn select(condition: Operand, yes: Operand, no: Operand) -> Result<Array> {
    Array::apply(id::SELECT, &[condition, yes, no], None)
}

fn zero() -> Operand {
    Operand::Value(Scalar::I32(0), Kind::Logical)
}

/// A `rows × columns` matrix transposed, as a view.
fn turned(x: &Array, rows: usize, columns: usize) -> Result<Array> {
    x.view(&[rows, columns], &[Axis::whole(1, columns), Axis::whole(0, rows)])
}

/// Mirrors the upper triangle to the lower one. Recorded.
fn mirrored(x: &Array, n: usize) -> Result<Array> {
    select(is_upper(x, n, n, true)?, Operand::Array(x.clone()), Operand::Array(turned(x, n, n)?))
}

/// The upper triangle with its diagonal; zeros below it. Recorded.
pub fn upper_triangle(x: &Array, rows: usize, columns: usize) -> Result<Array> {
    if x.is_empty() {
        return Ok(x.clone());
    }
    select(is_upper(x, rows, columns, true)?, Operand::Array(x.clone()), zero())
}

// ---- factorisations ------------------------------------------------------------------------------------

/// A copy of the values in a new buffer that may be overwritten. Recorded values are computed directly into it.
pub(crate) fn copied(x: &Array) -> Result<(Arc<Buffer>, &'static dyn Backend)> {
    let backend = backend::of(x.device())?;
    let size = x.dtype().size();
    let buffer = backend.allocate(x.len() * size)?;
    match x.node().values()? {
        Some(view) if view.layout.is_contiguous() => {
            backend.copy(&view.buffer, view.layout.offset() * size, &buffer, 0, x.len() * size)?;
        }
        _ => {
            let (plan, bound) = x.plan()?;
            backend.run(&plan, &bound, std::slice::from_ref(&buffer))?;
        }
    }
    Ok((buffer, backend))
}

fn array_of(buffer: Arc<Buffer>, dtype: DType, n: usize) -> Array {
    Array::from_view(View::contiguous(buffer, dtype, n))
}

fn checked(x: &Array, rows: usize, columns: usize) -> Result<()> {
    if x.is_empty() || x.len() != rows * columns {
        return Err(Error::new(
            ErrorKind::Shape,
            format!("a matrix of {rows} x {columns} was given {} elements", x.len()),
        ));
    }
    Ok(())
}

/// The matrix in the dtype in which it is factored.
fn working(x: &Array) -> Result<Array> {
    x.cast(factor_dtype(x.dtype()), None)
}

/// The LU factorisation of an `n × n` matrix: L and U in one matrix, the pivot rows (int64, 1-based), and the 1-based
/// index of the first zero on U's diagonal, or 0.
pub fn lu(x: &Array, n: usize) -> Result<(Array, Array, i32)> {
    checked(x, n, n)?;
    let x = working(x)?;
    let (a, backend) = copied(&x)?;
    let pivots = backend.allocate(n * 8)?;
    let info = backend.factor(x.dtype(), &Task::Lu { a: &a, n, pivots: &pivots })?;
    Ok((array_of(a, x.dtype(), n * n), array_of(pivots, DType::Int64, n), info))
}

/// The solution of `a x = b`, or of `t(a) x = b`, from the results of `lu(a)`.
pub fn lu_solve(lu: &Array, pivots: &Array, b: &Array, n: usize, columns: usize, transpose: bool) -> Result<Array> {
    checked(lu, n, n)?;
    checked(pivots, n, 1)?;
    checked(b, n, columns)?;
    let (lu, pivots, given) = (lu.contiguous()?, pivots.contiguous()?, b.cast(lu.dtype(), None)?);
    let (b, backend) = copied(&given)?;
    let task = Task::LuSolve { lu: &lu, pivots: &pivots, n, b: &b, columns, transpose };
    backend.factor(lu.dtype, &task)?;
    Ok(array_of(b, lu.dtype, n * columns))
}

/// The upper Cholesky factor of an `n × n` matrix, of which only the upper triangle is read, and the order of the first
/// leading minor that is not positive, or 0. The last step, clearing the lower triangle, is recorded.
pub fn cholesky(x: &Array, n: usize) -> Result<(Array, i32)> {
    checked(x, n, n)?;
    let x = turned(&working(x)?, n, n)?;
    let (a, backend) = copied(&x)?;
    let info = backend.factor(x.dtype(), &Task::Cholesky { a: &a, n })?;
    Ok((upper_triangle(&turned(&array_of(a, x.dtype(), n * n), n, n)?, n, n)?, info))
}

/// The solution of `r x = b` with a triangle of the `n × n` matrix `r`.
pub fn triangular_solve(r: &Array, n: usize, b: &Array, columns: usize, upper: bool, transpose: bool) -> Result<Array> {
    checked(r, n, n)?;
    checked(b, n, columns)?;
    let dtype = factor_dtype(product_dtype(r.dtype(), b.dtype()));
    let (triangle, _) = stored(&r.cast(dtype, None)?, n, n, 1)?;
    let (b, backend) = copied(&b.cast(dtype, None)?)?;
    backend.factor(dtype, &Task::Triangular { r: &triangle, upper, transpose, n, b: &b, columns })?;
    Ok(array_of(b, dtype, n * columns))
}

/// The QR decomposition of a real `m × n` matrix in LINPACK's form. LAPACK's reflectors `v` have a first element of 1;
/// LINPACK's are `v * tau`, with `tau` as their first element. A second float64 array holds the numbers that R needs,
/// so that one transfer fetches them: the columns' norms, the first `min(m, n)` elements of the diagonal, and LINPACK's
/// qraux.
pub fn qr(x: &Array, m: usize, n: usize) -> Result<(Array, Array)> {
    checked(x, m, n)?;
    let x = working(x)?;
    let (dtype, device) = (x.dtype(), x.device());
    let (wide, columns) = (x.cast(DType::Float64, None)?, Groups { outer: n, length: m, inner: 1 });
    let squares = Array::apply(id::MUL, &[Operand::Array(wide.clone()), Operand::Array(wide)], None)?;
    let sums = squares.reduce_groups(Reduction::Sum, false, columns)?;
    let norms = Array::apply(id::SQRT, &[Operand::Array(sums)], None)?;
    norms.compute()?;
    let (a, backend) = copied(&x)?;
    let tau = backend.allocate(m.min(n) * dtype.size())?;
    backend.factor(dtype, &Task::Qr { a: &a, m, n, tau: &tau })?;
    let (a, tau) = (array_of(a, dtype, m * n), array_of(tau, dtype, m.min(n)));
    let every = |x: &Array, start, step: usize, extent| {
        x.view(&[x.len()], &[Axis { of: 0, start, step: step as isize, extent }])
    };
    let diagonal = every(&a, 0, m + 1, m.min(n))?;
    let mut parts = vec![norms, diagonal];
    if n < m {
        parts.push(tau.clone());
    } else {
        // Columns from the m-th on have no reflector; LINPACK's qraux is then the absolute value of their element in
        // the last row.
        let left = every(&a, m * m - 1, m, n - m + 1)?;
        parts.push(every(&tau, 0, 1, m - 1)?);
        parts.push(Array::apply(id::ABS, &[Operand::Array(left)], None)?);
    }
    let parts = Array::join(&parts, DType::Float64, device)?;
    // Columns of a wide matrix without a reflector have nothing below the diagonal.
    let factors = spread(&padded(&tau, n)?, m, n, false)?;
    let scaled = Array::apply(id::MUL, &[Operand::Array(a.clone()), Operand::Array(factors)], None)?;
    let form = select(is_upper(&a, m, n, true)?, Operand::Array(a), Operand::Array(scaled))?;
    form.compute()?;
    Ok((form, parts))
}

/// Pads with zeros to `n` elements.
fn padded(x: &Array, n: usize) -> Result<Array> {
    let backend = backend::of(x.device())?;
    if n <= x.len() {
        return Ok(x.clone());
    }
    let zeros = Array::full(Scalar::I32(0), x.dtype(), n, x.device())?.contiguous()?;
    let values = x.contiguous()?;
    backend.copy(
        &values.buffer,
        values.layout.offset() * x.dtype().size(),
        &zeros.buffer,
        0,
        x.len() * x.dtype().size(),
    )?;
    Ok(Array::from_view(zeros))
}

/// `Q c`, or `t(Q) c`, for the first `k` reflectors stored in `qr` (`m × n`, LINPACK's form) and `aux`.
#[allow(clippy::too_many_arguments)]
pub fn qr_apply(
    qr: &Array,
    aux: &Array,
    c: &Array,
    [m, n]: [usize; 2],
    k: usize,
    columns: usize,
    transpose: bool,
) -> Result<Array> {
    checked(qr, m, n)?;
    checked(aux, n, 1)?;
    checked(c, m, columns)?;
    if k > m.min(n) {
        return Err(Error::new(ErrorKind::Shape, format!("{k} reflectors of a matrix of {m} x {n}")));
    }
    let dtype = factor_dtype(product_dtype(qr.dtype(), c.dtype()));
    let (qr, aux) = (qr.cast(dtype, None)?, aux.cast(dtype, None)?);
    let factors = Operand::Array(spread(&aux, m, n, false)?);
    let quotient = Array::apply(id::DIV, &[Operand::Array(qr.clone()), factors.clone()], None)?;
    // A reflector with a factor of 0 is the identity.
    let idle = Array::apply(id::EQ, &[factors, zero()], None)?;
    let reflectors = select(Operand::Array(idle), zero(), Operand::Array(quotient))?.cast(dtype, None)?;
    let (reflectors, aux) = (reflectors.contiguous()?, aux.contiguous()?);
    let (c, backend) = copied(&c.cast(dtype, None)?)?;
    backend.factor(dtype, &Task::QrApply { qr: &reflectors, tau: &aux, m, k, c: &c, columns, transpose })?;
    Ok(array_of(c, dtype, m * columns))
}

/// Eigenvalues of a symmetric or Hermitian matrix in ascending order, eigenvectors if `vectors`, and LAPACK's `info`.
/// Only the lower triangle is read.
pub fn eigen_symmetric(x: &Array, n: usize, vectors: bool) -> Result<(Array, Option<Array>, i32)> {
    checked(x, n, n)?;
    let x = working(x)?;
    let dtype = x.dtype();
    let (a, backend) = copied(&x)?;
    let values = backend.allocate(n * real(dtype).size())?;
    let info = backend.factor(dtype, &Task::Symmetric { a: &a, n, values: &values, vectors })?;
    Ok((array_of(values, real(dtype), n), vectors.then(|| array_of(a, dtype, n * n)), info))
}

/// Eigenvalues of a real matrix as `n` real parts followed by `n` imaginary parts, eigenvectors if `vectors`, packed as
/// by LAPACK's dgeev, and LAPACK's `info`.
pub fn eigen_general(x: &Array, n: usize, vectors: bool) -> Result<(Array, Option<Array>, i32)> {
    checked(x, n, n)?;
    let x = working(x)?;
    let dtype = x.dtype();
    let (a, backend) = copied(&x)?;
    let values = backend.allocate(2 * n * dtype.size())?;
    let out = if vectors { Some(backend.allocate(n * n * dtype.size())?) } else { None };
    let info = backend.factor(dtype, &Task::General { a: &a, n, values: &values, vectors: out.as_deref() })?;
    Ok((array_of(values, dtype, 2 * n), out.map(|out| array_of(out, dtype, n * n)), info))
}

/// The result of `svd`: `d` in descending order, `u`, and `v` or, if `v_transposed`, its conjugate transpose.
pub struct Svd {
    pub d: Array,
    pub u: Option<Array>,
    pub v: Option<Array>,
    pub v_transposed: bool,
    pub info: i32,
    /// The error of `d` beyond rounding.
    pub perturbation: f64,
}

/// The singular value decomposition of an `m × n` matrix, `m >= n`; `u` has `m` columns if `full`, else `n`.
pub fn svd(x: &Array, [m, n]: [usize; 2], vectors: bool, full: bool, method: Method) -> Result<Svd> {
    checked(x, m, n)?;
    let x = working(x)?;
    let dtype = x.dtype();
    let (a, backend) = copied(&x)?;
    let d = backend.allocate(n * real(dtype).size())?;
    let width = if full { m } else { n };
    let out = if vectors {
        Some((backend.allocate(m * width * dtype.size())?, backend.allocate(n * n * dtype.size())?))
    } else {
        None
    };
    let wanted = out.as_ref().map(|(u, v)| Vectors { u, v, full });
    let moved = Cell::new(0.0);
    let info =
        backend.factor(dtype, &Task::Svd { a: &a, m, n, d: &d, vectors: wanted, method, perturbation: &moved })?;
    let (u, v) = match out {
        Some((u, v)) => (Some(array_of(u, dtype, m * width)), Some(array_of(v, dtype, n * n))),
        None => (None, None),
    };
    Ok(Svd {
        d: array_of(d, real(dtype), n),
        u,
        v,
        v_transposed: method == Method::Bidiagonal,
        info,
        perturbation: moved.get(),
    })
}
