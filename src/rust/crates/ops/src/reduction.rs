//! The reductions: names, operand and result types, a row each. Their arithmetic is in `kernels/reduce.h`.

use crate::dtype::{Class, DType};

/// A value for each class, in the order of `Class`.
type PerClass<T> = [T; 6];

/// Whether the order of additions may change the bits of a result: sums that round depend on it ([`crate::tree`]).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Irrelevant,
    /// Matters for floats only.
    OfFloats,
    Matters,
}

/// Whether the result may be a deferred scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    Never,
    /// Only if there are elements: an empty reduction warns at once.
    OfSome,
    Always,
}

struct Row {
    /// The accumulator's name in `reduce.h`.
    accumulator: &'static str,
    /// R's name, for messages.
    name: &'static str,
    /// The class in which elements of each class are reduced; none if R refuses the type.
    classes: PerClass<Option<Class>>,
    /// The result type for each class that is reduced.
    results: PerClass<DType>,
    order: Order,
    later: Later,
    /// Values per group.
    width: usize,
}

macro_rules! class {
    (-) => {
        None
    };
    ($class:ident) => {
        Some(Class::$class)
    };
}

/// Defines a row: the variant, which is also the accumulator's name; R's name; the order; when the result may be
/// computed; values per group; and by class the class that computes and the result type.
macro_rules! reductions {
    ($(
        $(#[$doc:meta])*
        $name:ident $r:literal $order:ident $later:ident $width:literal: [$($class:tt)*] gives [$($result:ident)*];
    )*) => {
        /// A reduction over a whole array or along one axis.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Reduction {
            $($(#[$doc])* $name,)*
        }

        const ROWS: &[Row] = &[$(Row {
            accumulator: stringify!($name),
            name: $r,
            classes: [$(class!($class)),*],
            results: [$(DType::$result),*],
            order: Order::$order,
            later: Later::$later,
            width: $width,
        },)*];

        impl Reduction {
            pub const ALL: [Reduction; ROWS.len()] = [$(Reduction::$name,)*];
        }
    };
}

#[rustfmt::skip]
reductions! {
    // a sum of int32 may need more than 32 bits: R then gives a double
    Sum "sum" OfFloats Always 1: [I32 I64 F32 F64 C128 C128] gives
        [Int64 Int64 Float64 Float64 Complex128 Complex128];
    Product "prod" Matters Always 1: [F64 F64 F64 F64 C128 C128] gives
        [Float64 Float64 Float64 Float64 Complex128 Complex128];
    Min "min" Irrelevant OfSome 1: [I32 I64 F32 F64 - -] gives
        [Int32 Int64 Float32 Float64 Complex128 Complex128];
    Max "max" Irrelevant OfSome 1: [I32 I64 F32 F64 - -] gives
        [Int32 Int64 Float32 Float64 Complex128 Complex128];
    /// Smallest and largest in one pass; two values.
    Range "range" Irrelevant Never 2: [I32 I64 F32 F64 - -] gives
        [Int32 Int64 Float32 Float64 Complex128 Complex128];
    Any "any" Irrelevant Never 1: [I32 I32 I32 I32 I32 I32] gives
        [Int32 Int32 Int32 Int32 Int32 Int32];
    All "all" Irrelevant Never 1: [I32 I32 I32 I32 I32 I32] gives
        [Int32 Int32 Int32 Int32 Int32 Int32];
    Mean "mean" Matters Always 1: [F64 F64 F32 F64 C128 C128] gives
        [Float64 Float64 Float64 Float64 Complex128 Complex128];
    Var "var" Matters Always 1: [F64 F64 F32 F64 - -] gives
        [Float64 Float64 Float64 Float64 Complex128 Complex128];
    WhichMax "which.max" Irrelevant Never 1: [I32 I64 F32 F64 - -] gives
        [Int64 Int64 Int64 Int64 Int64 Int64];
    WhichMin "which.min" Irrelevant Never 1: [I32 I64 F32 F64 - -] gives
        [Int64 Int64 Int64 Int64 Int64 Int64];
}

impl Reduction {
    /// The reductions that exist by group code.
    pub const GROUPED: [Reduction; 6] =
        [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max, Reduction::Mean, Reduction::Var];

    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The accumulator's name in `reduce.h`.
    pub const fn accumulator(self) -> &'static str {
        self.row().accumulator
    }

    /// R's name, for messages.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The class in which elements of `class` are reduced; `None` if R refuses the type.
    #[inline]
    pub const fn class(self, class: Class) -> Option<Class> {
        self.row().classes[class as usize]
    }

    /// The type of one result, given the class that is reduced.
    pub const fn result(self, class: Class) -> DType {
        self.row().results[class as usize]
    }

    /// Whether a reduction of `n` elements of `class` gives one real number, of a type that does not depend on the
    /// elements, and cannot raise a warning that is due at once.
    pub fn is_deferrable(self, class: Class, n: usize, na_rm: bool) -> bool {
        let number = matches!(self.result(class), DType::Float64 | DType::Float32 | DType::Int32);
        match self.row().later {
            Later::Never => false,
            Later::OfSome => number && n > 0 && !na_rm,
            Later::Always => number,
        }
    }

    /// Whether the order of additions cannot change the bits of a result.
    pub fn is_exact(self, class: Class) -> bool {
        match self.row().order {
            Order::Irrelevant => true,
            Order::OfFloats => matches!(class, Class::I32 | Class::I64),
            Order::Matters => false,
        }
    }

    /// Values per group.
    pub const fn width(self) -> usize {
        self.row().width
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

/// Bits of the status word that a reduction returns beside its value.
pub const STATUS_EMPTY: u32 = 1;
pub const STATUS_OVERFLOW: u32 = 2;
