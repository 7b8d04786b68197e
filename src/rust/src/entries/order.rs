//! Entries: sorting, positions in order, and elements at ranks.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::entries::entry::entries;

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

entries! {
    /// Positions (from 1) of TRUE.
    fn which(x: Array) -> Result<Array> {
        from_one(x.positions(false)?, position_type(&x))
    }

    /// list(the sorted values, their positions (from 1) if asked for).
    fn sort(x: Array, decreasing: bool, with_positions: bool) -> Result<(Array, Option<Array>)> {
        let (sorted, at) = x.sort(decreasing, with_positions)?;
        let at = at.map(|at| from_one(at, position_type(&x))).transpose()?;
        Ok((sorted, at))
    }

    /// The positions (from 1) that sorting gives, alone.
    fn order(x: Array, decreasing: bool) -> Result<Array> {
        match x.order(decreasing)? {
            Some(at) => at.cast(position_type(&x), None),
            None => from_one(x.sort(decreasing, true)?.1.expect("positions were asked for"), position_type(&x)),
        }
    }

    /// list(the elements at ranks (from 1), or NULL where there are not so many, the number of missing ones); NULL
    /// where they are found by sorting.
    fn ranks(x: Array, ranks: Vec<usize>) -> Result<Option<(Option<Array>, f64)>> {
        let mut ranks = ranks;
        ranks.iter_mut().for_each(|rank| *rank = rank.saturating_sub(1));
        Ok(x.ranks(&ranks)?.map(|(values, missing)| (values, missing as f64)))
    }
}
