//! Math functions of C's library, rounding, tests of values.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    op!(sqrt, "sqrt", Math, 1, Float, NaNsProduced, 0, [(FLOATS, "checked(sqrt(a), a, w)"), (COMPLEX, "c_sqrt(a)")], "Square root."),
];
