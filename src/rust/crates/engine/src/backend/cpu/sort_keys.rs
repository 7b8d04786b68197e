//! Sort keys of the cpu device: an unsigned integer for each value of each type, and the types of positions.

use verdigris_ops::error::Result;
use verdigris_ops::interrupt::parts;
use verdigris_ops::scalar::{NA_I32, NA_I64};

/// A sortable type: values are ordered by an unsigned key, and missing values come last in either direction.
pub(super) trait Sortable: Copy + Default {
    const BITS: u32;
    /// Whether each key belongs to one value, and there is only one missing value.
    const WHOLE: bool;
    fn missing(self) -> bool;
    fn key(self) -> u64;
    /// The smallest and the largest key of the values that are not missing. If there are none, the first is greater
    /// than the second.
    fn extremes(from: &[Self]) -> (u64, u64) {
        let keys = from.iter().filter(|x| !x.missing()).map(|x| x.key());
        keys.fold((u64::MAX >> (64 - Self::BITS), 0), |(low, high), key| (low.min(key), high.max(key)))
    }
    /// The value of this key; None for the key of zero, which both zeros of a float have.
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
            // Computed in the type itself, so that SIMD registers hold more lanes. The missing value is the smallest.
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
    u16, 16, |_x| false;
    u32, 32, |_x| false;
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
            // The bits of positive floats increase with the value, those of negative ones decrease; -0 equals 0.
            // Branchless, since signs are unpredictable.
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

/// The smallest and the largest key of all elements, as `Sortable::extremes`.
pub(super) fn extremes<T: Sortable>(from: &[T]) -> Result<(u64, u64)> {
    let mut all = T::extremes(&[]);
    for part in parts(from.len()) {
        let (low, high) = T::extremes(&from[part?]);
        all = (all.0.min(low), all.1.max(high));
    }
    Ok(all)
}

pub(super) fn bytes_of<T>(x: &[T]) -> &[u8] {
    // SAFETY: plain numbers may be read as bytes.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), std::mem::size_of_val(x)) }
}

/// A type of positions: int32 if long enough, else int64 (`position_dtype`).
pub(super) trait Position: Copy + PartialEq {
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
