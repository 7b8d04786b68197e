//! Entries: sorting, positions in order, and elements at ranks.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::array::{convert, handle};
use crate::entry;
use crate::r::{values, *};

/// Positions as R counts them.
fn from_one(positions: Array, dtype: DType) -> Result<Array> {
    let one = match positions.dtype() {
        DType::Int32 => Operand::Value(Scalar::I32(1), NumberKind::Integer),
        _ => Operand::Value(Scalar::I64(1), NumberKind::Integer64),
    };
    Array::apply(id::ADD, &[Operand::Array(positions), one], None)?.cast(dtype, None)
}

/// Positions are as base R's, doubles where integers do not reach.
fn position_type(array: &Array) -> DType {
    if array.len() <= i32::MAX as usize {
        DType::Int32
    } else {
        DType::Float64
    }
}

entry! {
    /// Positions (from 1, double) of TRUE.
    fn which(x) {
        let array = convert::array(x)?;
        let dtype = if array.len() <= i32::MAX as usize { DType::Int32 } else { DType::Float64 };
        Ok(handle::wrap(from_one(array.positions(false)?, dtype)?))
    }

    /// A list of the sorted values and, if asked for, their positions (from 1).
    fn sort(x, decreasing, with_positions) {
        let array = convert::array(x)?;
        let (sorted, at) =
            array.sort(values::flag(decreasing, "decreasing")?, values::flag(with_positions, "with_positions")?)?;
        let at = at.map(|at| from_one(at, position_type(&array))).transpose()?;
        // SAFETY: plain allocations, protected while the next is made.
        unsafe {
            let out = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, 2));
            SET_VECTOR_ELT(out, 0, handle::wrap(sorted));
            if let Some(at) = at {
                SET_VECTOR_ELT(out, 1, handle::wrap(at));
            }
            Rf_unprotect(1);
            Ok(out)
        }
    }

    /// The positions (from 1) that sorting gives, alone.
    fn order(x, decreasing) {
        let array = convert::array(x)?;
        let (decreasing, dtype) = (values::flag(decreasing, "decreasing")?, position_type(&array));
        let at = match array.order(decreasing)? {
            Some(at) => at.cast(dtype, None)?,
            None => from_one(array.sort(decreasing, true)?.1.expect("positions were asked for"), dtype)?,
        };
        Ok(handle::wrap(at))
    }

    /// A list of the elements at ranks (from 1), or NULL where there are not so many, and the number of missing ones;
    /// NULL where they are found by sorting.
    fn ranks(x, ranks) {
        let mut ranks = values::sizes(ranks)?;
        ranks.iter_mut().for_each(|rank| *rank = rank.saturating_sub(1));
        let Some((values, missing)) = convert::array(x)?.ranks(&ranks)? else { return Ok(null()) };
        // SAFETY: plain allocations, protected while the next is made.
        unsafe {
            let out = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, 2));
            if let Some(values) = values {
                SET_VECTOR_ELT(out, 0, handle::wrap(values));
            }
            SET_VECTOR_ELT(out, 1, Rf_ScalarReal(missing as f64));
            Rf_unprotect(1);
            Ok(out)
        }
    }
}
