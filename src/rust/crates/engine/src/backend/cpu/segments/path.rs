//! Splits work on segments into pieces of equal size, however long the segments are. The ends of segments and the
//! elements form one path, on which a segment's end comes before the elements of later segments. A piece is a part of
//! the path (Merrill and Garland 2016).

use std::ops::Range;

use super::super::gather::elements;
use crate::backend::segments::{bad_offsets, Segments};
use crate::memory::buffer::View;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::{fail, parallel, parallel_if};

/// An integer type of stored offsets.
pub trait Offset: Copy + Sync + Send + Ord + 'static {
    fn at(self) -> usize;
    fn of(n: usize) -> Self;
}
macro_rules! offsets {
    ($($type:ty)*) => { $(impl Offset for $type {
        fn at(self) -> usize {
            self as usize
        }
        fn of(n: usize) -> $type {
            n as $type
        }
    })* };
}
offsets!(i32 i64);

/// Length of a piece: segment ends plus elements.
const PIECE: usize = 1 << 13;

/// Segments with checked, ascending offsets, as a path.
pub struct MergePath<'a, I> {
    pub offsets: &'a [I],
    pub len: usize,
}

/// A part of a path.
pub struct Piece {
    /// Segments that end in the piece. All but the first also begin in it.
    pub segments: Range<usize>,
    /// Elements of the piece. Those after the end of the last segment belong to the next segment.
    pub elements: Range<usize>,
}

impl<'a, I: Offset> MergePath<'a, I> {
    /// # Errors
    /// `Argument` where the offsets are out of order.
    pub fn new(offsets: &'a View, len: usize) -> Result<MergePath<'a, I>> {
        let offsets: &[I] = elements(offsets);
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Err(bad_offsets()) };
        if *first != I::of(0) || *last != I::of(len) {
            return Err(bad_offsets());
        }
        parallel(offsets.len() - 1, 1 << 16, |from, to| {
            if !offsets[from..=to].is_sorted() {
                fail(bad_offsets());
            }
        })?;
        Ok(MergePath { offsets, len })
    }

    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn pieces(&self) -> usize {
        (self.count() + self.len).div_ceil(PIECE)
    }

    /// The numbers of segment ends and of elements before a point of the path.
    fn point(&self, place: usize) -> (usize, usize) {
        let (mut from, mut to) = (place.saturating_sub(self.len), place.min(self.count()));
        while from < to {
            let half = from.midpoint(to);
            if self.offsets[half + 1].at() < place - half {
                from = half + 1;
            } else {
                to = half;
            }
        }
        (from, place - from)
    }

    pub fn piece(&self, k: usize) -> Piece {
        let total = self.count() + self.len;
        let ((s0, e0), (s1, e1)) = (self.point((k * PIECE).min(total)), self.point(((k + 1) * PIECE).min(total)));
        Piece { segments: s0..s1, elements: e0..e1 }
    }

    /// The elements of a segment that are in a piece.
    pub fn part(&self, piece: &Piece, segment: usize) -> Range<usize> {
        let [from, to] =
            [segment, segment + 1].map(|s| self.offsets[s].at().clamp(piece.elements.start, piece.elements.end));
        from..to
    }

    /// The elements of a piece whose segment does not end in it.
    pub fn rest(&self, piece: &Piece) -> Range<usize> {
        self.offsets[piece.segments.end].at().max(piece.elements.start)..piece.elements.end
    }

    /// Runs `body` for each piece, as a task.
    pub fn each(&self, body: impl Fn(usize, Piece) + Sync) -> Result<()> {
        parallel_if(self.pieces(), 1, true, |k, _| body(k, self.piece(k)))
    }
}

/// Calls a function with the type of the offsets.
macro_rules! by_offsets {
    ($segments:expr, $function:ident::<_ $(, $type:ty)*>($($argument:expr),*)) => {
        match $segments.offsets.dtype {
            verdigris_ops::dtype::DType::Int64 => $function::<i64 $(, $type)*>($($argument),*),
            _ => $function::<i32 $(, $type)*>($($argument),*),
        }
    };
}
pub(super) use by_offsets;

/// The path of the segments.
pub fn path<'a, I: Offset>(segments: &Segments<'a>) -> Result<MergePath<'a, I>> {
    MergePath::new(segments.offsets, segments.len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_every_element_and_every_end_once() {
        let lengths = [0, 0, 3, 20_000, 0, 1, 9_000, 0];
        let mut offsets = vec![0i32];
        for k in 0..20_000 {
            offsets.push(offsets[k] + if k < 8 { lengths[k] } else { (k % 3) as i32 });
        }
        let path = MergePath { offsets: &offsets, len: *offsets.last().unwrap() as usize };
        let (mut segment, mut element) = (0, 0);
        for k in 0..path.pieces() {
            let piece = path.piece(k);
            assert_eq!((piece.segments.start, piece.elements.start), (segment, element));
            for s in piece.segments.clone() {
                let part = path.part(&piece, s);
                assert!(part.start == element && part.end == offsets[s + 1] as usize);
                element = part.end;
            }
            let rest = if piece.segments.end < path.count() { path.rest(&piece) } else { element..element };
            assert!(rest.start == element);
            (segment, element) = (piece.segments.end, rest.end);
        }
        assert_eq!((segment, element), (path.count(), path.len));
    }
}
