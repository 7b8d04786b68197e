//! Runs a plan block by block: each instruction is one compiled loop over a block.

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
use verdigris_ops::parallel::{parallel_if, should_continue};
use verdigris_ops::MOST_OPERANDS;

/// Blocks that are processed as one if no intermediate values are stored.
const BLOCKS: usize = 16;
/// Cost of a task, in loads (some 0.2 ns each): 20 microseconds.
const TASK: usize = 100_000;
/// Below this cost, a second thread does not pay: it takes some microseconds to wake up, and longer on a busy machine.
const ALONE: usize = 4 * TASK;
/// A recycled vector of at least this many elements is loaded in contiguous runs.
const RUN: usize = 32;
/// A view whose first axis has at least this many elements is loaded axis by axis.
const AXIS: usize = 8;
/// Contiguous runs of at least this many elements are read in place.
const LONG: usize = 256;
/// A block ends at the end of a run that is read in place, unless less than this is left of the run.
const REST: usize = 128;
/// Bytes of a slot: a block of the widest class.
const SLOT_BYTES: usize = BLOCK * 16;

/// Where the values of a register are.
#[derive(Clone, Copy)]
enum Location {
    /// In scratch memory.
    Slot(usize),
    /// In the input's own buffer, for a contiguous input whose dtype is natural for its class.
    Input(usize),
    /// An input that consists of long runs: in its buffer if the block is within one run, else copied to the slot.
    Run(usize, usize),
}

/// The length of the contiguous runs of a view, if they are long and need no conversion.
fn long_runs(view: &View, access: Access) -> Option<usize> {
    let run = match access {
        Access::Linear => return None,
        Access::Recycled => view.len(),
        _ if view.layout.strides().first() == Some(&1) => view.layout.shape()[0],
        _ => return None,
    };
    (run >= LONG && view.dtype.is_natural()).then_some(run)
}

/// A plan with a location for each register.
pub struct Schedule<'a> {
    plan: &'a Plan,
    bound: &'a Bound,
    locations: Vec<Location>,
    slots: usize,
    /// Elements of a block that no run ends earlier.
    most: usize,
    /// Flag bits of each register that may warn: one word for an operation, several for a call.
    flags: Vec<AtomicU32>,
    /// For each call of a routine, the first element that has failed.
    failed: Mutex<BTreeMap<Register, Failed>>,
}

thread_local! {
    /// Emptied while in use: a long task checks for interrupts, which may run R code that evaluates plans on this
    /// thread.
    static SCRATCH: Cell<Vec<[u64; 8]>> = const { Cell::new(Vec::new()) };
}

