//! Casts: one row a target type.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
];
