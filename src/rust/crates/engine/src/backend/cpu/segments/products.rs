//! Products of a sparse matrix and a dense one.

use std::ops::Range;
use std::sync::Arc;

use super::super::gather::elements;
use super::path::{path, Offset, Piece};
use super::{by_types, is_na, kept, missing, Real};
use crate::backend::segments::Sparse;
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

/// Columns whose sums are computed together, in registers.
const TOGETHER: usize = 32;
/// Elements of a cache line.
const LINE: usize = 8;
/// How many elements ahead the rows of `b` are prefetched.
const AHEAD: usize = 4;

/// Element `[s, j]` is the sum over the elements of segment s of value times `b[position, j]`. `b` is stored by rows,
/// the result by columns.
pub fn products(a: &Sparse<'_>, b: &View, columns: usize, out: &Arc<Buffer>) -> Result<()> {
    by_types!(a.segments, b.dtype, run(a, b, columns, out))
}

/// The operands of one call.
struct Job<'a, T> {
    at: &'a [i32],
    values: Option<&'a [T]>,
    b: &'a [T],
    columns: usize,
}

fn run<I: Offset, T: Real>(a: &Sparse<'_>, b: &View, columns: usize, out: &Arc<Buffer>) -> Result<()> {
    let path = path::<I>(&a.segments)?;
    let (count, pieces) = (path.count(), path.pieces());
    let job = Job::<T> { at: elements(a.positions), values: a.values.map(elements), b: elements(b), columns };
    // For each piece, two partial sums: of the first segment that ends in it, and of the segment that does not end in
    // it.
    let mut ends = fallible::filled(0f64, fallible::product([pieces, 2, columns])?)?;
    let (ends_of, out) = (Shared(ends.as_mut_ptr().cast::<u8>()), Shared(out.address as *mut u8));
    let wide = is_wide();
    path.each(|k, piece| {
        // SAFETY: each piece has sums of its own, and writes only the results of segments that begin and end in it.
        let own = unsafe { std::slice::from_raw_parts_mut(ends_of.at(k * 2 * columns * 8).cast::<f64>(), 2 * columns) };
        let (first, rest) = own.split_at_mut(columns);
        let into =
            |segment: usize, column: usize| unsafe { out.at((segment + column * count) * size_of::<T>()).cast::<T>() };
        let parts = Parts { offsets: path.offsets, piece: &piece, rest: path.rest(&piece) };
        let mut sums = Sums { job: &job, parts, into, first, rest };
        let mut from = 0;
        while from < columns {
            from += match columns - from {
                left if left >= TOGETHER && wide => sums.widely(from),
                left if left >= TOGETHER => sums.together::<TOGETHER>(from),
                left if left >= 8 => sums.together::<8>(from),
                left if left >= 4 => sums.together::<4>(from),
                _ if columns == 1 => sums.alone(),
                _ => sums.together::<1>(from),
            };
        }
    })?;
    let mut open = fallible::filled(0f64, columns)?;
    for (k, own) in ends.chunks_exact(2 * columns).enumerate() {
        let (segments, (first, rest)) = (path.piece(k).segments, own.split_at(columns));
        for (j, open) in open.iter_mut().enumerate() {
            if segments.is_empty() {
                *open = kept(*open + rest[j], *open, rest[j]);
                continue;
            }
            let sum = kept(*open + first[j], *open, first[j]);
            // SAFETY: the result of the first segment that ends in this piece; all tasks are done.
            unsafe { *out.at((segments.start + j * count) * size_of::<T>()).cast::<T>() = T::of(sum) };
            *open = rest[j];
        }
    }
    Ok(())
}

/// The parts of segments that are in a piece.
struct Parts<'a, I> {
    offsets: &'a [I],
    piece: &'a Piece,
    rest: Range<usize>,
}

impl<I: Offset> Parts<'_, I> {
    /// Calls `body` with each segment that ends in the piece and its range of elements, then with None and the rest.
    #[inline(always)]
    fn each(&self, mut body: impl FnMut(Option<usize>, usize, usize)) {
        let mut from = self.piece.elements.start;
        for segment in self.piece.segments.clone() {
            let to = self.offsets[segment + 1].at();
            body(Some(segment), from, to);
            from = to;
        }
        body(None, self.rest.start, self.rest.end);
    }
}

/// The partial sums of a piece, and where its results go.
struct Sums<'a, I, T, F> {
    job: &'a Job<'a, T>,
    parts: Parts<'a, I>,
    /// The address of a result, by segment and column. The piece may write those of segments that begin and end in it.
    into: F,
    /// For each column, the partial sum of the first segment that ends in the piece, and of the segment that does not
    /// end.
    first: &'a mut [f64],
    rest: &'a mut [f64],
}