impl<'a> Schedule<'a> {
    pub fn new(plan: &'a Plan, bound: &'a Bound) -> Schedule<'a> {
        // The last instruction that reads each register; outputs are read after all instructions.
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
                // Filled once for each task, so the slot is not shared.
                Instruction::Scalar(..) => {
                    slots += 1;
                    Location::Slot(slots - 1)
                }
                // The results of a call have slots of their own.
                Instruction::Call(call) => {
                    slots += call.routine.results.len();
                    Location::Slot(slots - call.routine.results.len())
                }
                Instruction::Result { call, result } => match locations[*call as usize] {
                    Location::Slot(first) => Location::Slot(first + *result as usize),
                    Location::Input(_) | Location::Run(..) => unreachable!("results are computed"),
                },
                // The result must not share a slot with an operand: the loops assume that pointers do not alias.
                Instruction::Apply { .. } | Instruction::Gather { .. } => Location::Slot(take(&mut free)),
            };
            locations.push(location);
            // Free the slots of operands that are read for the last time; each once, though an instruction may read a
            // register twice.
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

    /// Uses longer blocks if the plan is a single loop that reads inputs in place and writes the output directly: the
    /// overhead of a block takes a tenth of the time of a sum.
    fn lengthen(&mut self) {
        let in_memory = |k: usize| matches!(self.locations[k], Location::Input(_) | Location::Run(..));
        let last = self.plan.code.len() - 1;
        if matches!(self.plan.code[last], Instruction::Apply { .. }) && (0..last).all(in_memory) {
            self.most = BLOCKS * BLOCK;
        }
    }

    /// The cost of an element, in loads.
    fn cost(&self) -> usize {
        let of = |instruction: &Instruction| match instruction {
            Instruction::Apply { op, class, .. } => op.time(*class),
            // a random access
            Instruction::Gather { .. } => 4,
            Instruction::Call(call) => call.routine.cost(),
            _ => 1,
        };
        1 + self.plan.code.iter().map(of).sum::<usize>()
    }

    /// Whether the plan is so cheap (at most two plain operations, one of them usually a cast) that writing the result
    /// to memory takes longer, for elements of 8 bytes. Slower loops do not gain from explicit prefetches, which would
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

    /// Elements of a task, in whole blocks. A long routine, which is worth a task even for fewer elements, gets part of
    /// a block.
    pub fn task(&self) -> usize {
        let most = TASK / self.cost();
        if most == 0 && self.plan.calls() {
            return BLOCK / 4;
        }
        most.max(1).next_multiple_of(BLOCK)
    }

    /// Whether `n` elements are worth more than one thread.
    pub fn is_worth(&self, n: usize) -> bool {
        n.saturating_mul(self.cost()) >= ALONE
    }

    /// Runs `body` with scratch memory whose scalar registers are filled for blocks of at most `most` elements. If
    /// memory runs out, `body` is not run and the call to which this task belongs fails.
    pub fn with_scratch(&self, most: usize, body: impl FnOnce(&mut Scratch)) {
        let mut memory = SCRATCH.take();
        // Two extra slots: for positions of strided inputs, and for the addresses of runs.
        let wanted = (self.slots + 2) * SLOT_BYTES / 64;
        if !fallible::grow_task_buffer(&mut memory, wanted, [0; 8]) {
            return;
        }
        let mut scratch = Scratch { base: memory.as_mut_ptr().cast(), turns: 0 };
        for (k, instruction) in self.plan.code.iter().enumerate() {
            if let (Instruction::Scalar(s, class), Location::Slot(slot)) = (instruction, self.locations[k]) {
                let bytes = self.bound.scalars[*s as usize].bytes();
                let (first, all) = (scratch.slot(slot), most.min(BLOCK) * class.size());
                let mut done = class.size();
                // SAFETY: a slot has space for a block of the widest class; each copy doubles the filled part and ends
                // at `all` at most.
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

    /// Computes elements `i .. i + n` (at most a block) of the instructions up to `wanted`, and returns the address of
    /// its values. They are written to `direct`, if given; later instructions do not find them there.
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
                    // SAFETY: the slot has space for a pointer for each register.
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
                Instruction::Gather { input, at } => {
                    let view = &self.bound.inputs[*input as usize];
                    let (at, m) = (self.value(scratch, *at, i).cast_const().cast::<i64>(), view.len() as i64);
                    let body = GATHERS[view.dtype as usize];
                    // SAFETY: there are n positions and space for n elements; the view's m elements are contiguous.
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
                    // SAFETY: operands and result have space for n elements of their classes and do not overlap.
                    unsafe { body(out.cast(), a, b, c, d, i as i64, n as i32, &mut bits) };
                    if bits != 0 {
                        self.note(k, &[bits]);
                    }
                }
                Instruction::Call(call) => self.call(scratch, k, call, i, n),
                Instruction::Result { .. } => {
                    let own = self.value(scratch, k as Register, i);
                    if out != own {
                        // SAFETY: the call has written n values of the class to its slot, and `out` has space for them
                        // and does not overlap it.
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

    /// Adds the flag bits that computing a register has set.
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
        // SAFETY: the arguments have n elements of the parameters' classes, each result has a slot of its own, and
        // tables are whole inputs.
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

    /// The address of a register's values for the block that begins at element `i`.
    fn value(&self, scratch: &Scratch, register: Register, i: usize) -> *mut u8 {
        match self.locations[register as usize] {
            Location::Slot(slot) => scratch.slot(slot),
            Location::Input(input) => {
                let view = &self.bound.inputs[input];
                // SAFETY: the input has more than i elements.
                unsafe { (view.address() as *mut u8).add(i * view.dtype.size()) }
            }
            // SAFETY: the register's load has written this address for the current block.
            Location::Run(..) => unsafe { *scratch.slot(self.slots + 1).cast::<*mut u8>().add(register as usize) },
        }
    }

    /// The address of element `i` of an input that consists of runs, and how many elements are left in its run.
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

    /// The length of the block at `i`: it ends with a run, so that runs need not be copied.
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
            // a recycled vector, in contiguous runs
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
                // SAFETY: the slot past the registers has space for a block of positions, all within the view.
                unsafe {
                    positions(view, i, std::slice::from_raw_parts_mut(at, n));
                    PICKS[dtype](out.cast(), view.buffer.address as *const c_void, at, n as i32);
                }
            }
        }
    }

    /// The values of `n` elements from `i` on, contiguous, for more than a block: in place if they are in memory, else
    /// computed block by block into `room`.
    ///
    /// # Safety
    /// `room` has space for `n` values of the register's class.
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
            // SAFETY: a block of values, and space for them by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(block, room.add(at * width), some * width) };
        }
        room
    }

    /// Whether a register's values are contiguous in an input, so that more than a block can be read in place.
    pub fn in_memory(&self, register: Register) -> bool {
        matches!(self.locations[register as usize], Location::Input(_))
    }

    /// Reports the flag bits that were set as warnings.
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

/// The number of flag words of a register.
fn words(plan: &Plan, register: Register) -> usize {
    match &plan.code[register as usize] {
        Instruction::Call(call) => call.routine.notes.len(),
        _ => 1,
    }
}

/// A thread's scratch memory: the slots of the registers.
pub struct Scratch {
    base: *mut u8,
    turns: u32,
}

impl Scratch {
    /// Whether to go on. Called once for each block of a task; checks for an interrupt now and then.
    pub fn should_continue(&mut self) -> bool {
        /// Blocks between two checks for an interrupt.
        const LOOK: u32 = 16;
        self.turns += 1;
        !self.turns.is_multiple_of(LOOK) || should_continue()
    }

    fn slot(&self, k: usize) -> *mut u8 {
        // SAFETY: `with_scratch` allocated every slot of the schedule and two more.
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
    // The last value is computed directly into its output, unless it must be converted, is stored twice, or an input is
    // in the same buffer: the loops assume that pointers do not alias.
    let written = plan.outputs.iter().position(|&(register, dtype)| {
        let computed = matches!(plan.code[register as usize], Instruction::Apply { .. } | Instruction::Gather { .. });
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
    parallel_if(bound.n, schedule.task(), schedule.is_worth(bound.n), |from, to| {
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
