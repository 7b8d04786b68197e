//! Cross products of columns that lie apart: what devices compute of them.

use crate::memory::buffer::View;

/// Columns at most.
pub const MOST_COLUMNS: usize = 64;

/// X' X, of columns that are float64 and contiguous.
pub struct Gram<'a> {
    /// At most `MOST_COLUMNS`, each of `rows` elements. `None` is a column of ones.
    pub columns: &'a [Option<View>],
    pub rows: usize,
    /// What the rows of the first `scaled` columns are multiplied by.
    pub scale: Option<&'a View>,
    pub scaled: usize,
}
