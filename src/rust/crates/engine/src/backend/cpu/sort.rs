//! Sorting on the cpu device: a radix sort of keys, least significant digit first. It is stable and reads each element
//! a fixed number of times (Knuth, TAOCP 5.2.5).

use super::gather::{elements, made};
use super::memory::ScratchVec;
use crate::backend::{position_dtype, Backend};
use crate::memory::buffer::View;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::parallel::spread;
use verdigris_ops::scalar::{NA_I32, NA_I64};

/// Bits of a digit: 2048 counters stay in the first-level cache, and where everything is in the second, the places that
/// 256 of them count do too.
const fn digit(n: usize) -> u32 {
    if n < 1 << 16 {
        8
    } else {
        11
    }
}
/// Fewer elements are sorted by comparing keys: a radix sort first clears and sums its counters.
const RADIX_FROM: usize = 256;

/// How a type sorts: by an unsigned key; missing values last either way.
pub(super) trait Sortable: Copy + Default {
    const BITS: u32;
    /// Each key but that of what is missing is one value's, and what is missing is one value.
    const WHOLE: bool;
    fn missing(self) -> bool;
    fn key(self) -> u64;
    /// The smallest and the largest key of what is not missing; the greater one first where there is none.
    fn extremes(from: &[Self]) -> (u64, u64) {
        let keys = from.iter().filter(|x| !x.missing()).map(|x| x.key());
        keys.fold((u64::MAX >> (64 - Self::BITS), 0), |(low, high), key| (low.min(key), high.max(key)))
    }
    /// The value that has this key; None where several have it, which are the zeros.
    fn of_key(key: u64) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty, $bits:literal, |$x:ident| $missing:expr;)*) => { $(
        impl Sortable for $type {
            const BITS: u32 = $bits;
            const WHOLE: bool = true;
            fn missing(self) -> bool {
                let $x = self;
                $missing
            }
            fn key(self) -> u64 {
                (self as i64).wrapping_sub(<$type>::MIN as i64) as u64
            }
            // in registers of the type, of which more go at once; what is missing is the smallest
            fn extremes(from: &[$type]) -> (u64, u64) {
                let known = |x: $type| if x.missing() { <$type>::MAX } else { x };
                let low = from.iter().fold(<$type>::MAX, |low, &x| low.min(known(x)));
                let high = from.iter().fold(<$type>::MIN, |high, &x| high.max(x));
                (low.key(), high.key())
            }
            fn of_key(key: u64) -> Option<$type> {
                Some((key as $type).wrapping_add(<$type>::MIN))
            }
        }
    )* };
}
integers! {
    u8, 8, |_x| false;
    i8, 8, |x| x == i8::MIN;
    i16, 16, |x| x == i16::MIN;
    i32, 32, |x| x == NA_I32;
    i64, 64, |x| x == NA_I64;
}

macro_rules! floats {
    ($($type:ty, $bits:literal;)*) => { $(
        impl Sortable for $type {
            const BITS: u32 = $bits;
            const WHOLE: bool = false;
            fn missing(self) -> bool {
                self.is_nan()
            }
            // positive numbers grow with their bits, negative ones fall; -0 equals 0. Signs come in any order, so
            // nothing branches.
            fn key(self) -> u64 {
                let (bits, sign) = (u64::from(self.to_bits()), 1u64 << ($bits - 1));
                let bits = if bits == sign { 0 } else { bits };
                let negative = (bits >> ($bits - 1)).wrapping_neg();
                bits ^ (sign | (negative & (sign - 1)))
            }
            fn of_key(key: u64) -> Option<$type> {
                let sign = 1u64 << ($bits - 1);
                // 0 and -0
                (key != sign).then(|| <$type>::from_bits((if key & sign != 0 { key ^ sign } else { !key }) as _))
            }
        }
    )* };
}
floats! { f64, 64; f32, 32; half::f16, 16; half::bf16, 16; }

/// How many of a long key's lowest bits the passes leave out: mostly few elements have all others in common, and those
/// are put in order by themselves.
const fn left_out(n: usize, bits: u32) -> u32 {
    let sorted_by = 32u32.next_multiple_of(digit(n));
    if bits < sorted_by + digit(n) {
        return 0;
    }
    bits - sorted_by
}

