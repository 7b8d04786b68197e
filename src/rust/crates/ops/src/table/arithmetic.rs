//! Operators: arithmetic, comparison, logic, selection.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(add, "+", Ops, 2, Arithmetic, IntegerOverflow, 0, [(INTS, "int_add(a, b, w)"), (FLOATS, "first_nan(a + b, a)"), (COMPLEX, "c_add(a, b)")], "Sum."),
    op!(sub, "-", Ops, 2, Arithmetic, IntegerOverflow, 0, [(INTS, "int_sub(a, b, w)"), (F32, "a - b"), (F64, "difference(a, b)"), (COMPLEX, "c_sub(a, b)")], "Difference."),
    op!(mul, "*", Ops, 2, Arithmetic, IntegerOverflow, 0, [(INTS, "int_mul(a, b, w)"), (FLOATS, "first_nan(a * b, a)"), (COMPLEX, "c_mul(a, b)")], "Product."),
    op!(checked_sum, "sum", Internal, 2, Arithmetic, IntegerOverflow, 0, [(I64, "checked_sum(a, b, w)")], "The sum within a group, beside the least element: warns of overflow."),
    op!(div, "/", Ops, 2, Float, None, 0, [(FLOATS, "r_div(a, b)"), (COMPLEX, "c_div(a, b)")], "Quotient; of integers a double."),
    // glibc's pow is within 1 ulp, CUDA's within 2 (float: 4)
    op!(pow, "^", Ops, 2, Float, LostAccuracy, 4, [(FLOATS, "r_pow(a, b, w)"), (COMPLEX, "c_pow(a, b)")], "Power; `x^2` is `x * x` to the last bit."),
    op!(mod, "%%", Ops, 2, Arithmetic, LostAccuracy, 0, [(INTS, "int_mod(a, b)"), (FLOATS, "r_mod(a, b, w)")], "Remainder, with the sign of the divisor."),
    op!(intdiv, "%/%", Ops, 2, Arithmetic, None, 0, [(INTS, "int_intdiv(a, b)"), (FLOATS, "r_intdiv(a, b)")], "Quotient, rounded down."),
    op!(neg, "-", Ops, 1, Arithmetic, None, 0, [(INTS, "int_neg(a)"), (FLOATS, "-a"), (COMPLEX, "c_neg(a)")], "Negative."),
    op!(pos, "+", Ops, 1, Arithmetic, None, 0, [(ALL, "a")], "The number itself; logical becomes integer."),

    op!(eq, "==", Ops, 2, Compare, None, 0, [(REALS, "cmp_eq(a, b)"), (COMPLEX, "c_eq(a, b)")], "Equal."),
    op!(ne, "!=", Ops, 2, Compare, None, 0, [(REALS, "cmp_ne(a, b)"), (COMPLEX, "c_ne(a, b)")], "Not equal."),
    op!(lt, "<", Ops, 2, Compare, None, 0, [(REALS, "cmp_lt(a, b)")], "Less."),
    op!(le, "<=", Ops, 2, Compare, None, 0, [(REALS, "cmp_le(a, b)")], "Less or equal."),
    op!(gt, ">", Ops, 2, Compare, None, 0, [(REALS, "cmp_gt(a, b)")], "Greater."),
    op!(ge, ">=", Ops, 2, Compare, None, 0, [(REALS, "cmp_ge(a, b)")], "Greater or equal."),

    op!(and, "&", Ops, 2, Logic, None, 0, [(I32, "logic_and(a, b)")], "And: `FALSE & NA` is FALSE."),
    op!(or, "|", Ops, 2, Logic, None, 0, [(I32, "logic_or(a, b)")], "Or: `TRUE | NA` is TRUE."),
    op!(not, "!", Ops, 1, Logic, None, 0, [(I32, "logic_not(a)")], "Not."),
    op!(xor, "xor", Function, 2, Logic, None, 0, [(I32, "logic_xor(a, b)")], "Exactly one of two."),

    op!(select, "ifelse", Function, 3, Select, None, 0, [(ALL, "choose_by(a, b, c)")], "Elements of `yes` where the test is TRUE, of `no` where it is FALSE, else NA."),
    op!(pmin, "pmin", Function, 2, Arithmetic, None, 0, [(INTS, "int_smaller(a, b)"), (FLOATS, "smaller(a, b)")], "The smaller; NA if either is NA."),
    op!(pmax, "pmax", Function, 2, Arithmetic, None, 0, [(INTS, "int_larger(a, b)"), (FLOATS, "larger(a, b)")], "The larger; NA if either is NA."),
    op!(pmin_na_rm, "", Internal, 2, Arithmetic, None, 0, [(INTS, "int_smaller_known(a, b)"), (FLOATS, "smaller_known(a, b)")], "The smaller of those that are not NA."),
    op!(pmax_na_rm, "", Internal, 2, Arithmetic, None, 0, [(INTS, "int_larger_known(a, b)"), (FLOATS, "larger_known(a, b)")], "The larger of those that are not NA."),

    op!(is_na, "is.na", Generic, 1, Test, None, 0, [(ALL, "(i32)is_na(a)")], "NA or NaN."),
    op!(is_nan, "is.nan", Generic, 1, Test, None, 0, [(INTS, "0"), (F32, "(i32)(a != a)"), (F64, "(i32)(is_nan(a) && !is_na_payload(a))"), (COMPLEX, "c_is_nan(a)")], "NaN; NA, which float32 cannot tell from it, is not NaN."),
    op!(is_finite, "is.finite", Generic, 1, Test, None, 0, [(INTS, "(i32)!is_na(a)"), (FLOATS, "(i32)(a - a == 0)"), (COMPLEX, "c_is_finite(a)")], "A number: not NA, NaN or infinite."),
    op!(is_infinite, "is.infinite", Generic, 1, Test, None, 0, [(INTS, "0"), (FLOATS, "(i32)((a == a) & (a - a != 0))"), (COMPLEX, "c_is_infinite(a)")], "Inf or -Inf."),

    op!(bit_and, "bitwAnd", Function, 2, Arithmetic, None, 0, [(I32, "bit_and(a, b)")], "And of the bits of integers."),
    op!(bit_or, "bitwOr", Function, 2, Arithmetic, None, 0, [(I32, "bit_or(a, b)")], "Or of the bits of integers."),
    op!(bit_xor, "bitwXor", Function, 2, Arithmetic, None, 0, [(I32, "bit_xor(a, b)")], "Exclusive or of the bits of integers."),
    op!(bit_not, "bitwNot", Function, 1, Arithmetic, None, 0, [(I32, "bit_not(a)")], "The bits of integers turned over."),
    // lint: end
];
