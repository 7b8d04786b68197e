//! Assignment on the cpu device: writes a plan's values to the elements of a view.

use std::ffi::c_void;

use super::blocks::Schedule;
use super::walk::runs;
use super::{bytes, bytes_mut, move_bytes};
use crate::backend::Base;
use crate::memory::buffer::View;
use crate::memory::staging::Shared;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;
use verdigris_ops::loops::{BLOCK, STORES};
use verdigris_ops::parallel::{parallel_if, stoppable};
use verdigris_ops::scalar::Scalar;

/// Writes one value to the single element of a view. The value has the class of the view's dtype.
pub fn set(part: &View, value: Scalar) {
    debug_assert!(part.len() == 1 && (part.layout.offset() + 1) * part.dtype.size() <= part.buffer.bytes);
    let (target, value) = (part.buffer.address as *mut c_void, value.bytes());
    // SAFETY: the element is within the buffer, which nobody else uses.
    unsafe { STORES[part.dtype as usize](target, value.as_ptr().cast(), part.layout.offset() as i64, 1) };
}

/// `Backend::put`. Without a base it cannot be interrupted, as the array would be left with some old and some new
/// values.
pub fn put(plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<()> {
    if let Some(Base { view, .. }) = base {
        let size = view.dtype.size();
        // SAFETY: the part's buffer was made for this, and nobody else has seen it.
        let (from, to) = unsafe {
            let len = view.len() * size;
            (bytes(&view.buffer, view.layout.offset() * size, len), bytes_mut(&part.buffer, 0, len))
        };
        move_bytes(from, to)?;
    }
    let (register, dtype) = plan.outputs[0];
    let (size, store) = (plan.class(register).size(), STORES[dtype as usize]);
    let step = part.layout.strides()[0] as i64;
    let target = Shared(part.buffer.address as *mut u8);
    let schedule = Schedule::new(plan, bound);
    let body = |from: usize, to: usize| {
        schedule.with_scratch(to - from, |scratch| {
            for i in (from..to).step_by(BLOCK) {
                let n = BLOCK.min(to - i);
                let values = schedule.evaluate(scratch, i, n, register, None);
                runs(part, i, n, |done, place, length| {
                    // SAFETY: the elements are within the buffer, belong to this task alone, and are no input; the
                    // register holds n values of the dtype's class.
                    unsafe {
                        let (target, values) = (target.at(0).cast::<c_void>(), values.add(done * size));
                        if step == 1 {
                            store(target, values.cast(), place, length as i32);
                        } else {
                            for k in 0..length {
                                store(target, values.add(k * size).cast(), place + k as i64 * step, 1);
                            }
                        }
                    }
                });
            }
        });
    };
    match base {
        Some(_) => parallel_if(bound.n, schedule.task(), schedule.is_worth(bound.n), body)?,
        None => {
            // Nothing is written yet, so an allocation of scratch memory may fail here.
            stoppable(|| schedule.with_scratch(0, |_| ()))?;
            body(0, bound.n);
        }
    }
    schedule.warn();
    Ok(())
}
