//! Expressions of C, with the precedence of their outermost operator and the registers and arrays that they read.

use verdigris_compile::Register;
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32, NA_I64};

/// Precedence of operators in C, from the loosest on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Binds {
    Or,
    And,
    Equal,
    Less,
    Sum,
    Product,
    Unary,
    Atom,
}

/// An expression of C.
#[derive(Clone, Debug)]
pub struct Text {
    text: String,
    binds: Binds,
    /// Registers and local arrays that the expression reads.
    pub registers: Vec<Register>,
    pub arrays: Vec<u16>,
}

impl Text {
    pub fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), binds: Binds::Atom, registers: Vec::new(), arrays: Vec::new() }
    }

    pub fn register(register: Register, name: &str) -> Text {
        Text { registers: vec![register], ..Text::atom(name) }
    }

    pub fn constant(scalar: Scalar) -> Text {
        Text::atom(constant(scalar))
    }

    /// `a op b`, for operators that associate to the left. A right operand of the same precedence gets parentheses.
    pub fn infix(a: &Text, op: &str, b: &Text, binds: Binds) -> Text {
        let right = if b.binds > binds { b.text.clone() } else { format!("({})", b.text) };
        let left = a.within(binds);
        Text::of(format!("{left} {op} {right}"), binds, &[a, b])
    }

    /// `op a`.
    pub fn prefix(op: &str, a: &Text) -> Text {
        Text::of(format!("{op}{}", a.within(Binds::Atom)), Binds::Unary, &[a])
    }

    /// `f(a, b, more)`.
    pub fn call(function: &str, args: &[Text], more: &str) -> Text {
        let mut list: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
        if !more.is_empty() {
            list.push(more);
        }
        let args: Vec<&Text> = args.iter().collect();
        Text::of(format!("{function}({})", list.join(", ")), Binds::Atom, &args)
    }

    fn of(text: String, binds: Binds, parts: &[&Text]) -> Text {
        let registers = parts.iter().flat_map(|part| part.registers.iter().copied()).collect();
        let arrays = parts.iter().flat_map(|part| part.arrays.iter().copied()).collect();
        Text { text, binds, registers, arrays }
    }

    /// The text as an operand of an operator of this precedence, in parentheses if needed.
    fn within(&self, binds: Binds) -> String {
        if self.binds >= binds {
            self.text.clone()
        } else {
            format!("({})", self.text)
        }
    }

    /// Whether the expression is a name or a number.
    pub fn is_atom(&self) -> bool {
        self.binds == Binds::Atom && !self.text.contains('(')
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A constant of C that evaluates to exactly these bits.
pub fn constant(scalar: Scalar) -> String {
    match scalar {
        Scalar::I32(NA_I32) => "NA_I32".into(),
        Scalar::I32(x) if x < 0 => format!("({x})"),
        Scalar::I32(x) => x.to_string(),
        Scalar::I64(NA_I64) => "NA_I64".into(),
        Scalar::I64(x) if x < 0 => format!("({x}ll)"),
        Scalar::I64(x) => format!("{x}ll"),
        Scalar::F64(x) if x.to_bits() == NA_F64.to_bits() => "na_f64()".into(),
        Scalar::F64(x) if !x.is_finite() => format!("f64_of_bits(0x{:016X}ull)", x.to_bits()),
        Scalar::F64(x) if x.is_sign_negative() => format!("({x:?})"),
        Scalar::F64(x) => format!("{x:?}"),
        Scalar::F32(x) if !x.is_finite() => format!("f32_of_bits(0x{:08X}u)", x.to_bits()),
        Scalar::F32(x) if x.is_sign_negative() => format!("({x:?}f)"),
        Scalar::F32(x) => format!("{x:?}f"),
        Scalar::C64([re, im]) => format!("c64{{{}, {}}}", constant(Scalar::F32(re)), constant(Scalar::F32(im))),
        Scalar::C128([re, im]) => format!("c128{{{}, {}}}", constant(Scalar::F64(re)), constant(Scalar::F64(im))),
    }
}

/// R text made safe for a `//` comment: one line that does not end in a line continuation.
pub fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let text = text.trim_end();
    if text.ends_with('\\') || text.ends_with("??/") {
        format!("{text} .")
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_are_where_they_are_needed() {
        let [a, b, c] = ["a", "b", "c"].map(Text::atom);
        let sum = Text::infix(&a, "+", &b, Binds::Sum);
        assert_eq!(Text::infix(&sum, "+", &c, Binds::Sum).as_str(), "a + b + c");
        assert_eq!(Text::infix(&c, "-", &sum, Binds::Sum).as_str(), "c - (a + b)");
        assert_eq!(Text::infix(&sum, "*", &c, Binds::Product).as_str(), "(a + b) * c");
        assert_eq!(Text::prefix("-", &Text::prefix("-", &sum)).as_str(), "-(-(a + b))");
    }

    #[test]
    fn constants_are_what_they_were() {
        assert_eq!(constant(Scalar::F64(0.1)), "0.1");
        assert_eq!(constant(Scalar::F64(1e300)), "1e300");
        assert_eq!(constant(Scalar::F64(-0.0)), "(-0.0)");
        assert_eq!(constant(Scalar::F64(NA_F64)), "na_f64()");
        assert_eq!(constant(Scalar::F64(f64::INFINITY)), "f64_of_bits(0x7FF0000000000000ull)");
        assert_eq!(constant(Scalar::F32(0.1)), "0.1f");
        assert_eq!(constant(Scalar::I32(i32::MIN + 1)), "(-2147483647)");
    }
}
