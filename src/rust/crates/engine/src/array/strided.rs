//! Strided memory that a user requested or another library owns: views, checks, and writes in place.
//!
//! Strides of the engine's own views are an implementation detail: elements may be made contiguous, and assignment may
//! make new memory. Memory whose strides are known outside keeps its layout, and is written in place.

use std::sync::Arc;

use crate::array::{Array, Operand};
use crate::backend;
use crate::memory::buffer::{any_shared, Buffer, Device, ExternalBorrow, View};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::id;
use verdigris_ops::layout::Layout;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::small_vec::SmallVec;

/// How many elements the view extends below and above its first element; (0, 0) if it is empty.
///
/// # Errors
/// `Shape` where that exceeds the address space.
pub fn reach(dim: &[usize], strides: &[i64]) -> Result<(usize, usize)> {
    let (mut below, mut above) = (0i64, 0i64);
    if dim.contains(&0) {
        return Ok((0, 0));
    }
    let sum = |side: i64, extent: usize, stride: i64| {
        i64::try_from(extent - 1).ok()?.checked_mul(stride)?.checked_abs()?.checked_add(side)
    };
    for (&extent, &stride) in dim.iter().zip(strides) {
        let side = if stride < 0 { &mut below } else { &mut above };
        *side = sum(*side, extent, stride).ok_or_else(too_large)?;
    }
    // Leaves enough addresses for elements of 16 bytes.
    if below.max(above) > i64::MAX / 64 {
        return Err(too_large());
    }
    Ok((below as usize, above as usize))
}

pub(crate) fn too_large() -> Error {
    Error::new(ErrorKind::Shape, "the extents and strides exceed the address space")
}

/// The number of elements.
///
/// # Errors
/// `Shape` where that exceeds the address space.
pub fn count(dim: &[usize]) -> Result<usize> {
    if dim.contains(&0) {
        return Ok(0);
    }
    dim.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).filter(|&n| n < 1 << 57).ok_or_else(too_large)
}

/// Strides of column-major order.
pub fn column_major(dim: &[usize]) -> Vec<i64> {
    let mut next = 1i64;
    dim.iter()
        .map(|&extent| {
            let stride = next;
            next = next.saturating_mul(extent.max(1) as i64);
            stride
        })
        .collect()
}

/// The stride of each dimension, in elements; an extent of one gets the stride of column-major order. None if strides
/// over `dim` cannot describe the layout.
pub fn strides_of(layout: &Layout, dim: &[usize]) -> Option<Vec<i64>> {
    if layout.is_empty() {
        return Some(column_major(dim));
    }
    let mut strides: Vec<i64> = layout.strides_for(dim)?.into_iter().map(|s| s as i64).collect();
    for k in 0..dim.len() {
        if dim[k] == 1 {
            strides[k] = if k == 0 { 1 } else { strides[k - 1] * dim[k - 1] as i64 };
        }
    }
    Some(strides)
}

/// Uninitialised memory in which neighbours are `strides` elements apart. Assignments to the array write to this
/// memory.
///
/// # Errors
/// `Memory`; `Shape` where extents and strides are too large, or a stride is negative.
pub fn empty(dim: &[usize], strides: &[i64], dtype: DType, device: Device) -> Result<Array> {
    if strides.iter().any(|&stride| stride < 0) {
        return Err(Error::new(ErrorKind::Shape, "new memory begins at its first element: strides must be 0 or more"));
    }
    let n = count(dim)?;
    let (_, above) = reach(dim, strides)?;
    let elements = if n == 0 { 0 } else { above + 1 };
    let buffer = backend::of(device)?.allocate(elements.checked_mul(dtype.size()).ok_or_else(too_large)?)?;
    let layout = layout(0, dim, strides);
    if !layout.is_contiguous() {
        buffer.share();
    }
    Ok(Array::from_view(View { buffer, dtype, layout }))
}

/// A layout of these extents and strides, which may overlap or leave gaps.
pub(crate) fn layout(offset: usize, dim: &[usize], strides: &[i64]) -> Layout {
    if dim.contains(&0) {
        return Layout::contiguous(0);
    }
    let mut steps = SmallVec::<isize, 8>::default();
    strides.iter().for_each(|&stride| steps.push(stride as isize));
    Layout::new(offset, dim, &steps)
}

