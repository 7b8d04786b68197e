//! Counting sort on the cpu device, for keys in a small range (Knuth, TAOCP 5.2). Pieces count and scatter their
//! elements on all cores.

use super::sort_keys::{Position, Sortable};
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::{parallel_if, parts_of_task, should_continue};

/// Keys in a range below this are counted: the counters stay in the second-level cache.
const COUNTED: u64 = 1 << 18;
/// Reading this many counters takes no longer than reading one element.
const PER_ELEMENT: u64 = 4;

/// Whether `n` elements whose keys are within `reach` of the smallest one are sorted by counting.
pub(super) fn is_counted(n: usize, reach: u64) -> bool {
    reach < COUNTED && reach / PER_ELEMENT < n as u64 && u32::try_from(n).is_ok()
}

/// The fewest elements of a piece, each of which has counters of its own.
const PIECE: usize = 1 << 17;

/// Counts the elements of each bucket. `bucket` must return an index of `counts`.
pub(super) fn count_buckets<T: Copy>(from: &[T], counts: &mut [u32], bucket: impl Fn(T) -> usize) {
    for part in parts_of_task(from.len()) {
        for &x in &from[part] {
            // SAFETY: the caller's buckets are indices of `counts`.
            unsafe { *counts.get_unchecked_mut(bucket(x)) += 1 };
        }
    }
}

/// Elements that are scattered together if there are few buckets.
const TOGETHER: usize = 256;

/// Writes the indices `first ..` of the elements to the places of their `W` buckets. Neighbours are mostly in the same
/// bucket and would wait for a counter in memory, so the counters are kept in registers.
///
/// # Safety
/// There is space for all indices at `at`, and no one else writes there.
unsafe fn scatter_narrow<const W: usize, T: Copy, P: Position>(
    from: &[T],
    first: usize,
    starts: &mut [u32],
    bucket: impl Fn(T) -> usize,
    at: *mut P,
) {
    let mut staged = [[P::of(0); TOGETHER + 1]; W];
    for (turn, some) in from.chunks(TOGETHER).enumerate() {
        if turn % 256 == 255 && !should_continue() {
            return;
        }
        let mut counts = [0; W];
        for (k, &x) in (first + turn * TOGETHER..).zip(some) {
            let own = bucket(x);
            for digit in 0..W {
                staged[digit][counts[digit]] = P::of(k);
                counts[digit] += usize::from(own == digit);
            }
        }
        for digit in 0..W {
            // SAFETY: the caller's promise; the range of a bucket ends where that of the next begins.
            unsafe {
                let to = at.add(starts[digit] as usize);
                std::ptr::copy_nonoverlapping(staged[digit].as_ptr(), to, counts[digit]);
            }
            starts[digit] += counts[digit] as u32;
        }
    }
}

/// Sorts by counting keys that are within `reach` of `low`; missing values come last. Writes the positions, counted
/// from `first`, to the address `at`, and the values to the address `sorted`, if given.
pub(super) fn by_counts<T: Sortable + Sync, P: Position>(
    from: &[T],
    (low, reach): (u64, u64),
    key: impl Fn(T) -> u64 + Sync,
    value: impl Fn(u64) -> T,
    sorted: Option<u64>,
    (at, first): (u64, usize),
) -> Result<()> {
    let (n, width) = (from.len(), reach as usize + 2);
    let pieces = (n / PIECE.max(2 * width)).clamp(1, 16);
    let each = n.div_ceil(pieces);
    let bucket = |x: T| if x.missing() { width - 1 } else { (key(x) - low) as usize };
    let of = |piece: usize| (piece * each).min(n)..((piece + 1) * each).min(n);
    let mut starts = fallible::filled(0u32, pieces * width)?;
    let memory = Shared(starts.as_mut_ptr().cast::<u8>());
    // SAFETY: each piece has a row of its own.
    let row = |piece: usize| unsafe {
        std::slice::from_raw_parts_mut(memory.at(piece * width * size_of::<u32>()).cast::<u32>(), width)
    };
    parallel_if(pieces, 1, true, |piece, _| count_buckets(&from[of(piece)], row(piece), bucket))?;
    let mut sum = 0;
    for digit in 0..width {
        for piece in 0..pieces {
            let start = &mut row(piece)[digit];
            sum += std::mem::replace(start, sum);
        }
    }
    let (sorted, at) = (sorted.map(|sorted| Shared(sorted as *mut u8)), Shared(at as *mut u8));
    // Floats are moved, since zeros and missing values have several bit patterns; integers are written from the counts.
    let moved = sorted.as_ref().filter(|_| !T::WHOLE);
    if let Some(sorted) = sorted.as_ref().filter(|_| T::WHOLE) {
        let missing = from.iter().copied().find(|x| x.missing()).unwrap_or_default();
        for digit in 0..width {
            let (first, end) = (row(0)[digit] as usize, row(0).get(digit + 1).map_or(n, |&end| end as usize));
            let value = if digit + 1 == width { missing } else { value(low + digit as u64) };
            // SAFETY: there is space for every element.
            unsafe { std::slice::from_raw_parts_mut(sorted.at(first * size_of::<T>()).cast::<T>(), end - first) }
                .fill(value);
        }
    }
    parallel_if(pieces, 1, true, |piece, _| {
        let (starts, from, first) = (row(piece), &from[of(piece)], of(piece).start + first);
        // SAFETY: there is space for every element, and no two have the same index.
        unsafe {
            let all = at.at(0).cast::<P>();
            match (width, &moved) {
                (2, None) => return scatter_narrow::<2, T, P>(from, first, starts, bucket, all),
                (3, None) => return scatter_narrow::<3, T, P>(from, first, starts, bucket, all),
                _ => {}
            }
            for part in parts_of_task(from.len()) {
                for (k, &x) in (first + part.start..).zip(&from[part]) {
                    let start = starts.get_unchecked_mut(bucket(x));
                    if let Some(sorted) = &moved {
                        sorted.at(*start as usize * size_of::<T>()).cast::<T>().write(x);
                    }
                    all.add(*start as usize).write(P::of(k));
                    *start += 1;
                }
            }
        }
    })
}
