//! Reductions on the cpu: partial results of fixed pieces, merged in order, so that the number of
//! threads does not change the answer.

use std::ffi::c_void;
use std::sync::Mutex;

use super::blocks::{Schedule, BLOCK};
use super::loops::{Folding, FOLDS};
use super::parallel::parallel;
use crate::error::Result;
use crate::plan::{Bound, Plan};
use crate::reduction::{Groups, Reduction};

/// Elements of a piece.
const PIECE: usize = 64 * BLOCK;

/// Groups of neighbours up to this length are reduced many at a time.
const SHORT: usize = 64;

/// Accumulators in a row, as raw memory that is aligned for any of them.
struct Accumulators {
    memory: Vec<[u64; 2]>,
    size: usize,
}

impl Accumulators {
    fn new(f: &Folding, n: usize) -> Accumulators {
        // SAFETY: reports a size.
        let size = unsafe { (f.size)() } as usize;
        let mut a = Accumulators { memory: vec![[0; 2]; (n * size).div_ceil(16)], size };
        for from in (0..n).step_by(BLOCK) {
            // SAFETY: there is room for n accumulators.
            unsafe { (f.start)(a.at(from), BLOCK.min(n - from) as i32) };
        }
        a
    }

    fn at(&mut self, k: usize) -> *mut c_void {
        // SAFETY: k is within the accumulators that `new` made room for.
        unsafe { self.memory.as_mut_ptr().cast::<u8>().add(k * self.size).cast() }
    }
}

/// Reduces the plan's value within groups; writes one result a group to `out`, returns the status bits.
///
/// # Errors
/// `Interrupt`.
pub fn groups(
    plan: &Plan,
    bound: &Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    out: &mut [u8],
) -> Result<u32> {
    let register = plan.outputs[0].0;
    let f = FOLDS[Reduction::ALL.iter().position(|r| *r == reduction).expect("listed")][plan.class(register) as usize]
        .as_ref()
        .expect("the array casts to a class that the reduction serves");
    let schedule = Schedule::new(plan, bound);
    let count = groups.count();
    let mut all = Accumulators::new(f, count);
    if groups.length > 0 && count > 0 {
        if groups.inner == 1 && groups.outer > 1 && groups.length <= SHORT {
            short(&schedule, f, register, plan.class(register).size(), na_rm, groups, &mut all)?;
        } else if groups.inner == 1 {
            segments(&schedule, f, register, na_rm, groups, &mut all)?;
        } else {
            lanes(&schedule, f, register, na_rm, groups, &mut all)?;
        }
    }
    schedule.warn();
    let width = out.len() / count.max(1);
    let mut status = 0;
    for k in 0..count {
        // SAFETY: `out` has room for a value of each group; a whole reduction's room is larger than its value.
        status |= unsafe { (f.finish)(out.as_mut_ptr().add(k * width).cast(), all.at(k), 1) };
    }
    Ok(status)
}

/// Each group is a run of elements that follow each other.
fn segments(
    schedule: &Schedule,
    f: &Folding,
    register: u16,
    na_rm: bool,
    groups: Groups,
    all: &mut Accumulators,
) -> Result<()> {
    let pieces = groups.length.div_ceil(PIECE);
    let partial = Mutex::new(Accumulators::new(f, groups.outer * pieces));
    // short groups share a task
    let together = (PIECE / groups.length.max(1)).max(1);
    parallel(groups.outer * pieces, together, |first, end| {
        let mut own = Accumulators::new(f, end - first);
        schedule.with_scratch(groups.length, |scratch| {
            for task in first..end {
                let (group, piece) = (task / pieces, task % pieces);
                let (from, to) = (piece * PIECE, ((piece + 1) * PIECE).min(groups.length));
                for l in (from..to).step_by(BLOCK) {
                    let n = BLOCK.min(to - l);
                    let values = schedule.evaluate(scratch, group * groups.length + l, n, register, None);
                    // SAFETY: n values of the accumulator's class.
                    unsafe { (f.fold)(own.at(task - first), values.cast(), l as i64, n as i32, na_rm.into()) };
                }
            }
        });
        let mut partial = partial.lock().unwrap_or_else(|p| p.into_inner());
        for task in first..end {
            // SAFETY: both are accumulators of this kind.
            unsafe { (f.merge)(partial.at(task), own.at(task - first), 1) };
        }
    })?;
    let mut partial = partial.into_inner().unwrap_or_else(|p| p.into_inner());
    for group in 0..groups.outer {
        for piece in 0..pieces {
            // SAFETY: as above.
            unsafe { (f.merge)(all.at(group), partial.at(group * pieces + piece), 1) };
        }
    }
    Ok(())
}

