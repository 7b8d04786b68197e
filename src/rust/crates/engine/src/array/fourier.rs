//! Fourier transforms of all dimensions of an array, or along one of them. Results are not normalised by the length.
//!
//! Results are complex128, or complex64 for float32 and half elements. For real elements the library computes half of
//! the results; the other half is filled in with their conjugates.

use std::sync::Arc;

use crate::array::linear::{copied, factor_dtype};
use crate::array::{strided, Array, Operand};
use crate::backend::dense::real;
use crate::backend::fourier::{Direction, Transform};
use crate::backend::{self, Backend};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::{self, DType};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::id;
use verdigris_ops::layout::Axis;

/// The most extents that one library call transforms.
const AT_ONCE: usize = 3;

/// The dtype of the results of a transform.
fn complex_dtype(dtype: DType) -> DType {
    match factor_dtype(dtype) {
        DType::Float32 | DType::Complex64 => DType::Complex64,
        _ => DType::Complex128,
    }
}

fn is_real(x: &Array) -> bool {
    x.dtype().kind() < dtype::Kind::Complex
}

/// The extents as three: before the margin, the margin (0-based), and after it.
fn around(x: &Array, extents: &[usize], margin: usize) -> Result<[usize; 3]> {
    if strided::count(extents)? != x.len() || margin >= extents.len() {
        return Err(Error::new(Kind::Shape, "the extents do not fit the array's length"));
    }
    let product = |extents: &[usize]| extents.iter().product::<usize>();
    Ok([product(&extents[..margin]), extents[margin], product(&extents[margin + 1..])])
}

/// Swaps the first two of an array's three extents, as a view; returns the array itself if that does not change the
/// order.
fn exchanged(x: &Array, [a, b, c]: [usize; 3]) -> Result<Array> {
    if a == 1 || b == 1 {
        return Ok(x.clone());
    }
    x.view(&[a, b, c], &[Axis::whole(1, b), Axis::whole(0, a), Axis::whole(2, c)])
}

fn run(transform: &Transform<'_>, input: &View, output: &Arc<Buffer>) -> Result<()> {
    backend::of(input.buffer.device)?.fourier(transform, input, output)
}

/// The elements as a contiguous view whose address is aligned for a pair of elements, as libraries read real input as
/// complex.
fn aligned(x: &Array) -> Result<View> {
    let view = x.contiguous()?;
    if view.address() % (2 * view.dtype.size() as u64) == 0 {
        return Ok(view);
    }
    Array::duplicate(&view)?.contiguous()
}

/// Transforms all dimensions.
///
/// # Errors
/// `Shape`, `Memory`, `Interrupt`; `Library` where there is no cuFFT.
pub fn all(x: &Array, extents: &[usize], inverse: bool) -> Result<Array> {
    around(x, extents, 0)?;
    // A dimension of one element is its own transform.
    let mut lengths = crate::memory::fallible::with_capacity(extents.len())?;
    lengths.extend(extents.iter().copied().filter(|&n| n != 1));
    let dtype = complex_dtype(x.dtype());
    if x.is_empty() || lengths.is_empty() {
        return x.cast(dtype, None);
    }
    if !inverse && is_real(x) && lengths.len() <= AT_ONCE {
        return of_real(x, &lengths, 1);
    }
    let direction = if inverse { Direction::Inverse } else { Direction::Forward };
    let (first, rest) = lengths.split_at(lengths.len().min(AT_ONCE));
    let outer = rest.iter().product();
    let transform = Transform { direction, lengths: first, inner: 1, outer, output_stride: first[0] };
    let mut out = complex(x, &transform)?;
    let mut inner = first.iter().product::<usize>();
    for (k, &n) in rest.iter().enumerate() {
        let outer = rest[k + 1..].iter().product();
        out = along(&out, [inner, n, outer], direction)?;
        inner *= n;
    }
    Ok(out)
}

/// Transforms each line along a margin (0-based).
///
/// # Errors
/// `Shape`, `Memory`, `Interrupt`; `Library` where there is no cuFFT.
pub fn margin(x: &Array, extents: &[usize], margin: usize, inverse: bool) -> Result<Array> {
    let [inner, n, outer] = around(x, extents, margin)?;
    if x.is_empty() || n == 1 {
        return x.cast(complex_dtype(x.dtype()), None);
    }
    if !inverse && is_real(x) {
        let lines = exchanged(x, [inner, n, outer])?;
        let out = of_real(&lines, &[n], inner * outer)?;
        return exchanged(&out, [n, inner, outer]);
    }
    along(x, [inner, n, outer], if inverse { Direction::Inverse } else { Direction::Forward })
}

/// The first `n / 2 + 1` elements of the transform of each line along a margin (0-based), for real elements.
///
/// # Errors
/// `Shape`, `Memory`, `Interrupt`; `Library` where there is no cuFFT.
pub fn half(x: &Array, extents: &[usize], margin: usize) -> Result<Array> {
    let [inner, n, outer] = around(x, extents, margin)?;
    if x.is_empty() {
        return Err(Error::new(Kind::Shape, "there is nothing to transform"));
    }
    let lines = exchanged(x, [inner, n, outer])?;
    let input = aligned(&lines.cast(real(complex_dtype(x.dtype())), None)?)?;
    let (count, kept) = (inner * outer, n / 2 + 1);
    let transform =
        Transform { direction: Direction::RealToHalf, lengths: &[n], inner: 1, outer: count, output_stride: kept };
    let out = transformed(&transform, &input)?;
    exchanged(&out, [kept, inner, outer])
}

