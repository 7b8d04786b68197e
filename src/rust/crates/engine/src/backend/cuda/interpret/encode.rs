//! Encodes a plan, with its scalars and views, as a program: the bytes that `kernels/interpret.h` executes.

use super::source::{Codes, Family, THREADS};
use crate::backend::cuda::codegen::notes::FlagBits;
use crate::memory::buffer::View;
use crate::plan::{Access, Bound, Input, Instruction, Plan, Register};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::DType;
use verdigris_ops::MOST_OPERANDS;

/// Size and layout of `struct Program` in interpret.h: a header of 48 bytes, then the words.
const BYTES: usize = 4096;
const WORDS_AT: usize = 48;
const WORDS: usize = (BYTES - WORDS_AT) / 8;
/// Offset of two addresses that are filled in before the launch: of the flag words and of the host's word.
const FLAGS_AT: usize = 8;

// operands other than slots, as in interpret.h
const NONE: u8 = 126;
const ACC: u8 = 127;
const SCALAR: u8 = 128;
const MOST_SLOTS: usize = NONE as usize;
const MOST_SCALARS: usize = 128;
/// The flag position of instructions that raise no warnings.
const NOWHERE: u16 = 0xFFFF;

pub struct Program {
    pub family: Family,
    pub bytes: Vec<u8>,
    /// Bytes of shared memory: for each thread, and for the scalars of a block.
    shared: (usize, usize),
    n: usize,
}

impl Program {
    /// Sets the addresses of the flag words on the device, for warnings, and of the host's word.
    pub fn set_flags(&mut self, words: u64, any: u64) {
        self.bytes[FLAGS_AT..FLAGS_AT + 8].copy_from_slice(&words.to_ne_bytes());
        self.bytes[FLAGS_AT + 8..FLAGS_AT + 16].copy_from_slice(&any.to_ne_bytes());
    }

    /// Bytes of shared memory for a block of `threads` threads.
    pub fn shared(&self, threads: usize) -> usize {
        self.shared.0 * threads + self.shared.1
    }

    pub fn blocks(&self, threads: usize) -> usize {
        self.n.div_ceil(threads * self.family.pack())
    }
}

/// An instruction of the program: compute a register, or store one as output `k`.
enum Step {
    Value(Register),
    Store(usize, Register),
}

/// The steps at which a value is defined and last used, and whether it must be in a slot. The accumulator cannot be a
/// third operand.
#[derive(Clone, Copy, Default)]
struct Uses {
    defined: usize,
    last: usize,
    needs_slot: bool,
}

/// The first family that serves every instruction of a plan; `None` if no family does.
pub fn family_of(plan: &Plan) -> Option<Family> {
    if plan.calls() {
        return None;
    }
    Family::ALL.into_iter().find(|&family| {
        (0..plan.code.len()).all(|r| family.serves_class(plan.class(r as Register)))
            && plan.outputs.iter().all(|(_, dtype)| family.serves_class(dtype.class()))
            && plan.code.iter().all(|i| match i {
                Instruction::Apply { op, class, .. } => family.serves(*op, *class),
                _ => true,
            })
    })
}

/// The instructions of a plan in order, each followed by the stores of its value. Scalars need no instruction.
fn steps(plan: &Plan) -> Vec<Step> {
    let mut steps = Vec::with_capacity(plan.code.len() + plan.outputs.len());
    let is_scalar = |r: Register| matches!(plan.code[r as usize], Instruction::Scalar(..));
    for r in 0..plan.code.len() as Register {
        if is_scalar(r) {
            continue;
        }
        steps.push(Step::Value(r));
        // stores come first, while the value is in the accumulator
        let here = plan.outputs.iter().enumerate().filter(|(_, (register, _))| *register == r);
        steps.extend(here.map(|(k, _)| Step::Store(k, r)));
    }
    let scalars = plan.outputs.iter().enumerate().filter(|(_, (register, _))| is_scalar(*register));
    steps.extend(scalars.map(|(k, (register, _))| Step::Store(k, *register)));
    steps
}

/// When each value is defined and last used, and whether it must be kept in a slot.
fn uses(plan: &Plan, steps: &[Step]) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); plan.code.len()];
    // replaced[s]: the step that overwrites the value of step s in the accumulator
    let mut replaced = vec![usize::MAX; steps.len()];
    let mut next = usize::MAX;
    for (s, step) in steps.iter().enumerate().rev() {
        if let Step::Value(_) = step {
            replaced[s] = next;
            next = s;
        }
    }
    for (s, step) in steps.iter().enumerate() {
        let Step::Value(r) = step else { continue };
        uses[*r as usize].defined = s;
        uses[*r as usize].last = s;
        for (k, &operand) in plan.code[*r as usize].operands().iter().enumerate() {
            let of = &mut uses[operand as usize];
            of.last = s;
            of.needs_slot |= k == 2 || s > replaced[of.defined];
        }
    }
    uses
}

