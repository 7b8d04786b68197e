//! Reductions on the cpu device. Reductions whose results depend on the order of additions follow the tree
//! (`reduce_tree.rs`); for the others, threads reduce pieces in any order.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use super::accumulators::{Accumulators, Job};
use super::blocks::{Schedule, Scratch};
use super::reduce_tree;
use crate::memory::staging::Shared;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;
use verdigris_ops::loops::BLOCK;
use verdigris_ops::loops::{Adding, Folding, InAnyOrder};
use verdigris_ops::parallel::parallel_if;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::tree::Tree;

/// Elements of a piece.
const PIECE: usize = 64 * BLOCK;

/// Contiguous groups up to this length are reduced many at a time.
const SHORT: usize = 64;

/// The most pieces of a group if neighbours belong to different groups: each piece has an accumulator for every
/// neighbour.
const PIECES: usize = 16;

/// Reduces the plan's value within groups; writes one result for each group to `out`, and returns the status bits.
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
    let class = plan.class(register);
    let f = Folding::of(reduction, class);
    let schedule = Schedule::new(plan, bound);
    let count = groups.count();
    let job = Job { schedule: &schedule, f, register, na_rm: na_rm.into(), groups };
    let status = match &f.adding {
        Adding::Tree(own) => reduce_tree::short_lanes(Tree::of(reduction, class, groups), groups)
            .map(|lanes| job.short_trees(lanes, own, out)),
        Adding::Any(own) if groups.inner == 1 && count > 1 && (1..=SHORT).contains(&groups.length) => {
            Some(job.short(own, out))
        }
        Adding::Any(_) => None,
    };
    if let Some(status) = status {
        let status = status?;
        schedule.warn();
        return Ok(status);
    }
    let mut all = Accumulators::new(f, count)?;
    match &f.adding {
        _ if groups.length == 0 || count == 0 => {}
        Adding::Tree(own) => job.trees(own, Tree::of(reduction, class, groups), &mut all)?,
        Adding::Any(own) => match groups.inner {
            1 => job.segments(own, &mut all)?,
            2..=BLOCK => job.rows(own, &mut all)?,
            _ => job.lanes(own, &mut all)?,
        },
    }
    schedule.warn();
    let (mut status, width) = (0, out.len() / count.max(1));
    for from in (0..count).step_by(BLOCK) {
        let n = BLOCK.min(count - from);
        // SAFETY: `out` has space for a value of each group; for a whole reduction it is larger than the value.
        status |= unsafe { (f.finish)(out.as_mut_ptr().add(from * width).cast(), all.at(from), n as i32) };
    }
    Ok(status)
}

