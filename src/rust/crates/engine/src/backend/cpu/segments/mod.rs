//! Operations on segments, which represent sparse matrices, on the cpu device. Results do not depend on the number of
//! threads: pieces are cut by the elements alone, and their partial results are added in order.

mod multiply;
mod path;
mod products;
mod reduce;
mod sampled;
mod solve;
mod transpose;

pub use multiply::multiply;
pub use products::products;
pub use reduce::reduce;
pub use sampled::sampled;
pub use solve::solve;
pub use transpose::{expand, transpose};

use verdigris_ops::scalar::NA_F64;

/// A type of the values of sparse matrices. Sums are computed in float64.
pub trait Real: Copy + Default + Sync + Send + 'static {
    /// The value to use where an element is missing.
    const MISSING: Self;
    fn wide(self) -> f64;
    fn of(sum: f64) -> Self;
}
impl Real for f32 {
    const MISSING: f32 = f32::NAN;
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn of(sum: f64) -> f32 {
        sum as f32
    }
}
impl Real for f64 {
    const MISSING: f64 = NA_F64;
    fn wide(self) -> f64 {
        self
    }
    fn of(sum: f64) -> f64 {
        sum
    }
}

/// Calls a function with the types of offsets and values.
macro_rules! by_types {
    ($segments:expr, $values:expr, $function:ident($($argument:expr),*)) => {
        match ($segments.offsets.dtype, $values) {
            (DType::Int64, DType::Float32) => $function::<i64, f32>($($argument),*),
            (DType::Int64, _) => $function::<i64, f64>($($argument),*),
            (_, DType::Float32) => $function::<i32, f32>($($argument),*),
            _ => $function::<i32, f64>($($argument),*),
        }
    };
}
use by_types;

/// Whether x is R's NA, and not another NaN.
fn is_na(x: f64) -> bool {
    x.is_nan() && x.to_bits() as u32 == 1954
}

/// The sum or product `result` of `a` and `b`; if it is NaN, it is NA if one of them is NA.
#[inline]
fn kept(result: f64, a: f64, b: f64) -> f64 {
    if result.is_nan() {
        missing(is_na(a) || is_na(b))
    } else {
        result
    }
}

/// NA, or a NaN that is not NA.
#[cold]
fn missing(na: bool) -> f64 {
    if na {
        NA_F64
    } else {
        f64::NAN
    }
}
