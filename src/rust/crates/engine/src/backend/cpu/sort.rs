//! Sorting on the cpu: by the bits of a key, least significant digit first, which is stable and looks at each element a fixed number of
//! times (Knuth, TAOCP 5.2.5).

use super::parallel::spread;
use super::select::elements;
use crate::array::Array;
use crate::backend::{place_dtype, Backend};
use crate::buffer::View;
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::scalar::{NA_I32, NA_I64};
use crate::transfer::Shared;

/// Bits of a digit: 2048 counters stay in the first-level cache, and where everything is in the second, the places that 256 of
/// them count do too.
const fn digit(n: usize) -> u32 {
    if n < 1 << 18 {
        8
    } else {
        11
    }
}
/// Fewer elements are sorted by comparing keys.
const FEW: usize = 256;

/// How a type sorts: by an unsigned key; missing values last either way.
pub(super) trait Sortable: Copy + Default {
    const BITS: u32;
    /// Each key but that of what is missing is one value's, and what is missing is one value.
    const WHOLE: bool;
    fn missing(self) -> bool;
    fn key(self) -> u64;
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
            // positive numbers grow with their bits, negative ones fall; -0 equals 0
            fn key(self) -> u64 {
                let (bits, sign) = (u64::from(self.to_bits()), 1u64 << ($bits - 1));
                if bits == sign {
                    sign
                } else if bits & sign != 0 {
                    !bits & (sign | (sign - 1))
                } else {
                    bits | sign
                }
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

/// Sorts by `key`, of which the lowest `bits` count; equal keys stay in their order.
fn by_key<E: Copy>(items: &mut Vec<E>, bits: u32, key: impl Fn(&E) -> u64) {
    if items.len() < FEW {
        items.sort_by_key(key);
        return;
    }
    let width = digit(items.len());
    let (passes, mask) = (bits.div_ceil(width), (1usize << width) - 1);
    let mut counts = vec![0usize; (passes as usize) << width];
    for item in items.iter() {
        let key = key(item);
        for pass in 0..passes {
            counts[((pass as usize) << width) + ((key >> (pass * width)) as usize & mask)] += 1;
        }
    }
    let mut other = items.clone();
    for pass in 0..passes {
        let starts = &mut counts[(pass as usize) << width..][..1 << width];
        if starts.contains(&items.len()) {
            continue; // all have this digit
        }
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
        for item in items.iter() {
            let start = &mut starts[(key(item) >> (pass * width)) as usize & mask];
            other[*start] = *item;
            *start += 1;
        }
        std::mem::swap(items, &mut other);
    }
}

pub(super) fn bytes_of<T>(x: &[T]) -> &[u8] {
    // SAFETY: plain numbers may be read as bytes.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), std::mem::size_of_val(x)) }
}

/// The smallest key, and how many bits tell the keys apart from there on.
fn reach(keys: impl Iterator<Item = u64>) -> (u64, u32) {
    let (low, high) = keys.fold((u64::MAX, 0), |(low, high), key| (low.min(key), high.max(key)));
    (low, 64 - high.saturating_sub(low).leading_zeros())
}
/// Keys of so many bits are counted.
const COUNTED: u32 = 16;

/// Elements of a piece that counts by itself, at least.
const PIECE: usize = 1 << 17;

/// A position: int32 where that reaches (`place_dtype`).
trait Place: Copy {
    fn of(k: usize) -> Self;
}
impl Place for i32 {
    fn of(k: usize) -> i32 {
        k as i32
    }
}
impl Place for i64 {
    fn of(k: usize) -> i64 {
        k as i64
    }
}

/// Places in order, and values where there is room for them, by counting keys, which reach `1 << bits` from `low` on; what is missing
/// comes last. Pieces count and place their elements on all cores.
fn by_counts<T: Sortable + Sync, P: Place>(
    from: &[T],
    (low, bits): (u64, u32),
    key: impl Fn(T) -> u64 + Sync,
    value: impl Fn(u64) -> T,
    sorted: Option<u64>,
    (at, first): (u64, usize),
) -> Result<()> {
    let (n, width) = (from.len(), (1usize << bits) + 1);
    let pieces = (n / PIECE.max(2 * width)).clamp(1, 16);
    let each = n.div_ceil(pieces);
    let place = |x: T| if x.missing() { width - 1 } else { (key(x) - low) as usize };
    let of = |piece: usize| (piece * each).min(n)..((piece + 1) * each).min(n);
    let mut starts = vec![0usize; pieces * width];
    let memory = Shared(starts.as_mut_ptr().cast());
    // SAFETY: a piece has its row to itself.
    let row = |piece: usize| unsafe {
        std::slice::from_raw_parts_mut(memory.at(piece * width * size_of::<usize>()).cast::<usize>(), width)
    };
    spread(pieces, 1, true, |piece, _| {
        let counts = row(piece);
        from[of(piece)].iter().for_each(|&x| counts[place(x)] += 1);
    })?;
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
            let (first, end) = (row(0)[digit], row(0).get(digit + 1).copied().unwrap_or(n));
            let value = if digit + 1 == width { missing } else { value(low + digit as u64) };
            // SAFETY: there is room for every element.
            unsafe { std::slice::from_raw_parts_mut(sorted.at(first * size_of::<T>()).cast::<T>(), end - first) }
                .fill(value);
        }
    }
    spread(pieces, 1, true, |piece, _| {
        let starts = row(piece);
        for k in of(piece) {
            let start = &mut starts[place(from[k])];
            // SAFETY: both have room for every element, and no two have the same place.
            unsafe {
                if let Some(sorted) = moved {
                    sorted.at(*start * size_of::<T>()).cast::<T>().write(from[k]);
                }
                at.at(*start * size_of::<P>()).cast::<P>().write(P::of(k + first));
            }
            *start += 1;
        }
    })
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Values,
    Places,
    Both,
}