/// The program of a plan. `None` if no family serves the plan or the program does not fit: instructions, inputs and
/// scalars must fit a kernel's parameters, and slots `most_shared` bytes of shared memory. `outputs` are addresses.
pub fn encode(
    plan: &Plan,
    bound: &Bound,
    outputs: &[u64],
    bits: &[(Register, FlagBits)],
    most_shared: usize,
) -> Option<Program> {
    let family = family_of(plan)?;
    let codes = Codes::of(family);
    let steps = steps(plan);
    let uses = uses(plan, &steps);

    // the words of inputs and outputs follow the instructions
    let mut words: Vec<u64> = vec![0; steps.len()];
    let input_at: Vec<u16> = (plan.inputs.iter().zip(&bound.inputs))
        .map(|(input, view)| {
            let at = words.len();
            write_input(&mut words, input, view, family.together());
            at as u16
        })
        .collect();
    let output_at: Vec<u16> = (plan.outputs.iter().zip(outputs))
        .map(|(&(_, dtype), &address)| {
            let at = words.len();
            words.push(address);
            words.push(packed(address, dtype, family.together()));
            at as u16
        })
        .collect();
    let scalar_at = words.len();
    let mut scalars = 0;
    let mut scalar_of = vec![None; plan.code.len()];
    for (r, instruction) in plan.code.iter().enumerate() {
        if let Instruction::Scalar(k, _) = instruction {
            if scalars == MOST_SCALARS {
                return None;
            }
            scalar_of[r] = Some(SCALAR + scalars as u8);
            scalars += 1;
            let bytes = bound.scalars[*k as usize].bytes();
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            words.push(word(0));
            if family.cell() == 16 {
                words.push(word(8));
            }
        }
    }
    if words.len() > WORDS {
        return None;
    }

    let mut slots = Slots::default();
    let mut slot_of: Vec<Option<u8>> = vec![None; plan.code.len()];
    let mut holds: Option<Register> = None;
    for (s, step) in steps.iter().enumerate() {
        let source = |r: Register, third: bool| -> u8 {
            match (scalar_of[r as usize], slot_of[r as usize]) {
                (Some(scalar), _) => scalar,
                _ if holds == Some(r) && !third => ACC,
                (_, Some(slot)) => slot,
                _ => unreachable!("a value that is not in the accumulator has a slot"),
            }
        };
        let mut from = [NONE; 3];
        let (code, more, result) = match step {
            Step::Store(k, r) => {
                from[0] = source(*r, false);
                if from[0] != ACC {
                    holds = None;
                }
                (Codes::store(plan.outputs[*k].1), output_at[*k], NONE)
            }
            Step::Value(r) => {
                let instruction = &plan.code[*r as usize];
                let (code, more) = match instruction {
                    Instruction::Load(k) => {
                        let input = &plan.inputs[*k as usize];
                        from[2] = input.dtype as u8;
                        if input.access == Access::Linear {
                            (Codes::linear(input.dtype), input_at[*k as usize])
                        } else {
                            (codes.indexed(), input_at[*k as usize])
                        }
                    }
                    Instruction::Gather { input: k, at } => {
                        from[0] = source(*at, false);
                        from[2] = plan.inputs[*k as usize].dtype as u8;
                        (codes.picked(), input_at[*k as usize])
                    }
                    Instruction::Apply { op, class, args } => {
                        // always there: `family_of` has checked the row; rows of four operands are never served
                        let code = codes.row(*op, *class)?;
                        for (k, &arg) in args[..op.row().arity as usize].iter().enumerate() {
                            from[k] = source(arg, k == 2);
                        }
                        let flag = bits.iter().find(|(register, _)| register == r);
                        let flag = flag.map_or(NOWHERE, |(_, p)| (p.word << 5 | p.shift) as u16);
                        (code, flag)
                    }
                    Instruction::Scalar(..) => unreachable!("scalars are no steps"),
                    Instruction::Call(_) | Instruction::Result { .. } => unreachable!("no family serves calls"),
                };
                // operands are read before the result is written, so the result may reuse their slots
                for &operand in instruction.operands() {
                    if let (Some(slot), true) = (slot_of[operand as usize], uses[operand as usize].last == s) {
                        slots.give(slot);
                    }
                }
                let result = if uses[*r as usize].needs_slot {
                    let slot = slots.take()?;
                    slot_of[*r as usize] = Some(slot);
                    slot
                } else {
                    NONE
                };
                holds = Some(*r);
                (code, more, result)
            }
        };
        words[s] = u64::from(code)
            | u64::from(result) << 16
            | u64::from(from[0]) << 24
            | u64::from(from[1]) << 32
            | u64::from(from[2]) << 40
            | u64::from(more) << 48;
    }
    let scratch = slots.used;
    let slots = slots.used + 1;
    let shared = (slots * family.slot(), scalars * 16);
    if shared.0 * THREADS + shared.1 > most_shared {
        return None;
    }

    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&(bound.n as u64).to_ne_bytes());
    bytes.extend_from_slice(&[0; 16]);
    for field in [steps.len(), scalars, scalar_at, slots, scratch, 0] {
        bytes.extend_from_slice(&(field as u32).to_ne_bytes());
    }
    debug_assert_eq!(bytes.len(), WORDS_AT);
    bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    bytes.resize(BYTES, 0);
    Some(Program { family, bytes, shared, n: bound.n })
}

