//! Scans on the cpu: one pass from the first element to the last, as base R does it.

use super::blocks::{stored_as_computed, Schedule, Scratch, BLOCK};
use super::loops::{SCANS, STORES};
use super::parallel::stoppable;
use crate::error::Result;
use crate::plan::{Bound, Plan};
use crate::scan::Scan;

/// Scans the plan's value into memory for `bound.n` elements of its output's dtype; returns the status bits.
///
/// # Errors
/// `Interrupt`.
pub fn run(plan: &Plan, bound: &Bound, scan: Scan, out: &mut [u8]) -> Result<u32> {
    let (register, dtype) = plan.outputs[0];
    let f = SCANS[scan as usize][plan.class(register) as usize]
        .as_ref()
        .expect("the array casts to a class that the scan serves");
    let schedule = Schedule::new(plan, bound);
    // aligned for any state and any element
    let (mut state, mut room) = ([0u128; 4], vec![0u128; BLOCK]);
    let mut status = 0;
    // SAFETY: a state has at most 64 bytes (build.rs checks); the block has room for BLOCK elements of any class.
    unsafe { (f.start)(state.as_mut_ptr().cast()) };
    let work = |scratch: &mut Scratch| {
        for i in (0..bound.n).step_by(BLOCK) {
            let n = BLOCK.min(bound.n - i);
            let values = schedule.evaluate(scratch, i, n, register, None);
            // SAFETY: as above, and `out` has bound.n elements of the dtype, whose class the results have.
            unsafe {
                if stored_as_computed(dtype) {
                    let direct = out.as_mut_ptr().add(i * dtype.size());
                    status |= (f.scan)(state.as_mut_ptr().cast(), direct.cast(), values.cast(), n as i32);
                } else {
                    status |= (f.scan)(state.as_mut_ptr().cast(), room.as_mut_ptr().cast(), values.cast(), n as i32);
                    STORES[dtype as usize](out.as_mut_ptr().cast(), room.as_ptr().cast(), i as i64, n as i32);
                }
            }
        }
    };
    stoppable(|| schedule.with_scratch(bound.n, work))?;
    schedule.warn();
    Ok(status)
}
