//! Iterates over the elements of a view in the order of their indices.

use crate::memory::buffer::View;

/// Walks over the elements of a view by runs of its first axis, starting again at the end of the view.
struct Walk<'a> {
    view: &'a View,
    at: Vec<usize>,
    /// The element's offset in the buffer.
    offset: i64,
}

impl<'a> Walk<'a> {
    fn new(view: &'a View, i: usize) -> Walk<'a> {
        let mut index = i % view.len();
        let offset = view.layout.offset_of(index) as i64;
        let along = |&extent: &usize| {
            let at = index % extent;
            index /= extent;
            at
        };
        Walk { view, at: view.layout.shape().iter().map(along).collect(), offset }
    }

    /// Advances along an axis; at its end, also along the next one.
    fn step(&mut self, axis: usize, by: usize) {
        let (shape, strides) = (self.view.layout.shape(), self.view.layout.strides());
        self.at[axis] += by;
        self.offset += by as i64 * strides[axis] as i64;
        for axis in axis..shape.len() {
            if self.at[axis] < shape[axis] {
                break;
            }
            self.at[axis] = 0;
            self.offset -= strides[axis] as i64 * shape[axis] as i64;
            if axis + 1 < shape.len() {
                self.at[axis + 1] += 1;
                self.offset += strides[axis + 1] as i64;
            }
        }
    }
}

/// Calls `run` for elements `i .. i + n` of a view, split into runs along its first axis, with the number of elements
/// before the run, the offset of its first element in the buffer, and its length.
pub fn runs(view: &View, i: usize, n: usize, mut run: impl FnMut(usize, i64, usize)) {
    let (mut walk, extent) = (Walk::new(view, i), view.layout.shape()[0]);
    let mut done = 0;
    while done < n {
        let length = (extent - walk.at[0]).min(n - done);
        run(done, walk.offset, length);
        done += length;
        walk.step(0, length);
    }
}

/// The offsets of elements from `i` on. For views with a short first axis: it handles the first two axes together.
pub fn positions(view: &View, i: usize, mut out: &mut [i64]) {
    let (mut walk, shape, strides) = (Walk::new(view, i), view.layout.shape(), view.layout.strides());
    let (extent, step) = (shape[0], strides[0] as i64);
    while !out.is_empty() {
        let whole = if walk.at[0] > 0 || shape.len() < 2 { 0 } else { (out.len() / extent).min(shape[1] - walk.at[1]) };
        let length = if whole > 0 { whole * extent } else { (extent - walk.at[0]).min(out.len()) };
        let (here, rest) = std::mem::take(&mut out).split_at_mut(length);
        let mut first = walk.offset;
        for run in here.chunks_mut(extent) {
            let mut offset = first;
            for slot in run {
                *slot = offset;
                offset += step;
            }
            first += strides.get(1).map_or(0, |&step| step as i64);
        }
        if whole > 0 {
            walk.step(1, whole);
        } else {
            walk.step(0, length);
        }
        out = rest;
    }
}
