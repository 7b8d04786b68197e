//! Runs a program over lanes.
//!
//! `block` runs steps for lanes `from .. to` and returns the end of the lanes that are still active. Those are in
//! front; behind them are the lanes that have left the block, and `status` says why each left.

mod loops;

use std::cell::Cell;
use std::ffi::c_void;

use super::program::*;
use crate::memory::fallible;
use verdigris_compile::Failed;
use verdigris_ops::dtype::Class;
use verdigris_ops::parallel::should_continue;
use verdigris_ops::scalar::{Scalar, NA_I32};

/// Lanes times steps between two checks for an interrupt: a millisecond or so.
const CHECK_EVERY: usize = 1 << 21;

/// What `position` in routine.h stores for a position below 1; one less means a position beyond the extent.
const AT_LOW: i64 = -2;

/// Why a lane has left a block: to the next iteration, out of the loop, or out of the routine.
const NEXT: u8 = 1;
const BREAK: u8 = 2;
const GONE: u8 = 3;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    _bytes: [u8; 64],
}

#[derive(Default)]
struct Scratch {
    lines: Vec<Line>,
    /// The id of the program whose constants are in the memory; 0 for none.
    holds: usize,
}

thread_local! {
    /// Emptied while in use: checking for an interrupt may run R code that runs a routine on this thread.
    static SCRATCH: Cell<Scratch> = Cell::default();
}

unsafe extern "C" {
    fn vg_lanes_count(x: *const i32, n: i32, found: *mut i32);
    fn vg_lanes_offset(o: *mut i64, at: *const i64, stride: *const i64, first: i32, n: i32);
}

/// # Safety
/// As `routine::run`.
pub unsafe fn run(
    program: &Program,
    args: &[*const u8],
    tables: &[(*const c_void, i64)],
    i: usize,
    n: usize,
    results: &[*mut u8],
    words: &mut [u32],
) -> Option<Failed> {
    let mut scratch = SCRATCH.take();
    let lines = program.bytes.div_ceil(64);
    if scratch.lines.len() < lines {
        scratch.holds = 0;
        if !fallible::grow_task_buffer(&mut scratch.lines, lines, Line { _bytes: [0; 64] }) {
            return None;
        }
    }
    let base: *mut u8 = scratch.lines.as_mut_ptr().cast();
    if scratch.holds != program.id {
        for &(slot, scalar) in &program.constants {
            // SAFETY: a slot has space for an element of its size for each of the program's lanes.
            unsafe { fill(base.add(slot.offset as usize), &scalar.bytes()[..slot.size as usize], program.width) };
        }
        scratch.holds = program.id;
    }
    // SAFETY: every argument has at least one element.
    let key = program.key.map_or(0, |k| unsafe { args[k as usize].cast::<i64>().read_unaligned() });
    let mut work = 0;
    let mut failed = None;
    for from in (0..n).step_by(program.width) {
        let count = program.width.min(n - from);
        let mut lanes = Lanes {
            program,
            base,
            from,
            first: (i + from) as i64,
            key,
            tables,
            results,
            words,
            failed,
            shared: 0,
            straight: true,
            stopped: false,
            work,
        };
        // SAFETY: the caller's promise: there are `count` elements from `from` on.
        unsafe { lanes.start(args, count) };
        let end = lanes.block(&program.code, 0, count);
        lanes.give(0, end);
        (work, failed) = (lanes.work, lanes.failed);
        if lanes.stopped {
            break;
        }
    }
    SCRATCH.set(scratch);
    failed
}

/// # Safety
/// `to` has space for `n` elements.
unsafe fn fill(to: *mut u8, element: &[u8], n: usize) {
    let (mut done, all) = (element.len(), n * element.len());
    // SAFETY: the caller's promise; each copy doubles the filled part, and ends at `all` at most.
    unsafe {
        std::ptr::copy_nonoverlapping(element.as_ptr(), to, done);
        while done < all {
            std::ptr::copy_nonoverlapping(to, to.add(done), done.min(all - done));
            done *= 2;
        }
    }
}

