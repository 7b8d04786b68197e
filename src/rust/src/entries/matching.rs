//! Entries: counts by value, and positions of values in a table.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::array::{convert, handle};
use crate::entry;
use crate::r::{values, *};

entry! {
    /// Counts of whole numbers from `low` on, `bins` of them, and of all else: an array of doubles.
    fn count_bins(x, low, bins) {
        let array = convert::array(x)?;
        let counts = array.count_bins(values::number(low, "low")? as i64, values::size(bins, "bins")?)?;
        Ok(handle::wrap(counts.cast(DType::Float64, None)?))
    }

    /// The places (from 1) where each known value stands first; NULL where that takes a sort.
    fn firsts(x) {
        let Some(positions) = convert::array(x)?.firsts()? else { return Ok(null()) };
        let one = Operand::Value(Scalar::I32(1), NumberKind::Integer);
        Ok(handle::wrap(Array::apply(id::ADD, &[Operand::Array(positions), one], None)?))
    }

    /// How many elements of a table in order are at most each element, or less than it.
    fn search(x, table, strictly) {
        Ok(handle::wrap(convert::array(x)?.search(&convert::array(table)?, values::flag(strictly, "strictly")?)?))
    }

    /// The place in a table where each element stands first, or 0; NULL where that takes a search of the table in
    /// order.
    fn matches(x, table) {
        Ok(convert::array(x)?.matches(&convert::array(table)?)?.map_or_else(null, handle::wrap))
    }
}
