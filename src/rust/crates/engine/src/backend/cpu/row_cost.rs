//! What a row of the operation table costs the processor.

use verdigris_ops::table::{ARITHMETIC, CASTS};
use verdigris_ops::{id, OpId};

/// Whether a row takes a few instructions: most operators and casts, and what the processor itself has of the math
/// functions.
pub(super) fn is_plain(op: OpId) -> bool {
    let table = op.table();
    let cheap = [id::ABS, id::SIGN, id::SQRT, id::FLOOR, id::CEILING, id::TRUNC, id::ROUND];
    let many = [id::POW, id::MOD, id::INTDIV];
    (table == ARITHMETIC && !many.contains(&op)) || table == CASTS || cheap.contains(&op)
}
