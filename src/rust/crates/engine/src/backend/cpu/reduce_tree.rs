//! Reductions on the cpu device whose bits depend on the order of additions. They follow the order of
//! `verdigris_ops::tree`, as CUDA devices do. The accumulators of a tile are a state of `tree.h`; tiles are merged in
//! pairs.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use super::accumulators::{Accumulators, Job};
use super::blocks::Scratch;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::error::Result;
use verdigris_ops::loops::{InTree, BLOCK};
use verdigris_ops::parallel::parallel_if;
use verdigris_ops::reduction::Groups;
use verdigris_ops::tree::{Tree, ALIGN};

/// The least number of elements of a task.
const TASK: usize = 1 << 16;

/// The most spans (ranges of tiles) into which a group is split for tasks.
const SPANS: usize = 16;

/// Bytes of the widest element.
const ELEMENT: usize = 16;

thread_local! {
    /// A state and four rows. Emptied while in use: a long task checks for interrupts, which may run R code that
    /// reduces on this thread.
    static STATE: Cell<Vec<[u64; 8]>> = const { Cell::new(Vec::new()) };
}

/// The number of lanes for short contiguous groups, each a single tile; None if groups are longer than a block or need
/// more lanes. A row that is not full needs no more lanes than it has elements.
pub(super) fn short_lanes(tree: Tree, groups: Groups) -> Option<usize> {
    const MOST: usize = 128;
    let Groups { outer, length, inner } = groups;
    let fits = inner == 1 && outer > 0 && (1..=BLOCK).contains(&length);
    (fits && (tree.lanes <= MOST || length + ALIGN - 1 <= MOST)).then_some(tree.lanes.min(MOST))
}

/// How a reduction's elements are distributed over tasks.
struct Shape {
    /// Adjacent groups that a task reduces, and how many such columns of groups make up `inner`.
    width: usize,
    columns: usize,
    /// Tiles of a group, or of the longest one, if groups begin at different places of a row.
    tiles: usize,
    /// Tiles of a task; a power of two.
    span: usize,
}

impl Shape {
    fn new(tree: Tree, groups: Groups) -> Shape {
        let Groups { outer, length, inner } = groups;
        let width = inner.min(BLOCK);
        let columns = inner.div_ceil(width);
        let first = if inner == 1 && outer > 1 { ALIGN - 1 } else { 0 };
        let tiles = (first + length).div_ceil(tree.tile());
        let spans = (SPANS / (outer * columns).clamp(1, SPANS)).max(1);
        let beside = if inner == 1 { 1 } else { width };
        let span = tiles.div_ceil(spans).max(TASK / (tree.tile() * beside)).max(1).next_power_of_two();
        Shape { width, columns, tiles, span }
    }

    fn spans(&self) -> usize {
        self.tiles.div_ceil(self.span)
    }

    /// Levels of accumulators of a task: one for a part of 2^l tiles, for each l.
    fn levels(&self) -> usize {
        self.span.ilog2() as usize + 1
    }
}

