//! What a row of the operation table costs the processor.

use verdigris_ops::table::TABLES;
use verdigris_ops::{id, OpId};

/// Whether a row takes a few instructions: most operators and casts, and what the processor itself has of the math
/// functions.
pub(super) fn is_plain(op: OpId) -> bool {
    let from = |file: usize| TABLES[..file].iter().map(|rows| rows.len()).sum::<usize>();
    let k = op.0 as usize;
    let cheap = [id::ABS, id::SIGN, id::SQRT, id::FLOOR, id::CEILING, id::TRUNC, id::ROUND];
    let many = [id::POW, id::MOD, id::INTDIV];
    (k < from(1) && !many.contains(&op)) || (from(4)..from(5)).contains(&k) || cheap.contains(&op)
}
