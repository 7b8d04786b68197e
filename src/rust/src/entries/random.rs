//! Entries: random numbers, which are functions of a key and an index, with keys from R's generator.

use verdigris_engine::array::{Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

use crate::array::{convert, handle};
use crate::entries::operators;
use crate::entry;
use crate::r::{self, call_site, values, *};

/// A stream's key: two numbers below 2^32.
pub fn read_key(key: SEXP) -> Result<i64> {
    let words = values::sizes(key)?;
    Ok(((words[0] as u64) << 32 | words[1] as u64) as i64)
}

/// `n` standard draws for a dtype: what is narrower than float64 is drawn in float32.
fn stream(row: OpId, wanted: DType, n: usize, key: i64, device: Device) -> Result<Array> {
    let (row, drawn) = match row {
        row if wanted == DType::Float64 => (row, DType::Float64),
        id::RUNIF => (id::RUNIF_SINGLE, DType::Float32),
        id::RNORM => (id::RNORM_SINGLE, DType::Float32),
        id::REXP => (id::REXP_SINGLE, DType::Float32),
        row => (row, DType::Float64),
    };
    let draws = Array::source(row, Class::I64, drawn, n, device, &[Scalar::I64(key)])?;
    // the nearest neighbours of 0 and 1 that the dtype has, so that rounding does not reach them
    let (low, high) = match wanted {
        DType::Float16 if row == id::RUNIF_SINGLE => (f64::exp2(-24.0), 1.0 - f64::exp2(-11.0)),
        DType::BFloat16 if row == id::RUNIF_SINGLE => (f64::exp2(-24.0), 1.0 - f64::exp2(-8.0)),
        _ => return Ok(draws),
    };
    let limit = |x: f64| Operand::Value(Scalar::F64(x), NumberKind::Double);
    let raised = Array::apply(id::PMAX, &[Operand::Array(draws), limit(low)], None)?;
    Array::apply(id::PMIN, &[Operand::Array(raised), limit(high)], None)
}

entry! {
    /// `n` draws of a stream, scaled by numbers: `shift + scale * draw`.
    fn random(row, n, key, shift, scale, dtype, device) {
        let row = operators::row(row)?;
        let (n, device) = (values::size(n, "n")?, convert::device(device)?);
        let wanted = values::dtype(dtype)?.unwrap_or(DType::Float64);
        let draws = stream(row, wanted, n, read_key(key)?, device)?;
        let scaled = |array: Array, by: f64, op, idle: f64| match by == idle {
            true => Ok(array),
            false => {
                Array::apply(op, &[Operand::Array(array), Operand::Value(Scalar::F64(by), NumberKind::Double)], None)
            }
        };
        let draws = scaled(draws, values::number(scale, "scale")?, id::MUL, 1.0)?;
        let out = scaled(draws, values::number(shift, "shift")?, id::ADD, 0.0)?;
        Ok(handle::wrap(out.cast(wanted, None)?))
    }
}

entry! {
    /// `n` draws of a row that has one or two parameters, numbers or vectors no longer than `n`. `from` names the
    /// stream whose draws the row shapes; it is NULL for rows that draw by themselves.
    fn draw(row, from, n, key, parameters, dtype, device, call) {
        let row = operators::row(row)?;
        let (n, device, key) = (values::size(n, "n")?, convert::device(device)?, read_key(key)?);
        let wanted = values::dtype(dtype)?.unwrap_or(DType::Float64);
        let mut operands = vec![match r::is_null(from) {
            true => Operand::Value(Scalar::I64(key), NumberKind::Integer64),
            false => Operand::Array(stream(operators::row(from)?, wanted, n, key, device)?),
        }];
        for k in 0..r::len(parameters) {
            // SAFETY: R code made a list of that length.
            operands.push(convert::operand(unsafe { VECTOR_ELT(parameters, k as isize) }, device)?);
        }
        let warns = row.may_warn(Class::F64);
        let site = if warns { call_site::recorded(call) } else { call_site::of(call) };
        let out = match r::is_null(from) {
            true => Array::draw(row, n, device, &operands, site.clone())?,
            false => Array::apply(row, &operands, site.clone())?,
        };
        Ok(handle::wrap(out.cast(wanted, site)?))
    }
}