/// Allocates slots of shared memory, the lowest free one first.
#[derive(Default)]
struct Slots {
    taken: Vec<bool>,
    used: usize,
}

impl Slots {
    fn take(&mut self) -> Option<u8> {
        let slot = match self.taken.iter().position(|taken| !taken) {
            Some(slot) => slot,
            // the last one is reserved as the scratch slot
            None if self.taken.len() + 1 >= MOST_SLOTS => return None,
            None => {
                self.taken.push(false);
                self.taken.len() - 1
            }
        };
        self.taken[slot] = true;
        self.used = self.used.max(slot + 1);
        Some(slot as u8)
    }

    fn give(&mut self, slot: u8) {
        self.taken[slot as usize] = false;
    }
}

/// The bit of an input or output whose address is aligned for vector loads or stores of `together` elements.
fn packed(address: u64, dtype: DType, together: usize) -> u64 {
    u64::from(address.is_multiple_of((together * dtype.size()) as u64)) << 16
}

/// Appends the words of an input; interpret.h describes their layout.
fn write_input(words: &mut Vec<u64>, input: &Input, view: &View, together: usize) {
    let address = view.address();
    words.push(address);
    let (access, rank) = match input.access {
        Access::Linear => (0, 0),
        Access::Broadcast => (1, 0),
        Access::Recycled => (2, 0),
        Access::Strided(rank) => (3, u64::from(rank)),
        Access::Gathered => (4, 0),
    };
    words.push(access | rank << 8 | packed(address, input.dtype, together));
    match input.access {
        Access::Recycled => words.extend(divisor(view.len() as u64)),
        Access::Strided(_) => {
            for (&extent, &stride) in view.layout.shape().iter().zip(view.layout.strides()) {
                words.extend(divisor(extent as u64));
                words.push(stride as u64);
            }
        }
        Access::Gathered => words.push(view.len() as u64),
        Access::Linear | Access::Broadcast => {}
    }
}

/// The divisor, multiplier and shift with which a kernel divides numbers below 2^63 by `d`: Granlund and Montgomery
/// 1994.
fn divisor(d: u64) -> [u64; 3] {
    // layouts have an axis of extent 1 only if they have one element, whose index 0 any divisor serves
    let d = d.max(2);
    let log = u64::BITS - (d - 1).leading_zeros();
    let m = (1u128 << (63 + log)).div_ceil(u128::from(d));
    [d, m as u64, u64::from(log - 1)]
}

/// A plan split in two, because one program cannot hold it. Values of the first half that the second needs go through
/// memory in their natural dtype, so their bits do not change.
pub struct Halves {
    pub first: (Plan, Bound),
    /// The second half. The values of the first are its last inputs; their views are added when they have memory.
    pub second: (Plan, Bound),
    /// The dtypes of the values that the first half passes to the second.
    pub between: Vec<DType>,
}

