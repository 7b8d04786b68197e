//! Complex numbers: parts and construction (kernels/complex.h).

use super::*;

// A real operand is a complex number with imaginary part 0, as in R; Conj(1L) is a double there too.
#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(re, "Re", Complex, 1, Part, None, 0, [(I64 | FLOATS, "a"), (COMPLEX, "a.re")], "Real part."),
    op!(im, "Im", Complex, 1, Part, None, 0, [(F32, "0.0f"), (F64, "0.0"), (COMPLEX, "a.im")], "Imaginary part."),
    op!(modulus, "Mod", Complex, 1, Part, None, 4, [(I64, "int_abs(a)"), (FLOATS, "fabs(a)"), (COMPLEX, "c_abs(a)")], "Modulus."),
    op!(argument, "Arg", Complex, 1, Part, None, 4, [(FLOATS, "real_arg(a)"), (COMPLEX, "c_arg(a)")], "Argument, in (-pi, pi]."),
    op!(conjugate, "Conj", Complex, 1, Float, None, 0, [(I64 | FLOATS, "a"), (COMPLEX, "c_conj(a)")], "Complex conjugate."),
    op!(complex, "complex", Internal, 2, Pair, None, 0, [(FLOATS, "c_make(a, b)")], "Complex number from real and imaginary part."),
    op!(complex_polar, "complex", Internal, 2, Pair, None, 4, [(FLOATS, "c_make(a * cos(b), a * sin(b))")], "Complex number from modulus and argument."),
    // lint: end
];
