//! Casts: one row per target type. Casts to half types round here, so that a value in a register equals the one that a
//! store and a load would give.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
    // lint: wide
    op!(to_bool8, "as.logical", Generic, 1, To(DType::Bool8), None, 0, [(ALL, "bool_of(a)")], "To logical: FALSE for 0."),
    op!(to_int8, "", Internal, 1, To(DType::Int8), Coercion, 0, [(REALS, "int_of(a, 127, w)"), (COMPLEX, "int_of(real_of(a, w), 127, w)")], "To int8: NA outside -127 ... 127."),
    op!(to_uint8, "as.raw", Generic, 1, To(DType::UInt8), Coercion, 0, [(REALS, "raw_of(a, w)"), (COMPLEX, "raw_of(real_of(a, w), w)")], "To uint8: 0 outside 0 ... 255."),
    op!(to_int16, "", Internal, 1, To(DType::Int16), Coercion, 0, [(REALS, "int_of(a, 32767, w)"), (COMPLEX, "int_of(real_of(a, w), 32767, w)")], "To int16: NA outside -32767 ... 32767."),
    op!(to_int32, "as.integer", Generic, 1, To(DType::Int32), Coercion, 0, [(I32, "a"), (I64 | FLOATS, "int_of(a, 2147483647, w)"), (COMPLEX, "int_of(real_of(a, w), 2147483647, w)")], "To integer, without fractions; NA outside the range."),
    op!(to_int64, "as.integer64", Generic, 1, To(DType::Int64), Coercion, 0, [(I32, "long_of(a)"), (I64, "a"), (FLOATS, "long_of((f64)a, w)"), (COMPLEX, "long_of((f64)real_of(a, w), w)")], "To bit64's integer64, without fractions; NA outside the range."),
    op!(to_float16, "", Internal, 1, To(DType::Float16), Coercion, 0, [(REALS, "half_of(a)"), (COMPLEX, "half_of(real_of(a, w))")], "To float16."),
    op!(to_bfloat16, "", Internal, 1, To(DType::BFloat16), Coercion, 0, [(REALS, "bhalf_of(a)"), (COMPLEX, "bhalf_of(real_of(a, w))")], "To bfloat16."),
    op!(to_float32, "", Internal, 1, To(DType::Float32), Coercion, 0, [(REALS, "float_of(a)"), (COMPLEX, "float_of(real_of(a, w))")], "To float32; NA becomes NaN."),
    op!(to_float64, "as.double", Generic, 1, To(DType::Float64), Coercion, 0, [(I32 | FLOATS, "double_of(a)"), (I64, "double_of(a, w)"), (COMPLEX, "double_of(real_of(a, w))")], "To double."),
    op!(to_complex64, "", Internal, 1, To(DType::Complex64), None, 0, [(ALL, "complex64_of(a)")], "To complex64."),
    op!(to_complex128, "as.complex", Generic, 1, To(DType::Complex128), Coercion, 0, [(I32 | FLOATS | COMPLEX, "complex128_of(a)"), (I64, "complex128_of(double_of(a, w))")], "To complex."),
    op!(nearest, "", Internal, 1, To(DType::Float64), None, 0, [(I64, "double_of(a)")], "The nearest double, without a warning where that is another number."),
    // lint: end
];
