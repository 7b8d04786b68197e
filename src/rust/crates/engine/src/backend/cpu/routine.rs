//! Runs routines over blocks of lanes.

use std::ffi::c_void;

use crate::routine::Routine;

pub fn run(
    _routine: &'static Routine,
    _args: &[*const u8],
    _tables: &[(*const c_void, i64)],
    _i: usize,
    _n: usize,
    _results: &[*mut u8],
    _words: &mut [u32],
) {
    unimplemented!("helper `lanes` writes it")
}