impl<I: Offset, T: Real, F: Fn(usize, usize) -> *mut T> Sums<'_, I, T, F> {
    /// Computes a single column. Returns the number of columns, 1.
    fn alone(&mut self) -> usize {
        let job = self.job;
        match job.values {
            Some(values) => self.one(|from, to| dot(job, from, to, |e| values[e].wide())),
            None => self.one(|from, to| dot(job, from, to, |_| 1.0)),
        }
        1
    }

    #[inline(always)]
    fn one(&mut self, sum: impl Fn(usize, usize) -> f64) {
        let Sums { parts, into, first, rest, .. } = self;
        let start = parts.piece.segments.start;
        parts.each(|segment, from, to| {
            let sum = sum(from, to);
            match segment {
                None => rest[0] = sum,
                Some(segment) if segment == start => first[0] = sum,
                // SAFETY: `into` gives an address that this piece alone writes.
                Some(segment) => unsafe { *into(segment, 0) = T::of(sum) },
            }
        });
    }

    /// Computes `N` columns from `column` on. Returns `N`.
    #[inline(always)]
    fn together<const N: usize>(&mut self, column: usize) -> usize {
        let Sums { job, parts, into, first, rest } = self;
        let (segments, mut from) = (&parts.piece.segments, parts.piece.elements.start);
        let mut next = |to: usize| {
            let sums = row_sums::<T, N>(job, from, to, column);
            from = to;
            sums
        };
        if !segments.is_empty() {
            first[column..column + N].copy_from_slice(&next(parts.offsets[segments.start + 1].at()));
        }
        // A tile of sums, so that each column is written by cache lines.
        let mut tile = [[0f64; N]; LINE];
        for start in (segments.start + 1..segments.end).step_by(LINE) {
            let count = LINE.min(segments.end - start);
            for (k, sums) in tile[..count].iter_mut().enumerate() {
                *sums = next(parts.offsets[start + k + 1].at());
            }
            for l in 0..N {
                for (k, sums) in tile[..count].iter().enumerate() {
                    // SAFETY: an address that this piece alone writes.
                    unsafe { *into(start + k, column + l) = T::of(sums[l]) };
                }
            }
        }
        rest[column..column + N].copy_from_slice(&next(parts.rest.end));
        N
    }

    /// As `together::<TOGETHER>`, compiled for wide registers: the same operations, and so the same bits.
    fn widely(&mut self, column: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        unsafe fn compiled<I: Offset, T: Real, F: Fn(usize, usize) -> *mut T>(
            sums: &mut Sums<'_, I, T, F>,
            column: usize,
        ) -> usize {
            sums.together::<TOGETHER>(column)
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller has checked that the processor has AVX2.
        return unsafe { compiled(self, column) };
        #[cfg(not(target_arch = "x86_64"))]
        self.together::<TOGETHER>(column)
    }
}

/// The sum of a range of elements, with four independent partial sums.
#[inline(always)]
fn dot<T: Real>(job: &Job<'_, T>, from: usize, to: usize, value: impl Fn(usize) -> f64) -> f64 {
    let at = &job.at[from..to];
    let term = |k: usize| value(from + k) * picked(job.b, at[k]);
    let mut sums = [0f64; 4];
    let whole = if at.len() < 8 { 0 } else { at.len() & !3 };
    for k in (0..whole).step_by(4) {
        for (l, sum) in sums.iter_mut().enumerate() {
            *sum += term(k + l);
        }
    }
    let rest = (whole..at.len()).fold(0.0, |sum, k| sum + term(k));
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest;
    if sum.is_nan() {
        missing((0..at.len()).any(|k| is_na(value(from + k)) || is_na(picked(job.b, at[k]))))
    } else {
        sum
    }
}

#[inline(always)]
fn picked<T: Real>(b: &[T], at: i32) -> f64 {
    // A negative position becomes a very large index.
    b.get(at as usize).copied().unwrap_or(T::MISSING).wide()
}

/// The sums of a range of elements in `N` columns.
#[inline(always)]
fn row_sums<T: Real, const N: usize>(job: &Job<'_, T>, from: usize, to: usize, column: usize) -> [f64; N] {
    let mut sums = [0f64; N];
    for e in from..to {
        if let Some(&soon) = job.at.get(e + AHEAD) {
            let row = (soon as usize).wrapping_mul(job.columns).wrapping_add(column);
            (0..N).step_by(64 / size_of::<T>()).for_each(|l| fetch(job.b, row.wrapping_add(l)));
        }
        let (at, value) = (job.at[e], job.values.map_or(1.0, |values| values[e].wide()));
        let row = (at as usize).wrapping_mul(job.columns).wrapping_add(column);
        match job.b.get(row..row.wrapping_add(N)) {
            Some(row) if at >= 0 => {
                for l in 0..N {
                    sums[l] += value * row[l].wide();
                }
            }
            _ => sums = [T::MISSING.wide(); N],
        }
    }
    if sums.iter().any(|sum| sum.is_nan()) {
        mark_missing(job, from, to, column, &mut sums);
    }
    sums
}

/// Prefetches an element.
#[inline(always)]
fn fetch<T>(x: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: any address may be prefetched.
    unsafe {
        std::arch::x86_64::_mm_prefetch(x.as_ptr().wrapping_add(at).cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, at);
}

fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Decides for each sum that is NaN whether it is NA.
#[cold]
fn mark_missing<T: Real>(job: &Job<'_, T>, from: usize, to: usize, column: usize, sums: &mut [f64]) {
    for (j, sum) in sums.iter_mut().enumerate().filter(|(_, sum)| sum.is_nan()) {
        *sum = missing((from..to).any(|e| {
            let row = usize::try_from(job.at[e]).ok();
            let b = row.and_then(|row| job.b.get(row * job.columns + column + j).copied()).unwrap_or(T::MISSING);
            is_na(b.wide()) || job.values.is_some_and(|values| is_na(values[e].wide()))
        }));
    }
}
