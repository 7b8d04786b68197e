//! Parts of complex numbers.

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
];
