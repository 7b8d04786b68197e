//! Comparisons for which the common type is not exact. int64 and floating point are promoted to a float, in which int64
//! beyond 2^53 are not distinct, so they are compared exactly. An R number beside float16 or bfloat16 would be compared
//! in float32; it is rounded to the array's type first, as beside float32.

use crate::array::{Array, Operand};
use crate::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::rule::Typed;
use verdigris_ops::scalar::{Scalar, BEYOND_INT64};
use verdigris_ops::{id, OpId, Rule};

/// The dtype that a number is rounded to before it is compared.
fn half(types: &[Typed]) -> Option<DType> {
    match types {
        [Typed::Value(Kind::Double), Typed::Array(dtype)] | [Typed::Array(dtype), Typed::Value(Kind::Double)] => {
            dtype.is_half().then_some(*dtype)
        }
        _ => None,
    }
}

/// Whether this is such a comparison. (An int64 that R brings along beside a narrow array is a number that adopts its
/// type.)
pub fn concerns(op: OpId, types: &[Typed]) -> bool {
    let (Rule::Compare, [a, b]) = (op.row().rule, types) else { return false };
    if half(types).is_some() {
        return true;
    }
    let narrow = |t: &Typed| matches!(t, Typed::Array(dtype) if dtype.class() == Class::F32);
    match (a.kind(), b.kind()) {
        (Kind::Integer64, Kind::Double) => matches!(a, Typed::Array(_)) || !narrow(b),
        (Kind::Double, Kind::Integer64) => matches!(b, Typed::Array(_)) || !narrow(a),
        _ => false,
    }
}

/// Whether such a comparison becomes more nodes than one and a cast.
pub fn is_composed(op: OpId, types: &[Typed]) -> bool {
    concerns(op, types) && (half(types).is_some() || !types.contains(&Typed::Value(Kind::Double)))
}

/// The exact comparison; None where the common type is exact.
///
/// # Errors
/// `Memory`.
pub fn compare(op: OpId, operands: &[Operand], n: usize, device: Device) -> Result<Option<Array>> {
    if let Some(dtype) = half(&[operands[0].typed(), operands[1].typed()]) {
        let rounded = |operand: &Operand| {
            Ok(Operand::Array(match operand {
                Operand::Array(array) => array.clone(),
                Operand::Vector(array, _) => array.cast(dtype, None)?,
                Operand::Value(value, _) => Array::full(*value, dtype, 1, device)?,
            }))
        };
        return Array::apply(op, &[rounded(&operands[0])?, rounded(&operands[1])?], None).map(Some);
    }
    let whole = usize::from(operands[1].typed().kind() == Kind::Integer64);
    let (wide, other) = (&operands[whole], &operands[1 - whole]);
    let ordered = |wide: Operand, other: Operand| {
        let both = if whole == 0 { [wide, other] } else { [other, wide] };
        Array::apply(op, &both, None)
    };
    let as_array = |operand: &Operand, dtype| match operand {
        Operand::Array(array) | Operand::Vector(array, _) => array.cast(dtype, None),
        Operand::Value(value, _) => Array::full(*value, dtype, n.min(1), device),
    };
    let nearest = |x: Array| Array::apply(id::NEAREST, &[Operand::Array(x)], None);
    // a number is an int64, or lies between two small ones, or beyond all of them
    if let Operand::Value(value, _) = other {
        let Scalar::F64(x) = value.to(Class::F64) else { return Ok(None) };
        return if x.abs() < BEYOND_INT64 && x.fract() == 0.0 {
            ordered(wide.clone(), Operand::Value(Scalar::I64(x as i64), Kind::Integer64)).map(Some)
        } else if x.abs() >= BEYOND_INT64 && x.is_finite() {
            ordered(wide.clone(), Operand::Value(Scalar::F64(x * f64::INFINITY), Kind::Double)).map(Some)
        } else {
            // which of the doubles next to it an int64 is rounded to is no matter
            ordered(Operand::Array(nearest(as_array(wide, DType::Int64)?)?), other.clone()).map(Some)
        };
    }
    // Where an int64 rounded to double is another number than x, the two compare as these do. Where it is x, x is
    // whole, and is compared as int64.
    let number = |x: f64| Operand::Value(Scalar::F64(x), Kind::Double);
    let wide = as_array(wide, DType::Int64)?;
    let rounded = nearest(wide.clone())?;
    let x = Operand::Array(as_array(other, DType::Float64)?);
    let within = Array::apply(
        id::LT,
        &[Operand::Array(Array::apply(id::ABS, std::slice::from_ref(&x), None)?), number(BEYOND_INT64)],
        None,
    )?;
    let choose = |yes: Operand, no: Operand| Array::apply(id::SELECT, &[Operand::Array(within.clone()), yes, no], None);
    let far = Operand::Array(Array::apply(id::MUL, &[x.clone(), number(f64::INFINITY)], None)?);
    let near = choose(x.clone(), number(0.0))?.cast(DType::Int64, None)?;
    let x = Operand::Array(choose(x, far)?);
    let same = Array::apply(id::EQ, &[Operand::Array(rounded.clone()), x.clone()], None)?;
    let exactly = ordered(Operand::Array(wide), Operand::Array(near))?;
    let roughly = ordered(Operand::Array(rounded), x)?;
    Array::apply(id::SELECT, &[Operand::Array(same), Operand::Array(exactly), Operand::Array(roughly)], None).map(Some)
}