/// Sorts what is in order but for the lowest bits of its keys, which `rest` says.
fn finish<E>(items: &mut [E], rest: u32, key: impl Fn(&E) -> u64) {
    if rest > 0 {
        for run in items.chunk_by_mut(|a, b| key(a) >> rest == key(b) >> rest).filter(|run| run.len() > 1) {
            run.sort_by_key(&key);
        }
    }
}

/// Sorts by `key`, of which the lowest `bits` count; equal keys stay in their order.
fn by_key<E: Copy>(items: &mut ScratchVec<E>, bits: u32, key: impl Fn(&E) -> u64) -> Result<()> {
    if items.len() < RADIX_FROM {
        items.sort_by_key(key);
        return Ok(());
    }
    let (width, rest) = (digit(items.len()), left_out(items.len(), bits));
    let (passes, mask) = ((bits - rest).div_ceil(width), (1usize << width) - 1);
    let mut counts = fallible::filled(0usize, (passes as usize) << width)?;
    for item in items.iter() {
        let key = key(item) >> rest;
        for pass in 0..passes {
            counts[((pass as usize) << width) + ((key >> (pass * width)) as usize & mask)] += 1;
        }
    }
    let mut other = ScratchVec::new(items.len())?;
    for pass in 0..passes {
        let starts = &mut counts[(pass as usize) << width..][..1 << width];
        if starts.contains(&items.len()) {
            continue; // all have this digit
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
        let slots = other.slots();
        for item in items.iter() {
            let start = &mut starts[(key(item) >> (rest + pass * width)) as usize & mask];
            slots[*start].write(*item);
            *start += 1;
        }
        // SAFETY: each of the items was written to an index of its own.
        unsafe { other.set_len(items.len()) };
        std::mem::swap(items, &mut other);
    }
    finish(items, rest, key);
    Ok(())
}

pub(super) fn bytes_of<T>(x: &[T]) -> &[u8] {
    // SAFETY: plain numbers may be read as bytes.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), std::mem::size_of_val(x)) }
}

/// So many keys next to each other are counted: their counters stay in the second-level cache.
const COUNTED: u64 = 1 << 18;
/// A look at this many counters takes no longer than one at an element.
const PER_ELEMENT: u64 = 4;

/// Whether `n` elements are counted whose keys reach this far from the smallest one.
fn is_counted(n: usize, reach: u64) -> bool {
    reach < COUNTED && reach / PER_ELEMENT < n as u64 && u32::try_from(n).is_ok()
}

/// Elements of a piece that counts by itself, at least.
const PIECE: usize = 1 << 17;

/// A position: int32 where that reaches (`position_dtype`).
trait Position: Copy + PartialEq {
    fn of(k: usize) -> Self;
}
impl Position for i32 {
    fn of(k: usize) -> i32 {
        k as i32
    }
}
impl Position for i64 {
    fn of(k: usize) -> i64 {
        k as i64
    }
}

/// Counts the elements of each bucket.
fn count_buckets<T: Copy>(from: &[T], counts: &mut [u32], bucket: impl Fn(T) -> usize) {
    for &x in from {
        // SAFETY: the caller's buckets are below the width.
        unsafe { *counts.get_unchecked_mut(bucket(x)) += 1 };
    }
}

/// Elements that are scattered together where there are few buckets.
const TOGETHER: usize = 256;

/// Scatters the indices `first ..` of elements to the starts of their buckets, of which there are `W`. Neighbours are
/// mostly in the same bucket and would wait for a counter in memory, so the counters are kept in registers.
///
/// # Safety
/// There is space for all at `at`, and no one else writes there.
unsafe fn scatter_narrow<const W: usize, T: Copy, P: Position>(
    from: &[T],
    first: usize,
    starts: &mut [u32],
    bucket: impl Fn(T) -> usize,
    at: *mut P,
) {
    let mut staged = [[P::of(0); TOGETHER + 1]; W];
    for (turn, some) in from.chunks(TOGETHER).enumerate() {
        let mut counts = [0; W];
        for (k, &x) in (first + turn * TOGETHER..).zip(some) {
            let own = bucket(x);
            for digit in 0..W {
                staged[digit][counts[digit]] = P::of(k);
                counts[digit] += usize::from(own == digit);
            }
        }
        for digit in 0..W {
            // SAFETY: the caller's promise; the range of a digit ends where that of the next begins.
            unsafe {
                let to = at.add(starts[digit] as usize);
                std::ptr::copy_nonoverlapping(staged[digit].as_ptr(), to, counts[digit]);
            }
            starts[digit] += counts[digit] as u32;
        }
    }
}

/// Positions in order, and values where they are wanted, by counting keys, which reach this far from `low` on; what
/// is missing comes last. Pieces count and scatter their elements on all cores.
fn by_counts<T: Sortable + Sync, P: Position>(
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
    let memory = Shared(starts.as_mut_ptr().cast());
    // SAFETY: a piece has its row to itself.
    let row = |piece: usize| unsafe {
        std::slice::from_raw_parts_mut(memory.at(piece * width * size_of::<u32>()).cast::<u32>(), width)
    };
    spread(pieces, 1, true, |piece, _| count_buckets(&from[of(piece)], row(piece), bucket))?;
    let mut sum = 0;
    for digit in 0..width {
        for piece in 0..pieces {
            let start = &mut row(piece)[digit];
            sum += std::mem::replace(start, sum);
        }
    }
    let (sorted, at) = (sorted.map(|sorted| Shared(sorted as *mut u8)), Shared(at as *mut u8));
    // of floats zeros and missing values have several forms; whole numbers are known from the counts
    let moved = sorted.as_ref().filter(|_| !T::WHOLE);
    if let Some(sorted) = sorted.as_ref().filter(|_| T::WHOLE) {
        let missing = from.iter().copied().find(|x| x.missing()).unwrap_or_default();
        for digit in 0..width {
            let (first, end) = (row(0)[digit] as usize, row(0).get(digit + 1).map_or(n, |&end| end as usize));
            let value = if digit + 1 == width { missing } else { value(low + digit as u64) };
            // SAFETY: there is room for every element.
            unsafe { std::slice::from_raw_parts_mut(sorted.at(first * size_of::<T>()).cast::<T>(), end - first) }
                .fill(value);
        }
    }
    spread(pieces, 1, true, |piece, _| {
        let (starts, from, first) = (row(piece), &from[of(piece)], of(piece).start + first);
        // SAFETY: there is space for every element, and no two have the same index.
        unsafe {
            let all = at.at(0).cast::<P>();
            match (width, &moved) {
                (2, None) => return scatter_narrow::<2, T, P>(from, first, starts, bucket, all),
                (3, None) => return scatter_narrow::<3, T, P>(from, first, starts, bucket, all),
                _ => {}
            }
            for (k, &x) in (first..).zip(from) {
                let start = starts.get_unchecked_mut(bucket(x));
                if let Some(sorted) = &moved {
                    sorted.at(*start as usize * size_of::<T>()).cast::<T>().write(x);
                }
                all.add(*start as usize).write(P::of(k));
                *start += 1;
            }
        }
    })
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Values,
    Positions,
    Both,
}

/// The values in order.
fn stored<T>(cpu: &dyn Backend, like: &View, sorted: impl Iterator<Item = T>) -> Result<(Option<View>, Option<View>)> {
    let fill = |out: &mut [T]| out.iter_mut().zip(sorted).for_each(|(slot, x)| *slot = x);
    Ok((Some(made(cpu, like.dtype, like.len(), fill)?), None))
}

/// Values and positions, as far as they are wanted.
fn sort_as<T: Sortable + Sync>(
    cpu: &dyn Backend,
    values: &View,
    decreasing: bool,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    let from: &[T] = elements(values);
    let all = u64::MAX >> (64 - T::BITS);
    let key = |x: T| if decreasing { !x.key() & all } else { x.key() };
    let (low, high) = T::extremes(from);
    let (low, high) = if decreasing { (!high & all, !low & all) } else { (low, high) };
    let reach = high.saturating_sub(low);
    let bits = 64 - reach.leading_zeros();
    if wanted == Wanted::Values {
        if T::WHOLE && is_counted(from.len(), reach) {
            let mut counts = fallible::filled(0u32, reach as usize + 2)?;
            let last = counts.len() - 1;
            count_buckets(from, &mut counts, |x: T| if x.missing() { last } else { (key(x) - low) as usize });
            let fill = |mut out: &mut [T]| {
                for (digit, count) in counts.into_iter().enumerate() {
                    let (run, rest) = std::mem::take(&mut out).split_at_mut(count as usize);
                    let value = |key: u64| T::of_key(if decreasing { !key & all } else { key });
                    let missing = || from.iter().copied().find(|x| x.missing());
                    if !run.is_empty() {
                        let value = if digit == last { missing() } else { value(low + digit as u64) };
                        run.fill(value.unwrap_or_default());
                    }
                    out = rest;
                }
            };
            return Ok((Some(made(cpu, values.dtype, from.len(), fill)?), None));
        }
        // the keys themselves, where they tell the values
        let keys = from.iter().map(|&x| (key(x), x.missing() || T::of_key(x.key()).is_none()));
        let mut plain = true;
        let mut keys = ScratchVec::of(from.len(), keys.inspect(|&(_, other)| plain &= !other).map(|(key, _)| key))?;
        if plain {
            by_key(&mut keys, bits, |&key| key - low)?;
            let back = |&key: &u64| T::of_key(if decreasing { !key & all } else { key });
            return stored(cpu, values, keys.iter().filter_map(back));
        }
        let mut sorted = ScratchVec::of(from.len(), from.iter().copied().filter(|x| !x.missing()))?;
        by_key(&mut sorted, T::BITS, |&x| key(x))?;
        return stored(cpu, values, sorted.iter().chain(from.iter().filter(|x| x.missing())).copied());
    }
    let value = |key: u64| T::of_key(if decreasing { !key & all } else { key }).unwrap_or_default();
    match position_dtype(from.len()) {
        DType::Int32 => with_positions::<T, i32>(cpu, values, (low, reach), key, value, DType::Int32, wanted),
        _ => with_positions::<T, i64>(cpu, values, (low, reach), key, value, DType::Int64, wanted),
    }
}

/// Whether each of as many numbers as there are elements is there once; then `at` has their positions, counted from 1.
/// What is none mostly has a number twice among the first.
fn is_permutation<T: Sortable, P: Position>(from: &[T], number: impl Fn(T) -> usize, at: &mut [P]) -> bool {
    at.fill(P::of(0));
    (1..).zip(from).all(|(k, &x)| !x.missing() && std::mem::replace(&mut at[number(x)], P::of(k)) == P::of(0))
}

/// Sorted values, where they are wanted, and their former positions.
fn with_positions<T: Sortable + Sync, P: Position>(
    cpu: &dyn Backend,
    values: &View,
    (low, reach): (u64, u64),
    key: impl Fn(T) -> u64 + Sync,
    value: impl Fn(u64) -> T,
    position: DType,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    let from: &[T] = elements(values);
    let n = from.len();
    let sorted = (wanted == Wanted::Both).then(|| cpu.allocate(values.dtype.size() * n)).transpose()?;
    let at = cpu.allocate(position.size() * n)?;
    let address = sorted.as_ref().map(|buffer| buffer.address);
    let done = |at| {
        (
            sorted.clone().map(|buffer| View::contiguous(buffer, values.dtype, n)),
            Some(View::contiguous(at, position, n)),
        )
    };
    // positions alone go to R, which counts from 1
    let first = usize::from(wanted == Wanted::Positions);
    if wanted == Wanted::Positions && T::WHOLE && reach + 1 == n as u64 {
        // SAFETY: as for `put` below; a position is a key's distance from the first, which is less than n.
        let out = unsafe { std::slice::from_raw_parts_mut(at.address as *mut P, n) };
        if is_permutation(from, |x| (key(x) - low) as usize, out) {
            return Ok(done(at));
        }
    }
    if is_counted(n, reach) {
        by_counts::<T, P>(from, (low, reach), key, value, address, (at.address, first))?;
        return Ok(done(at));
    }
    let put = |k: usize, (x, p): (T, P)| {
        // SAFETY: the buffers are written before anyone else sees them, have room for so many, and are aligned to 64
        // bytes.
        unsafe {
            if let Some(address) = address {
                (address as *mut T).add(k).write(x);
            }
            (at.address as *mut P).add(k).write(p);
        }
    };
    let numbered = || from.iter().copied().zip((first..).map(P::of));
    let known = || numbered().filter(|(x, _)| !x.missing());
    let count = by_digits(known, n, 64 - reach.leading_zeros(), |x| key(x) - low, put)?;
    numbered().filter(|(x, _)| x.missing()).zip(count..).for_each(|(pair, k)| put(k, pair));
    Ok(done(at))
}

/// Calls `put` with the pairs in order, by the lowest `bits` of the keys, and each pair's position; equal keys stay in
/// their order. The pairs are generated when first read, and the last digit's pass puts them directly. Returns their
/// number.
fn by_digits<T: Copy, P: Position, I: Iterator<Item = (T, P)>>(
    pairs: impl Fn() -> I,
    most: usize,
    bits: u32,
    key: impl Fn(T) -> u64,
    put: impl Fn(usize, (T, P)),
) -> Result<usize> {
    let mut last = 0;
    if pairs().map(|(x, _)| key(x)).all(|key| std::mem::replace(&mut last, key) <= key) {
        return Ok(pairs().enumerate().map(|(k, pair)| put(k, pair)).count());
    }
    if most < RADIX_FROM {
        let mut all: Vec<(T, P)> = fallible::collected(pairs())?;
        all.sort_by_key(|&(x, _)| key(x));
        all.iter().enumerate().for_each(|(k, &pair)| put(k, pair));
        return Ok(all.len());
    }
    let rest = left_out(most, bits);
    let passes = (bits - rest).div_ceil(digit(most));
    let width = (bits - rest).div_ceil(passes);
    let of = |x: T, pass: u32| (key(x) >> (rest + pass * width)) as usize & ((1 << width) - 1);
    let (mut counts, mut count) = (fallible::filled(0usize, (passes as usize) << width)?, 0);
    for (x, _) in pairs() {
        (0..passes).for_each(|pass| counts[((pass as usize) << width) + of(x, pass)] += 1);
        count += 1;
    }
    // a digit that all share is passed over
    let differ = |pass: &u32| !counts[(*pass as usize) << width..][..1 << width].contains(&count);
    let differing: Vec<u32> = (0..passes).filter(differ).collect();
    // pairs of one digit go where they belong at once
    let kept = if rest > 0 || differing.len() > 1 { count } else { 0 };
    let (mut now, mut next) = (ScratchVec::<(T, P)>::new(kept)?, ScratchVec::new(kept)?);
    for (turn, &pass) in differing.iter().enumerate() {
        let starts = &mut counts[(pass as usize) << width..][..1 << width];
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
        let mut bucket = |x: T| {
            let start = &mut starts[of(x, pass)];
            std::mem::replace(start, *start + 1)
        };
        let ends = rest == 0 && turn + 1 == differing.len();
        let slots = next.slots();
        let mut move_on = |pair: (T, P)| match (bucket(pair.0), ends) {
            (k, true) => put(k, pair),
            (k, false) => _ = slots[k].write(pair),
        };
        if turn == 0 {
            pairs().for_each(&mut move_on);
        } else {
            now.iter().copied().for_each(&mut move_on);
        }
        if !ends {
            // SAFETY: each of the pairs was written to an index of its own.
            unsafe { next.set_len(count) };
            std::mem::swap(&mut now, &mut next);
        }
    }
    if rest > 0 {
        if differing.is_empty() {
            now = ScratchVec::of(count, pairs())?;
        }
        finish(&mut now, rest, |&(x, _)| key(x));
        now.iter().enumerate().for_each(|(k, &pair)| put(k, pair));
    }
    Ok(count)
}

pub fn sort(cpu: &dyn Backend, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
    let wanted = if with_positions { Wanted::Both } else { Wanted::Values };
    let (sorted, at) = of_dtype(cpu, values, decreasing, wanted)?;
    Ok((sorted.expect("values were asked for"), at))
}

pub fn order(cpu: &dyn Backend, values: &View, decreasing: bool) -> Result<View> {
    Ok(of_dtype(cpu, values, decreasing, Wanted::Positions)?.1.expect("positions were asked for"))
}

fn of_dtype(
    cpu: &dyn Backend,
    values: &View,
    decreasing: bool,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    match values.dtype {
        // NA is 2, and so already last; a decreasing order needs it last too
        DType::Bool8 if decreasing => {
            let recoded = |from: &View, dtype, code: fn(u8) -> u8| {
                made::<u8>(cpu, dtype, from.len(), |out| {
                    out.iter_mut().zip(elements::<u8>(from)).for_each(|(to, &x)| *to = code(x));
                })
            };
            // as int8, whose NA is the smallest value
            let wide = recoded(values, DType::Int8, |x| if x == 2 { i8::MIN as u8 } else { x })?;
            let (sorted, at) = sort_as::<i8>(cpu, &wide, decreasing, wanted)?;
            let back = |view: View| recoded(&view, DType::Bool8, |x| if x == i8::MIN as u8 { 2 } else { x });
            Ok((sorted.map(back).transpose()?, at))
        }
        DType::Bool8 | DType::UInt8 => sort_as::<u8>(cpu, values, decreasing, wanted),
        DType::Int8 => sort_as::<i8>(cpu, values, decreasing, wanted),
        DType::Int16 => sort_as::<i16>(cpu, values, decreasing, wanted),
        DType::Int32 => sort_as::<i32>(cpu, values, decreasing, wanted),
        DType::Int64 => sort_as::<i64>(cpu, values, decreasing, wanted),
        DType::Float16 => sort_as::<half::f16>(cpu, values, decreasing, wanted),
        DType::BFloat16 => sort_as::<half::bf16>(cpu, values, decreasing, wanted),
        DType::Float32 => sort_as::<f32>(cpu, values, decreasing, wanted),
        DType::Float64 => sort_as::<f64>(cpu, values, decreasing, wanted),
        DType::Complex64 | DType::Complex128 => {
            Err(Error::new(Kind::DType, "complex values are not sorted on the device")
                .advise("Sort on the host: `sort(as.vector(x))`."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_values_do() {
        let x = [f64::NEG_INFINITY, -1e300, -1.0, -5e-324, 0.0, 5e-324, 2.0, f64::INFINITY];
        assert!(x.windows(2).all(|w| w[0].key() < w[1].key()));
        assert_eq!((-0.0f64).key(), 0.0f64.key());
        assert!((-5i32).key() < 3i32.key() && i32::MIN.key() == 0 && i64::MAX.key() == u64::MAX);
    }

    #[test]
    fn long_keys_are_sorted_to_their_last_bit() {
        // most in one run, some in several, some that all bits tell apart
        for n in [300u64, 5000, 1 << 18] {
            let key = |k: u64| (k * 7919 % n) << (k % 5 * 11) | u64::from(k == 7) << 62;
            let pairs = |k: u64| (key(k) as i64, k as i32);
            let mut wanted: Vec<_> = (0..n).map(pairs).collect();
            let items = wanted.clone();
            wanted.sort_by_key(|&(x, _)| x);
            let found = std::cell::RefCell::new(vec![(0, 0); n as usize]);
            let put = |k: usize, pair| found.borrow_mut()[k] = pair;
            by_digits(|| items.iter().copied(), n as usize, 63, |x| x as u64, put).unwrap();
            assert_eq!(*found.borrow(), wanted);
            let mut sorted = ScratchVec::of(items.len(), items.iter().copied()).unwrap();
            by_key(&mut sorted, 63, |&(x, _)| x as u64).unwrap();
            assert_eq!(*sorted, *wanted);
        }
    }

    #[test]
    fn many_items_stay_in_order_where_keys_are_equal() {
        let pairs = (0..5000).map(|k| ((k * 7919 % 100) as u64 * 1_000_003, k));
        let (mut items, mut wanted) =
            (ScratchVec::of(5000, pairs.clone()).unwrap(), pairs.collect::<Vec<(u64, usize)>>());
        by_key(&mut items, 64, |i| i.0).unwrap();
        wanted.sort_by_key(|i| i.0);
        assert_eq!(*items, *wanted);
    }
}