impl Job<'_> {
    /// Each group is contiguous and short: a block holds several groups, which are finished at once. Returns the status
    /// bits.
    pub(super) fn short_trees(&self, lanes: usize, f: &InTree, out: &mut [u8]) -> Result<u32> {
        let Groups { outer, length, .. } = self.groups;
        let (width, bytes, status) = (BLOCK / length, out.len() / outer, AtomicU32::new(0));
        let out = Shared(out.as_mut_ptr());
        parallel_if(outer, (TASK / length).next_multiple_of(width), self.is_worth(), |from, to| {
            self.schedule.with_scratch(BLOCK, |scratch| {
                for group in (from..to).step_by(width) {
                    let (n, i) = (width.min(to - group), group * length);
                    let values = self.schedule.evaluate(scratch, i, n * length, self.register, None);
                    let (first, lanes) = ((i % ALIGN) as i32, lanes as i32);
                    // SAFETY: n * length values of the class, and space for the results, which belong to this task
                    // alone.
                    let bits = unsafe {
                        let out = out.at(group * bytes).cast();
                        (f.groups)(out, values.cast(), first, length as i32, n as i32, lanes, self.na_rm)
                    };
                    status.fetch_or(bits, Ordering::Relaxed);
                }
            });
        })?;
        Ok(status.into_inner())
    }

    /// Reduces all groups into an accumulator each.
    pub(super) fn trees(&self, f: &InTree, tree: Tree, all: &mut Accumulators) -> Result<()> {
        // SAFETY: reports a size.
        let bytes = unsafe { (f.bytes)() } as usize;
        let shape = Shape::new(tree, self.groups);
        let (spans, width) = (shape.spans(), shape.width);
        let tasks = self.groups.outer * shape.columns * spans;
        let room = shape.levels() * width;
        let mut parts = Accumulators::new(self.f, tasks * room)?;
        let (size, memory) = (parts.size(), parts.shared());
        let each = shape.span * tree.tile() * if self.groups.inner == 1 { 1 } else { width };
        parallel_if(tasks, (TASK / each).max(1), self.is_worth(), |first, end| {
            let mut state = STATE.take();
            let wanted = (bytes.next_multiple_of(64) + 4 * BLOCK * ELEMENT) / 64;
            if !fallible::grow_task_buffer(&mut state, wanted, [0; 8]) {
                return;
            }
            let start: *mut u8 = state.as_mut_ptr().cast();
            self.schedule.with_scratch(BLOCK, |scratch| {
                for number in first..end {
                    let (column, span) = (number / spans, number % spans);
                    let from = column % shape.columns * width;
                    let mut task = Task {
                        job: self,
                        tree,
                        f,
                        group: column / shape.columns,
                        from,
                        width: width.min(self.groups.inner - from),
                        last: (span + 1) * shape.span,
                        // SAFETY: each task has accumulators of its own.
                        levels: unsafe { memory.at(number * room * size) },
                        level_bytes: width * size,
                        state: start.cast(),
                        // SAFETY: the memory behind the state has space for four rows.
                        rows: unsafe { start.add(bytes.next_multiple_of(64)) },
                        special: false,
                        scratch,
                    };
                    task.tiles(span * shape.span, shape.span, 0);
                }
            });
            STATE.set(state);
        })?;
        for column in 0..tasks / spans {
            let from = column % shape.columns * width;
            let n = width.min(self.groups.inner - from);
            let part = column * spans * room;
            parts.merge_pairwise(self.f, part, spans, room, n);
            let into = all.at(column / shape.columns * self.groups.inner + from);
            // SAFETY: both are n accumulators of this kind.
            unsafe { std::ptr::copy_nonoverlapping(parts.at(part).cast::<u8>(), into.cast(), n * size) };
        }
        Ok(())
    }
}

/// A task: some tiles of a group, or of adjacent groups.
struct Task<'a> {
    job: &'a Job<'a>,
    tree: Tree,
    f: &'a InTree,
    group: usize,
    /// The first of the adjacent groups, and their number.
    from: usize,
    width: usize,
    /// The end of the task's tiles.
    last: usize,
    /// Accumulators, `level_bytes` for each level.
    levels: *mut u8,
    level_bytes: usize,
    /// The state of `tree.h`.
    state: *mut c_void,
    /// Space for four rows.
    rows: *mut u8,
    /// Whether elements that need the special path of `tree.h` have been seen.
    special: bool,
    scratch: &'a mut Scratch,
}