/// Inverse of `half`: for each line of `n / 2 + 1` elements, the `n` real elements whose transform starts with them,
/// times `n`.
///
/// # Errors
/// `Shape`, `Memory`, `Interrupt`; `Library` where there is no cuFFT.
pub fn from_half(x: &Array, extents: &[usize], margin: usize, n: usize) -> Result<Array> {
    let [inner, kept, outer] = around(x, extents, margin)?;
    if x.is_empty() || kept != n / 2 + 1 {
        return Err(Error::new(Kind::Shape, format!("{} elements stand for {n}, not {kept}", n / 2 + 1)));
    }
    let lines = exchanged(x, [inner, kept, outer])?;
    // The library may overwrite its input.
    let lines = lines.cast(complex_dtype(x.dtype()), None)?;
    let (buffer, _) = copied(&lines)?;
    let input = View::contiguous(buffer, lines.dtype(), lines.len());
    let direction = Direction::HalfToReal;
    let transform = Transform { direction, lengths: &[n], inner: 1, outer: inner * outer, output_stride: n };
    let out = transformed(&transform, &input)?;
    exchanged(&out, [n, inner, outer])
}

/// Runs a transform into a new buffer.
fn transformed(transform: &Transform<'_>, input: &View) -> Result<Array> {
    let dtype = transform.result(input.dtype);
    let rows = transform.lengths[1..].iter().product::<usize>();
    let n = transform.inner * transform.output_stride * rows * transform.outer;
    let output = backend::of(input.buffer.device)?.allocate(n * dtype.size())?;
    run(transform, input, &output)?;
    Ok(Array::from_view(View::contiguous(output, dtype, n)))
}

/// Complex transform by one library call. Recorded values are computed into a new buffer and transformed in place;
/// computed ones are transformed into a new buffer.
fn complex(x: &Array, transform: &Transform<'_>) -> Result<Array> {
    let x = x.cast(complex_dtype(x.dtype()), None)?;
    if x.is_ready() {
        return transformed(transform, &x.contiguous()?);
    }
    let (buffer, _) = copied(&x)?;
    let view = View::contiguous(buffer.clone(), x.dtype(), x.len());
    run(transform, &view, &buffer)?;
    Ok(Array::from_view(view))
}

/// Complex transform along the middle one of three extents.
fn along(x: &Array, [inner, n, outer]: [usize; 3], direction: Direction) -> Result<Array> {
    if n == 1 {
        return Ok(x.clone());
    }
    // Interleaved lines would take a library call for each of `outer`; contiguous lines take one call.
    let apart = inner > 1 && outer > 1;
    let lines = if apart { exchanged(x, [inner, n, outer])? } else { x.clone() };
    let (interleaved, count) = if apart { (1, inner * outer) } else { (inner, outer) };
    let transform = Transform { direction, lengths: &[n], inner: interleaved, outer: count, output_stride: n };
    let out = complex(&lines, &transform)?;
    if apart {
        exchanged(&out, [n, inner, outer])
    } else {
        Ok(out)
    }
}

/// The complete transform of `count` real arrays of these extents. The library leaves space for the conjugates.
fn of_real(x: &Array, lengths: &[usize], count: usize) -> Result<Array> {
    let input = aligned(&x.cast(real(complex_dtype(x.dtype())), None)?)?;
    let n = lengths[0];
    let transform = Transform { direction: Direction::RealToHalf, lengths, inner: 1, outer: count, output_stride: n };
    let out = transformed(&transform, &input)?;
    let kept = n / 2 + 1;
    if kept == n {
        return Ok(out);
    }
    let view = out.contiguous()?;
    let mut dim = lengths.to_vec();
    dim.push(count);
    // X[n - k, m - l] is the conjugate of X[k, l]. Along each further extent, index 0 maps to itself and index l to m -
    // l.
    let further = lengths.len() - 1;
    for case in 0..1usize << further {
        let mut target = vec![Axis { of: 0, start: kept, step: 1, extent: n - kept }];
        let mut source = vec![Axis { of: 0, start: n - kept, step: -1, extent: n - kept }];
        for (k, &m) in lengths.iter().enumerate().skip(1) {
            if case >> (k - 1) & 1 == 0 {
                target.push(Axis { of: k, start: 0, step: 1, extent: 1 });
                source.push(Axis { of: k, start: 0, step: 1, extent: 1 });
            } else {
                target.push(Axis { of: k, start: 1, step: 1, extent: m - 1 });
                source.push(Axis { of: k, start: m - 1, step: -1, extent: m - 1 });
            }
        }
        let lines = Axis::whole(lengths.len(), count);
        target.push(lines);
        source.push(lines);
        let conjugates = Array::apply(id::CONJUGATE, &[Operand::Array(out.view(&dim, &source)?)], None)?;
        let layout = view.layout.view(&dim, &target);
        let layout = layout.ok_or_else(|| Error::new(Kind::Panic, "an internal error: a part of no matrix"))?;
        put(&conjugates, &View { layout, ..view.clone() })?;
    }
    Ok(out)
}

/// Computes values into part of a new array. The values do not read that part.
fn put(values: &Array, part: &View) -> Result<()> {
    let (plan, bound) = values.plan()?;
    let backend: &dyn Backend = backend::of(values.device())?;
    if backend.put(&plan, &bound, part, None)? {
        return Ok(());
    }
    strided::store(values, part)
}