/// Each group is a few elements that follow each other: a block holds many groups, and is turned, so that the loop over
/// accumulators runs over groups.
fn short(
    schedule: &Schedule,
    f: &Folding,
    register: u16,
    size: usize,
    na_rm: bool,
    groups: Groups,
    all: &mut Accumulators,
) -> Result<()> {
    let length = groups.length;
    let width = BLOCK / length;
    let first = Mutex::new(all);
    parallel(groups.outer, (PIECE / length).next_multiple_of(width), |from, to| {
        let mut own = Accumulators::new(f, to - from);
        let mut turned = vec![[0u64; 2]; (width * size).div_ceil(16)];
        let turned: *mut u8 = turned.as_mut_ptr().cast();
        schedule.with_scratch(BLOCK, |scratch| {
            for group in (from..to).step_by(width) {
                let n = width.min(to - group);
                let values = schedule.evaluate(scratch, group * length, n * length, register, None);
                for l in 0..length {
                    // SAFETY: n * length values of the class, room for `width` of them, n accumulators.
                    unsafe {
                        match size {
                            4 => column::<u32>(values, turned, l, length, n),
                            8 => column::<u64>(values, turned, l, length, n),
                            _ => column::<[u64; 2]>(values, turned, l, length, n),
                        }
                        (f.spread)(own.at(group - from), turned.cast(), l as i64, n as i32, na_rm.into());
                    }
                }
            }
        });
        let mut all = first.lock().unwrap_or_else(|p| p.into_inner());
        // SAFETY: accumulators of this kind.
        unsafe { (f.merge)(all.at(from), own.at(0), (to - from) as i32) };
    })
}

/// Element `l` of each of `n` groups of `length`, together.
///
/// # Safety
/// `values` has `n * length` elements and `turned` room for `n`; both are aligned for `T`.
unsafe fn column<T: Copy>(values: *const u8, turned: *mut u8, l: usize, length: usize, n: usize) {
    let (values, turned) = (values.cast::<T>(), turned.cast::<T>());
    for k in 0..n {
        // SAFETY: the caller's promise.
        unsafe { turned.add(k).write(values.add(k * length + l).read()) };
    }
}

/// Neighbours belong to different groups: an accumulator a lane, walked over the axis.
fn lanes(
    schedule: &Schedule,
    f: &Folding,
    register: u16,
    na_rm: bool,
    groups: Groups,
    all: &mut Accumulators,
) -> Result<()> {
    let blocks = groups.inner.div_ceil(BLOCK);
    let done = Mutex::new(all);
    parallel(groups.outer * blocks, 1, |task, _| {
        let (o, block) = (task / blocks, task % blocks);
        let from = block * BLOCK;
        let n = BLOCK.min(groups.inner - from);
        let mut own = Accumulators::new(f, n);
        schedule.with_scratch(n, |scratch| {
            for l in 0..groups.length {
                let i = (o * groups.length + l) * groups.inner + from;
                let values = schedule.evaluate(scratch, i, n, register, None);
                // SAFETY: n values of the accumulator's class, n accumulators.
                unsafe { (f.spread)(own.at(0), values.cast(), l as i64, n as i32, na_rm.into()) };
            }
        });
        let mut all = done.lock().unwrap_or_else(|p| p.into_inner());
        // SAFETY: accumulators of this kind.
        unsafe { (f.merge)(all.at(o * groups.inner + from), own.at(0), n as i32) };
    })
}