impl Task<'_> {
    fn level(&self, level: usize) -> *mut c_void {
        // SAFETY: there is a level for each halving of a span, and one more.
        unsafe { self.levels.add(level * self.level_bytes).cast() }
    }

    /// Reduces up to `count` tiles (a power of two) from tile `from` on into the accumulators of a level.
    fn tiles(&mut self, from: usize, count: usize, level: usize) {
        // A group that starts at the first place of a row may have a tile less than others; the accumulators stay
        // empty.
        if from * self.tree.tile() >= self.places() {
            return;
        }
        if count == 1 {
            return self.tile(from, self.level(level));
        }
        let half = count / 2;
        self.tiles(from, half, level);
        if from + half < self.last && (from + half) * self.tree.tile() < self.places() {
            self.tiles(from + half, half, level + 1);
            // SAFETY: both have `width` accumulators.
            unsafe { (self.job.f.merge)(self.level(level), self.level(level + 1), self.width as i32) };
        }
    }

    /// The place in its first row at which the group begins.
    fn first(&self) -> usize {
        match self.job.groups.inner {
            1 => self.group * self.job.groups.length % ALIGN,
            _ => 0,
        }
    }

    fn places(&self) -> usize {
        self.first() + self.job.groups.length
    }

    fn tile(&mut self, tile: usize, into: *mut c_void) {
        let (from, to) = (tile * self.tree.tile(), ((tile + 1) * self.tree.tile()).min(self.places()));
        for _ in 0..2 {
            let lanes = match self.job.groups.inner {
                1 => self.neighbours(from, to),
                _ => self.across(from, to),
            };
            // SAFETY: `lanes` lanes are initialised, and there is space for `width` results.
            let done =
                unsafe { (self.f.collapse)(self.state, into, lanes as i32, self.width as i32, self.special.into()) };
            if done != 0 {
                return;
            }
            // Repeat the tile on the special path, and use that path for all later tiles.
            self.special = true;
        }
    }

    /// Reduces the places `from .. to` of a tile of contiguous elements; returns the number of lanes that are
    /// initialised.
    fn neighbours(&mut self, from: usize, to: usize) -> usize {
        let (lanes, first) = (self.tree.lanes, self.first());
        let used = if to - from < lanes { (to - from).next_power_of_two() } else { lanes };
        // SAFETY: the state has space for BLOCK accumulators.
        unsafe { (self.f.begin)(self.state, used as i32, self.special.into()) };
        let start = self.group * self.job.groups.length;
        let together = self.f.fours || self.job.schedule.in_memory(self.job.register);
        let mut place = from.max(first);
        while place < to {
            let fours = place % (4 * lanes) == 0 && to - place >= 4 * lanes;
            let n =
                if fours && together && lanes == BLOCK { 4 * BLOCK } else { (BLOCK - place % BLOCK).min(to - place) };
            let values = self.values(start + place - first, n);
            self.walk(place, values, n, lanes);
            place += n;
        }
        used
    }

    /// Reduces the rows `from .. to` of a tile, each with an element of every group; returns the number of lanes that
    /// are initialised.
    fn across(&mut self, from: usize, to: usize) -> usize {
        let (lanes, inner) = (self.tree.lanes, self.job.groups.inner);
        let used = if to - from < lanes { (to - from).next_power_of_two() } else { lanes };
        // SAFETY: as above; lanes times width is at most BLOCK.
        unsafe { (self.f.begin)(self.state, (used * self.width) as i32, self.special.into()) };
        let start = self.group * self.job.groups.length;
        let most = if self.width == inner { BLOCK / inner } else { 1 };
        for row in (from..to).step_by(most) {
            let n = most.min(to - row) * self.width;
            let values = self.values((start + row) * inner + self.from, n);
            self.walk((row - from) * self.width, values, n, lanes * self.width);
        }
        used
    }

    fn walk(&self, place: usize, values: *const u8, n: usize, lanes: usize) {
        let fours = i32::from(self.job.groups.inner == 1);
        // SAFETY: n values of the class, and a state in which this many lanes are initialised.
        unsafe {
            (self.f.walk)(self.state, place as i64, values.cast(), n as i32, lanes as i32, fours, self.job.na_rm)
        };
    }

    /// The values of `n` elements from `i` on: at most a block, or four blocks.
    fn values(&mut self, i: usize, n: usize) -> *const u8 {
        // SAFETY: there is space for four blocks.
        unsafe { self.job.schedule.values(self.scratch, i, n, self.job.register, self.rows) }
    }
}
