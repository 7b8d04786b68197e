//! Runs a plan block by block: each instruction is one compiled loop over a block of a register.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::walk::{positions, runs};
use super::{memory, routine};
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use crate::plan::warning;
use crate::plan::{Access, Bound, Call, Instruction, Plan, Register};
use verdigris_compile::Failed;
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::loops::{BLOCK, GATHERS, LOADS, LOOPS, PICKS, STORES, STRIDES};
use verdigris_ops::parallel::{goes_on, spread};
use verdigris_ops::MOST_OPERANDS;

/// So many blocks are one where nothing is kept between instructions.
const BLOCKS: usize = 16;
/// What one task takes, in loads (some 0.2 ns each): 20 microseconds.
const TASK: usize = 100_000;
/// What is not worth a second thread, which takes some microseconds to wake up, and longer where others use the
/// machine.
const ALONE: usize = 4 * TASK;
/// A recycled vector of this many elements or more is read run by run.
const RUN: usize = 32;
/// A view whose first axis has this many elements or more is read run by run.
const AXIS: usize = 8;
/// Runs of so many neighbours are read where they lie.
const LONG: usize = 256;
/// A block ends with such a run, unless less than this is left of it.
const REST: usize = 128;
/// Bytes of a register: a block of the widest class.
const SLOT_BYTES: usize = BLOCK * 16;

/// Where a register's block lies.
#[derive(Clone, Copy)]
enum Location {
    /// In scratch memory.
    Slot(usize),
    /// In the input's own buffer: element `i` of a contiguous input that is stored as it computes.
    Input(usize),
    /// Of an input that consists of long runs: in its buffer where a block is part of one, else copied to the slot.
    Run(usize, usize),
}

/// The length of the runs of neighbours that a view consists of, where they are long and stored as they compute.
fn long_runs(view: &View, access: Access) -> Option<usize> {
    let run = match access {
        Access::Linear => return None,
        Access::Recycled => view.len(),
        _ if view.layout.strides().first() == Some(&1) => view.layout.shape()[0],
        _ => return None,
    };
    (run >= LONG && view.dtype.is_natural()).then_some(run)
}

/// A plan with its registers placed.
pub struct Schedule<'a> {
    plan: &'a Plan,
    bound: &'a Bound,
    locations: Vec<Location>,
    slots: usize,
    /// Elements of a block, where runs do not end it.
    most: usize,
    /// Flag bits of each register that may warn: a word for an operation, several for a call.
    flags: Vec<AtomicU32>,
    /// Of each call of a routine the first element that has failed.
    failed: Mutex<BTreeMap<Register, Failed>>,
}

thread_local! {
    /// Taken while it is in use: a long task asks for an interrupt, which may run code of R's that comes here again.
    static SCRATCH: Cell<Vec<[u64; 8]>> = const { Cell::new(Vec::new()) };
}

