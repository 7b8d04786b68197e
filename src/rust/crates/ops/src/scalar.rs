//! A host value that is an operand: passed to the kernel as an argument, never compiled in as a constant.

use std::fmt;

use crate::dtype::{Class, NA_BITS};

/// One element in a register class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    C64([f32; 2]),
    C128([f64; 2]),
}

pub const NA_I32: i32 = i32::MIN;
pub const NA_I64: i64 = i64::MIN;
/// `NA_real_`.
pub const NA_F64: f64 = f64::from_bits(NA_BITS);
/// 2^63: above every int64.
pub const BEYOND_INT64: f64 = 9_223_372_036_854_775_808.0;

impl fmt::Display for Scalar {
    /// Formats it as R writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            _ if self.is_na_integer() => f.write_str("NA"),
            Scalar::I32(x) => write!(f, "{x}L"),
            Scalar::I64(x) => write!(f, "{x}"),
            Scalar::F32(x) => write!(f, "{x}"),
            Scalar::F64(x) => write!(f, "{x}"),
            Scalar::C64([re, im]) => write!(f, "complex({re}, {im})"),
            Scalar::C128([re, im]) => write!(f, "complex({re}, {im})"),
        }
    }
}

impl Scalar {
    /// The missing value of a class, as `na_of` in prelude.h.
    pub const fn na(class: Class) -> Scalar {
        match class {
            Class::I32 => Scalar::I32(NA_I32),
            Class::I64 => Scalar::I64(NA_I64),
            Class::F32 => Scalar::F32(f32::NAN),
            Class::F64 => Scalar::F64(NA_F64),
            Class::C64 => Scalar::C64([f32::NAN; 2]),
            Class::C128 => Scalar::C128([NA_F64; 2]),
        }
    }

    #[inline]
    pub const fn class(self) -> Class {
        match self {
            Scalar::I32(_) => Class::I32,
            Scalar::I64(_) => Class::I64,
            Scalar::F32(_) => Class::F32,
            Scalar::F64(_) => Class::F64,
            Scalar::C64(_) => Class::C64,
            Scalar::C128(_) => Class::C128,
        }
    }

    /// The bytes of the value, as a kernel reads them, in the first `class().size()` elements.
    #[inline]
    pub fn bytes(self) -> [u8; 16] {
        let mut out = [0u8; 16];
        match self {
            Scalar::I32(x) => out[..4].copy_from_slice(&x.to_ne_bytes()),
            Scalar::I64(x) => out[..8].copy_from_slice(&x.to_ne_bytes()),
            Scalar::F32(x) => out[..4].copy_from_slice(&x.to_ne_bytes()),
            Scalar::F64(x) => out[..8].copy_from_slice(&x.to_ne_bytes()),
            Scalar::C64([re, im]) => {
                out[..4].copy_from_slice(&re.to_ne_bytes());
                out[4..8].copy_from_slice(&im.to_ne_bytes());
            }
            Scalar::C128([re, im]) => {
                out[..8].copy_from_slice(&re.to_ne_bytes());
                out[8..].copy_from_slice(&im.to_ne_bytes());
            }
        }
        out
    }

    fn is_na_integer(self) -> bool {
        matches!(self, Scalar::I32(NA_I32) | Scalar::I64(NA_I64))
    }

    fn as_f64(self) -> f64 {
        match self {
            _ if self.is_na_integer() => NA_F64,
            Scalar::I32(x) => x.into(),
            Scalar::I64(x) => x as f64,
            Scalar::F32(x) => x.into(),
            Scalar::F64(x) => x,
            Scalar::C64([re, _]) => re.into(),
            Scalar::C128([re, _]) => re,
        }
    }

    fn as_i64(self) -> i64 {
        match self {
            _ if self.is_na_integer() => NA_I64,
            Scalar::I32(x) => x.into(),
            Scalar::I64(x) => x,
            other => {
                let x = other.as_f64();
                // the cast saturates, and both bounds stand for values that do not fit
                if x.is_nan() || x.abs() >= 9_223_372_036_854_775_807.0 {
                    NA_I64
                } else {
                    x as i64
                }
            }
        }
    }

    /// Whether it is an int64 that a double class cannot represent exactly.
    #[inline]
    pub fn is_rounded_to(self, class: Class) -> bool {
        let Scalar::I64(x) = self else { return false };
        matches!(class, Class::F64 | Class::C128) && i128::from(x) != (x as f64) as i128
    }

    /// The same value in another class. NA is kept; a value that does not fit an integer becomes NA.
    #[inline]
    pub fn to(self, class: Class) -> Scalar {
        if self.class() == class {
            return self;
        }
        match class {
            Class::I32 => Scalar::I32(i32::try_from(self.as_i64()).unwrap_or(NA_I32)),
            Class::I64 => Scalar::I64(self.as_i64()),
            Class::F32 => Scalar::F32(self.as_f64() as f32),
            Class::F64 => Scalar::F64(self.as_f64()),
            Class::C64 => {
                let [re, im] = self.parts();
                Scalar::C64([re as f32, im as f32])
            }
            Class::C128 => Scalar::C128(self.parts()),
        }
    }

    fn parts(self) -> [f64; 2] {
        match self {
            Scalar::C64([re, im]) => [re.into(), im.into()],
            Scalar::C128(z) => z,
            other => {
                let x = other.as_f64();
                // as.complex(NA) is NA_complex_, whose imaginary part is 0 in R < 4.4 and NA later; both print NA
                [x, 0.0]
            }
        }
    }

    /// As a logical: zero or not, NA kept.
    #[inline]
    pub fn to_logical(self) -> Scalar {
        let value = match self {
            _ if self.is_na_integer() => NA_I32,
            Scalar::C64(_) | Scalar::C128(_) => {
                let [re, im] = self.parts();
                if re.is_nan() || im.is_nan() {
                    NA_I32
                } else {
                    (re != 0.0 || im != 0.0) as i32
                }
            }
            other => {
                let x = other.as_f64();
                if x.is_nan() {
                    NA_I32
                } else {
                    (x != 0.0) as i32
                }
            }
        };
        Scalar::I32(value)
    }
}
