//! Rows without array operands: sequences and random numbers, functions of the index.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
];