impl<'a> Schedule<'a> {
    pub fn new(plan: &'a Plan, bound: &'a Bound) -> Schedule<'a> {
        // the last instruction that reads each register; outputs are read after all
        let mut last = vec![0usize; plan.code.len()];
        for (k, instruction) in plan.code.iter().enumerate() {
            last[k] = last[k].max(k);
            for &operand in instruction.operands() {
                last[operand as usize] = k;
            }
        }
        for &(register, _) in &plan.outputs {
            last[register as usize] = usize::MAX;
        }
        let mut locations = Vec::with_capacity(plan.code.len());
        let (mut slots, mut free) = (0, Vec::new());
        for (k, instruction) in plan.code.iter().enumerate() {
            let mut take = |free: &mut Vec<usize>| {
                free.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                })
            };
            let location = match instruction {
                Instruction::Load(input) => {
                    let (input, access) = (*input as usize, plan.inputs[*input as usize].access);
                    if long_runs(&bound.inputs[input], access).is_some() {
                        Location::Run(take(&mut free), input)
                    } else if matches!(access, Access::Linear) && plan.inputs[input].dtype.is_natural() {
                        Location::Input(input)
                    } else {
                        Location::Slot(take(&mut free))
                    }
                }
                // filled once a task, so its slot is its own throughout
                Instruction::Scalar(..) => {
                    slots += 1;
                    Location::Slot(slots - 1)
                }
                // the slots of its results, theirs throughout
                Instruction::Call(call) => {
                    slots += call.routine.results.len();
                    Location::Slot(slots - call.routine.results.len())
                }
                Instruction::Result { call, result } => match locations[*call as usize] {
                    Location::Slot(first) => Location::Slot(first + *result as usize),
                    Location::Input(_) | Location::Run(..) => unreachable!("results are computed"),
                },
                // the result never shares a slot with an operand: the loops' pointers do not alias
                Instruction::Apply { .. } | Instruction::Pick { .. } => Location::Slot(take(&mut free)),
            };
            locations.push(location);
            // what is read here for the last time; each register once, though an instruction may read it twice
            let operands = instruction.operands();
            for (j, &r) in operands.iter().chain([&(k as Register)]).enumerate() {
                let own = |r: usize| {
                    matches!(plan.code[r], Instruction::Scalar(..) | Instruction::Call(_) | Instruction::Result { .. })
                };
                let again = operands[..j.min(operands.len())].contains(&r);
                let r = r as usize;
                if last[r] == k && !again && !own(r) {
                    if let Location::Slot(slot) | Location::Run(slot, _) = locations[r] {
                        free.push(slot);
                    }
                }
            }
        }
        let words = bound.sites.iter().map(|(register, _)| words(plan, *register)).sum();
        let flags = std::iter::repeat_with(|| AtomicU32::new(0)).take(words).collect();
        Schedule { plan, bound, locations, slots, most: BLOCK, flags, failed: Mutex::default() }
    }

    /// Takes longer blocks, for one loop over inputs in memory whose last value is computed where it belongs: what a
    /// block costs beside its loops is a tenth of a sum's time.
    fn lengthen(&mut self) {
        let in_memory = |k: usize| matches!(self.locations[k], Location::Input(_) | Location::Run(..));
        let last = self.plan.code.len() - 1;
        if matches!(self.plan.code[last], Instruction::Apply { .. }) && (0..last).all(in_memory) {
            self.most = BLOCKS * BLOCK;
        }
    }

    /// What an element costs, in loads.
    fn cost(&self) -> usize {
        let of = |instruction: &Instruction| match instruction {
            Instruction::Apply { op, class, .. } => op.time(*class),
            // anywhere in memory
            Instruction::Pick { .. } => 4,
            Instruction::Call(call) => call.routine.cost(),
            _ => 1,
        };
        1 + self.plan.code.iter().map(of).sum::<usize>()
    }

    /// Whether an operation, with at most a cast before it, takes less time than writing the result to memory, in
    /// elements of 8 bytes. In longer loops the processor's own prefetching is enough, and explicit prefetches would
    /// delay their reads.
    fn waits_for_memory(&self) -> bool {
        let mut left = 2;
        self.plan.code.iter().all(|instruction| match instruction {
            Instruction::Apply { op, .. } => {
                left -= 1;
                left >= 0 && op.row().arity <= 2 && op.is_plain() && ![id::DIV, id::SQRT].contains(op)
            }
            Instruction::Load(_) | Instruction::Scalar(..) => true,
            _ => false,
        })
    }

    /// How many elements a task takes, whole blocks, where they are worth more than one thread. Of a long function,
    /// whose turns are worth a dispatch each for fewer elements too, a part of a block.
    pub fn task(&self) -> usize {
        let most = TASK / self.cost();
        if most == 0 && self.plan.calls() {
            return BLOCK / 4;
        }
        most.max(1).next_multiple_of(BLOCK)
    }

    /// Whether so many elements are worth more than one thread.
    pub fn is_worth(&self, n: usize) -> bool {
        n.saturating_mul(self.cost()) >= ALONE
    }

    /// Runs `body` with scratch memory whose scalar registers are filled, for blocks of at most `most` elements. It does
    /// not run, and the call of this task fails, where there is no memory.
    pub fn with_scratch(&self, most: usize, body: impl FnOnce(&mut Scratch)) {
        let mut memory = SCRATCH.take();
        // one more for the positions of strided inputs, and one for where runs lie
        let wanted = (self.slots + 2) * SLOT_BYTES / 64;
        if !fallible::room_for_task(&mut memory, wanted, [0; 8]) {
            return;
        }
        let mut scratch = Scratch { base: memory.as_mut_ptr().cast(), turns: 0 };
        for (k, instruction) in self.plan.code.iter().enumerate() {
            if let (Instruction::Scalar(s, class), Location::Slot(slot)) = (instruction, self.locations[k]) {
                let bytes = self.bound.scalars[*s as usize].bytes();
                let (first, all) = (scratch.slot(slot), most.min(BLOCK) * class.size());
                let mut done = class.size();
                // SAFETY: a slot has room for a block of the widest class; what is there is doubled, and ends where it
                // should.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, done);
                    while done < all {
                        std::ptr::copy_nonoverlapping(first, first.add(done), done.min(all - done));
                        done *= 2;
                    }
                }
            }
        }
        body(&mut scratch);
        SCRATCH.set(memory);
    }

    /// Computes elements `i .. i + n` (at most a block) of the instructions up to `wanted` and returns where its
    /// values lie: at `direct` where that is given. No later instruction reads them there.
    pub fn evaluate(
        &self,
        scratch: &mut Scratch,
        i: usize,
        n: usize,
        wanted: Register,
        direct: Option<*mut u8>,
    ) -> *const u8 {
        let mut result = std::ptr::null();
        for (k, instruction) in self.plan.code.iter().enumerate() {
            let out = match (direct, self.locations[k]) {
                (Some(out), _) if k == wanted as usize => out,
                (_, Location::Run(slot, input)) => {
                    let (start, left) = self.run(input, i);
                    let out = if left < n { scratch.slot(slot) } else { start };
                    // SAFETY: the slot has room for a pointer of each register.
                    unsafe { scratch.slot(self.slots + 1).cast::<*mut u8>().add(k).write(out) };
                    if left >= n {
                        result = out.cast_const();
                        if k == wanted as usize {
                            break;
                        }
                        continue;
                    }
                    out
                }
                _ => self.value(scratch, k as Register, i),
            };
            match instruction {
                Instruction::Scalar(..) => {}
                Instruction::Load(_) if matches!(self.locations[k], Location::Input(_)) => {}
                Instruction::Load(input) => self.load(scratch, *input as usize, i, n, out),
                Instruction::Pick { input, at } => {
                    let view = &self.bound.inputs[*input as usize];
                    let (at, m) = (self.value(scratch, *at, i).cast_const().cast::<i64>(), view.len() as i64);
                    let body = GATHERS[view.dtype as usize];
                    // SAFETY: n positions, room for n elements, and the view has m that follow each other.
                    unsafe { body(out.cast(), view.address() as *const c_void, m, at, n as i32) };
                }
                Instruction::Apply { op, class, args } => {
                    let mut operands = [std::ptr::null::<c_void>(); MOST_OPERANDS];
                    for (operand, &arg) in operands.iter_mut().zip(&args[..op.row().arity as usize]) {
                        *operand = self.value(scratch, arg, i).cast();
                    }
                    let body = LOOPS[op.0 as usize][*class as usize]
                        .expect("the type rules allow only classes that have an expression");
                    let [a, b, c, d] = operands;
                    let mut bits = 0u32;
                    // SAFETY: operands and result have room for n elements of their classes and do not overlap.
                    unsafe { body(out.cast(), a, b, c, d, i as i64, n as i32, &mut bits) };
                    if bits != 0 {
                        self.note(k, &[bits]);
                    }
                }
                Instruction::Call(call) => self.call(scratch, k, call, i, n),
                Instruction::Result { .. } => {
                    let own = self.value(scratch, k as Register, i);
                    if out != own {
                        // SAFETY: the call has put n values of the class there, and the caller has room for them
                        // elsewhere.
                        unsafe { std::ptr::copy_nonoverlapping(own, out, n * self.plan.class(k as Register).size()) };
                    }
                }
            }
            if k == wanted as usize {
                result = out.cast_const();
                break;
            }
        }
        result
    }

    /// Keeps what a register's computation has noted.
    fn note(&self, register: usize, words: &[u32]) {
        let mut first = 0;
        for (at, _) in &self.bound.sites {
            if *at as usize == register {
                for (flag, &bits) in self.flags[first..].iter().zip(words) {
                    flag.fetch_or(bits, Ordering::Relaxed);
                }
                return;
            }
            first += self::words(self.plan, *at);
        }
    }

    /// Runs a routine for elements `i .. i + n`.
    fn call(&self, scratch: &Scratch, register: usize, call: &Call, i: usize, n: usize) {
        let args: Vec<*const u8> = call.args.iter().map(|&arg| self.value(scratch, arg, i).cast_const()).collect();
        let table = |&k: &u16| {
            let view = &self.bound.inputs[k as usize];
            (view.address() as *const c_void, view.len() as i64)
        };
        let tables: Vec<(*const c_void, i64)> = call.tables.iter().map(table).collect();
        let Location::Slot(first) = self.locations[register] else { unreachable!("results are computed") };
        let results: Vec<*mut u8> = (0..call.routine.results.len()).map(|k| scratch.slot(first + k)).collect();
        let mut words = vec![0; call.routine.notes.len()];
        // SAFETY: the arguments have n elements of the parameters' classes, each result a slot of its own, and tables
        // are whole inputs.
        let failed = unsafe { routine::run(call.routine.0, &args, &tables, i, n, &results, &mut words) };
        if words.iter().any(|&bits| bits != 0) {
            self.note(register, &words);
        }
        if let Some(failed) = failed {
            let mut all = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            let first = failed.first(all.get(&(register as Register)).copied());
            all.insert(register as Register, first);
        }
    }

    /// Where a register's values for the block at element `i` lie.
    fn value(&self, scratch: &Scratch, register: Register, i: usize) -> *mut u8 {
        match self.locations[register as usize] {
            Location::Slot(slot) => scratch.slot(slot),
            Location::Input(input) => {
                let view = &self.bound.inputs[input];
                // SAFETY: the input has more than i elements.
                unsafe { (view.address() as *mut u8).add(i * view.dtype.size()) }
            }
            // SAFETY: its load has written this for the block at hand.
            Location::Run(..) => unsafe { *scratch.slot(self.slots + 1).cast::<*mut u8>().add(register as usize) },
        }
    }

    /// Where element `i` of an input that consists of runs lies, and how many neighbours there are from there on.
    fn run(&self, input: usize, i: usize) -> (*mut u8, usize) {
        let view = &self.bound.inputs[input];
        let at = i % view.len();
        let (offset, left) = match self.plan.inputs[input].access {
            Access::Recycled => (view.layout.offset() + at, view.len() - at),
            _ => (view.layout.offset_of(at), view.layout.shape()[0] - at % view.layout.shape()[0]),
        };
        // SAFETY: the offset is within the buffer.
        (unsafe { (view.buffer.address as *mut u8).add(offset * view.dtype.size()) }, left)
    }

    /// How many elements a block at `i` has, so that runs need not be copied.
    fn block(&self, i: usize) -> usize {
        let left = |location: &Location| match *location {
            Location::Run(_, input) => Some(self.run(input, i).1).map(|left| if left >= REST { left } else { BLOCK }),
            _ => None,
        };
        self.locations.iter().filter_map(left).fold(self.most, usize::min)
    }

    fn load(&self, scratch: &mut Scratch, input: usize, i: usize, n: usize, out: *mut u8) {
        let view = &self.bound.inputs[input];
        let dtype = view.dtype as usize;
        match self.plan.inputs[input].access {
            // SAFETY: the view has i + n elements.
            Access::Linear => unsafe { LOADS[dtype](out.cast(), view.address() as *const c_void, i as i64, n as i32) },
            // a vector that is recycled, in the runs that it consists of
            Access::Recycled if view.len() >= RUN => {
                let (mut done, mut from) = (0, i % view.len());
                while done < n {
                    let run = (view.len() - from).min(n - done);
                    // SAFETY: the run is within the view and within the block.
                    unsafe {
                        let target = out.add(done * view.dtype.class().size());
                        LOADS[dtype](target.cast(), view.address() as *const c_void, from as i64, run as i32);
                    }
                    (done, from) = (done + run, 0);
                }
            }
            _ if view.layout.shape()[0] >= AXIS => {
                let (base, size) = (view.buffer.address as *const c_void, view.dtype.class().size());
                let step = view.layout.strides()[0] as i64;
                runs(view, i, n, |done, at, run| {
                    // SAFETY: the run is within the view and within the block.
                    unsafe {
                        let target = out.add(done * size).cast();
                        match step {
                            1 => LOADS[dtype](target, base, at, run as i32),
                            _ => STRIDES[dtype](target, base, at, step, run as i32),
                        }
                    }
                });
            }
            _ => {
                let at = scratch.slot(self.slots).cast::<i64>();
                // SAFETY: the slot past the registers has room for a block of positions, all within the view.
                unsafe {
                    positions(view, i, std::slice::from_raw_parts_mut(at, n));
                    PICKS[dtype](out.cast(), view.buffer.address as *const c_void, at, n as i32);
                }
            }
        }
    }

    /// The values of `n` elements from `i` on beside each other, for more than a block: where they lie in memory, or
    /// brought to `room`.
    ///
    /// # Safety
    /// `room` has room for `n` values of the register's class.
    pub unsafe fn values(
        &self,
        scratch: &mut Scratch,
        i: usize,
        n: usize,
        register: Register,
        room: *mut u8,
    ) -> *const u8 {
        if n <= BLOCK || self.in_memory(register) {
            return self.evaluate(scratch, i, n, register, None);
        }
        let width = self.plan.class(register).size();
        for at in (0..n).step_by(BLOCK) {
            let some = BLOCK.min(n - at);
            let block = self.evaluate(scratch, i + at, some, register, None);
            // SAFETY: a block of values, and room for them by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(block, room.add(at * width), some * width) };
        }
        room
    }

    /// Whether a register's values lie in memory one after the other, so that more than a block is there at once.
    pub fn in_memory(&self, register: Register) -> bool {
        matches!(self.locations[register as usize], Location::Input(_))
    }

    /// Hands the flag bits that were set to the warnings.
    pub fn warn(&self) {
        let mut flags = &self.flags[..];
        for (register, site) in &self.bound.sites {
            let (own, others) = flags.split_at(words(self.plan, *register));
            flags = others;
            let bits = || own.iter().map(|bits| bits.load(Ordering::Relaxed));
            let noted = bits().any(|bits| bits != 0);
            match &self.plan.code[*register as usize] {
                Instruction::Apply { op, .. } if noted => {
                    bits().for_each(|bits| warning::note(*op, bits, site.as_ref()));
                }
                Instruction::Call(call) => {
                    let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(register).copied();
                    if noted || failed.is_some() {
                        warning::note_call(call.routine.0, &bits().collect::<Vec<_>>(), failed, site.as_ref());
                    }
                }
                _ => {}
            }
        }
    }
}

