//! The reductions: names, operand and result types, a row each. Their arithmetic is in `kernels/reduce.h`.

use crate::dtype::{Class, DType};

/// What there is for each class, in the order of `Class`.
type PerClass<T> = [T; 6];

/// Whether the order of additions may change the bits of a result: sums that round depend on it ([`crate::tree`]).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Irrelevant,
    /// Of floats.
    OfFloats,
    Matters,
}

/// Whether a number that is reduced may be computed later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    Never,
    /// Of no elements there is something to be said at once.
    OfSome,
    Always,
}

struct Row {
    /// The accumulator's name in `reduce.h`.
    accumulator: &'static str,
    /// R's name, for messages.
    name: &'static str,
    /// In which elements are reduced; none where R refuses them.
    classes: PerClass<Option<Class>>,
    /// Of what is reduced in a class.
    results: PerClass<DType>,
    order: Order,
    later: Later,
    /// Values a group gives.
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

/// A row: the variant, which is the accumulator's name too; R's name; the order; when; values a group gives; by class
/// what is computed and what results.
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
    // of int32 a sum may need more than 32 bits: R gives a double then
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
    /// Those of elements that have the same code.
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

    /// The class in which elements of `class` are reduced; `None` where R refuses the type.
    #[inline]
    pub const fn class(self, class: Class) -> Option<Class> {
        self.row().classes[class as usize]
    }

    /// The type of one result, given the class that is reduced.
    pub const fn result(self, class: Class) -> DType {
        self.row().results[class as usize]
    }

    /// Whether a reduction of `n` elements of `class` gives one real number whose type does not depend on the elements,
    /// and nothing that would have to be said at once.
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

    /// Values a group gives.
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

/// Bits of the status word that a reduction gives beside its value.
pub const STATUS_EMPTY: u32 = 1;
pub const STATUS_OVERFLOW: u32 = 2;
