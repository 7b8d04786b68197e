//! Operations on segments, of which sparse matrices are made, on the cpu device. Results depend on no number of
//! threads: pieces are cut by the elements alone, and what is left of each is added in their order.

mod multiply;
mod path;
mod products;
mod reduce;
mod sampled;
mod solve;
mod turn;

pub use multiply::multiply;
pub use products::products;
pub use reduce::reduce;
pub use sampled::sampled;
pub use solve::solve;
pub use turn::{expand, transpose};

use verdigris_ops::scalar::NA_F64;

/// A number that sparse matrices hold. Both are added up as doubles.
pub trait Real: Copy + Default + Sync + Send + 'static {
    /// What stands for a value that is not there.
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

/// Calls a function with a type of offsets and one of values.
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

/// R's NA, and not another NaN.
fn is_na(x: f64) -> bool {
    x.is_nan() && x.to_bits() as u32 == 1954
}

/// A sum, or a product, of two numbers: where it is NaN, NA if one of them is.
#[inline]
fn kept(result: f64, a: f64, b: f64) -> f64 {
    if result.is_nan() {
        missing(is_na(a) || is_na(b))
    } else {
        result
    }
}

/// NA, or a NaN that is not.
#[cold]
fn missing(na: bool) -> f64 {
    if na {
        NA_F64
    } else {
        f64::NAN
    }
}
