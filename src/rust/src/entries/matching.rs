//! Entries: counts by value, and positions of values in a table.

use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::{DType, Kind as NumberKind};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::scalar::Scalar;

use crate::entries::entry::entries;

entries! {
    /// Counts of the elements equal to each of `bins` whole numbers from `low` on, then of all other elements, as
    /// doubles.
    fn count_bins(x: Array, low: f64, bins: usize) -> Result<Array> {
        x.count_bins(low as i64, bins)?.cast(DType::Float64, None)
    }

    /// The positions (from 1) of the first occurrence of each value that is not missing; NULL if the caller must sort.
    fn firsts(x: Array) -> Result<Option<Array>> {
        let Some(positions) = x.firsts()? else { return Ok(None) };
        let one = Operand::Value(Scalar::I32(1), NumberKind::Integer);
        Array::apply(id::ADD, &[Operand::Array(positions), one], None).map(Some)
    }

    /// For each element, the number of elements of a sorted table that are at most it, or less than it if `strictly`.
    fn search(x: Array, table: Array, strictly: bool) -> Result<Array> {
        x.search(&table, strictly)
    }

    /// The position (from 1) of each element's first occurrence in a table, or 0; NULL if the caller must search a
    /// sorted table.
    fn matches(x: Array, table: Array) -> Result<Option<Array>> {
        x.matches(&table)
    }
}
