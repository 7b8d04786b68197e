//! Rows without array operands: sequences and random numbers, functions of the index `i`.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    // unsigned: the caller knows that the ends fit, and elements beyond the last may be computed
    op!(seq, "", Internal, 2, Source, None, 0, [(I32, "(i32)((u32)a + (u32)i * (u32)b)"), (I64, "(i64)((u64)a + (u64)i * (u64)b)"), (F32, "(f32)((f64)a + (f64)i * (f64)b)"), (F64, "a + (f64)i * b")], "a, a + b, a + 2b ..."),

    op!(constant, "", Internal, 1, Source, None, 0, [(ALL, "a")], "One value throughout."),
    // the GPU draws packs of the same numbers: `Op::pack`
    op!(runif, "", Internal, 1, Random(Class::F64), None, 0, [(I64, "runif_f64(a, i)")], "Uniform on (0, 1), never an end; 53 bits."),
    op!(rnorm, "", Internal, 1, Random(Class::F64), None, 0, [(I64, "rnorm_f64(a, i)")], "Standard normal."),
    op!(rexp, "", Internal, 1, Random(Class::F64), None, 0, [(I64, "rexp_f64(a, i)")], "Exponential with rate 1."),
    op!(runif_single, "", Internal, 1, Random(Class::F32), None, 0, [(I64, "runif_f32(a, i)")], "Uniform on (0, 1), never an end; 24 bits."),
    op!(rnorm_single, "", Internal, 1, Random(Class::F32), None, 0, [(I64, "rnorm_f32(a, i)")], "Standard normal, computed in float32."),
    op!(rexp_single, "", Internal, 1, Random(Class::F32), None, 0, [(I64, "rexp_f32(a, i)")], "Exponential with rate 1, computed in float32."),
    // lint: end
];