/// How many words of flags a register's computation has.
fn words(plan: &Plan, register: Register) -> usize {
    match &plan.code[register as usize] {
        Instruction::Call(call) => call.routine.notes.len(),
        _ => 1,
    }
}

/// A thread's registers.
pub struct Scratch {
    base: *mut u8,
    turns: u32,
}

impl Scratch {
    /// Called once a block by tasks of any number of them: whether to go on.
    pub fn goes_on(&mut self) -> bool {
        /// Blocks between two looks at the clock.
        const LOOK: u32 = 16;
        self.turns += 1;
        !self.turns.is_multiple_of(LOOK) || goes_on()
    }

    fn slot(&self, k: usize) -> *mut u8 {
        // SAFETY: `with_scratch` made room for every slot of the schedule and one more.
        unsafe { self.base.add(k * SLOT_BYTES) }
    }
}

/// Computes every output of the plan.
///
/// # Errors
/// `Interrupt`.
pub fn run(plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
    if let ([Instruction::Scalar(s, _), Instruction::Apply { op, .. }], [(_, dtype)]) =
        (&plan.code[..], &plan.outputs[..])
    {
        if *op == id::CONSTANT && bound.scalars[*s as usize].bytes().iter().all(|&byte| byte == 0) {
            return memory::clear(&outputs[0], bound.n * dtype.size());
        }
    }
    let mut schedule = Schedule::new(plan, bound);
    let last = plan.outputs.iter().map(|(register, _)| *register).max().unwrap_or(0);
    // the last value is computed where it belongs, unless it must be converted, is wanted twice, or an input lies
    // there: the loops' pointers do not alias
    let written = plan.outputs.iter().position(|&(register, dtype)| {
        let computed = matches!(plan.code[register as usize], Instruction::Apply { .. } | Instruction::Pick { .. });
        register == last && computed && dtype.is_natural() && plan.class(register) == dtype.class()
    });
    let twice = plan.outputs.iter().filter(|(register, _)| *register == last).count() > 1;
    let written = written.filter(|&k| !twice && bound.inputs.iter().all(|v| v.buffer.address != outputs[k].address));
    if written.is_some() {
        schedule.lengthen();
    }
    let waits = schedule.waits_for_memory();
    let far = |k: &usize| waits && plan.outputs[*k].1.size() >= 8 && outputs[*k].bytes >= memory::FAR;
    let far: Vec<usize> = (0..outputs.len()).filter(far).collect();
    spread(bound.n, schedule.task(), schedule.is_worth(bound.n), |from, to| {
        schedule.with_scratch(to - from, |scratch| {
            let mut i = from;
            while i < to {
                let n = schedule.block(i).min(to - i);
                for &k in &far {
                    let size = plan.outputs[k].1.size();
                    memory::fetch((outputs[k].address as *const u8).wrapping_add(i * size), n * size);
                }
                // SAFETY: the buffer has bound.n elements of the dtype.
                let direct =
                    written.map(|k| unsafe { (outputs[k].address as *mut u8).add(i * plan.outputs[k].1.size()) });
                schedule.evaluate(scratch, i, n, last, direct);
                for (k, (&(register, dtype), buffer)) in plan.outputs.iter().zip(outputs).enumerate() {
                    if written != Some(k) {
                        let values = schedule.value(scratch, register, i);
                        // SAFETY: as above, and the register holds n values of the dtype's class.
                        unsafe {
                            STORES[dtype as usize](buffer.address as *mut c_void, values.cast(), i as i64, n as i32)
                        };
                    }
                }
                i += n;
            }
        });
    })?;
    schedule.warn();
    Ok(())
}
