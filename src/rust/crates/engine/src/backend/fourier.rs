//! Discrete Fourier transforms, as backends take them. Nothing is divided by the length, in either direction.

use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::DType;

/// What a transform makes of a line of `n` elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// `sum(x[j] exp(-2 pi i j k / n))`, complex to complex.
    Forward,
    /// The same with the opposite sign.
    Inverse,
    /// `Forward` of real elements, of whose results the first `n / 2 + 1` are kept: the others are their conjugates.
    RealToHalf,
    /// `Inverse` of `n / 2 + 1` elements that stand for `n`, to real ones. Of the first element, and of the last where
    /// `n` is even, the real part counts.
    HalfToReal,
}

/// Equal transforms of arrays that lie one after the other.
pub struct Transform<'a> {
    pub direction: Direction,
    /// The extents that are transformed, the fastest first: one to three, of which none is 0. One for `HalfToReal`.
    pub lengths: &'a [usize],
    /// Elements from one to the next of the first extent: so many transforms are interleaved. 1 for real elements.
    pub inner: usize,
    /// Arrays.
    pub outer: usize,
    /// Elements that a line of the first extent takes in the output: more than it has where `RealToHalf` leaves room
    /// for the conjugates.
    pub room: usize,
}

impl Transform<'_> {
    /// Elements of a line of the first extent, before and after.
    pub fn line(&self) -> (usize, usize) {
        let n = self.lengths[0];
        match self.direction {
            Direction::Forward | Direction::Inverse => (n, n),
            Direction::RealToHalf => (n, n / 2 + 1),
            Direction::HalfToReal => (n / 2 + 1, n),
        }
    }

    /// The dtype of the results of elements of `dtype`.
    pub fn result(&self, dtype: DType) -> DType {
        match (self.direction, dtype) {
            (Direction::RealToHalf, DType::Float32) => DType::Complex64,
            (Direction::RealToHalf, DType::Float64) => DType::Complex128,
            (Direction::HalfToReal, DType::Complex64) => DType::Float32,
            (Direction::HalfToReal, DType::Complex128) => DType::Float64,
            (_, dtype) => dtype,
        }
    }

    /// Whether memory is as large as the extents say, and the elements are of a dtype that is served.
    pub fn fits(&self, input: &View, output: &Buffer) -> bool {
        let real = matches!(input.dtype, DType::Float32 | DType::Float64);
        let complex = matches!(input.dtype, DType::Complex64 | DType::Complex128);
        let served = if self.direction == Direction::RealToHalf { real } else { complex };
        let ((before, after), lines) = (self.line(), self.lengths[1..].iter().product::<usize>() * self.outer);
        let interleaved = self.inner == 1 || matches!(self.direction, Direction::Forward | Direction::Inverse);
        served
            && interleaved
            && (self.lengths.len() == 1 || self.direction != Direction::HalfToReal)
            && self.room >= after
            && input.layout.is_contiguous()
            && input.len() == self.inner * before * lines
            && output.bytes == self.inner * self.room * lines * self.result(input.dtype).size()
    }
}
