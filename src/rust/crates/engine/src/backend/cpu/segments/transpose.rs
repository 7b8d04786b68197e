//! Transposes the structure of a sparse matrix, and expands segments to their numbers.

use std::sync::Arc;

use super::super::gather::{elements, made};
use super::path::{by_offsets, path, Offset};
use crate::backend::segments::{bad_positions, Segments, Transposed};
use crate::backend::{position_dtype, Backend};
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::{fail, parallel_if, width};

/// The least number of elements of a part, which has a table of counts.
const WORTH_A_TABLE: usize = 1 << 16;

/// The 0-based segment number of each element (int32).
pub fn expand(segments: &Segments<'_>, out: &Arc<Buffer>) -> Result<()> {
    by_offsets!(segments, expanded::<_>(segments, out))
}

fn expanded<I: Offset>(segments: &Segments<'_>, out: &Arc<Buffer>) -> Result<()> {
    let path = path::<I>(segments)?;
    let out = Shared(out.address as *mut u8);
    path.each(|_, piece| {
        // SAFETY: there is space for each element, and pieces have different ones.
        let fill = |elements: std::ops::Range<usize>, segment: usize| unsafe {
            let from = out.at(elements.start * 4).cast::<i32>();
            std::slice::from_raw_parts_mut(from, elements.len()).fill(segment as i32);
        };
        for segment in piece.segments.clone() {
            fill(path.part(&piece, segment), segment);
        }
        fill(path.rest(&piece), piece.segments.end);
    })
}

/// Groups the elements by position, `extent` of them, instead of by segment; elements of one position stay in order.
pub fn transpose(cpu: &dyn Backend, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Transposed> {
    match (segments.offsets.dtype, position_dtype(segments.len)) {
        (DType::Int64, DType::Int64) => turned::<i64, i64>(cpu, segments, positions, extent),
        (DType::Int64, _) => turned::<i64, i32>(cpu, segments, positions, extent),
        _ => turned::<i32, i32>(cpu, segments, positions, extent),
    }
}

/// A parallel counting sort: each part of the elements is counted in its own table, from which it knows the places of
/// its elements.
fn turned<I: Offset, O: Offset>(
    cpu: &dyn Backend,
    segments: &Segments<'_>,
    positions: &View,
    extent: usize,
) -> Result<Transposed> {
    let path = path::<I>(segments)?;
    let at: &[i32] = elements(positions);
    let n = at.len();
    // The parts' counts are summed, so the result does not depend on the number of parts.
    let parts = (n / WORTH_A_TABLE.max(extent)).clamp(1, width());
    let each = n.div_ceil(parts).max(1);
    let mut tables = fallible::filled(O::of(0), fallible::product([parts, extent])?)?;
    let tables_of = Shared(tables.as_mut_ptr().cast::<u8>());
    // SAFETY: each part has a table of its own.
    let table = |part: usize| unsafe {
        std::slice::from_raw_parts_mut(tables_of.at(part * extent * size_of::<O>()).cast::<O>(), extent)
    };
    let of_part = |part: usize| (part * each).min(n)..((part + 1) * each).min(n);
    parallel_if(parts, 1, true, |part, _| {
        let counts = table(part);
        for &position in &at[of_part(part)] {
            match counts.get_mut(position as usize) {
                Some(count) => *count = O::of(count.at() + 1),
                None => return fail(bad_positions(extent)),
            }
        }
    })?;
    let dtype = if size_of::<I>() == 8 { DType::Int64 } else { DType::Int32 };
    let offsets = made::<I>(cpu, dtype, extent + 1, |offsets| {
        let mut sum = 0;
        for (row, offset) in offsets[..extent].iter_mut().enumerate() {
            *offset = I::of(sum);
            for part in 0..parts {
                let slot = &mut tables[part * extent + row];
                let count = slot.at();
                *slot = O::of(sum);
                sum += count;
            }
        }
        offsets[extent] = I::of(sum);
        Ok(())
    })?;
    let order_dtype = if size_of::<O>() == 8 { DType::Int64 } else { DType::Int32 };
    let (to, order) = (cpu.allocate(n * 4)?, cpu.allocate(n * size_of::<O>())?);
    let (to_of, order_of) = (Shared(to.address as *mut u8), Shared(order.address as *mut u8));
    parallel_if(parts, 1, true, |part, _| {
        let (next, range) = (table(part), of_part(part));
        let mut segment = path.offsets.partition_point(|offset| offset.at() <= range.start).saturating_sub(1);
        let mut end = path.offsets.get(segment + 1).map_or(n, |offset| offset.at());
        for e in range {
            while e >= end {
                segment += 1;
                end = path.offsets[segment + 1].at();
            }
            // in bounds: the position was counted
            let slot = &mut next[at[e] as usize];
            let place = slot.at();
            *slot = O::of(place + 1);
            // SAFETY: the counts add up to n, and each place is used once.
            unsafe {
                *to_of.at(place * 4).cast::<i32>() = segment as i32;
                *order_of.at(place * size_of::<O>()).cast::<O>() = O::of(e);
            }
        }
    })?;
    Ok(Transposed {
        offsets,
        positions: View::contiguous(to, DType::Int32, n),
        order: View::contiguous(order, order_dtype, n),
    })
}
