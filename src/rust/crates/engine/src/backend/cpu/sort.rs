//! Sorting on the cpu device: a radix sort of keys, least significant digit first. It is stable, and reads each element
//! a fixed number of times (Knuth, TAOCP 5.2.5).

use std::ops::Range;

use super::counting_sort::{by_counts, count_buckets, is_counted};
use super::gather::{elements, made};
use super::memory::ScratchVec;
use super::sort_keys::{extremes, Position, Sortable};
use crate::backend::{position_dtype, Backend};
use crate::memory::buffer::View;
use crate::memory::fallible;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::{parts, Watch};
use verdigris_ops::parallel::stoppable;
use verdigris_ops::with_real_type;

/// Bits of a digit. 2048 counters fit the first-level cache. Short inputs use 256 counters, because everything then
/// fits the second-level cache.
const fn digit(n: usize) -> u32 {
    if n < 1 << 16 {
        8
    } else {
        11
    }
}
/// Fewer elements are sorted by comparisons: a radix sort first clears and sums its counters.
const RADIX_FROM: usize = 256;

/// How many of the lowest bits of a long key the radix passes leave out. Few elements mostly agree in all other bits;
/// those are then sorted among themselves.
const fn left_out(n: usize, bits: u32) -> u32 {
    let sorted_by = 32u32.next_multiple_of(digit(n));
    if bits < sorted_by + digit(n) {
        return 0;
    }
    bits - sorted_by
}

/// Longer runs of items that differ only in the lowest bits of their keys are radix sorted too.
const LONG_RUN: usize = 1 << 18;

/// Completes the sort of items that are in order except for the lowest `rest` bits of their keys.
fn finish<E: Copy>(items: &mut [E], rest: u32, key: impl Fn(&E) -> u64) -> Result<()> {
    if rest == 0 {
        return Ok(());
    }
    let mut watch = Watch::new();
    for (turn, run) in items.chunk_by_mut(|a, b| key(a) >> rest == key(b) >> rest).enumerate() {
        if turn % 1024 == 0 || run.len() > 1024 {
            watch.check()?;
        }
        if run.len() > LONG_RUN {
            let mut own = ScratchVec::of(run.len(), run.iter().copied())?;
            by_passes(&mut own, rest, 0, |item| key(item) & ((1 << rest) - 1))?;
            run.copy_from_slice(&own);
        } else if run.len() > 1 {
            run.sort_by_key(&key);
        }
    }
    Ok(())
}

/// Sorts by the lowest `bits` of `key`. The sort is stable.
fn by_key<E: Copy>(items: &mut ScratchVec<E>, bits: u32, key: impl Fn(&E) -> u64) -> Result<()> {
    if items.len() < RADIX_FROM {
        items.sort_by_key(key);
        return Ok(());
    }
    let rest = left_out(items.len(), bits);
    by_passes(items, bits, rest, &key)?;
    finish(items, rest, key)
}

/// Sorts by the bits of `key` from `rest` up to `bits`.
fn by_passes<E: Copy>(items: &mut ScratchVec<E>, bits: u32, rest: u32, key: impl Fn(&E) -> u64) -> Result<()> {
    let width = digit(items.len());
    let (passes, mask) = ((bits - rest).div_ceil(width), (1usize << width) - 1);
    let mut counts = fallible::filled(0usize, (passes as usize) << width)?;
    for part in parts(items.len()) {
        for item in &items[part?] {
            let key = key(item) >> rest;
            for pass in 0..passes {
                counts[((pass as usize) << width) + ((key >> (pass * width)) as usize & mask)] += 1;
            }
        }
    }
    let mut other = ScratchVec::new(items.len())?;
    for pass in 0..passes {
        let starts = &mut counts[(pass as usize) << width..][..1 << width];
        if starts.contains(&items.len()) {
            continue; // all items have this digit
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
        let slots = other.slots();
        for part in parts(items.len()) {
            for item in &items[part?] {
                let start = &mut starts[(key(item) >> (rest + pass * width)) as usize & mask];
                slots[*start].write(*item);
                *start += 1;
            }
        }
        // SAFETY: each item was written to an index of its own.
        unsafe { other.set_len(items.len()) };
        std::mem::swap(items, &mut other);
    }
    Ok(())
}

/// What the caller wants.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Values,
    Positions,
    Both,
}

