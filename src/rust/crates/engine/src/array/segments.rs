//! Operations on segments of elements, which represent sparse matrices: products with dense matrices and with each
//! other, reductions, transposes, triangular systems.
//!
//! Offsets are int32 or int64 and positions int32, both 0-based. Products are float32 or float64: integers and logicals
//! are computed as doubles, halves as float32.

use std::sync::Arc;

use crate::array::{common_device, Array, Operand};
use crate::backend::segments::{bad_offsets, bad_positions, Order, Sampled, Segments, Sparse, TriangularSystem};
use crate::backend::{self, Backend};
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use verdigris_ops::dtype::{natural_dtype, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::rule::{self, Typed};
use verdigris_ops::scalar::Scalar;

/// A sparse matrix: segments whose elements have positions and values.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub offsets: &'a Array,
    pub positions: &'a Array,
    /// None: all values are 1.
    pub values: Option<&'a Array>,
    /// Positions are less than this.
    pub extent: usize,
}

/// A sparse matrix or its structure, newly made.
pub struct Made {
    pub offsets: Array,
    pub positions: Array,
    /// The values; after `transpose`, the 0-based index that each element had before.
    pub values: Array,
}

fn shape(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Shape, message)
}

/// The dtype in which the operands are multiplied.
fn real_dtype<'a>(operands: impl IntoIterator<Item = &'a Array>) -> Result<DType> {
    let types: Vec<Typed> = operands.into_iter().map(|x| Typed::Array(x.dtype())).collect();
    match rule::promote(&types) {
        _ if types.is_empty() => Ok(DType::Float64),
        DType::Complex64 | DType::Complex128 => {
            Err(Error::new(ErrorKind::DType, "products of complex sparse matrices are not computed")
                .advise("Multiply `Re(x)` and `Im(x)` apart."))
        }
        dtype if dtype.is_half() => Ok(DType::Float32),
        dtype if dtype.kind() < Kind::Double => Ok(DType::Float64),
        dtype => Ok(dtype),
    }
}

/// Offsets as contiguous int32, or int64 if `wide` or if they are not int32.
fn offsets_of(x: &Array, wide: bool) -> Result<View> {
    match x.dtype() {
        _ if x.is_empty() => Err(shape("`p` must have a number more than there are segments")),
        DType::Int32 if !wide => x.contiguous(),
        _ => x.cast(DType::Int64, None)?.contiguous(),
    }
}

/// A matrix's operands, cast and made contiguous.
struct Operands {
    offsets: View,
    positions: View,
    values: Option<View>,
    extent: usize,
}

impl Operands {
    fn of(matrix: &Matrix<'_>, dtype: DType, wide: bool) -> Result<Operands> {
        let n = matrix.positions.len();
        if n > 0 && matrix.offsets.len() == 1 {
            return Err(bad_offsets());
        }
        if let Some(values) = matrix.values.filter(|values| values.len() != n) {
            return Err(shape(format!("`x` must have a value for each of {n} positions, not {}", values.len())));
        }
        Ok(Operands {
            offsets: offsets_of(matrix.offsets, wide)?,
            positions: matrix.positions.cast(DType::Int32, None)?.contiguous()?,
            values: matrix.values.map(|values| values.cast(dtype, None)?.contiguous()).transpose()?,
            extent: matrix.extent,
        })
    }

    fn segments(&self) -> Segments<'_> {
        Segments { offsets: &self.offsets, len: self.positions.len() }
    }

    fn sparse(&self) -> Sparse<'_> {
        Sparse {
            segments: self.segments(),
            positions: &self.positions,
            values: self.values.as_ref(),
            extent: self.extent,
        }
    }
}

impl Matrix<'_> {
    fn arrays(&self) -> impl Iterator<Item = &Array> {
        [self.offsets, self.positions].into_iter().chain(self.values)
    }

    fn is_wide(&self) -> bool {
        self.offsets.dtype() != DType::Int32
    }
}

