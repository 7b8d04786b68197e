//! Gather, scatter and mask on the cpu device.

use std::sync::Arc;

use super::{blocks, bytes, bytes_mut};
use crate::backend::Backend;
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Access, Bound, Instruction, Plan, Register};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::interrupt::parts;
use verdigris_ops::parallel::parallel;
use verdigris_ops::raw_slice;

/// The elements of a contiguous view. `T` must have the size of the view's dtype.
pub(super) fn elements<T: Copy>(view: &View) -> &[T] {
    let size = std::mem::size_of::<T>();
    // SAFETY: the buffer is complete, on the cpu and contiguous; buffers are aligned to 64 bytes.
    unsafe {
        let raw = bytes(&view.buffer, view.layout.offset() * size, view.len() * size);
        raw_slice::slice(raw.as_ptr().cast(), view.len())
    }
}

/// Calls a function with an unsigned type of the element's size; elements are moved as plain words.
macro_rules! by_size {
    ($size:expr, $function:ident($($argument:expr),*)) => {
        match $size {
            1 => $function::<u8>($($argument),*),
            2 => $function::<u16>($($argument),*),
            4 => $function::<u32>($($argument),*),
            8 => $function::<u64>($($argument),*),
            _ => $function::<[u64; 2]>($($argument),*),
        }
    };
}

