//! Cross products of columns that are stored separately, as backends take them.

use crate::memory::buffer::View;

/// The most columns.
pub const MOST_COLUMNS: usize = 64;

/// `t(X) %*% X` of a matrix X whose columns are float64 and contiguous.
pub struct Gram<'a> {
    /// At most `MOST_COLUMNS`, each of `rows` elements. `None` is a column of ones.
    pub columns: &'a [Option<View>],
    pub rows: usize,
    /// A factor for each row, by which the first `scaled` columns are multiplied.
    pub scale: Option<&'a View>,
    pub scaled: usize,
}
