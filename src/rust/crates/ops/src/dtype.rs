//! Element types: how they are stored, in which register class they compute, how they promote.

use std::ffi::CStr;
use std::fmt;

/// The properties of a dtype.
struct Row {
    name: &'static CStr,
    bytes: usize,
    c_type: &'static str,
    class: Class,
    kind: Kind,
    number: Number,
    /// NA as it is stored, in the first bytes.
    na: [u8; 16],
    safetensors: Option<&'static str>,
}

/// The number format of the bits, by which DLPack and NumPy tell types of one width apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Bool,
    Int,
    UInt,
    Float,
    BFloat,
    Complex,
}

macro_rules! dtypes {
    ($d:tt $($(#[$doc:meta])* $variant:ident: $name:literal, $bytes:literal, $c_type:literal, $([$real:ty])?, $class:ident,
       $kind:ident, $number:ident, $na:expr, $safetensors:expr;)*) => {
        /// A stored element type. A later float is at least as wide.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType {
            $($(#[$doc])* $variant),*
        }

        impl DType {
            pub const ALL: [DType; [$($name),*].len()] = [$(DType::$variant),*];
        }

        static ROWS: [Row; DType::ALL.len()] = [$(Row {
            name: $name,
            bytes: $bytes,
            c_type: $c_type,
            class: Class::$class,
            kind: Kind::$kind,
            number: Number::$number,
            na: padded($na),
            safetensors: $safetensors,
        }),*];

        /// Evaluates the code with `$T` as the Rust type of a dtype's elements, as `Some`; None for a complex dtype.
        /// The calling crate must depend on `half`.
        #[macro_export]
        macro_rules! with_real_type {
            ($d dtype:expr, $d T:ident => $d code:expr) => {
                match $d dtype {
                    $($($crate::dtype::DType::$variant => {
                        type $d T = $real;
                        Some($d code)
                    })?)*
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            };
        }
    };
}

const fn padded<const N: usize>(bytes: [u8; N]) -> [u8; 16] {
    let mut out = [0; 16];
    let mut at = 0;
    while at < N {
        out[at] = bytes[at];
        at += 1;
    }
    out
}

/// `NA_real_`: a quiet NaN whose low word is 1954.
pub const NA_BITS: u64 = 0x7FF8_0000_0000_07A2;
const NAN_BITS: u32 = 0x7FC0_0000;

/// The same bytes twice.
const fn twice(x: u64, bytes: u32) -> [u8; 16] {
    let bits = 8 * bytes;
    ((x as u128) << bits | x as u128).to_ne_bytes()
}

// lint: wide
#[rustfmt::skip]
dtypes! { $
//  name in R, bytes, C type in prelude.h, type in Rust where real, class that computes, kind in R, how it is read, NA, name in safetensors
    /// One byte: 0, 1, or 2 for NA.
    Bool8:      c"bool8",      1,  "u8",   [u8],         I32,  Logical,   Bool,    [2],                      Some("BOOL");
    Int8:       c"int8",       1,  "i8",   [i8],         I32,  Integer,   Int,     i8::MIN.to_ne_bytes(),    Some("I8");
    /// No NA, as R's raw.
    UInt8:      c"uint8",      1,  "u8",   [u8],         I32,  Integer,   UInt,    [0],                      Some("U8");
    Int16:      c"int16",      2,  "i16",  [i16],        I32,  Integer,   Int,     i16::MIN.to_ne_bytes(),   Some("I16");
    /// NA is the smallest value, as in R.
    Int32:      c"int32",      4,  "i32",  [i32],        I32,  Integer,   Int,     i32::MIN.to_ne_bytes(),   Some("I32");
    /// NA is the smallest value, as in bit64.
    Int64:      c"int64",      8,  "i64",  [i64],        I64,  Integer64, Int,     i64::MIN.to_ne_bytes(),   Some("I64");
    Float16:    c"float16",    2,  "u16",  [half::f16],  F32,  Double,    Float,   0x7FFF_u16.to_ne_bytes(), Some("F16");
    BFloat16:   c"bfloat16",   2,  "u16",  [half::bf16], F32,  Double,    BFloat,  0x7FFF_u16.to_ne_bytes(), Some("BF16");
    Float32:    c"float32",    4,  "f32",  [f32],        F32,  Double,    Float,   NAN_BITS.to_ne_bytes(),   Some("F32");
    /// NA is R's NaN payload 1954.
    Float64:    c"float64",    8,  "f64",  [f64],        F64,  Double,    Float,   NA_BITS.to_ne_bytes(),    Some("F64");
    Complex64:  c"complex64",  8,  "c64",  ,             C64,  Complex,   Complex, twice(NAN_BITS as u64, 4), Some("C64");
    Complex128: c"complex128", 16, "c128", ,             C128, Complex,   Complex, twice(NA_BITS, 8),        None;
}
// lint: end

/// The type of a value in a register during computation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    I32,
    I64,
    F32,
    F64,
    C64,
    C128,
}

/// R's view of an element type: its `typeof()`, with `integer64` separate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    Logical,
    Integer,
    Integer64,
    Double,
    Complex,
}

impl DType {
    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        self.row().bytes
    }

    /// The name that users type, and the suffix of the load and store functions in `prelude.h`.
    pub const fn name(self) -> &'static str {
        match self.row().name.to_str() {
            Ok(name) => name,
            Err(_) => unreachable!(),
        }
    }

    /// The name as a C string.
    pub const fn c_name(self) -> &'static CStr {
        self.row().name
    }

    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The C type of the storage, as `prelude.h` names it.
    pub const fn c_type(self) -> &'static str {
        self.row().c_type
    }

    #[inline]
    pub const fn class(self) -> Class {
        self.row().class
    }

    #[inline]
    pub const fn kind(self) -> Kind {
        self.row().kind
    }

    /// The number format of its bits.
    pub const fn number(self) -> Number {
        self.row().number
    }

    /// NA as it is stored; uint8 has none and takes 0.
    pub fn na_bytes(self) -> &'static [u8] {
        &self.row().na[..self.size()]
    }

    /// The name in the safetensors format; `None` if the format lacks the type.
    pub const fn safetensors(self) -> Option<&'static str> {
        self.row().safetensors
    }

    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Double)
    }

    /// float16 or bfloat16.
    #[inline]
    pub const fn is_half(self) -> bool {
        self.is_float() && self.size() == 2
    }

    /// Whether elements are stored in the type in which their class computes.
    #[inline]
    pub const fn is_natural(self) -> bool {
        self.size() == self.class().size()
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Class {
    pub const ALL: [Class; 6] = [Class::I32, Class::I64, Class::F32, Class::F64, Class::C64, Class::C128];

    /// The C type of a register, as `prelude.h` names it.
    pub const fn c_type(self) -> &'static str {
        match self {
            Class::I32 => "i32",
            Class::I64 => "i64",
            Class::F32 => "f32",
            Class::F64 => "f64",
            Class::C64 => "c64",
            Class::C128 => "c128",
        }
    }

    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Class::I32 | Class::F32 => 4,
            Class::I64 | Class::F64 | Class::C64 => 8,
            Class::C128 => 16,
        }
    }

    /// This class's bit in a set of classes.
    #[inline]
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The class of the parts of a complex number; a real class is its own.
    #[inline]
    pub const fn real(self) -> Class {
        match self {
            Class::C64 => Class::F32,
            Class::C128 => Class::F64,
            other => other,
        }
    }

    /// The class of a complex number with parts of this class; integers count as double.
    pub const fn complex(self) -> Class {
        match self {
            Class::F32 | Class::C64 => Class::C64,
            _ => Class::C128,
        }
    }
}

impl Kind {
    /// The dtype of a host value of this kind, unless another one is asked for.
    pub const fn default_dtype(self) -> DType {
        match self {
            Kind::Logical => DType::Bool8,
            Kind::Integer => DType::Int32,
            Kind::Integer64 => DType::Int64,
            Kind::Double => DType::Float64,
            Kind::Complex => DType::Complex128,
        }
    }
}

/// The dtype that stores a class as it computes.
pub const fn natural_dtype(class: Class) -> DType {
    match class {
        Class::I32 => DType::Int32,
        Class::I64 => DType::Int64,
        Class::F32 => DType::Float32,
        Class::F64 => DType::Float64,
        Class::C64 => DType::Complex64,
        Class::C128 => DType::Complex128,
    }
}
