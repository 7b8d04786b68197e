//! The operation table: every elementwise operation, one row each.
//!
//! A row gives the operation's R name, its operand and result types, and the C++ expression that computes one element.
//! The expression is compiled twice from the same text: by the C++ compiler into the loops of the cpu device
//! (`build.rs`), and by NVRTC into fused kernels. It sees its operands as `a`, `b`, `c`, `d`, the element's index as `i`
//! (64 bits, from 0), and may set bits of the flag word `w`; the functions it calls are those of `kernels/*.h`.
//!
//! `build.rs` includes this file too, so it uses nothing of the crate but `dtype`.

use crate::dtype::{Class, DType};
use Rule::*;

/// The headers that the expressions need, in the order of inclusion: these for all rows, then those of distributions,
/// of Bessel functions, and of random rows.
pub const COMMON_HEADERS: &[&str] =
    &["prelude.h", "arith.h", "cast.h", "complex.h", "elementary.h", "special.h", "gamma.h", "normal.h"];
/// Headers that only random rows need. They are long, so they are included only for such rows.
pub const RANDOM_HEADERS: &[&str] = &["random.h", "draws.h", "draws_finite.h"];
/// Headers that only the rows of `distributions` need.
pub const DISTRIBUTION_HEADERS: &[&str] = &[
    "incomplete_gamma.h",
    "incomplete_beta.h",
    "distributions.h",
    "discrete.h",
    "hypergeometric.h",
    "rank_sums.h",
    "noncentral.h",
    "noncentral_t.h",
    "studentized_range.h",
];
/// Headers that only the rows of `bessel` need.
pub const BESSEL_HEADERS: &[&str] = &["bessel.h", "polygamma.h"];

/// A set of register classes, as bits.
pub type Classes = u8;
pub const I32: Classes = Class::I32.bit();
pub const I64: Classes = Class::I64.bit();
pub const F32: Classes = Class::F32.bit();
pub const F64: Classes = Class::F64.bit();
pub const C64: Classes = Class::C64.bit();
pub const C128: Classes = Class::C128.bit();
pub const INTS: Classes = I32 | I64;
pub const FLOATS: Classes = F32 | F64;
pub const COMPLEX: Classes = C64 | C128;
pub const REALS: Classes = INTS | FLOATS;
pub const ALL: Classes = REALS | COMPLEX;

/// How operand types determine the class that computes, and the type of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Promote the operands; logical counts as integer; the result has the promoted type. `+ - *`
    Arithmetic,
    /// As Arithmetic, but integers become double; int64 is kept if the row has an expression for it. `/ ^ sqrt exp`
    Float,
    /// As Float, but complex is refused as R refuses it. `gamma atan2`
    Real,
    /// Promote the operands; the result is logical. `== <`
    Compare,
    /// Operands become logical; the result is logical. `& | !`
    Logic,
    /// The operand keeps its class; the result is logical. `is.na`
    Test,
    /// The real counterpart of the (float) operand. `Re Mod`
    Part,
    /// Promote the operands to float, complex refused; the result is their complex counterpart. `complex`
    Pair,
    /// As Arithmetic, but complex gives its real counterpart. `abs`
    Modulus,
    /// `a` becomes logical; `b` and `c` promote, and are the result; logical stays logical. `ifelse`
    Select,
    /// The operand becomes the named type. `as.integer`
    To(DType),
    /// No array operand: scalars `a`, `b` of the computing class, and the element's index; the caller names the result
    /// type. `seq`
    Source,
    /// No array operand: scalar `a`, of class I64, is the key of the stream; the result has the named class, F32 or
    /// F64. `runif`
    Random(Class),
    /// `a` is the key of a stream, of class I64; parameters `b`, `c` and the result are of the computing class. The
    /// value also depends on the element's index. `rgamma`
    Drawn,
}

impl Rule {
    /// Whether a row computes from the element's index, so that its value depends on the position.
    pub fn uses_index(self) -> bool {
        matches!(self, Source | Random(_) | Drawn)
    }
}

/// The warnings that an expression may note in `w`, in R's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    None,
    /// Bits of `w`: 1 "NaNs produced", 2 the same for complex numbers, which names the function, 4 and 8 the warnings
    /// of R's gamma and lgamma about range and precision
    NaNsProduced,
    /// "probable complete loss of accuracy in modulus"
    LostAccuracy,
    /// Bits of `w`: 1 "NaNs produced", 2 "non-integer x", 4 "non-integer n", of distributions of counts
    NonInteger,
    /// "NAs produced", for invalid parameters of a distribution
    NAsProduced,
    /// Bits of `w`: 1 "NAs produced by integer overflow", 2 "NAs produced by integer64 overflow", as bit64 says
    IntegerOverflow,
    /// Bits of `w`: 1 "NAs introduced by coercion to integer range", 2 "imaginary parts discarded in coercion", 4
    /// "out-of-range values treated as 0 in coercion to raw", 8 "integer precision lost while converting to double", as
    /// bit64 says
    Coercion,
}

impl Flag {
    /// The number of bits of `w` that it uses.
    pub const fn width(self) -> u32 {
        match self {
            Flag::None => 0,
            Flag::LostAccuracy | Flag::NAsProduced => 1,
            Flag::IntegerOverflow => 2,
            Flag::NonInteger => 3,
            Flag::Coercion | Flag::NaNsProduced => 4,
        }
    }
}

