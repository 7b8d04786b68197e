//! The scans: names, operand and result types. Their arithmetic is in `kernels/scan.h`.

use crate::dtype::{Class, DType, Kind};

/// A running sum, product or extreme.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scan {
    Sum,
    Product,
    Max,
    Min,
}

impl Scan {
    pub const ALL: [Scan; 4] = [Scan::Sum, Scan::Product, Scan::Max, Scan::Min];

    /// The state's name in `scan.h`.
    pub const fn state(self) -> &'static str {
        match self {
            Scan::Sum => "CumSum",
            Scan::Product => "CumProd",
            Scan::Max => "CumMax",
            Scan::Min => "CumMin",
        }
    }

    /// R's name.
    pub const fn name(self) -> &'static str {
        match self {
            Scan::Sum => "cumsum",
            Scan::Product => "cumprod",
            Scan::Max => "cummax",
            Scan::Min => "cummin",
        }
    }

    /// The class in which elements of `class` are scanned; `None` if R refuses the type.
    pub fn class(self, class: Class) -> Option<Class> {
        Some(match (self, class) {
            (Scan::Max | Scan::Min, Class::C64 | Class::C128) => return None,
            (_, Class::C64 | Class::C128) => Class::C128,
            (Scan::Product, Class::I32 | Class::I64) => Class::F64,
            (_, other) => other,
        })
    }

    /// The type of the result: the array's own, except that sums of narrow integers, and scans of logicals, give int32,
    /// and products of integers double.
    pub fn result(self, dtype: DType) -> DType {
        match (self, dtype.kind()) {
            (_, Kind::Double | Kind::Complex) => dtype,
            (Scan::Product, _) => DType::Float64,
            (Scan::Sum, _) | (_, Kind::Logical) if dtype.class() == Class::I32 => DType::Int32,
            _ => dtype,
        }
    }

    /// Whether the order of additions cannot change the bits of a result: sums and products that round depend on it.
    pub fn is_exact(self, class: Class) -> bool {
        match self {
            Scan::Max | Scan::Min => true,
            Scan::Sum => matches!(class, Class::I32 | Class::I64),
            Scan::Product => false,
        }
    }

    /// Whether `scan.h` has the state for a class.
    pub fn serves(self, class: Class) -> bool {
        self.class(class) == Some(class)
    }
}