struct Lanes<'a> {
    program: &'a Program,
    base: *mut u8,
    /// The position in the call of the first element in the lanes, and its index.
    from: usize,
    first: i64,
    key: i64,
    tables: &'a [(*const c_void, i64)],
    results: &'a [*mut u8],
    words: &'a mut [u32],
    /// The first element that has failed.
    failed: Option<Failed>,
    /// Bit k is set if the first 64 parameters include k and it has the same value in all lanes.
    shared: u64,
    /// Whether every lane still works on the element of its own index.
    straight: bool,
    stopped: bool,
    work: usize,
}

impl Lanes<'_> {
    /// The address of lane `k` of a register. All slots are in the scratch memory, and lanes are below the program's
    /// width.
    fn at(&self, slot: Slot, k: usize) -> *mut c_void {
        // SAFETY: `offset` is that of a slot, and `k` a lane of it.
        unsafe { self.base.add(slot.offset as usize + k * slot.size as usize).cast() }
    }

    fn home(&self) -> *mut i32 {
        // SAFETY: as above.
        unsafe { self.base.add(self.program.home as usize).cast() }
    }

    /// The element on which lane `k` works.
    fn element(&self, k: usize) -> usize {
        // SAFETY: as above.
        unsafe { *self.home().add(k) as usize }
    }

    /// The status of an element (not of a lane).
    fn status(&self, element: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.base.add(self.program.status as usize + element) }
    }

    /// # Safety
    /// `args` has `from + n` elements for each parameter.
    unsafe fn start(&mut self, args: &[*const u8], n: usize) {
        let program = self.program;
        for given in &program.given {
            let size = given.slot.size as usize;
            // SAFETY: the caller's promise, and a slot has space for n elements.
            let source = unsafe {
                let source = args[given.parameter as usize].add(self.from * size);
                std::ptr::copy_nonoverlapping(source, self.at(given.slot, 0).cast(), n * size);
                std::slice::from_raw_parts(source, n * size)
            };
            // All lanes have the same value if each equals the one before.
            if given.fixed && given.parameter < 64 && source[size..] == source[..(n - 1) * size] {
                self.shared |= 1 << given.parameter;
            }
        }
        for k in 0..n {
            // SAFETY: lanes are below the width.
            unsafe { *self.home().add(k) = k as i32 };
        }
        for array in &program.arrays {
            let bytes = Scalar::na(array.class).bytes();
            // SAFETY: the array has space for its length times the width.
            unsafe {
                let to = self.base.add(array.offset as usize);
                fill(to, &bytes[..array.class.size()], array.length * program.width);
            }
        }
    }

    /// Writes the results of lanes that have finished, and marks them as gone.
    fn give(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        for (&(slot, _), &result) in self.program.results.iter().zip(self.results) {
            let size = slot.size as usize;
            // SAFETY: the results have space for all elements of the call.
            unsafe {
                let result = result.add(self.from * size);
                let source = self.at(slot, 0).cast::<u8>().cast_const();
                match size {
                    _ if self.straight => std::ptr::copy_nonoverlapping(
                        source.add(from * size),
                        result.add(from * size),
                        (to - from) * size,
                    ),
                    4 => self.scatter::<u32>(source, result, from, to),
                    8 => self.scatter::<u64>(source, result, from, to),
                    _ => self.scatter::<[u64; 2]>(source, result, from, to),
                }
            }
        }
        self.leave(from, to, GONE);
    }

    /// # Safety
    /// Source and result have space for the lanes and the elements.
    unsafe fn scatter<T: Copy>(&self, source: *const u8, result: *mut u8, from: usize, to: usize) {
        let (source, result) = (source.cast::<T>(), result.cast::<T>());
        for k in from..to {
            // SAFETY: the caller's promise.
            unsafe { result.add(self.element(k)).write_unaligned(source.add(k).read()) };
        }
    }

    fn leave(&self, from: usize, to: usize, status: u8) {
        for k in from..to {
            // SAFETY: every element has a status.
            unsafe { *self.status(self.element(k)) = status };
        }
    }

    /// Records that lane `k` fails. The first element of a call that fails is reported.
    fn note_failed(&mut self, k: usize, failure: u8, subscript: f64, extent: i64) {
        let element = self.first + self.element(k) as i64;
        self.failed = Some(Failed { element, failure, subscript, extent }.first(self.failed));
    }

    fn fail(&mut self, from: usize, to: usize, failure: u8) {
        if from == to {
            return;
        }
        for k in from..to {
            self.note_failed(k, failure, 0.0, 0);
        }
        for (&(slot, class), &result) in self.program.results.iter().zip(self.results) {
            let (size, bytes) = (slot.size as usize, Scalar::na(class).bytes());
            for k in from..to {
                // SAFETY: the results have space for all elements of the call.
                unsafe {
                    let result = result.add((self.from + self.element(k)) * size);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), result, size);
                }
            }
        }
        self.leave(from, to, GONE);
    }

    /// Moves the lanes for which `stays` holds to the front; returns their end.
    fn part(&mut self, from: usize, to: usize, moves: &Moves, stays: impl Fn(&Self, usize) -> bool) -> usize {
        let [front, back] = self.program.lists.map(|offset| {
            // SAFETY: each list has space for all lanes.
            unsafe { self.base.add(offset as usize).cast::<u16>() }
        });
        // List the lanes that leave and those that stay, in order. Then each staying lane at the back is swapped with a
        // leaving one at the front.
        let (mut leaving, mut staying) = (0usize, 0usize);
        for k in from..to {
            let stay = stays(self, k);
            // SAFETY: as above.
            unsafe {
                *front.add(leaving) = k as u16;
                *back.add(staying) = k as u16;
            }
            leaving += usize::from(!stay);
            staying += usize::from(stay);
        }
        let end = from + staying;
        // SAFETY: this many were written.
        let (front, back) =
            unsafe { (std::slice::from_raw_parts(front, leaving), std::slice::from_raw_parts(back, staying)) };
        let wrong = front.partition_point(|&k| (k as usize) < end);
        self.swap(&front[..wrong], &back[staying - wrong..], moves);
        end
    }

    /// Swaps the lanes of the two lists in all registers of `moves`.
    fn swap(&mut self, a: &[u16], b: &[u16], moves: &Moves) {
        if a.is_empty() {
            return;
        }
        self.straight = false;
        let base = self.base;
        for moved in moves {
            if moved.parameter.is_some_and(|p| p < 64 && self.shared >> p & 1 != 0) {
                continue;
            }
            // SAFETY: lanes are below the width.
            unsafe {
                let at = base.add(moved.slot.offset as usize);
                match moved.slot.size {
                    4 => exchange::<u32>(at.cast(), a, b),
                    8 => exchange::<u64>(at.cast(), a, b),
                    _ => exchange::<[u64; 2]>(at.cast(), a, b),
                }
            }
        }
        // SAFETY: as above.
        unsafe { exchange::<i32>(self.home(), a, b) };
    }

    /// The active lanes are two runs, `.. from_end` and `middle .. to`. Moves the inactive lanes between them behind
    /// both, so that the runs are adjacent. Returns the end of the second run.
    fn join(&mut self, from_end: usize, middle: usize, to: usize, moves: &Moves) -> usize {
        let (gap, last) = (middle - from_end, to - middle);
        let moved = gap.min(last);
        let [front, back] = self.program.lists.map(|offset| {
            // SAFETY: each list has space for all lanes.
            unsafe { std::slice::from_raw_parts_mut(self.base.add(offset as usize).cast::<u16>(), moved) }
        });
        for k in 0..moved {
            front[k] = (from_end + k) as u16;
            back[k] = (to - moved + k) as u16;
        }
        self.swap(front, back, moves);
        from_end + last
    }

    fn block(&mut self, code: &Code, from: usize, mut to: usize) -> usize {
        for step in code {
            if from == to {
                break;
            }
            to = self.step(step, from, to);
        }
        to
    }

    fn step(&mut self, step: &Step, from: usize, to: usize) -> usize {
        let n = (to - from) as i32;
        let at = |slot: Slot| self.at(slot, from);
        // SAFETY: each loop takes lanes `from .. to` of slots of its classes; results do not alias operands except
        // where the loop allows it (see `lower`).
        unsafe {
            match step {
                Step::Apply { body, to: result, args, note } => {
                    let mut bits = 0;
                    body(at(*result), at(args[0]), at(args[1]), at(args[2]), at(args[3]), 0, n, &mut bits);
                    if let Some(word) = note {
                        self.words[*word as usize] |= bits;
                    }
                }
                Step::Choose { body, to: result, test, yes, no } => {
                    body(at(*result), at(*test).cast(), at(*yes), at(*no), n)
                }
                Step::Copy { to: result, from: source } => {
                    std::ptr::copy(at(*source).cast::<u8>(), at(*result).cast(), n as usize * result.size as usize)
                }
                Step::Vary { body, to: result, from: start, counter, step } => {
                    body(at(*result), at(*start), at(*counter).cast(), at(*step), n)
                }
                Step::Position { body, to: result, from: value, class, extent, low, high, moves } => {
                    if body(at(*result).cast(), at(*value), at(*extent).cast(), i32::from(high.is_some()), n) != 0 {
                        let failures = [Some(*low), *high];
                        for k in from..to {
                            let which = (AT_LOW - *self.at(*result, k).cast::<i64>()) as usize;
                            if let Some(Some(failure)) = failures.get(which) {
                                let subscript = self.number(*value, *class, k);
                                self.note_failed(k, *failure, subscript, *self.at(*extent, k).cast());
                            }
                        }
                        return self.outside(*result, failures, from, to, moves);
                    }
                }
                Step::Along { to: result, at: axes } => {
                    for (k, (position, stride)) in axes.iter().enumerate() {
                        vg_lanes_offset(
                            at(*result).cast(),
                            at(*position).cast(),
                            at(*stride).cast(),
                            i32::from(k == 0),
                            n,
                        );
                    }
                }
                Step::Read { body, to: result, none, table, at: position } => {
                    let (address, elements) = self.tables[*table as usize];
                    if elements > 0 {
                        body(at(*result), address, elements, at(*position).cast(), n);
                    } else {
                        fill(at(*result).cast(), &none.bytes()[..result.size as usize], n as usize);
                    }
                }
                Step::Get { body, to: result, array, at: position } => {
                    let array = &self.program.arrays[*array as usize];
                    let (address, home) = (self.base.add(array.offset as usize).cast(), self.home().add(from));
                    let (length, width) = (array.length as i64, self.program.width as i64);
                    body(at(*result), address, at(*position).cast(), home, length, width, n);
                }
                Step::Set { body, array, at: position, value } => {
                    let array = &self.program.arrays[*array as usize];
                    let (address, home) = (self.base.add(array.offset as usize).cast(), self.home().add(from));
                    let (length, width) = (array.length as i64, self.program.width as i64);
                    body(address, at(*position).cast(), at(*value), home, length, width, n);
                }
                Step::Standard { body, to: result, count } => {
                    body(at(*result), self.key, self.first, self.home().add(from), at(*count).cast(), n)
                }
                Step::Numbered { body, to: result, count, args, note } => {
                    let mut bits = 0;
                    let (home, count) = (self.home().add(from), at(*count).cast());
                    let [b, c, d] = args.map(at);
                    body(at(*result), self.key, self.first, home, count, b, c, d, n, &mut bits);
                    if let Some(word) = note {
                        self.words[*word as usize] |= bits;
                    }
                }
                Step::If(branch) => return self.branch(branch, from, to),
                Step::For(counted) => return self.count(counted, from, to),
                Step::Loop(body) => return self.run_loop(body, from, to),
                Step::Break => {
                    self.leave(from, to, BREAK);
                    return from;
                }
                Step::Next => {
                    self.leave(from, to, NEXT);
                    return from;
                }
                Step::Return => {
                    self.give(from, to);
                    return from;
                }
                Step::Fail(failure) => {
                    self.fail(from, to, *failure);
                    return from;
                }
            }
        }
        to
    }

    /// A subscript in lane `k` of a register, as a double.
    fn number(&self, slot: Slot, class: Class, k: usize) -> f64 {
        let at = self.at(slot, k);
        // SAFETY: the slot has numbers of the class.
        unsafe {
            match class {
                Class::I32 => f64::from(*at.cast::<i32>()),
                Class::I64 => *at.cast::<i64>() as f64,
                Class::F32 => f64::from(*at.cast::<f32>()),
                Class::F64 => *at.cast::<f64>(),
                Class::C64 | Class::C128 => unreachable!("complex numbers are no subscripts"),
            }
        }
    }

    /// Removes the lanes whose positions are below 1 or beyond the extent; those with a failure id fail.
    fn outside(&mut self, slot: Slot, failures: [Option<u8>; 2], from: usize, mut to: usize, moves: &Moves) -> usize {
        for (value, failure) in [AT_LOW, AT_LOW - 1].into_iter().zip(failures) {
            // SAFETY: lanes are below the width.
            let stays = |this: &Self, k: usize| unsafe { *this.at(slot, k).cast::<i64>() != value };
            let end = self.part(from, to, moves, stays);
            if let Some(failure) = failure {
                self.fail(end, to, failure);
            }
            to = end;
        }
        to
    }

    fn branch(&mut self, branch: &Branch, from: usize, mut to: usize) -> usize {
        let logical = |this: &Self, k: usize| {
            // SAFETY: lanes are below the width.
            unsafe { *this.at(branch.test, k).cast::<i32>() }
        };
        let mut found = [0i32; 2];
        // SAFETY: the test has lanes `from .. to`.
        unsafe { vg_lanes_count(self.at(branch.test, from).cast(), (to - from) as i32, found.as_mut_ptr()) };
        let [yes, mut missing] = found.map(|n| n as usize);
        if let (Some(failure), true) = (branch.missing, missing > 0) {
            let end = self.part(from, to, &branch.moves, |this, k| logical(this, k) != NA_I32);
            self.fail(end, to, failure);
            (to, missing) = (end, 0);
            if from == to {
                return from;
            }
        }
        if yes == to - from {
            return self.block(&branch.then, from, to);
        }
        if yes == 0 {
            return self.block(&branch.otherwise, from, to);
        }
        if let Some(both) = branch.both.as_ref().filter(|_| missing == 0) {
            return self.block(both, from, to);
        }
        let is_true = |this: &Self, k: usize| {
            let value = logical(this, k);
            (value != 0) & (value != NA_I32)
        };
        let (middle, first, second) = if branch.otherwise_first {
            let middle = self.part(from, to, &branch.moves, |this, k| !is_true(this, k));
            (middle, &branch.otherwise, &branch.then)
        } else {
            (self.part(from, to, &branch.moves, is_true), &branch.then, &branch.otherwise)
        };
        let first = self.block(first, from, middle);
        let second = self.block(second, middle, to);
        self.join(first, middle, second, &branch.joined)
    }

    /// Whether to go on; checks for an interrupt now and then.
    fn should_continue(&mut self, lanes: usize, steps: usize) -> bool {
        self.work += lanes * steps + 64;
        if self.work > CHECK_EVERY {
            self.work = 0;
            self.stopped |= !should_continue();
        }
        !self.stopped
    }
}

/// Swaps the lanes of the two lists in one register.
///
/// # Safety
/// The register has all those lanes, and its elements have T's size.
unsafe fn exchange<T>(register: *mut T, a: &[u16], b: &[u16]) {
    for (&a, &b) in a.iter().zip(b) {
        // SAFETY: the caller's promise; a lane is in one list only.
        unsafe { std::ptr::swap_nonoverlapping(register.add(a as usize), register.add(b as usize), 1) };
    }
}
