//! Discrete Fourier transforms, as backends take them: not divided by the length, in either direction.

use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::DType;

/// The kind of transform of a line of `n` elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// `sum(x[j] exp(-2 pi i j k / n))`, complex to complex.
    Forward,
    /// The same with the opposite sign.
    Inverse,
    /// `Forward` of real elements. Only the first `n / 2 + 1` results are stored: the others are their conjugates.
    RealToHalf,
    /// `Inverse` to `n` real elements, from the first `n / 2 + 1` of `n` Hermitian ones. Of the first element, and of
    /// the last if `n` is even, only the real part is used.
    HalfToReal,
}

/// The same transform of arrays that follow each other in memory.
pub struct Transform<'a> {
    pub direction: Direction,
    /// The one to three extents that are transformed, the fastest first; none is 0. `HalfToReal` takes one.
    pub lengths: &'a [usize],
    /// The stride along the first extent, which is also the number of interleaved transforms. 1 for `RealToHalf` and
    /// `HalfToReal`.
    pub inner: usize,
    /// The number of arrays.
    pub outer: usize,
    /// Elements of the output from one line of the first extent to the next. More than the results if `RealToHalf`
    /// leaves space for the conjugates.
    pub output_stride: usize,
}

impl Transform<'_> {
    /// Elements of a line of the first extent, in the input and in the output.
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

    /// Whether input and output have the sizes that the extents require, and the input a dtype that the transform
    /// takes.
    pub fn fits(&self, input: &View, output: &Buffer) -> bool {
        let real = matches!(input.dtype, DType::Float32 | DType::Float64);
        let complex = matches!(input.dtype, DType::Complex64 | DType::Complex128);
        let served = if self.direction == Direction::RealToHalf { real } else { complex };
        let ((before, after), lines) = (self.line(), self.lengths[1..].iter().product::<usize>() * self.outer);
        let interleaved = self.inner == 1 || matches!(self.direction, Direction::Forward | Direction::Inverse);
        served
            && interleaved
            && (self.lengths.len() == 1 || self.direction != Direction::HalfToReal)
            && self.output_stride >= after
            && input.layout.is_contiguous()
            && input.len() == self.inner * before * lines
            && output.bytes == self.inner * self.output_stride * lines * self.result(input.dtype).size()
    }
}
