//! Rows without array operands: sequences and random numbers, functions of the index `i`.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // unsigned: the caller knows that the ends fit, and elements beyond the last may be computed
    op!(seq, "", Internal, 2, Source, None, 0, [(I32, "(i32)((u32)a + (u32)i * (u32)b)"), (I64, "(i64)((u64)a + (u64)i * (u64)b)"), (F32, "(f32)((f64)a + (f64)i * (f64)b)"), (F64, "a + (f64)i * b")], "a, a + b, a + 2b ..."),

    op!(constant, "", Internal, 1, Source, None, 0, [(ALL, "a")], "One value throughout."),
    op!(runif, "", Internal, 1, Random, None, 0, [(I64, "random_uniform(a, i)")], "Uniform on (0, 1), never an end."),
    op!(rnorm, "", Internal, 1, Random, None, 0, [(I64, "random_normal(a, i)")], "Standard normal."),
    op!(rexp, "", Internal, 1, Random, None, 0, [(I64, "random_exponential(a, i)")], "Exponential with rate 1."),
];