/// Splits a plan in the middle of its operations. `None` if it has only one.
pub fn halves(plan: &Plan, bound: &Bound) -> Option<Halves> {
    let is_computed = |k: usize| !plan.code[k].operands().is_empty();
    let applied: Vec<usize> = (0..plan.code.len()).filter(|&k| is_computed(k)).collect();
    if applied.len() < 2 {
        return None;
    }
    let cut = applied[applied.len() / 2 - 1] + 1;
    let is_made = |r: Register| (r as usize) < cut && is_computed(r as usize);
    let mut handed: Vec<Register> = Vec::new();
    let needed = plan.code[cut..].iter().flat_map(Instruction::operands).chain(plan.outputs.iter().map(|(r, _)| r));
    for &r in needed {
        if is_made(r) && !handed.contains(&r) {
            handed.push(r);
        }
    }
    let dtype = |r: Register| natural_dtype(plan.class(r));

    let mut first = SubPlan::new(plan, bound);
    for &r in &handed {
        let new = first.value(r);
        first.plan.outputs.push((new, dtype(r)));
    }
    let mut second = SubPlan::new(plan, bound);
    // values that are passed on must be the last inputs, since they have no views yet: copy the other inputs first
    let kept: Vec<Register> = plan.code[cut..].iter().flat_map(Instruction::operands).copied().collect();
    for r in kept.into_iter().chain(plan.outputs.iter().map(|(r, _)| *r)) {
        if (r as usize) < cut && !is_made(r) {
            second.value(r);
        }
    }
    for r in cut..plan.code.len() {
        match plan.code[r] {
            Instruction::Load(_) => drop(second.value(r as Register)),
            Instruction::Gather { input, .. } => drop(second.input(input as usize)),
            _ => {}
        }
    }
    for &r in &handed {
        let k = second.plan.inputs.len() as u16;
        second.plan.inputs.push(Input { dtype: dtype(r), access: Access::Linear });
        second.plan.code.push(Instruction::Load(k));
        second.known[r as usize] = Some(second.plan.code.len() as Register - 1);
    }
    for r in cut..plan.code.len() {
        second.value(r as Register);
    }
    for &(r, dtype) in &plan.outputs {
        let new = second.value(r);
        second.plan.outputs.push((new, dtype));
    }
    let between = handed.iter().map(|&r| dtype(r)).collect();
    Some(Halves { first: (first.plan, first.bound), second: (second.plan, second.bound), between })
}

/// The part of a plan that one of its outputs needs.
pub fn single(plan: &Plan, bound: &Bound, output: usize) -> (Plan, Bound) {
    let mut part = SubPlan::new(plan, bound);
    let (r, dtype) = plan.outputs[output];
    let new = part.value(r);
    part.plan.outputs.push((new, dtype));
    (part.plan, part.bound)
}

/// A part of the plan `from`, copied value by value.
struct SubPlan<'a> {
    from: &'a Plan,
    given: &'a Bound,
    plan: Plan,
    bound: Bound,
    /// By input of `from`: its number here, if it was copied.
    inputs: Vec<Option<u16>>,
    /// By register of `from`: its register here, if it was copied.
    known: Vec<Option<Register>>,
}

impl<'a> SubPlan<'a> {
    fn new(from: &'a Plan, given: &'a Bound) -> SubPlan<'a> {
        SubPlan {
            from,
            given,
            plan: Plan::default(),
            bound: Bound { n: given.n, ..Bound::default() },
            inputs: vec![None; from.inputs.len()],
            known: vec![None; from.code.len()],
        }
    }

    /// The number of an input in this part; copies the input if needed.
    fn input(&mut self, k: usize) -> u16 {
        if let Some(known) = self.inputs[k] {
            return known;
        }
        self.plan.inputs.push(self.from.inputs[k].clone());
        self.bound.inputs.push(self.given.inputs[k].clone());
        let new = self.plan.inputs.len() as u16 - 1;
        self.inputs[k] = Some(new);
        new
    }

    /// The register of a value in this part; copies the value and its operands if needed.
    fn value(&mut self, r: Register) -> Register {
        if let Some(known) = self.known[r as usize] {
            return known;
        }
        let instruction = match &self.from.code[r as usize] {
            Instruction::Load(k) => Instruction::Load(self.input(*k as usize)),
            Instruction::Gather { input, at } => {
                let at = self.value(*at);
                Instruction::Gather { input: self.input(*input as usize), at }
            }
            Instruction::Scalar(k, class) => {
                self.bound.scalars.push(self.given.scalars[*k as usize]);
                self.plan.scalars = self.bound.scalars.len();
                Instruction::Scalar(self.plan.scalars as u16 - 1, *class)
            }
            Instruction::Call(_) | Instruction::Result { .. } => unreachable!("no family serves calls"),
            Instruction::Apply { op, class, args } => {
                let mut new = [0; MOST_OPERANDS];
                for (to, &from) in new.iter_mut().zip(&args[..op.row().arity as usize]) {
                    *to = self.value(from);
                }
                Instruction::Apply { op: *op, class: *class, args: new }
            }
        };
        self.plan.code.push(instruction);
        let new = self.plan.code.len() as Register - 1;
        if let Some((_, site)) = self.given.sites.iter().find(|(register, _)| *register == r) {
            self.bound.sites.push((new, site.clone()));
        }
        self.known[r as usize] = Some(new);
        new
    }
}