impl Job<'_> {
    /// Runs tasks that reduce into `width` accumulators each. `pieces` consecutive tasks belong to one result, and are
    /// merged in order; `together` tasks are run by a thread at a time.
    fn merged(
        &self,
        all: &mut Accumulators,
        (pieces, width, together): (usize, usize, usize),
        body: impl Fn(usize, *mut c_void, &mut Scratch) + Sync,
    ) -> Result<()> {
        let tasks = self.groups.count() / width * pieces;
        let (mut partial, size) =
            ((pieces > 1).then(|| Accumulators::new(self.f, tasks * width)).transpose()?, all.size());
        let memory = partial.as_mut().unwrap_or(all).shared();
        parallel_if(tasks, together, self.is_worth(), |first, end| {
            self.schedule.with_scratch(BLOCK, |scratch| {
                for task in first..end {
                    // SAFETY: each task has accumulators of its own.
                    body(task, unsafe { memory.at(task * width * size) }.cast(), scratch);
                }
            });
        })?;
        if let Some(partial) = &mut partial {
            for task in 0..tasks {
                // SAFETY: both are `width` accumulators of this kind.
                unsafe { (self.f.merge)(all.at(task / pieces * width), partial.at(task * width), width as i32) };
            }
        }
        Ok(())
    }

    /// Each group is contiguous.
    fn segments(&self, any: &InAnyOrder, all: &mut Accumulators) -> Result<()> {
        let length = self.groups.length;
        let pieces = length.div_ceil(PIECE);
        // Short groups share a task.
        self.merged(all, (pieces, 1, (PIECE / length).max(1)), |task, own, scratch| {
            let (group, piece) = (task / pieces, task % pieces);
            let to = ((piece + 1) * PIECE).min(length);
            for l in (piece * PIECE..to).step_by(BLOCK) {
                let n = BLOCK.min(to - l);
                let values = self.schedule.evaluate(scratch, group * length + l, n, self.register, None);
                // SAFETY: n values of the accumulator's class.
                unsafe { (any.fold)(own, values.cast(), l as i64, n as i32, self.na_rm) };
            }
        })
    }

    /// Each group is contiguous and short: a block holds many groups, which are finished at once. Returns the status
    /// bits.
    fn short(&self, any: &InAnyOrder, out: &mut [u8]) -> Result<u32> {
        let Groups { outer, length, .. } = self.groups;
        let (width, bytes, status) = (BLOCK / length, out.len() / outer, AtomicU32::new(0));
        let out = Shared(out.as_mut_ptr());
        parallel_if(outer, (PIECE / length).next_multiple_of(width), self.is_worth(), |from, to| {
            self.schedule.with_scratch(BLOCK, |scratch| {
                for group in (from..to).step_by(width) {
                    let n = width.min(to - group);
                    let values = self.schedule.evaluate(scratch, group * length, n * length, self.register, None);
                    // SAFETY: n * length values of the class, and space for the results, which belong to this task
                    // alone.
                    let bits = unsafe {
                        (any.short)(out.at(group * bytes).cast(), values.cast(), length as i32, n as i32, self.na_rm)
                    };
                    status.fetch_or(bits, Ordering::Relaxed);
                }
            });
        })?;
        Ok(status.into_inner())
    }

    /// Neighbours belong to different groups, and a block holds several rows of them.
    fn rows(&self, any: &InAnyOrder, all: &mut Accumulators) -> Result<()> {
        let Groups { inner, length, .. } = self.groups;
        let most = BLOCK / inner;
        let piece = PIECE.div_ceil(inner).max(length.div_ceil(PIECES)).next_multiple_of(most);
        let pieces = length.div_ceil(piece);
        self.merged(all, (pieces, inner, (PIECE / (inner * length)).max(1)), |task, own, scratch| {
            let (o, from) = (task / pieces, task % pieces * piece);
            let to = (from + piece).min(length);
            for l in (from..to).step_by(most) {
                if !scratch.should_continue() {
                    return;
                }
                let rows = most.min(to - l);
                let i = (o * length + l) * inner;
                let values = self.schedule.evaluate(scratch, i, rows * inner, self.register, None);
                // SAFETY: rows * inner values of the accumulator's class, `inner` accumulators.
                unsafe { (any.rows)(own, values.cast(), l as i64, rows as i32, inner as i32, self.na_rm) };
            }
        })
    }

    /// Neighbours belong to different groups, and a row is longer than a block: each task walks a block of columns row
    /// by row.
    fn lanes(&self, any: &InAnyOrder, all: &mut Accumulators) -> Result<()> {
        let Groups { inner, length, outer } = self.groups;
        let blocks = inner.div_ceil(BLOCK);
        let (all, size) = (all.shared(), all.size());
        parallel_if(outer * blocks, 1, self.is_worth(), |task, _| {
            let (o, from) = (task / blocks, task % blocks * BLOCK);
            let n = BLOCK.min(inner - from);
            // SAFETY: no other task has these accumulators.
            let own = unsafe { all.at((o * inner + from) * size) };
            self.schedule.with_scratch(n, |scratch| {
                for l in 0..length {
                    if !scratch.should_continue() {
                        return;
                    }
                    let i = (o * length + l) * inner + from;
                    let values = self.schedule.evaluate(scratch, i, n, self.register, None);
                    // SAFETY: n values of the accumulator's class, n accumulators.
                    unsafe { (any.rows)(own.cast(), values.cast(), l as i64, 1, n as i32, self.na_rm) };
                }
            });
        })
    }
}
