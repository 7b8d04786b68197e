//! Dot products of rows of two dense matrices, computed only for the elements of a sparse matrix.

use std::sync::Arc;

use super::super::gather::elements;
use super::path::{path, Offset};
use super::{by_types, is_na, missing, Real};
use crate::backend::segments::Sampled;
use crate::memory::buffer::Buffer;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

/// Independent partial sums of a dot product.
const LANES: usize = 8;

pub fn sampled(job: &Sampled<'_>, out: &Arc<Buffer>) -> Result<()> {
    by_types!(job.segments, job.by_position.dtype, run(job, out))
}

fn run<I: Offset, T: Real>(job: &Sampled<'_>, out: &Arc<Buffer>) -> Result<()> {
    let path = path::<I>(&job.segments)?;
    let (at, n): (&[i32], _) = (elements(job.positions), job.inner);
    let (rows, others): (&[T], &[T]) = (elements(job.by_position), elements(job.by_segment));
    let out = Shared(out.address as *mut u8);
    path.each(|_, piece| {
        let fill = |range: std::ops::Range<usize>, segment: usize| {
            for e in range {
                let row = usize::try_from(at[e]).ok().and_then(|k| rows.get(k * n..(k + 1) * n));
                let value = row.map_or(T::MISSING, |row| T::of(dot(row, &others[segment * n..(segment + 1) * n])));
                // SAFETY: there is space for each element, and pieces have different ones.
                unsafe { *out.at(e * size_of::<T>()).cast::<T>() = value };
            }
        };
        for segment in piece.segments.clone() {
            fill(path.part(&piece, segment), segment);
        }
        fill(path.rest(&piece), piece.segments.end);
    })
}

fn dot<T: Real>(x: &[T], y: &[T]) -> f64 {
    let mut sums = [0f64; LANES];
    let (mut xs, mut ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    for (x, y) in xs.by_ref().zip(ys.by_ref()) {
        for l in 0..LANES {
            sums[l] += x[l].wide() * y[l].wide();
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(xs.remainder().iter().zip(ys.remainder())) {
        *sum += x.wide() * y.wide();
    }
    let mut by = LANES / 2;
    while by > 0 {
        for l in 0..by {
            sums[l] += sums[l + by];
        }
        by /= 2;
    }
    if sums[0].is_nan() {
        missing(x.iter().chain(y).any(|value| is_na(value.wide())))
    } else {
        sums[0]
    }
}