/// Values and places, of which those that are wanted are there.
fn sort_as<T: Sortable + Sync>(
    cpu: &dyn Backend,
    values: &View,
    decreasing: bool,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    let from: &[T] = elements(values);
    let all = u64::MAX >> (64 - T::BITS);
    let key = |x: T| if decreasing { !x.key() & all } else { x.key() };
    let keep = |raw: &[u8], dtype: DType| -> Result<View> {
        let n = raw.len() / dtype.size();
        let buffer = cpu.allocate(raw.len())?;
        cpu.upload(raw, &buffer, 0)?;
        Ok(View::contiguous(buffer, dtype, n))
    };
    if wanted == Wanted::Values {
        // the keys themselves, where they tell the values
        let keys = from.iter().map(|&x| (key(x), x.missing() || T::of_key(x.key()).is_none()));
        let mut plain = true;
        let mut keys: Vec<u64> = keys.inspect(|&(_, other)| plain &= !other).map(|(key, _)| key).collect();
        if plain {
            let (low, bits) = reach(keys.iter().copied());
            if bits <= COUNTED && keys.len() >> bits.saturating_sub(4) > 0 {
                let mut counts = vec![0usize; 1 << bits];
                keys.iter().for_each(|key| counts[(key - low) as usize] += 1);
                let mut room = keys.as_mut_slice();
                for (key, count) in counts.into_iter().enumerate() {
                    let (run, rest) = std::mem::take(&mut room).split_at_mut(count);
                    run.fill(low + key as u64);
                    room = rest;
                }
            } else {
                by_key(&mut keys, bits, |&key| key - low);
            }
            let back = |key: u64| T::of_key(if decreasing { !key & all } else { key });
            let sorted: Vec<T> = keys.into_iter().filter_map(back).collect();
            return Ok((Some(keep(bytes_of(&sorted), values.dtype)?), None));
        }
        let mut sorted: Vec<T> = from.iter().copied().filter(|x| !x.missing()).collect();
        by_key(&mut sorted, T::BITS, |&x| key(x));
        sorted.extend(from.iter().filter(|x| x.missing()));
        return Ok((Some(keep(bytes_of(&sorted), values.dtype)?), None));
    }
    let value = |key: u64| T::of_key(if decreasing { !key & all } else { key }).unwrap_or_default();
    match place_dtype(from.len()) {
        DType::Int32 => with_places::<T, i32>(cpu, values, key, value, DType::Int32, wanted),
        _ => with_places::<T, i64>(cpu, values, key, value, DType::Int64, wanted),
    }
}

/// Values in order, where they are wanted, and the places that they had.
fn with_places<T: Sortable + Sync, P: Place>(
    cpu: &dyn Backend,
    values: &View,
    key: impl Fn(T) -> u64 + Sync,
    value: impl Fn(u64) -> T,
    place: DType,
    wanted: Wanted,
) -> Result<(Option<View>, Option<View>)> {
    let from: &[T] = elements(values);
    let n = from.len();
    let sorted = (wanted == Wanted::Both).then(|| cpu.allocate(values.dtype.size() * n)).transpose()?;
    let at = cpu.allocate(place.size() * n)?;
    let address = sorted.as_ref().map(|buffer| buffer.address);
    let done = |at| {
        (sorted.clone().map(|buffer| View::contiguous(buffer, values.dtype, n)), Some(View::contiguous(at, place, n)))
    };
    // places alone are what R is given, which counts from 1
    let first = usize::from(wanted == Wanted::Places);
    let (low, bits) = reach(from.iter().filter(|x| !x.missing()).map(|&x| key(x)));
    if bits <= COUNTED && from.len() >> bits.saturating_sub(4) > 0 {
        by_counts::<T, P>(from, (low.min(u64::MAX >> (64 - T::BITS)), bits), key, value, address, (at.address, first))?;
        return Ok(done(at));
    }
    let put = |k: usize, (x, p): (T, P)| {
        // SAFETY: the buffers are written before anyone else sees them, have room for so many, and are aligned to 64 bytes.
        unsafe {
            if let Some(address) = address {
                (address as *mut T).add(k).write(x);
            }
            (at.address as *mut P).add(k).write(p);
        }
    };
    let placed = || from.iter().copied().zip((first..).map(P::of));
    let known = || placed().filter(|(x, _)| !x.missing());
    let count = by_digits(known, from.len(), bits, |x| key(x) - low, put);
    placed().filter(|(x, _)| x.missing()).zip(count..).for_each(|(pair, k)| put(k, pair));
    Ok(done(at))
}