/// An extent of 0 allows no positions.
fn check_extent(a: &Matrix<'_>) -> Result<()> {
    if a.extent == 0 && !a.positions.is_empty() {
        return Err(bad_positions(0));
    }
    Ok(())
}

fn backend_of<'a>(arrays: impl IntoIterator<Item = &'a Array>) -> Result<&'static dyn Backend> {
    let operands: Vec<Operand> = arrays.into_iter().map(|x| Operand::Array(x.clone())).collect();
    backend::of(common_device(&operands)?)
}

/// A matrix of these extents in row-major order.
fn by_rows(x: &Array, rows: usize, columns: usize) -> Result<Array> {
    if rows.min(columns) < 2 {
        return Ok(x.clone());
    }
    x.view(&[rows, columns], &[Axis::whole(1, columns), Axis::whole(0, rows)])
}

fn array(buffer: Arc<Buffer>, dtype: DType, n: usize) -> Array {
    Array::from_view(View::contiguous(buffer, dtype, n))
}

/// The product of a sparse matrix, whose segments are its rows, with a dense matrix of `a.extent` rows and `columns`
/// columns: element `[s, j]` is the sum over the elements of segment s of value times `b[position, j]`.
pub fn products(a: &Matrix<'_>, b: &Array, columns: usize) -> Result<Array> {
    let dtype = real_dtype(a.values.into_iter().chain([b]))?;
    let backend = backend_of(a.arrays().chain([b]))?;
    if b.len() != fallible::product([a.extent, columns])? {
        return Err(shape("non-conformable arguments"));
    }
    let operands = Operands::of(a, dtype, false)?;
    let count = operands.segments().count();
    let total = fallible::product([count, columns])?;
    check_extent(a)?;
    if total == 0 || operands.positions.is_empty() {
        return Array::full(Scalar::F64(0.0), dtype, total, backend.device());
    }
    let order = backend.segment_order(&operands.sparse(), columns)?;
    let b = b.cast(dtype, None)?;
    let b = if order == Order::ByRows { by_rows(&b, a.extent, columns)? } else { b }.contiguous()?;
    let output = backend.allocate(total * dtype.size())?;
    let order = backend.segment_products(&operands.sparse(), &b, order, columns, &output)?;
    let out = array(output, dtype, total);
    match order {
        Order::ByColumns => Ok(out),
        Order::ByRows => by_rows(&out, columns, count),
    }
}

/// Reduces each segment to a value. Sums and means of float32 are float32.
pub fn reduce(offsets: &Array, x: &Array, reduction: Reduction, na_rm: bool) -> Result<Array> {
    let class = reduction
        .class(x.dtype().class())
        .ok_or_else(|| Error::new(ErrorKind::DType, "invalid 'type' (complex) of argument"))?;
    let backend = backend_of([offsets, x])?;
    let logical = matches!(reduction, Reduction::Any | Reduction::All);
    let values = if logical { x.cast(DType::Bool8, None)? } else { x.clone() };
    let values = values.cast(natural_dtype(class), None)?.contiguous()?;
    let (offsets, result) = (offsets_of(offsets, false)?, reduction.result(class));
    let segments = Segments { offsets: &offsets, len: values.len() };
    let output = backend.allocate(segments.count() * result.size() * reduction.width())?;
    if segments.count() > 0 {
        backend.segment_reduce(&segments, &values, reduction, na_rm, &output)?;
    }
    let out = array(output, result, segments.count() * reduction.width());
    let narrow = x.dtype().class() == verdigris_ops::dtype::Class::F32 && result == DType::Float64;
    match (logical, narrow) {
        (true, _) => out.cast(DType::Bool8, None),
        (_, true) => out.cast(DType::Float32, None),
        _ => Ok(out),
    }
}

/// The 0-based segment number of each element (int32).
pub fn expand(offsets: &Array, len: usize) -> Result<Array> {
    let (backend, offsets) = (backend::of(offsets.device())?, offsets_of(offsets, false)?);
    let output = backend.allocate(len * 4)?;
    if len > 0 {
        backend.segment_expand(&Segments { offsets: &offsets, len }, &output)?;
    }
    Ok(array(output, DType::Int32, len))
}

