//! Reductions of segments, with the accumulators of `reduce.h`.

use super::super::accumulators::Accumulators;
use super::super::bytes;
use super::path::{by_offsets, path, Offset};
use crate::backend::segments::Segments;
use crate::memory::buffer::View;
use crate::memory::staging::Shared;
use verdigris_ops::error::Result;
use verdigris_ops::loops::Folding;
use verdigris_ops::reduction::Reduction;

/// Reduces each segment to a value. The values must be stored in the natural dtype of their class.
pub fn reduce(segments: &Segments<'_>, values: &View, reduction: Reduction, na_rm: bool, out: &mut [u8]) -> Result<()> {
    by_offsets!(segments, reduced::<_>(segments, values, reduction, na_rm, out))
}

fn reduced<I: Offset>(
    segments: &Segments<'_>,
    values: &View,
    reduction: Reduction,
    na_rm: bool,
    out: &mut [u8],
) -> Result<()> {
    let (class, path) = (values.dtype.class(), path::<I>(segments)?);
    let f = Folding::of(reduction, class);
    // SAFETY: as `elements`, in bytes.
    let raw: &[u8] =
        unsafe { bytes(&values.buffer, values.layout.offset() * class.size(), values.len() * class.size()) };
    let width = reduction.result(class).size();
    // For each piece, two accumulators: for the first segment that ends in it, and for the segment that does not end in
    // it.
    let mut ends = Accumulators::new(f, 2 * path.pieces())?;
    let (size, memory) = (ends.size(), ends.shared());
    let results = Shared(out.as_mut_ptr());
    path.each(|k, piece| {
        let start = piece.segments.start;
        // SAFETY: elements of the class; each piece has accumulators of its own, and writes the results of its segments
        // alone.
        unsafe {
            (f.segments)(
                results.at(start * width).cast(),
                memory.at(2 * k * size).cast(),
                raw.as_ptr().cast(),
                path.offsets[start..].as_ptr().cast(),
                i32::from(size_of::<I>() == 8),
                piece.segments.len() as i32,
                piece.elements.start as i64,
                piece.elements.end as i64,
                na_rm.into(),
            );
        }
    })?;
    // the accumulator of the segment that is open at the end of a piece
    let mut open = Accumulators::new(f, 1)?;
    for k in 0..path.pieces() {
        let (segments, [first, rest]) = (path.piece(k).segments, [2 * k, 2 * k + 1].map(|l| ends.at(l)));
        // SAFETY: one accumulator each, and space for a result.
        unsafe {
            if segments.is_empty() {
                (f.merge)(open.at(0), rest, 1);
            } else {
                (f.merge)(open.at(0), first, 1);
                (f.finish)(results.at(segments.start * width).cast(), open.at(0), 1);
                (f.start)(open.at(0), 1);
                (f.merge)(open.at(0), rest, 1);
            }
        }
    }
    Ok(())
}
