//! Layout of an array in its buffer: an offset, a shape and strides, column-major.

use crate::small_vec::SmallVec;

/// Offset and strides count elements, not bytes; a stride may be zero or negative.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    offset: usize,
    axes: Axes,
}

/// Extents and strides of the joined axes. Most layouts have a single axis, which is stored inline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Axes {
    One([usize; 1], [isize; 1]),
    More(Vec<usize>, Vec<isize>),
}

impl Layout {
    /// `n` contiguous elements.
    #[inline]
    pub fn contiguous(n: usize) -> Layout {
        Layout { offset: 0, axes: Axes::One([n], [1]) }
    }

    /// A strided layout. Axes that are contiguous with each other are joined.
    pub fn new(offset: usize, shape: &[usize], strides: &[isize]) -> Layout {
        if let ([extent], [stride]) = (shape, strides) {
            let stride = if *extent == 1 { 1 } else { *stride };
            return match extent {
                0 => Layout::contiguous(0),
                _ => Layout { offset, axes: Axes::One([*extent], [stride]) },
            };
        }
        let (mut s, mut t) = (SmallVec::<usize, 8>::default(), SmallVec::<isize, 8>::default());
        for (&extent, &stride) in shape.iter().zip(strides) {
            if extent == 1 {
                continue;
            }
            match (s.last_mut(), t.last()) {
                (Some(last), Some(&step)) if stride == step * *last as isize => *last *= extent,
                _ => {
                    s.push(extent);
                    t.push(stride);
                }
            }
        }
        if s.is_empty() {
            s.push(1);
            t.push(1);
        }
        if s.contains(&0) {
            return Layout::contiguous(0);
        }
        let axes = match (&s[..], &t[..]) {
            (&[extent], &[stride]) => Axes::One([extent], [stride]),
            _ => Axes::More(s.to_vec(), t.to_vec()),
        };
        Layout { offset, axes }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Extents of the joined axes, fastest first.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        match &self.axes {
            Axes::One(shape, _) => shape,
            Axes::More(shape, _) => shape,
        }
    }

    #[inline]
    pub fn strides(&self) -> &[isize] {
        match &self.axes {
            Axes::One(_, strides) => strides,
            Axes::More(_, strides) => strides,
        }
    }

    /// Whether the elements are contiguous from the offset on.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        matches!(self.axes, Axes::One([extent], [stride]) if stride == 1 || extent <= 1)
    }

    /// The offset of the `i`th element in column-major order.
    pub fn offset_of(&self, mut i: usize) -> usize {
        let mut at = self.offset as isize;
        for (&extent, &stride) in self.shape().iter().zip(self.strides()) {
            at += (i % extent) as isize * stride;
            i /= extent;
        }
        at as usize
    }

    /// Elements `from .. from + n` in order, as layouts of at most `most` elements each. A layout that is not
    /// contiguous is cut as a whole: `from` is 0 and `n` its length. Only the slowest axis is cut, so a piece may be
    /// larger.
    pub fn pieces(&self, from: usize, n: usize, most: usize) -> Vec<Layout> {
        if self.is_contiguous() {
            let cut = |at: usize| Layout::new(self.offset + at, &[most.min(from + n - at)], &[1]);
            return (from..from + n).step_by(most.max(1)).map(cut).collect();
        }
        debug_assert!(from == 0 && n == self.len());
        let last = self.shape().len() - 1;
        let inner: usize = self.shape()[..last].iter().product();
        let step = (most / inner).max(1);
        let cut = |at: usize| {
            let mut shape = self.shape().to_vec();
            shape[last] = step.min(self.shape()[last] - at);
            let offset = self.offset as isize + at as isize * self.strides()[last];
            Layout::new(offset as usize, &shape, self.strides())
        };
        (0..self.shape()[last]).step_by(step).map(cut).collect()
    }

    /// The layout of a view with these axes, each of which selects from an axis of this layout.
    ///
    /// `dim` is the array's shape as the caller sees it, a refinement of the joined axes. `None` if the joined axes
    /// cannot be split so.
    pub fn view(&self, dim: &[usize], axes: &[Axis]) -> Option<Layout> {
        let strides = self.strides_for(dim)?;
        let mut offset = self.offset as isize;
        let (mut s, mut t) = (Vec::new(), Vec::new());
        for axis in axes {
            offset += axis.start as isize * strides[axis.of];
            s.push(axis.extent);
            t.push(strides[axis.of] * axis.step);
        }
        Some(Layout::new(offset.max(0) as usize, &s, &t))
    }

    /// Strides for a finer shape of the same elements (0 for extents of one); `None` if the joined axes cannot be split
    /// so. Not for an empty layout.
    pub fn strides_for(&self, dim: &[usize]) -> Option<Vec<isize>> {
        let mut out = Vec::with_capacity(dim.len());
        let mut axis = 0;
        let mut left = self.shape()[0];
        let mut step = self.strides()[0];
        for &extent in dim {
            if extent == 1 {
                out.push(0);
                continue;
            }
            if left == 1 {
                axis += 1;
                left = *self.shape().get(axis)?;
                step = self.strides()[axis];
            }
            if extent == 0 || !left.is_multiple_of(extent) {
                return None;
            }
            out.push(step);
            step *= extent as isize;
            left /= extent;
        }
        Some(out)
    }
}

/// One axis of a view, in terms of an axis of the array that it views.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The axis of the viewed array.
    pub of: usize,
    /// Its first index there, from 0.
    pub start: usize,
    pub step: isize,
    pub extent: usize,
}

impl Axis {
    pub fn whole(of: usize, extent: usize) -> Axis {
        Axis { of, start: 0, step: 1, extent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_axes_that_follow_each_other() {
        assert!(Layout::new(0, &[3, 4], &[1, 3]).is_contiguous());
        assert_eq!(Layout::new(0, &[4, 3], &[3, 1]).shape(), &[4, 3]);
        assert_eq!(Layout::new(5, &[1, 1], &[7, 9]).len(), 1);
    }

    #[test]
    fn a_transpose_walks_the_other_axis_first() {
        let t = Layout::contiguous(6).view(&[2, 3], &[Axis::whole(1, 3), Axis::whole(0, 2)]).unwrap();
        assert_eq!((0..6).map(|i| t.offset_of(i)).collect::<Vec<_>>(), [0, 2, 4, 1, 3, 5]);
        let back = t.view(&[3, 2], &[Axis::whole(1, 2), Axis::whole(0, 3)]).unwrap();
        assert!(back.is_contiguous());
    }

    #[test]
    fn pieces_walk_the_same_places() {
        let transposed = Layout::new(2, &[5, 7], &[7, 1]);
        let reversed = Layout::new(9, &[10], &[-1]);
        for (layout, from, n) in [(transposed, 0, 35), (reversed, 0, 10), (Layout::contiguous(20), 3, 11)] {
            let whole: Vec<usize> = (from..from + n).map(|i| layout.offset_of(i)).collect();
            for most in [1, 4, 10, 100] {
                let parts = layout.pieces(from, n, most);
                let cut: Vec<usize> = parts.iter().flat_map(|p| (0..p.len()).map(|i| p.offset_of(i))).collect();
                assert_eq!(cut, whole);
            }
        }
    }

    #[test]
    fn a_reversed_range_starts_at_its_end() {
        let r = Layout::contiguous(5).view(&[5], &[Axis { of: 0, start: 4, step: -1, extent: 5 }]).unwrap();
        assert_eq!((0..5).map(|i| r.offset_of(i)).collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
    }
}