/// Transposes a sparse structure: elements grouped by their position, which is less than `extent`, instead of by
/// segment. `values` of the result are the 0-based indices of the elements in the input.
pub fn transpose(offsets: &Array, positions: &Array, extent: usize) -> Result<Made> {
    let matrix = Matrix { offsets, positions, values: None, extent };
    let backend = backend_of(matrix.arrays())?;
    let operands = Operands::of(&matrix, DType::Float64, false)?;
    let turned = backend.segment_transpose(&operands.segments(), &operands.positions, extent)?;
    Ok(Made {
        offsets: Array::from_view(turned.offsets),
        positions: Array::from_view(turned.positions),
        values: Array::from_view(turned.order),
    })
}

/// `a %*% b`, all three stored by columns. Elements whose sum is 0 are kept.
pub fn multiply(a: &Matrix<'_>, b: &Matrix<'_>) -> Result<Made> {
    let dtype = real_dtype(a.values.into_iter().chain(b.values))?;
    let backend = backend_of(a.arrays().chain(b.arrays()))?;
    if a.offsets.len() != b.extent + 1 {
        return Err(shape("non-conformable arguments"));
    }
    let wide = a.is_wide() || b.is_wide();
    let (left, right) = (Operands::of(a, dtype, wide)?, Operands::of(b, dtype, wide)?);
    let made = backend.segment_multiply(&left.sparse(), &right.sparse(), dtype)?;
    Ok(Made {
        offsets: Array::from_view(made.offsets),
        positions: Array::from_view(made.positions),
        values: Array::from_view(made.values),
    })
}

/// For each element, the sum over l of `a[position, l] * b[segment, l]`. `a` and `b` have `inner` columns.
pub fn sampled(offsets: &Array, positions: &Array, a: &Array, b: &Array, inner: usize) -> Result<Array> {
    let dtype = real_dtype([a, b])?;
    let backend = backend_of([offsets, positions, a, b])?;
    let extent = a.len().checked_div(inner).unwrap_or(0);
    let operands = Operands::of(&Matrix { offsets, positions, values: None, extent }, dtype, false)?;
    let (segments, n) = (operands.segments(), positions.len());
    if a.len() != extent * inner || b.len() != segments.count() * inner {
        return Err(shape("non-conformable arguments"));
    }
    if n == 0 || inner == 0 {
        return Array::full(Scalar::F64(0.0), dtype, n, backend.device());
    }
    let row_by_row = |x: &Array, rows| by_rows(&x.cast(dtype, None)?, rows, inner)?.contiguous();
    let output = backend.allocate(n * dtype.size())?;
    backend.segment_sampled(
        &Sampled {
            segments,
            positions: &operands.positions,
            by_position: &row_by_row(a, extent)?,
            by_segment: &row_by_row(b, segments.count())?,
            inner,
            extent,
        },
        &output,
    )?;
    Ok(array(output, dtype, n))
}

/// Solves a triangular system whose matrix is stored by columns. With `unit` the diagonal counts as ones.
pub fn solve(a: &Matrix<'_>, b: &Array, columns: usize, upper: bool, unit: bool) -> Result<Array> {
    let dtype = real_dtype(a.values.into_iter().chain([b]))?;
    let backend = backend_of(a.arrays().chain([b]))?;
    let n = a.extent;
    if a.offsets.len() != n + 1 || b.len() != fallible::product([n, columns])? {
        return Err(shape("non-conformable arguments"));
    }
    let operands = Operands::of(a, dtype, false)?;
    let b = b.cast(dtype, None)?.contiguous()?;
    let output = backend.allocate(b.len() * dtype.size())?;
    if !b.is_empty() {
        let triangle = TriangularSystem { matrix: operands.sparse(), upper, unit, b: &b, columns };
        backend.segment_solve(&triangle, &output)?;
    }
    Ok(array(output, dtype, n * columns))
}
