//! Special functions and distributions, from papers (see kernels/special.h).

use super::*;

#[rustfmt::skip]
pub const ROWS: &[Op] = &[
];
