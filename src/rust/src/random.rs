//! Random numbers: sequences that are functions of a key and the index, keyed by R's generator.

use crate::r::*;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::dtype::{Class, DType, Kind as NumberKind};
use verdigris_engine::error::Result;
use verdigris_engine::ops::id;
use verdigris_engine::scalar::Scalar;

use crate::convert;
use crate::entry;
use crate::handle;
use crate::operators;

entry! {
    /// `n` draws of a source row, scaled: `shift + scale * draw`. `key` is two numbers below 2^32.
    fn random(row, n, key, shift, scale, dtype, device) {
        let row = operators::row(row)?;
        let (n, device) = (convert::size(n, "n")?, convert::device(device)?);
        let key = convert::sizes(key)?;
        let key = ((key[0] as u64) << 32 | key[1] as u64) as i64;
        let wanted = convert::dtype(dtype)?.unwrap_or(DType::Float64);
        // what is narrower than float64 is drawn in float32
        let (row, drawn) = match row {
            row if wanted == DType::Float64 => (row, DType::Float64),
            id::RUNIF => (id::RUNIF_SINGLE, DType::Float32),
            id::RNORM => (id::RNORM_SINGLE, DType::Float32),
            id::REXP => (id::REXP_SINGLE, DType::Float32),
            row => (row, DType::Float64),
        };
        let draws = Array::source(row, Class::I64, drawn, n, device, &[Scalar::I64(key)])?;
        // the nearest neighbours of 0 and 1 that the dtype has, so that rounding does not reach them
        let ends = match wanted {
            DType::Float16 if row == id::RUNIF_SINGLE => Some((f64::exp2(-24.0), 1.0 - f64::exp2(-11.0))),
            DType::BFloat16 if row == id::RUNIF_SINGLE => Some((f64::exp2(-24.0), 1.0 - f64::exp2(-8.0))),
            _ => None,
        };
        let draws = match ends {
            Some((low, high)) => {
                let limit = |x: f64| Operand::Value(Scalar::F64(x), NumberKind::Double);
                let raised = Array::apply(id::PMAX, &[Operand::Array(draws), limit(low)], None)?;
                Array::apply(id::PMIN, &[Operand::Array(raised), limit(high)], None)?
            }
            None => draws,
        };
        let scaled = |array: Array, by: SEXP, op, idle: f64| -> Result<Array> {
            match convert::operand(by, device)? {
                Operand::Value(Scalar::F64(v), _) if v == idle => Ok(array),
                other => Array::apply(op, &[Operand::Array(array), other], None),
            }
        };
        let out = scaled(scaled(draws, scale, id::MUL, 1.0)?, shift, id::ADD, 0.0)?;
        debug_assert_eq!(out.dtype().kind(), NumberKind::Double);
        Ok(handle::wrap(out.cast(wanted, None)?))
    }
}