impl Array {
    /// Checks memory of another library before it is used: whether it still exists, and whether its bools are 0 or 1.
    ///
    /// # Errors
    /// `Consumed`, `DType`.
    pub fn check(&self) -> Result<()> {
        if !any_shared() {
            return Ok(());
        }
        match self.node().view() {
            Some(view) => {
                view.buffer.check()?;
                match view.buffer.greatest_bool() {
                    Some(greatest) if view.dtype == DType::Bool8 => refuse_other_bools(&view, greatest),
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    /// The current values: a copy if others may write to the memory, else the array itself.
    ///
    /// # Errors
    /// `Memory`.
    pub fn fixed(self) -> Result<Array> {
        if !self.is_volatile() {
            return Ok(self);
        }
        Array::duplicate(&self.evaluate()?)
    }

    /// Another view of this array's memory. `offset` is counted in elements from the array's first element. While both
    /// arrays live, each sees what is written to the other in place. If nobody else writes to the array's memory, it is
    /// made contiguous first and the view must be within its elements; otherwise the view must be within the range that
    /// the elements span.
    ///
    /// # Errors
    /// `Shape` where the view would leave that range.
    pub fn as_strided(&self, dim: &[usize], strides: &[i64], offset: i64) -> Result<Array> {
        let n = count(dim)?;
        let (below, above) = reach(dim, strides)?;
        let view = if self.is_volatile() { self.evaluate()? } else { self.contiguous()? };
        let size = view.dtype.size();
        // The first element's offset within the spanned memory, and the length of that memory.
        let (first, extent) = span(&view.layout);
        let start = (first as i64).checked_add(offset).ok_or_else(too_large)?;
        let (low, high) = (start.checked_sub(below as i64), start.checked_add(above as i64));
        let (low, high) = (low.ok_or_else(too_large)?, high.ok_or_else(too_large)?);
        if n > 0 && (low < 0 || high >= extent as i64) {
            let from = |at: i64| at - first as i64;
            let message = format!(
                "the view would read elements {} to {} of memory that holds elements {} to {}, counted from the array's first",
                from(low),
                from(high),
                from(0),
                from(extent as i64 - 1)
            );
            return Err(
                Error::new(ErrorKind::Shape, message).advise("Choose smaller extents, strides or another `offset`.")
            );
        }
        let layout = layout(if n > 0 { start as usize } else { 0 }, dim, strides);
        let (device, dtype) = (view.buffer.device, view.dtype);
        // A separate buffer: while it lives, the original buffer counts as lent to a writer.
        let address = if extent > 0 { view.address() - (first * size) as u64 } else { 0 };
        let origin = view.buffer.clone();
        let read_only = origin.is_read_only();
        let mut buffer =
            Buffer::new(device, address, extent * size, Box::new(ExternalBorrow::new(view.buffer, !read_only)));
        if read_only {
            buffer.set_read_only();
        }
        buffer.set_origin(&origin);
        buffer.share();
        Ok(Array::from_view(View { buffer: Arc::new(buffer), dtype, layout }))
    }
}

/// How many elements a layout extends below its first element, and how many elements it spans in all.
fn span(layout: &Layout) -> (usize, usize) {
    if layout.is_empty() {
        return (0, 0);
    }
    let (mut below, mut above) = (0, 0);
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let reach = stride.unsigned_abs() * (extent - 1);
        *(if stride < 0 { &mut below } else { &mut above }) += reach;
    }
    (below, below + above + 1)
}

/// Whether two elements may overlap. Exact up to a span of 2^24 elements; beyond that, a layout that is not obviously
/// free of overlap counts as overlapping.
pub fn overlaps(layout: &Layout) -> bool {
    if layout.is_contiguous() {
        return false;
    }
    const MOST_SCANNED: usize = 1 << 24;
    let mut axes: Vec<(usize, usize)> = layout
        .shape()
        .iter()
        .zip(layout.strides())
        .filter(|(&extent, _)| extent > 1)
        .map(|(&extent, &stride)| (stride.unsigned_abs(), extent))
        .collect();
    axes.sort_unstable();
    let mut span = 0usize;
    let apart = axes.iter().all(|&(stride, extent)| {
        let clear = stride > span;
        span = span.saturating_add(stride.saturating_mul(extent - 1));
        clear
    });
    if apart || axes.is_empty() {
        return false;
    }
    if axes[0].0 == 0 || span >= MOST_SCANNED || layout.len() > span + 1 {
        return true;
    }
    let Ok(mut taken) = crate::memory::fallible::filled(false, span + 1) else { return true };
    let mut index = vec![0usize; axes.len()];
    loop {
        let at: usize = index.iter().zip(&axes).map(|(i, (stride, _))| i * stride).sum();
        if std::mem::replace(&mut taken[at], true) {
            return true;
        }
        let Some(k) = (0..axes.len()).find(|&k| index[k] + 1 < axes[k].1) else { return false };
        index[..k].fill(0);
        index[k] += 1;
    }
}

/// Refuses in-place writes to memory in which elements overlap.
///
/// # Errors
/// `Shape`, naming the argument.
pub fn refuse_overlap(array: &Array, argument: &str) -> Result<()> {
    if !array.is_volatile() {
        return Ok(());
    }
    match array.node().view() {
        Some(view) if overlaps(&view.layout) => Err(Error::new(
            ErrorKind::Shape,
            format!("elements of `{argument}` overlap in memory, so it cannot be written to"),
        )
        .advise(format!("`{argument} + 0` has memory of its own."))),
        _ => Ok(()),
    }
}

/// Writes values of the same dtype and length to a view's elements in place; the elements must not overlap. Queued.
pub(crate) fn store(values: &Array, view: &View) -> Result<()> {
    let backend = backend::of(view.buffer.device)?;
    let (from, size) = (values.contiguous()?, view.dtype.size());
    crate::array::fact_cache::invalidate(&view.buffer);
    if view.is_empty() {
        return Ok(());
    }
    if view.layout.is_contiguous() {
        let at = (from.layout.offset() * size, view.layout.offset() * size);
        return backend.copy(&from.buffer, at.0, &view.buffer, at.1, view.len() * size);
    }
    let positions = offsets(&view.layout, view.buffer.device)?.contiguous()?;
    backend.scatter(&view.buffer, view.dtype, view.buffer.bytes / size, &positions, &from)
}

/// Refuses bools whose byte exceeds `greatest`. Waits for the device.
pub(crate) fn refuse_other_bools(view: &View, greatest: i32) -> Result<()> {
    if view.is_empty() {
        return Ok(());
    }
    let bytes = Array::from_view(View { dtype: DType::UInt8, ..view.clone() });
    let (_, outcome) = bytes.reduce(Reduction::Max, false)?;
    let most = i32::from_ne_bytes(outcome.value[..4].try_into().expect("four bytes"));
    if most <= greatest {
        return Ok(());
    }
    let message = format!("the data are bool, but contain the byte {most}; only 0 and 1 are valid");
    Err(Error::new(ErrorKind::DType, message).advise("Export them as uint8 instead."))
}

/// The offsets of a layout's elements in its buffer (int64, 0-based).
fn offsets(layout: &Layout, device: Device) -> Result<Array> {
    let n = layout.len();
    let number = |x: i64| Operand::Value(Scalar::I64(x), Kind::Integer64);
    let index = Array::source(id::SEQ, Class::I64, DType::Int64, n, device, &[Scalar::I64(0), Scalar::I64(1)])?;
    let mut offsets: Option<Array> = None;
    let mut done = 1usize;
    for (&extent, &stride) in layout.shape().iter().zip(layout.strides()) {
        let mut own = index.clone();
        if done > 1 {
            own = Array::apply(id::INTDIV, &[Operand::Array(own), number(done as i64)], None)?;
        }
        if done * extent < n {
            own = Array::apply(id::MOD, &[Operand::Array(own), number(extent as i64)], None)?;
        }
        let from = if done == 1 { layout.offset() as i64 } else { 0 };
        own = Array::apply(id::MUL, &[Operand::Array(own), number(stride as i64)], None)?;
        own = Array::apply(id::ADD, &[Operand::Array(own), number(from)], None)?;
        offsets = Some(match offsets {
            None => own,
            Some(sum) => Array::apply(id::ADD, &[Operand::Array(sum), Operand::Array(own)], None)?,
        });
        done *= extent;
    }
    Ok(offsets.unwrap_or(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::write::compute_into;
    use crate::testing::{array, twice, values};

    #[test]
    fn overlap_is_found_exactly() {
        let of = |dim: &[usize], strides: &[isize]| overlaps(&Layout::new(0, dim, strides));
        assert!(!of(&[4, 3], &[1, 4]) && !of(&[4, 3], &[3, 1]) && !of(&[4], &[-2]) && !of(&[1, 1], &[0, 0]));
        assert!(of(&[4, 3], &[2, 1]) && of(&[2], &[0]) && of(&[3, 3], &[1, 1]) && of(&[4, 3], &[-1, 3]));
        // neither stride exceeds the other axis' span, and yet no two elements meet
        assert!(!of(&[2, 3], &[3, 2]));
        assert!(of(&[4, 4], &[3, 2]));
    }

    #[test]
    fn reach_counts_both_sides() {
        assert_eq!(reach(&[3, 2], &[-1, 5]).unwrap(), (2, 5));
        assert_eq!(reach(&[0, 2], &[i64::MAX, 5]).unwrap(), (0, 0));
        assert!(reach(&[3], &[i64::MAX]).is_err() && reach(&[2], &[i64::MIN]).is_err());
        assert!(count(&[1 << 40, 1 << 40]).is_err() && count(&[1 << 40, 1 << 40, 0]).unwrap() == 0);
    }

    #[test]
    fn two_views_see_each_other() {
        let x = array(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let evens = x.as_strided(&[3], &[2], 0).unwrap();
        let back = x.as_strided(&[3], &[-1], 5).unwrap();
        assert_eq!((values(&evens), values(&back)), (vec![0.0, 2.0, 4.0], vec![5.0, 4.0, 3.0]));
        assert!(x.is_volatile() && evens.is_volatile());
        let before = twice(&x);
        assert!(before.is_ready(), "what reads memory that others write is computed at once");
        let new = compute_into(&twice(&array(&[10.0, 20.0, 30.0])), &evens, 1, None).unwrap();
        assert!(Arc::ptr_eq(new.node(), evens.node()));
        assert_eq!(values(&x), [20.0, 1.0, 40.0, 3.0, 60.0, 5.0]);
        assert_eq!(values(&back), [5.0, 60.0, 3.0]);
        assert_eq!(values(&before), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        drop((evens, back, new));
        assert!(!x.is_shared() && !twice(&x).is_ready());
    }

    #[test]
    fn views_stay_inside() {
        let x = array(&[1.0, 2.0, 3.0, 4.0]);
        for (dim, strides, offset) in [
            (&[5usize][..], &[1i64][..], 0i64),
            (&[2], &[1], 3),
            (&[2], &[-1], 0),
            (&[1], &[1], -1),
            (&[1], &[1], 4),
            (&[2], &[i64::MAX / 2], 0),
            (&[1], &[1], i64::MIN),
            (&[1 << 40, 1 << 40], &[0, 0], 0),
        ] {
            assert_eq!(x.as_strided(dim, strides, offset).err().map(|e| e.kind), Some(ErrorKind::Shape), "{dim:?}");
        }
        assert_eq!(values(&x.as_strided(&[2, 2], &[1, 1], 1).unwrap()), [2.0, 3.0, 3.0, 4.0]);
        assert!(x.as_strided(&[0, 3], &[1, 1], 0).unwrap().is_empty());
    }

    #[test]
    fn overlapping_memory_is_read_and_not_written() {
        let x = empty(&[4, 3], &[2, 1], DType::Float64, Device::Cpu).unwrap();
        assert_eq!(values(&x).len(), 12);
        let zero = array(&[0.0; 12]);
        assert_eq!(compute_into(&zero, &x, 1, None).err().map(|e| e.kind), Some(ErrorKind::Shape));
        assert_eq!(empty(&[2], &[-1], DType::Int8, Device::Cpu).err().map(|e| e.kind), Some(ErrorKind::Shape));
        let apart = empty(&[2, 3], &[3, 1], DType::Float64, Device::Cpu).unwrap();
        compute_into(&array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), &apart, 1, None).unwrap();
        assert_eq!(values(&apart), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(apart.evaluate().unwrap().layout.strides(), [3, 1]);
    }
}
