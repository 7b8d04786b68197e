//! Entries: random numbers. Each is a function of a key and an index (counter-based); keys come from R's generator.

use verdigris_engine::array::{Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

use crate::array::convert;
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{call_site, SEXP};

/// The key of a random stream; in R two numbers below 2^32.
#[derive(Clone, Copy)]
pub struct Key(pub i64);

impl FromR for Key {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Key> {
        let [high, low]: [usize; 2] = FromR::from_r(x, argument)?;
        Ok(Key(((high as u64) << 32 | low as u64) as i64))
    }
}

/// `n` standard draws for a dtype. Uniform, normal and exponential ones for narrower dtypes than float64 are drawn in
/// float32.
fn stream(row: OpId, wanted: DType, n: usize, key: Key, device: Device) -> Result<Array> {
    let (row, drawn) = match row {
        row if wanted == DType::Float64 => (row, DType::Float64),
        id::RUNIF => (id::RUNIF_SINGLE, DType::Float32),
        id::RNORM => (id::RNORM_SINGLE, DType::Float32),
        id::REXP => (id::REXP_SINGLE, DType::Float32),
        row => (row, DType::Float64),
    };
    let draws = Array::source(row, Class::I64, drawn, n, device, &[Scalar::I64(key.0)])?;
    // limits draws to the dtype's neighbours of 0 and 1, so that rounding does not produce 0 or 1
    let (low, high) = match wanted {
        DType::Float16 if row == id::RUNIF_SINGLE => (f64::exp2(-24.0), 1.0 - f64::exp2(-11.0)),
        DType::BFloat16 if row == id::RUNIF_SINGLE => (f64::exp2(-24.0), 1.0 - f64::exp2(-8.0)),
        _ => return Ok(draws),
    };
    let limit = |x: f64| Operand::Value(Scalar::F64(x), NumberKind::Double);
    let raised = Array::apply(id::PMAX, &[Operand::Array(draws), limit(low)], None)?;
    Array::apply(id::PMIN, &[Operand::Array(raised), limit(high)], None)
}

entries! {
    /// `n` draws, shifted and scaled: `shift + scale * draw`.
    fn random(
        row: OpId,
        n: usize,
        key: Key,
        shift: f64,
        scale: f64,
        dtype: Option<DType>,
        device: Device,
    ) -> Result<Array> {
        let wanted = dtype.unwrap_or(DType::Float64);
        let draws = stream(row, wanted, n, key, device)?;
        let scaled = |array: Array, by: f64, op, idle: f64| match by == idle {
            true => Ok(array),
            false => {
                Array::apply(op, &[Operand::Array(array), Operand::Value(Scalar::F64(by), NumberKind::Double)], None)
            }
        };
        scaled(scaled(draws, scale, id::MUL, 1.0)?, shift, id::ADD, 0.0)?.cast(wanted, None)
    }

    /// `n` draws of a distribution with one or two parameters, numbers or vectors of at most `n` elements. `from` is
    /// the standard distribution whose draws the operation transforms, or NULL if the operation draws itself.
    fn draw(
        row: OpId,
        from: Option<OpId>,
        n: usize,
        key: Key,
        parameters: Vec<SEXP>,
        dtype: Option<DType>,
        device: Device,
        call: SEXP,
    ) -> Result<Array> {
        let wanted = dtype.unwrap_or(DType::Float64);
        let mut operands = vec![match from {
            None => Operand::Value(Scalar::I64(key.0), NumberKind::Integer64),
            Some(from) => Operand::Array(stream(from, wanted, n, key, device)?),
        }];
        for x in parameters {
            operands.push(convert::operand(x, device)?);
        }
        let warns = row.may_warn(Class::F64);
        let site = if warns { call_site::recorded(call) } else { call_site::of(call) };
        let out = match from {
            None => Array::draw(row, n, device, &operands, site.clone())?,
            Some(_) => Array::apply(row, &operands, site.clone())?,
        };
        out.cast(wanted, site)
    }
}