/// A view of the sorted values.
fn stored<T>(
    cpu: &dyn Backend,
    like: &View,
    mut sorted: impl Iterator<Item = T>,
) -> Result<(Option<View>, Option<View>)> {
    let fill = |out: &mut [T]| {
        parts(out.len()).try_for_each(|part| {
            out[part?].iter_mut().zip(sorted.by_ref()).for_each(|(slot, x)| *slot = x);
            Ok(())
        })
    };
    Ok((Some(made(cpu, like.dtype, like.len(), fill)?), None))
}

/// Sorted values and positions, as far as they are wanted.
fn sort_as<T: Sortable + Sync>(
    cpu: &dyn Backend,
    values: &View,
    decreasing: bool,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    let from: &[T] = elements(values);
    let all = u64::MAX >> (64 - T::BITS);
    let key = |x: T| if decreasing { !x.key() & all } else { x.key() };
    let (low, high) = extremes(from)?;
    let (low, high) = if decreasing { (!high & all, !low & all) } else { (low, high) };
    let reach = high.saturating_sub(low);
    let bits = 64 - reach.leading_zeros();
    if wanted == Wanted::Values {
        if T::WHOLE && is_counted(from.len(), reach) {
            let mut counts = fallible::filled(0u32, reach as usize + 2)?;
            let last = counts.len() - 1;
            let bucket = |x: T| if x.missing() { last } else { (key(x) - low) as usize };
            stoppable(|| count_buckets(from, &mut counts, bucket))?;
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
                Ok(())
            };
            return Ok((Some(made(cpu, values.dtype, from.len(), fill)?), None));
        }
        // Sort the keys themselves, if they determine the values.
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

/// Whether each of as many integers as there are elements occurs exactly once; `at` then holds their 1-based positions.
/// Integers that are no permutation mostly have a duplicate early, so this ends early.
fn is_permutation<T: Sortable, P: Position>(from: &[T], number: impl Fn(T) -> usize, at: &mut [P]) -> Result<bool> {
    parts(at.len()).try_for_each(|part| part.map(|part| at[part].fill(P::of(0))))?;
    let mut is_new = |(k, &x): (usize, &T)| !x.missing() && std::mem::replace(&mut at[number(x)], P::of(k)) == P::of(0);
    for part in parts(from.len()) {
        let part = part?;
        if !(part.start + 1..).zip(&from[part]).all(&mut is_new) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sorted values, if wanted, and their former positions.
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
    // Positions alone are returned to R, so they are 1-based.
    let first = usize::from(wanted == Wanted::Positions);
    if wanted == Wanted::Positions && T::WHOLE && reach + 1 == n as u64 {
        // SAFETY: as for `put` below; the position is a key's distance from the lowest, which is less than n.
        let out = unsafe { std::slice::from_raw_parts_mut(at.address as *mut P, n) };
        if is_permutation(from, |x| (key(x) - low) as usize, out)? {
            return Ok(done(at));
        }
    }
    if is_counted(n, reach) {
        by_counts::<T, P>(from, (low, reach), key, value, address, (at.address, first))?;
        return Ok(done(at));
    }
    let put = |k: usize, (x, p): (T, P)| {
        // SAFETY: the buffers are written before anyone else sees them, have space for n elements, and are aligned to
        // 64 bytes.
        unsafe {
            if let Some(address) = address {
                (address as *mut T).add(k).write(x);
            }
            (at.address as *mut P).add(k).write(p);
        }
    };
    let numbered = |part: Range<usize>| {
        let positions = (first + part.start..).map(P::of);
        from[part].iter().copied().zip(positions)
    };
    let known = |part| numbered(part).filter(|(x, _)| !x.missing());
    let mut k = by_digits(known, n, 64 - reach.leading_zeros(), |x| key(x) - low, put)?;
    for part in parts(n) {
        for pair in numbered(part?).filter(|(x, _)| x.missing()) {
            put(k, pair);
            k += 1;
        }
    }
    Ok(done(at))
}

/// Calls `put` with each pair and its place in the order of the lowest `bits` of the keys. The sort is stable. `pairs`
/// generates the pairs of a part of `0 .. most`; the last pass passes them directly to `put`. Returns the number of
/// pairs.
fn by_digits<T: Copy, P: Position, I: Iterator<Item = (T, P)>>(
    pairs: impl Fn(Range<usize>) -> I,
    most: usize,
    bits: u32,
    key: impl Fn(T) -> u64,
    put: impl Fn(usize, (T, P)),
) -> Result<usize> {
    let (mut last, mut sorted, mut count) = (0, true, 0);
    for part in parts(most) {
        sorted = pairs(part?).map(|(x, _)| key(x)).all(|key| std::mem::replace(&mut last, key) <= key);
        if !sorted {
            break;
        }
    }
    if sorted {
        for part in parts(most) {
            for pair in pairs(part?) {
                put(count, pair);
                count += 1;
            }
        }
        return Ok(count);
    }
    if most < RADIX_FROM {
        let mut all: Vec<(T, P)> = fallible::collected(pairs(0..most))?;
        all.sort_by_key(|&(x, _)| key(x));
        all.iter().enumerate().for_each(|(k, &pair)| put(k, pair));
        return Ok(all.len());
    }
    let rest = left_out(most, bits);
    let passes = (bits - rest).div_ceil(digit(most));
    let width = (bits - rest).div_ceil(passes);
    let of = |x: T, pass: u32| (key(x) >> (rest + pass * width)) as usize & ((1 << width) - 1);
    let mut counts = fallible::filled(0usize, (passes as usize) << width)?;
    for part in parts(most) {
        for (x, _) in pairs(part?) {
            (0..passes).for_each(|pass| counts[((pass as usize) << width) + of(x, pass)] += 1);
            count += 1;
        }
    }
    // A digit that all keys share needs no pass.
    let differ = |pass: &u32| !counts[(*pass as usize) << width..][..1 << width].contains(&count);
    let differing: Vec<u32> = (0..passes).filter(differ).collect();
    // With a single pass, pairs are put in their place at once.
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
        for part in parts(if turn == 0 { most } else { count }) {
            match turn {
                0 => pairs(part?).for_each(&mut move_on),
                _ => now[part?].iter().copied().for_each(&mut move_on),
            }
        }
        if !ends {
            // SAFETY: each pair was written to an index of its own.
            unsafe { next.set_len(count) };
            std::mem::swap(&mut now, &mut next);
        }
    }
    if rest > 0 {
        if differing.is_empty() {
            now = ScratchVec::of(count, pairs(0..most))?;
        }
        finish(&mut now, rest, |&(x, _)| key(x))?;
        for part in parts(count) {
            part?.for_each(|k| put(k, now[k]));
        }
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
        // NA is 2, so it is last in increasing order. In decreasing order it must be last too.
        DType::Bool8 if decreasing => {
            let recoded = |from: &View, dtype, code: fn(u8) -> u8| {
                made::<u8>(cpu, dtype, from.len(), |out| {
                    out.iter_mut().zip(elements::<u8>(from)).for_each(|(to, &x)| *to = code(x));
                    Ok(())
                })
            };
            // Sorted as int8, whose NA is the smallest value.
            let wide = recoded(values, DType::Int8, |x| if x == 2 { i8::MIN as u8 } else { x })?;
            let (sorted, at) = sort_as::<i8>(cpu, &wide, decreasing, wanted)?;
            let back = |view: View| recoded(&view, DType::Bool8, |x| if x == i8::MIN as u8 { 2 } else { x });
            Ok((sorted.map(back).transpose()?, at))
        }
        dtype => with_real_type!(dtype, T => sort_as::<T>(cpu, values, decreasing, wanted)).unwrap_or_else(|| {
            Err(Error::new(Kind::DType, "complex values are not sorted on the device")
                .advise("Sort on the host: `sort(as.vector(x))`."))
        }),
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
        // most keys in one run, some in several runs, some that differ in high bits
        for n in [300u64, 5000, 1 << 18] {
            let key = |k: u64| (k * 7919 % n) << (k % 5 * 11) | u64::from(k == 7) << 62;
            let pairs = |k: u64| (key(k) as i64, k as i32);
            let mut wanted: Vec<_> = (0..n).map(pairs).collect();
            let items = wanted.clone();
            wanted.sort_by_key(|&(x, _)| x);
            let found = std::cell::RefCell::new(vec![(0, 0); n as usize]);
            let put = |k: usize, pair| found.borrow_mut()[k] = pair;
            by_digits(|part| items[part].iter().copied(), n as usize, 63, |x| x as u64, put).unwrap();
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
