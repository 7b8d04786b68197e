//! Entries: sorting, positions in order, and elements at ranks.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::entries::entry::entries;

/// 0-based positions as 1-based ones of this dtype.
fn from_one(positions: Array, dtype: DType) -> Result<Array> {
    let one = match positions.dtype() {
        DType::Int32 => Operand::Value(Scalar::I32(1), NumberKind::Integer),
        _ => Operand::Value(Scalar::I64(1), NumberKind::Integer64),
    };
    Array::apply(id::ADD, &[Operand::Array(positions), one], None)?.cast(dtype, None)
}

/// The dtype of positions: like base R, doubles for vectors that are too long for integers.
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

    /// The positions (from 1) of the sorted elements.
    fn order(x: Array, decreasing: bool) -> Result<Array> {
        match x.order(decreasing)? {
            Some(at) => at.cast(position_type(&x), None),
            None => from_one(x.sort(decreasing, true)?.1.expect("positions were asked for"), position_type(&x)),
        }
    }

    /// list(the elements at ranks (from 1), or NULL if a rank is too large; the number of missing values). NULL if the
    /// caller must sort instead.
    fn ranks(x: Array, ranks: Vec<usize>) -> Result<Option<(Option<Array>, f64)>> {
        let mut ranks = ranks;
        ranks.iter_mut().for_each(|rank| *rank = rank.saturating_sub(1));
        Ok(x.ranks(&ranks)?.map(|(values, missing)| (values, missing as f64)))
    }
}