/// New memory for `n` elements. `fill` must write all of them; it is not called if n is 0.
pub(super) fn made<T>(
    cpu: &dyn Backend,
    dtype: DType,
    n: usize,
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<View> {
    let buffer = cpu.allocate(n * size_of::<T>())?;
    if n > 0 {
        // SAFETY: nobody else sees the buffer yet; it has space for n elements, and is aligned to 64 bytes.
        fill(unsafe { std::slice::from_raw_parts_mut(buffer.address as *mut T, n) })?;
    }
    Ok(View::contiguous(buffer, dtype, n))
}

/// The NA of a dtype as the word that its elements move as.
fn na_word<T: Copy>(dtype: DType) -> T {
    let na = dtype.na_bytes();
    // SAFETY: the bytes are those of an element, and any bits are a valid word.
    unsafe { na.as_ptr().cast::<T>().read_unaligned() }
}

/// The elements at 0-based positions; NA where out of bounds.
fn pick<T: Copy>(from: &[T], at: &[i64], na: T, out: &mut [T]) {
    for (slot, &p) in out.iter_mut().zip(at) {
        // A negative position becomes a very large index.
        *slot = from.get(p as usize).copied().unwrap_or(na);
    }
}

/// The elements at 0-based positions; NA where out of bounds.
fn take(source: &View, at: &[i64], output: &Arc<Buffer>) -> Result<()> {
    by_size!(source.dtype.size(), take_as(source, at, output))
}

/// Elements of one size move as plain words.
fn take_as<T: Copy + Sync>(source: &View, at: &[i64], output: &Arc<Buffer>) -> Result<()> {
    let from: &[T] = elements(source);
    let na = na_word(source.dtype);
    let out = output.address;
    parallel(at.len(), 1 << 15, |first, end| {
        // SAFETY: the output has an element for every position, and tasks write different ones.
        let out = unsafe { raw_slice::slice_mut((out as *mut T).add(first), end - first) };
        pick(from, &at[first..end], na, out);
    })
}

/// The elements at 0-based positions on each axis; NA where a position is negative. Others must be within bounds.
pub fn take_axes(source: &View, dim: &[usize], axes: &[Vec<i64>], output: &Arc<Buffer>) -> Result<()> {
    by_size!(source.dtype.size(), take_axes_as(source, dim, axes, output))
}

fn take_axes_as<T: Copy + Sync>(source: &View, dim: &[usize], axes: &[Vec<i64>], output: &Arc<Buffer>) -> Result<()> {
    let from: &[T] = elements(source);
    let na = na_word(source.dtype);
    let ((first, others), extent) = (axes.split_first().expect("an array has axes"), dim[0]);
    let columns: usize = others.iter().map(Vec::len).product();
    let out = output.address;
    parallel(columns, (1 << 15) / first.len().max(1), |begin, end| {
        for column in begin..end {
            // The offset of the column; None if one of its positions is NA.
            let (mut left, mut stride, mut start) = (column, extent, Some(0));
            for (axis, &extent) in others.iter().zip(&dim[1..]) {
                let at = usize::try_from(axis[left % axis.len()]);
                start = start.zip(at.ok()).map(|(start, at)| start + at * stride);
                (left, stride) = (left / axis.len(), stride * extent);
            }
            let from = start.map_or(&[][..], |start| &from[start..start + extent]);
            // SAFETY: the output has an element for every position, and tasks write different columns.
            let out = unsafe { raw_slice::slice_mut((out as *mut T).add(column * first.len()), first.len()) };
            pick(from, first, na, out);
        }
    })
}

pub fn scatter(target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) {
    by_size!(dtype.size(), scatter_as(target, n, positions, values))
}

fn scatter_as<T: Copy>(target: &Arc<Buffer>, n: usize, positions: &View, values: &View) {
    // SAFETY: the buffer has n elements, and the caller lets nobody else use it meanwhile.
    let out = unsafe {
        let raw = bytes_mut(target, 0, n * std::mem::size_of::<T>());
        raw_slice::slice_mut(raw.as_mut_ptr().cast::<T>(), n)
    };
    // A negative position becomes a very large index, and is ignored.
    for (&p, &value) in elements::<i64>(positions).iter().zip(elements::<T>(values).iter().cycle()) {
        if let Some(slot) = out.get_mut(p as usize) {
            *slot = value;
        }
    }
}

/// Stacks matrices of `columns` columns by rows.
pub fn join_rows(parts: &[View], columns: usize, output: &Arc<Buffer>) -> Result<()> {
    by_size!(parts.first().map_or(1, |part| part.dtype.size()), join_rows_as(parts, columns, output))
}

fn join_rows_as<T: Copy + Sync>(parts: &[View], columns: usize, output: &Arc<Buffer>) -> Result<()> {
    let parts: Vec<&[T]> = parts.iter().map(elements::<T>).collect();
    let all = parts.iter().map(|part| part.len()).sum::<usize>() / columns.max(1);
    let out = output.address;
    parallel(columns, (1 << 16) / all.max(1), |first, end| {
        let mut above = 0;
        for part in &parts {
            let rows = part.len() / columns;
            // SAFETY: within the output, which has `all` rows, and tasks write different columns.
            unsafe {
                let to = (out as *mut T).add(above);
                if rows == 1 {
                    for column in first..end {
                        to.add(column * all).write(part[column]);
                    }
                } else {
                    for column in first..end {
                        let from = &part[column * rows..][..rows];
                        std::ptr::copy_nonoverlapping(from.as_ptr(), to.add(column * all), rows);
                    }
                }
            }
            above += rows;
        }
    })
}

fn positions(cpu: &dyn Backend, mask: &View, keep_na: bool) -> Result<View> {
    let mask: &[u8] = elements(mask);
    let keeps = |x: u8| x == 1 || (keep_na && x > 1);
    let mut count = 0;
    for part in parts(mask.len()) {
        count += mask[part?].iter().filter(|&&x| keeps(x)).count();
    }
    made(cpu, DType::Int64, count, |out| {
        let mut at = 0;
        for part in parts(mask.len()) {
            let part = part?;
            for (k, &x) in (part.start as i64..).zip(&mask[part]) {
                // Every element is written to the next slot; only those that are kept advance it.
                let Some(slot) = out.get_mut(at) else { return Ok(()) };
                *slot = if x == 1 { k } else { -1i64 };
                at += usize::from(keeps(x));
            }
        }
        Ok(())
    })
}

/// The elements of the plan's second output that its first output, a mask, selects; without a second output the
/// positions.
pub fn mask(cpu: &dyn Backend, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
    // An output that is an input in memory, of the right dtype, need not be computed.
    let ready = |&(register, dtype): &(Register, DType)| match plan.code[register as usize] {
        Instruction::Load(k) => {
            let input = &plan.inputs[k as usize];
            (input.access == Access::Linear && input.dtype == dtype).then(|| bound.inputs[k as usize].clone())
        }
        _ => None,
    };
    let missing: Vec<_> = plan.outputs.iter().filter(|output| ready(output).is_none()).copied().collect();
    let allocate = |(_, dtype): &(Register, DType)| cpu.allocate(bound.n * dtype.size());
    let buffers = missing.iter().map(allocate).collect::<Result<Vec<_>>>()?;
    if !missing.is_empty() {
        blocks::run(&Plan { outputs: missing, ..plan.clone() }, bound, &buffers)?;
    }
    let mut computed = buffers.into_iter();
    let mut views = plan.outputs.iter().map(|output| {
        let fresh = |buffer| View::contiguous(buffer, output.1, bound.n);
        ready(output).or_else(|| computed.next().map(fresh)).expect("an output is ready or computed")
    });
    let at = positions(cpu, &views.next().expect("a mask"), keep_na)?;
    let Some(values) = views.next() else { return Ok(at) };
    let out = cpu.allocate(at.len() * values.dtype.size())?;
    take(&values, elements(&at), &out)?;
    Ok(View::contiguous(out, values.dtype, at.len()))
}
