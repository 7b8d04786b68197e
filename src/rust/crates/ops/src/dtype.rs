//! Element types: how they are stored, in which register class they compute, how they promote.

use std::fmt;

/// A stored element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// One byte: 0, 1, or 2 for NA.
    Bool8,
    Int8,
    /// No NA, as R's raw.
    UInt8,
    Int16,
    /// NA is the smallest value, as in R.
    Int32,
    /// NA is the smallest value, as in bit64.
    Int64,
    Float16,
    BFloat16,
    Float32,
    /// NA is R's NaN payload 1954.
    Float64,
    Complex64,
    Complex128,
}

/// The type of a value in a register while it is computed with.
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

/// R's view of an element type: what `typeof()` says, with `integer64` apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    Logical,
    Integer,
    Integer64,
    Double,
    Complex,
}

impl DType {
    pub const ALL: [DType; 12] = [
        DType::Bool8,
        DType::Int8,
        DType::UInt8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Float16,
        DType::BFloat16,
        DType::Float32,
        DType::Float64,
        DType::Complex64,
        DType::Complex128,
    ];

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool8 | DType::Int8 | DType::UInt8 => 1,
            DType::Int16 | DType::Float16 | DType::BFloat16 => 2,
            DType::Int32 | DType::Float32 => 4,
            DType::Int64 | DType::Float64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
        }
    }

    /// The name that people type, and the suffix of the load and store functions in `prelude.h`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool8 => "bool8",
            DType::Int8 => "int8",
            DType::UInt8 => "uint8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::Float16 => "float16",
            DType::BFloat16 => "bfloat16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
            DType::Complex64 => "complex64",
            DType::Complex128 => "complex128",
        }
    }

    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The C type of the storage, as `prelude.h` names it.
    pub const fn c_type(self) -> &'static str {
        match self {
            DType::Bool8 | DType::UInt8 => "u8",
            DType::Int8 => "i8",
            DType::Int16 => "i16",
            DType::Int32 => "i32",
            DType::Int64 => "i64",
            DType::Float16 | DType::BFloat16 => "u16",
            DType::Float32 => "f32",
            DType::Float64 => "f64",
            DType::Complex64 => "c64",
            DType::Complex128 => "c128",
        }
    }

    #[inline]
    pub const fn class(self) -> Class {
        match self {
            DType::Bool8 | DType::Int8 | DType::UInt8 | DType::Int16 | DType::Int32 => Class::I32,
            DType::Int64 => Class::I64,
            DType::Float16 | DType::BFloat16 | DType::Float32 => Class::F32,
            DType::Float64 => Class::F64,
            DType::Complex64 => Class::C64,
            DType::Complex128 => Class::C128,
        }
    }

    #[inline]
    pub const fn kind(self) -> Kind {
        match self {
            DType::Bool8 => Kind::Logical,
            DType::Int8 | DType::UInt8 | DType::Int16 | DType::Int32 => Kind::Integer,
            DType::Int64 => Kind::Integer64,
            DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64 => Kind::Double,
            DType::Complex64 | DType::Complex128 => Kind::Complex,
        }
    }

    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Double)
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
    /// The dtype that a host value of this kind takes when nothing asks for another.
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

/// The dtype that is stored as the class computes.
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
