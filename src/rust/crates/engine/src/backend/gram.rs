//! Cross products of columns that are stored separately, as backends take them.

use crate::memory::buffer::View;
use crate::plan::{Bound, Plan};

/// The most columns.
pub const MOST_COLUMNS: usize = 64;

/// The most columns that are only added up.
pub const MOST_SUMS: usize = 8;

/// `t(X) %*% X` of a matrix X whose columns are float64 and contiguous, and sums of further columns.
pub struct Gram<'a> {
    /// At most `MOST_COLUMNS`, or none, each of `rows` elements. `None` is a column of ones.
    pub columns: &'a [Option<View>],
    pub rows: usize,
    /// A factor for each row, by which the first `scaled` columns are multiplied.
    pub scale: Option<&'a View>,
    pub scaled: usize,
    /// At most `MOST_SUMS` float64 columns, whose sums follow the products.
    pub sums: &'a [View],
}

/// As `Gram`, where a plan computes the factors of the rows, further columns (right sides) and the values to add up.
pub struct PlannedGram<'a> {
    /// The columns in memory, as in `Gram`. All are multiplied by the factors.
    pub columns: &'a [Option<View>],
    /// Its outputs are float64: the factor, `rights` right sides, and the values to add up.
    pub plan: &'a Plan,
    pub bound: &'a Bound,
    pub rights: usize,
    /// The input of the plan that holds the predictor. It is computed: `before` plus the columns times the numbers
    /// `by`, added from first to last. Without numbers it is `before`.
    pub input: u16,
    pub by: &'a [f64],
    pub before: Option<&'a View>,
}
