//! Operators: arithmetic, comparison, logic, choice.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    op!(add, "+", Ops, 2, Arithmetic, IntegerOverflow, 0, [(INTS, "int_add(a, b, w)"), (FLOATS, "a + b"), (COMPLEX, "c_add(a, b)")], "Sum."),
];
