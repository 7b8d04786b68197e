//! Scans on the cpu device: one pass from the first element to the last, in the order of addition of CUDA devices.

use super::blocks::{Schedule, Scratch};
use crate::memory::fallible;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;
use verdigris_ops::loops::{Scanning, BLOCK, STORES};
use verdigris_ops::parallel::stoppable;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::scan::Scan;

/// Scans the plan's value into memory for `bound.n` elements of its output's dtype. From the first sum that overflows
/// on, all results are NA; returns whether there was one.
///
/// # Errors
/// `Memory`, `Interrupt`.
pub fn run(plan: &Plan, bound: &Bound, scan: Scan, out: &mut [u8]) -> Result<bool> {
    let (register, dtype) = plan.outputs[0];
    debug_assert_eq!(Some(dtype.class()), scan.class(dtype.class()), "the state's class is that of the result");
    let f = Scanning::of(scan, plan.class(register));
    let schedule = Schedule::new(plan, bound);
    let most = f.tile.unwrap_or(BLOCK);
    let width = plan.class(register).size();
    // `u128` aligns the memory for any state and any element.
    // SAFETY: reports a size.
    let mut state = fallible::filled(0u128, unsafe { (f.bytes)() }.unsigned_abs() as usize / 16 + 1)?;
    let room = |is_needed| fallible::filled(0u128, if is_needed { most.min(bound.n) * width / 16 + 1 } else { 0 });
    let mut values_in = room(most > BLOCK && !schedule.in_memory(register))?;
    let mut values_out = room(!dtype.is_natural())?;
    let mut unfit = false;
    let (size, na) = (dtype.size(), Scalar::na(dtype.class()).bytes());
    let na = &na[..size];
    // SAFETY: the state has the size that `bytes` reports.
    unsafe { (f.start)(state.as_mut_ptr().cast()) };
    let work = |scratch: &mut Scratch| {
        for i in (0..bound.n).step_by(most) {
            if !scratch.should_continue() {
                return;
            }
            let n = most.min(bound.n - i);
            // Evaluated even after an overflow, so that its warnings are noted.
            // SAFETY: there is space for a tile.
            let values = unsafe { schedule.values(scratch, i, n, register, values_in.as_mut_ptr().cast()) };
            if unfit {
                make_missing(&mut out[i * size..(i + n) * size], na);
                continue;
            }
            // SAFETY: as above, and `out` has bound.n elements of the dtype, whose class the results have.
            let status = unsafe {
                if dtype.is_natural() {
                    let direct = out.as_mut_ptr().add(i * size);
                    (f.scan)(state.as_mut_ptr().cast(), direct.cast(), values.cast(), n as i32)
                } else {
                    let status =
                        (f.scan)(state.as_mut_ptr().cast(), values_out.as_mut_ptr().cast(), values.cast(), n as i32);
                    STORES[dtype as usize](out.as_mut_ptr().cast(), values_out.as_ptr().cast(), i as i64, n as i32);
                    status
                }
            };
            if status != 0 {
                unfit = true;
                let block = &mut out[i * size..(i + n) * size];
                // The first NA is the overflow: after an NA in the input, no overflow is reported.
                let fitted = block.chunks_exact(size).take_while(|&sum| sum != na).count();
                make_missing(&mut block[fitted * size..], na);
            }
        }
    };
    stoppable(|| schedule.with_scratch(bound.n.min(BLOCK), work))?;
    schedule.warn();
    Ok(unfit)
}

fn make_missing(sums: &mut [u8], na: &[u8]) {
    sums.chunks_exact_mut(na.len()).for_each(|sum| sum.copy_from_slice(na));
}