/// How R reaches a row: the group of its method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Binary (and unary) operators.
    Ops,
    /// The Math group: one argument.
    Math,
    /// The Complex group.
    Complex,
    /// An S3 or internal generic outside a group (`is.na`).
    Generic,
    /// An ordinary function of base or stats that the package makes generic.
    Function,
    /// A density, distribution function or quantile function of stats.
    Distribution,
    /// A Bessel function, or psigamma.
    Bessel,
    /// Reached from other code only; R has no name for it.
    Internal,
}

/// The most operands of a row.
pub const MOST_OPERANDS: usize = 4;
/// The operands' names in expressions.
pub const LETTERS: [&str; MOST_OPERANDS] = ["a", "b", "c", "d"];

/// One operation.
pub struct Op {
    /// A C identifier, unique.
    pub name: &'static str,
    /// R's name for it, or "" if R has none.
    pub r: &'static str,
    pub group: Group,
    /// The number of operands.
    pub arity: u8,
    pub rule: Rule,
    pub flag: Flag,
    /// The greatest relative difference from R's answer that the tests allow, in units of 2^-52 (2^-23 for float32): 0
    /// asks for the same bits.
    pub ulp: f64,
    /// The expression for each set of classes. A class that is in no set is refused as R refuses it.
    pub code: &'static [(Classes, &'static str)],
    /// One sentence for the help page.
    pub doc: &'static str,
}

impl Op {
    /// The expression that computes this operation in `class`.
    pub fn expression(&self, class: Class) -> Option<&'static str> {
        self.code.iter().find(|(set, _)| set & class.bit() != 0).map(|&(_, text)| text)
    }

    /// The class of operand `k`, given the class that computes.
    pub fn operand_class(&self, k: usize, class: Class) -> Class {
        match self.rule {
            Rule::Select if k == 0 => Class::I32,
            Rule::Drawn if k == 0 => Class::I64,
            _ => class,
        }
    }

    /// The C++ function that computes this operation in `class`.
    pub fn function(&self, class: Class) -> String {
        format!("{}_{}", self.name, class.c_type())
    }

    /// Its definition; it takes the operands, the index and the flag word.
    pub fn define(&self, class: Class) -> Option<String> {
        let text = self.expression(class)?;
        let mut operands = String::new();
        for (k, letter) in LETTERS.iter().enumerate().take(self.arity as usize) {
            operands += self.operand_class(k, class).c_type();
            operands += " ";
            operands += letter;
            operands += ", ";
        }
        let result = self.result_class(class).c_type();
        Some(format!("VG_FN {result} {}({operands}i64 i, u32& w) {{ return {text}; }}", self.function(class)))
    }

    /// Whether its expression calls functions of `RANDOM_HEADERS`.
    pub fn is_random(&self) -> bool {
        matches!(self.rule, Random(_) | Drawn) || matches!(self.flag, Flag::NAsProduced)
    }

    /// Whether its expression calls functions of `DISTRIBUTION_HEADERS`.
    pub fn is_distribution(&self) -> bool {
        self.group == Group::Distribution
    }

    /// Whether its expression calls functions of `BESSEL_HEADERS`.
    pub fn is_bessel(&self) -> bool {
        self.group == Group::Bessel
    }

    /// Whether interpreters lack it, because its code is long and it is rare: its plan waits for a kernel of its own.
    pub fn is_only_compiled(&self) -> bool {
        self.is_distribution() || self.is_bessel() || matches!(self.name, "rhyper" | "rsignrank" | "rwilcox")
    }

    /// For rows that draw random numbers, the function of `random.h` that draws a pack of them.
    pub fn pack(&self) -> Option<String> {
        let (name, _) = self.code.first()?.1.split_once('(')?;
        matches!(self.rule, Random(_)).then(|| format!("{name}_pack"))
    }

    /// The class of the result, given the class that computes.
    pub fn result_class(&self, class: Class) -> Class {
        match self.rule {
            Compare | Logic | Test => Class::I32,
            Part | Modulus => class.real(),
            Pair => class.complex(),
            To(dtype) => dtype.class(),
            Random(class) => class,
            _ => class,
        }
    }
}

/// Defines a row: name, R's name, group, arity, rule, flag, ulp, expressions, sentence.
macro_rules! op {
    ($name:ident, $r:literal, $group:ident, $arity:literal, $rule:expr, $flag:ident, $ulp:literal,
     [$(($set:expr, $text:literal)),+ $(,)?], $doc:literal) => {
        Op { name: stringify!($name), r: $r, group: Group::$group, arity: $arity, rule: $rule,
             flag: Flag::$flag, ulp: $ulp as f64, code: &[$(($set, $text)),+], doc: $doc }
    };
}

mod arithmetic;
mod bessel;
mod cast;
mod complex;
pub mod distributions;
mod draw;
mod math;
mod source;
mod special;

/// The subject of a file of rows; rows of one subject have similar costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Arithmetic,
    Math,
    Special,
    Complex,
    Cast,
    Source,
    Draw,
    Distribution,
    Bessel,
}

impl Subject {
    /// Whether its loops run faster when compiled for wider registers; loops with calls and branches do not.
    pub fn gains_by_width(self) -> bool {
        matches!(self, Subject::Arithmetic | Subject::Math | Subject::Cast | Subject::Source)
    }
}

/// All rows, by subject. `OpId` is the index of a row in this order.
pub const TABLES: &[(Subject, &[Op])] = &[
    (Subject::Arithmetic, arithmetic::ROWS),
    (Subject::Math, math::ROWS),
    (Subject::Special, special::ROWS),
    (Subject::Complex, complex::ROWS),
    (Subject::Cast, cast::ROWS),
    (Subject::Source, source::ROWS),
    (Subject::Draw, draw::ROWS),
    (Subject::Distribution, distributions::ROWS),
    (Subject::Bessel, bessel::ROWS),
];
