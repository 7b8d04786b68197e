//! The reductions: names, operand and result types. Their arithmetic is in `kernels/reduce.h`.

use crate::dtype::{Class, DType};

/// A reduction over a whole array or along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    Sum,
    Product,
    Min,
    Max,
    /// Smallest and largest in one pass; two values.
    Range,
    Any,
    All,
    Mean,
    Var,
    WhichMax,
    WhichMin,
}

impl Reduction {
    /// Those of elements that have the same code.
    pub const GROUPED: [Reduction; 6] =
        [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max, Reduction::Mean, Reduction::Var];

    pub const ALL: [Reduction; 11] = [
        Reduction::Sum,
        Reduction::Product,
        Reduction::Min,
        Reduction::Max,
        Reduction::Range,
        Reduction::Any,
        Reduction::All,
        Reduction::Mean,
        Reduction::Var,
        Reduction::WhichMax,
        Reduction::WhichMin,
    ];

    /// The accumulator's name in `reduce.h`.
    pub const fn accumulator(self) -> &'static str {
        match self {
            Reduction::Sum => "Sum",
            Reduction::Product => "Product",
            Reduction::Min => "Min",
            Reduction::Max => "Max",
            Reduction::Range => "Range",
            Reduction::Any => "Any",
            Reduction::All => "All",
            Reduction::Mean => "Mean",
            Reduction::Var => "Var",
            Reduction::WhichMax => "WhichMax",
            Reduction::WhichMin => "WhichMin",
        }
    }

    /// R's name, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "prod",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::Range => "range",
            Reduction::Any => "any",
            Reduction::All => "all",
            Reduction::Mean => "mean",
            Reduction::Var => "var",
            Reduction::WhichMax => "which.max",
            Reduction::WhichMin => "which.min",
        }
    }

    /// The class in which elements of `class` are reduced; `None` where R refuses the type.
    #[inline]
    pub fn class(self, class: Class) -> Option<Class> {
        use Reduction::*;
        Some(match (self, class) {
            (Any | All, _) => Class::I32,
            (Sum, Class::C64 | Class::C128) | (Product | Mean, Class::C64 | Class::C128) => Class::C128,
            (Min | Max | Range | Var | WhichMax | WhichMin, Class::C64 | Class::C128) => return None,
            (Product, _) => Class::F64,
            (Mean | Var, Class::I32 | Class::I64) => Class::F64,
            (_, other) => other,
        })
    }

    /// The type of one result, given the class that is reduced.
    pub fn result(self, class: Class) -> DType {
        use Reduction::*;
        match (self, class) {
            (Any | All, _) => DType::Int32,
            (WhichMax | WhichMin, _) => DType::Int64,
            (Min | Max | Range, Class::I32) => DType::Int32,
            // a sum of integers may need more than 32 bits: R gives a double then
            (Sum, Class::I32) | (Sum | Min | Max | Range, Class::I64) => DType::Int64,
            (Min | Max | Range, Class::F32) => DType::Float32,
            (_, Class::C64 | Class::C128) => DType::Complex128,
            _ => DType::Float64,
        }
    }

    /// Whether a reduction of `n` elements of `class` gives one real number whose type does not depend on the elements,
    /// and nothing that would have to be said at once.
    pub fn is_deferrable(self, class: Class, n: usize, na_rm: bool) -> bool {
        use Reduction::*;
        let number = matches!(self.result(class), DType::Float64 | DType::Float32 | DType::Int32);
        match self {
            Sum | Product | Mean | Var => number,
            // of no elements they warn
            Min | Max => number && n > 0 && !na_rm,
            Range | Any | All | WhichMax | WhichMin => false,
        }
    }

    /// Whether the order of additions cannot change the bits of a result: sums that round depend on it
    /// ([`crate::tree`]).
    pub fn is_exact(self, class: Class) -> bool {
        use Reduction::*;
        match self {
            Min | Max | Range | Any | All | WhichMax | WhichMin => true,
            Sum => matches!(class, Class::I32 | Class::I64),
            Product | Mean | Var => false,
        }
    }

    /// Values a group gives.
    pub const fn width(self) -> usize {
        if matches!(self, Reduction::Range) {
            2
        } else {
            1
        }
    }

    /// Whether `reduce.h` has the accumulator for a class.
    pub fn serves(self, class: Class) -> bool {
        self.class(class) == Some(class)
    }
}

/// Which elements are reduced together: element `o * length * inner + l * inner + k` belongs to group
/// `o * inner + k`. A whole vector is (1, n, 1), `colSums` (columns, rows, 1), `rowSums` (1, columns, rows).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    pub outer: usize,
    pub length: usize,
    pub inner: usize,
}

impl Groups {
    #[inline]
    pub const fn whole(n: usize) -> Groups {
        Groups { outer: 1, length: n, inner: 1 }
    }

    #[inline]
    pub const fn count(self) -> usize {
        self.outer * self.inner
    }
}

/// Bits of the status word that a reduction gives beside its value.
pub const STATUS_EMPTY: u32 = 1;
pub const STATUS_OVERFLOW: u32 = 2;
