//! Entries: counts by value, and positions of values in a table.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::entries::entry::entries;

entries! {
    /// Counts of whole numbers from `low` on, `bins` of them, and of all else: an array of doubles.
    fn count_bins(x: Array, low: f64, bins: usize) -> Result<Array> {
        x.count_bins(low as i64, bins)?.cast(DType::Float64, None)
    }

    /// The places (from 1) where each known value stands first; NULL where that takes a sort.
    fn firsts(x: Array) -> Result<Option<Array>> {
        let Some(positions) = x.firsts()? else { return Ok(None) };
        let one = Operand::Value(Scalar::I32(1), NumberKind::Integer);
        Array::apply(id::ADD, &[Operand::Array(positions), one], None).map(Some)
    }

    /// How many elements of a table in order are at most each element, or less than it.
    fn search(x: Array, table: Array, strictly: bool) -> Result<Array> {
        x.search(&table, strictly)
    }

    /// The place in a table where each element stands first, or 0; NULL where that takes a search of the table in
    /// order.
    fn matches(x: Array, table: Array) -> Result<Option<Array>> {
        x.matches(&table)
    }
}