/// Hands pairs, of which the lowest `bits` of the keys count, to `put` in order, each with its place there; equal keys stay in their
/// order. The pairs are made where they are first looked at, and the last digit puts them where they belong. Returns how many.
fn by_digits<T: Copy, P: Place, I: Iterator<Item = (T, P)>>(
    pairs: impl Fn() -> I,
    most: usize,
    bits: u32,
    key: impl Fn(T) -> u64,
    put: impl Fn(usize, (T, P)),
) -> usize {
    let mut last = 0;
    if pairs().map(|(x, _)| key(x)).all(|key| std::mem::replace(&mut last, key) <= key) {
        return pairs().enumerate().map(|(k, pair)| put(k, pair)).count();
    }
    if most < FEW {
        let mut all: Vec<(T, P)> = pairs().collect();
        all.sort_by_key(|&(x, _)| key(x));
        all.iter().enumerate().for_each(|(k, &pair)| put(k, pair));
        return all.len();
    }
    let passes = bits.div_ceil(digit(most));
    let width = bits.div_ceil(passes);
    let of = |x: T, pass: u32| (key(x) >> (pass * width)) as usize & ((1 << width) - 1);
    let (mut counts, mut count) = (vec![0usize; (passes as usize) << width], 0);
    for (x, _) in pairs() {
        (0..passes).for_each(|pass| counts[((pass as usize) << width) + of(x, pass)] += 1);
        count += 1;
    }
    // a digit that all share is passed over; one differs, since they are not in order
    let differ = |pass: &u32| !counts[(*pass as usize) << width..][..1 << width].contains(&count);
    let differing: Vec<u32> = (0..passes).filter(differ).collect();
    let [mut now, mut next] = [const { Vec::<(T, P)>::new() }; 2];
    for (turn, &pass) in differing.iter().enumerate() {
        let starts = &mut counts[(pass as usize) << width..][..1 << width];
        let mut sum = 0;
        for start in starts.iter_mut() {
            sum += std::mem::replace(start, sum);
        }
        let mut place = |x: T| {
            let start = &mut starts[of(x, pass)];
            std::mem::replace(start, *start + 1)
        };
        let ends = turn + 1 == differing.len();
        next.reserve(if ends { 0 } else { count });
        let room = next.spare_capacity_mut();
        let mut move_on = |pair: (T, P)| match (place(pair.0), ends) {
            (k, true) => put(k, pair),
            (k, false) => _ = room[k].write(pair),
        };
        if turn == 0 {
            pairs().for_each(&mut move_on);
        } else {
            now.iter().copied().for_each(&mut move_on);
        }
        if !ends {
            // SAFETY: each of the pairs was written to a place of its own.
            unsafe { next.set_len(count) };
            std::mem::swap(&mut now, &mut next);
            next.clear();
        }
    }
    count
}

pub fn sort(cpu: &dyn Backend, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
    let wanted = if with_positions { Wanted::Both } else { Wanted::Values };
    let (sorted, at) = of_dtype(cpu, values, decreasing, wanted)?;
    Ok((sorted.expect("values were asked for"), at))
}

pub fn order(cpu: &dyn Backend, values: &View, decreasing: bool) -> Result<View> {
    Ok(of_dtype(cpu, values, decreasing, Wanted::Places)?.1.expect("places were asked for"))
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
            let wide = Array::from_view(values.clone()).cast(DType::Int8, None)?.contiguous()?;
            let (sorted, at) = sort_as::<i8>(cpu, &wide, decreasing, wanted)?;
            let back = |view| Array::from_view(view).cast(DType::Bool8, None)?.contiguous();
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
    fn many_items_stay_in_order_where_keys_are_equal() {
        let mut items: Vec<(u64, usize)> = (0..5000).map(|k| ((k * 7919 % 100) as u64 * 1_000_003, k)).collect();
        let mut wanted = items.clone();
        by_key(&mut items, 64, |i| i.0);
        wanted.sort_by_key(|i| i.0);
        assert_eq!(items, wanted);
    }
}
