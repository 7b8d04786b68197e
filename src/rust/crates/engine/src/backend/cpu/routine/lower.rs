//! Lowers structured code over registers to loops over lanes. Each register gets a slot in scratch memory; registers
//! that are never live at the same time share slots.

use super::live::{across, at_head, at_return, Around, Set};
use super::program::*;
use super::simplify::{is_noted, merged, simplify};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use verdigris_compile;
use verdigris_compile::{Block, Draw, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::{Class, Number};
use verdigris_ops::loops::{GATHERS, LOOPS, NUMBERED};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId, MOST_OPERANDS};

/// Bytes that the lanes' registers and arrays may take together: the size of the second-level cache.
const L2_BYTES: usize = 512 << 10;
/// The fewest lanes at a time, unless they would take more than `MOST_BYTES`.
const LEAST_LANES: usize = 64;
const MOST_BYTES: usize = 16 << 20;
/// Bytes between slots, so that a loop's reads and writes are not at the same offset of their pages.
const GAP: usize = 128;
/// Bytes of the registers' types.
const SIZES: [u8; 3] = [4, 8, 16];

macro_rules! declare {
    ($($choose:ident $get:ident $set:ident),+; $($locate:ident),+; $($standard:ident),+) => {
        // defined in lanes.h
        unsafe extern "C" {
            $(fn $choose(o: *mut c_void, test: *const i32, yes: *const c_void, no: *const c_void, n: i32);
              fn $get(o: *mut c_void, a: *const c_void, at: *const i64, home: *const i32, m: i64, width: i64, n: i32);
              fn $set(a: *mut c_void, at: *const i64, x: *const c_void, home: *const i32, m: i64, width: i64, n: i32);)+
            $(fn $locate(o: *mut i64, x: *const c_void, extent: *const i64, fails: i32, n: i32) -> i32;)+
            $(fn $standard(o: *mut c_void, key: i64, i: i64, home: *const i32, count: *mut i32, n: i32);)+
            fn vg_lanes_step_i32(o: *mut c_void, from: *const c_void, counter: *const i32, step: *const c_void, n: i32);
            fn vg_lanes_step_f64(o: *mut c_void, from: *const c_void, counter: *const i32, step: *const c_void, n: i32);
        }
        const CHOOSE: [Choose; 6] = [$($choose),+];
        const GET: [Get; 6] = [$($get),+];
        const SET: [super::program::Set; 6] = [$($set),+];
        const LOCATE: [Locate; 4] = [$($locate),+];
    };
}
declare!(
    vg_lanes_choose_i32 vg_lanes_get_i32 vg_lanes_set_i32, vg_lanes_choose_i64 vg_lanes_get_i64 vg_lanes_set_i64,
    vg_lanes_choose_f32 vg_lanes_get_f32 vg_lanes_set_f32, vg_lanes_choose_f64 vg_lanes_get_f64 vg_lanes_set_f64,
    vg_lanes_choose_c64 vg_lanes_get_c64 vg_lanes_set_c64, vg_lanes_choose_c128 vg_lanes_get_c128 vg_lanes_set_c128;
    vg_lanes_position_i32, vg_lanes_position_i64, vg_lanes_position_f32, vg_lanes_position_f64;
    vg_lanes_uniform, vg_lanes_normal, vg_lanes_exponential
);

/// The id of the next program; 0 means none.
static PROGRAMS: AtomicUsize = AtomicUsize::new(1);

/// Lowers a routine for at most `width` lanes at a time.
pub fn lower(routine: &Routine, width: usize) -> Program {
    let body = simplify(&routine.body);
    let mut written = Set::default();
    verdigris_compile::written(&body).into_iter().for_each(|r| written.insert(r));
    let returned = at_return(routine);
    let mut lowering = Lowering { routine, classes: routine.registers.clone(), ..Lowering::new(routine) };
    // Lower twice: first to find which registers are live together, then with slots.
    let (_, live) = lowering.block(&body, &returned, None);
    let given: Vec<Register> = routine.parameters.iter().map(|p| p.register).filter(|r| live.contains(*r)).collect();
    for &r in &given {
        // A parameter that is never written gets a slot of its own, because lanes with equal values are not swapped.
        let meets: Vec<Register> = match written.contains(r) {
            true => live.iter().collect(),
            false => (0..lowering.classes.len() as Register).collect(),
        };
        meets.into_iter().for_each(|other| lowering.meet(r, other));
    }
    lowering.fixed = given.iter().copied().filter(|r| !written.contains(*r)).collect();
    let colors = lowering.color();
    lowering.assign_slots(colors, width);
    lowering.classes.truncate(routine.registers.len());
    let (code, _) = lowering.block(&body, &returned, None);
    lowering.finish(code, &given)
}

/// Whether some statement of a block satisfies `is`; `inner`: search the bodies of inner loops too.
fn has(block: &Block, is: &impl Fn(&Statement) -> bool, inner: bool) -> bool {
    block.iter().any(|statement| {
        is(statement)
            || match statement {
                Statement::If { then, otherwise, .. } => has(then, is, inner) || has(otherwise, is, inner),
                Statement::For { body, .. } | Statement::Loop { body } => inner && has(body, is, inner),
                _ => false,
            }
    })
}

/// Whether lanes may leave the routine at this statement.
fn is_last(statement: &Statement) -> bool {
    match statement {
        Statement::If { missing, .. } => missing.is_some(),
        Statement::Position { .. } | Statement::Return | Statement::Fail(_) => true,
        _ => false,
    }
}

/// Whether lanes may leave a block before its end.
fn leaves(block: &Block) -> bool {
    has(block, &is_last, true) || has(block, &|s| matches!(s, Statement::Break | Statement::Next), false)
}

struct Lowering<'a> {
    routine: &'a Routine,
    /// Classes of the routine's registers and of those added here.
    classes: Vec<Class>,
    /// The interference graph: for each register, those that are live or read where it is written.
    meets: Vec<Set>,
    constants: Vec<Scalar>,
    /// The nesting depth of counted loops here, and the greatest one so far.
    depth: usize,
    deepest: usize,
    /// Parameters that are never written.
    fixed: Set,
    // The fields below are set after the first pass.
    width: usize,
    bytes: usize,
    slots: Vec<Slot>,
    of_constants: Vec<Slot>,
    spare: [Slot; 3],
    kept: Vec<u32>,
}

impl<'a> Lowering<'a> {
    fn new(routine: &'a Routine) -> Lowering<'a> {
        Lowering {
            routine,
            classes: Vec::new(),
            meets: Vec::new(),
            constants: Vec::new(),
            depth: 0,
            deepest: 0,
            fixed: Set::default(),
            width: 0,
            bytes: 0,
            slots: Vec::new(),
            of_constants: Vec::new(),
            spare: [Slot::default(); 3],
            kept: Vec::new(),
        }
    }

    fn meet(&mut self, a: Register, b: Register) {
        if a != b {
            let most = a.max(b) as usize;
            if self.meets.len() <= most {
                self.meets.resize(most + 1, Set::default());
            }
            self.meets[a as usize].insert(b);
            self.meets[b as usize].insert(a);
        }
    }

    /// Colours the interference graph: each register gets the first colour that no interfering register of its size
    /// has.
    fn color(&mut self) -> Vec<usize> {
        self.meets.resize(self.classes.len(), Set::default());
        let mut colors: Vec<usize> = Vec::with_capacity(self.classes.len());
        for r in 0..self.classes.len() {
            let size = self.classes[r].size();
            let taken: Vec<usize> = self.meets[r]
                .iter()
                .filter(|&other| (other as usize) < r && self.classes[other as usize].size() == size)
                .map(|other| colors[other as usize])
                .collect();
            colors.push((0..).find(|color| !taken.contains(color)).expect("there is always another"));
        }
        colors
    }

    /// Lays out the slots of constants, registers and spare registers, and picks the number of lanes.
    fn assign_slots(&mut self, colors: Vec<usize>, width: usize) {
        let of_size = |k: usize| {
            let with = colors.iter().zip(&self.classes).filter(|(_, class)| class.size() == SIZES[k] as usize);
            with.map(|(color, _)| color + 1).max().unwrap_or(0)
        };
        let counts = [0, 1, 2].map(of_size);
        let in_arrays: usize = self.routine.arrays.iter().map(|a| a.length as usize * a.class.size()).sum();
        let in_slots: usize = counts.iter().zip(SIZES).map(|(n, size)| n * size as usize).sum();
        let lane = (in_arrays + in_slots + self.constants.len() * 8).max(1);
        self.width =
            (L2_BYTES / lane / LEAST_LANES * LEAST_LANES).max(LEAST_LANES.min(MOST_BYTES / lane)).clamp(1, width);
        let width = self.width;
        let mut end = 0usize;
        let mut take = |size: u8| {
            let slot = Slot { offset: end as u32, size };
            end = (end + width * size as usize).next_multiple_of(64) + GAP;
            slot
        };
        self.of_constants = self.constants.iter().map(|scalar| take(scalar.class().size() as u8)).collect();
        let mut starts = [const { Vec::new() }; 3];
        for k in 0..3 {
            starts[k] = (0..counts[k]).map(|_| take(SIZES[k])).collect::<Vec<Slot>>();
        }
        let index =
            |class: &Class| SIZES.iter().position(|s| *s as usize == class.size()).expect("these are the sizes");
        self.slots = colors.iter().zip(&self.classes).map(|(color, class)| starts[index(class)][*color]).collect();
        self.spare = SIZES.map(&mut take);
        // an int32 slot for each nested counted loop
        let kept: Vec<u32> = (0..self.deepest).map(|_| take(4).offset).collect();
        self.kept = kept;
        self.bytes = end;
    }

    fn finish(self, code: Vec<Step>, given: &[Register]) -> Program {
        let (routine, width) = (self.routine, self.width);
        let mut end = self.bytes;
        let mut take = |bytes: usize| {
            let offset = end as u32;
            end = (end + bytes).next_multiple_of(64) + GAP;
            offset
        };
        let (home, status, lists) = (take(width * 4), take(width), [take(width * 2), take(width * 2)]);
        let arrays = routine
            .arrays
            .iter()
            .map(|a| Local {
                offset: take(width * a.length as usize * a.class.size()),
                class: a.class,
                length: a.length as usize,
            })
            .collect();
        let given = (0..)
            .zip(&routine.parameters)
            .filter(|(_, p)| given.contains(&p.register))
            .map(|(k, p)| Given {
                parameter: k,
                slot: self.slots[p.register as usize],
                fixed: self.fixed.contains(p.register),
            })
            .collect();
        let results = routine.results.iter().map(|(r, _)| (self.slots[*r as usize], self.classes[*r as usize]));
        Program {
            id: PROGRAMS.fetch_add(1, Ordering::Relaxed),
            code: code.into(),
            width,
            constants: self.of_constants.iter().copied().zip(self.constants.iter().copied()).collect(),
            given,
            key: routine.parameters.iter().position(|p| p.source == Source::Key).map(|k| k as u16),
            results: results.collect(),
            arrays,
            home,
            status,
            lists,
            bytes: end,
        }
    }

    fn of(&mut self, operand: Operand) -> Slot {
        match operand {
            Operand::Register(r) => self.at(r),
            Operand::Constant(scalar) => {
                let same = |other: &Scalar| Operand::Constant(*other) == operand;
                let k = self.constants.iter().position(same).unwrap_or_else(|| {
                    self.constants.push(scalar);
                    self.constants.len() - 1
                });
                self.of_constants.get(k).copied().unwrap_or_default()
            }
        }
    }

    fn at(&self, r: Register) -> Slot {
        self.slots.get(r as usize).copied().unwrap_or_default()
    }

    fn moves(&self, live: &Set) -> Moves {
        let parameter = |r: Register| {
            let k = self.routine.parameters.iter().position(|p| p.register == r);
            k.filter(|_| self.fixed.contains(r)).map(|k| k as u16)
        };
        let mut moves: Vec<Moved> = live.iter().map(|r| Moved { slot: self.at(r), parameter: parameter(r) }).collect();
        // Two registers may share a slot if they are live in different branches, and so in different lanes.
        moves.sort_by_key(|m| m.slot.offset);
        moves.dedup_by_key(|m| m.slot.offset);
        moves.into()
    }

    fn note(&self, op: OpId, statement: &Statement) -> Option<u16> {
        let k = self.routine.notes.iter().position(|other| *other == op);
        k.filter(|_| is_noted(self.routine, statement)).map(|k| k as u16)
    }

    /// The steps of a block, and the registers that are live before it.
    fn block(&mut self, block: &[Statement], after: &Set, around: Option<&Around>) -> (Vec<Step>, Set) {
        let mut live = after.clone();
        // from the last statement to the first
        let mut steps = Vec::with_capacity(block.len());
        let mut k = block.len();
        while k > 0 {
            k -= 1;
            // A value that is only computed to be moved is computed in place of the move.
            let direct = match (&block[k], k.checked_sub(1).map(|before| &block[before])) {
                (Statement::Move { to, from: Operand::Register(from) }, Some(before))
                    if before.written() == Some(*from) && !live.contains(*from) && to != from =>
                {
                    redirected(before, *to)
                }
                _ => None,
            };
            if direct.is_some() {
                k -= 1;
            }
            let statement = direct.as_ref().unwrap_or(&block[k]);
            match statement {
                Statement::If { value, missing, then, otherwise } => {
                    let leaving = [leaves(then), leaves(otherwise)];
                    let both = merged(self.routine, &mut self.classes, *value, [then, otherwise], &live)
                        .map(|block| self.block(&block, &live, around));
                    let (on_true, first) = self.block(then, &live, around);
                    let (on_false, second) = self.block(otherwise, &live, around);
                    let mut joined = live.clone();
                    if let Some(around) = around.filter(|_| leaving != [false; 2]) {
                        joined.add(&around.head);
                        joined.add(&around.exit);
                    }
                    live = first.with(&second);
                    let both = both.map(|(steps, needed)| {
                        live.add(&needed);
                        steps.into()
                    });
                    value.register().into_iter().for_each(|r| live.insert(r));
                    steps.push(Step::If(Box::new(Branch {
                        test: self.of(*value),
                        missing: *missing,
                        then: on_true.into(),
                        otherwise: on_false.into(),
                        both,
                        otherwise_first: leaving == [true, false],
                        moves: self.moves(&live),
                        joined: self.moves(&joined),
                    })));
                }
                Statement::For { counter, times, body } => {
                    let inside = Around { head: at_head(self.routine, Some(*counter), body, &live), exit: live };
                    let kept = self.kept.get(self.depth).copied().unwrap_or_default();
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                    let (code, needed) = self.block(body, &inside.head, Some(&inside));
                    self.depth -= 1;
                    needed.iter().for_each(|r| self.meet(*counter, r));
                    inside.head.iter().for_each(|r| self.meet(*counter, r));
                    let counted = Counted {
                        body: self.loop_body(body, code, &inside),
                        times: self.of(*times),
                        counter: needed.contains(*counter).then(|| self.at(*counter)),
                        kept,
                    };
                    steps.push(Step::For(Box::new(counted)));
                    live = inside.head;
                    times.register().into_iter().for_each(|r| live.insert(r));
                }
                Statement::Loop { body } => {
                    let inside = Around { head: at_head(self.routine, None, body, &live), exit: live };
                    let (code, _) = self.block(body, &inside.head, Some(&inside));
                    steps.push(Step::Loop(Box::new(self.loop_body(body, code, &inside))));
                    live = inside.head;
                }
                _ => {
                    let unused = statement.written().is_some_and(|to| !live.contains(to));
                    let kept = match statement {
                        Statement::Position { .. } => true,
                        Statement::Draw { count, .. } => live.contains(*count),
                        _ => false,
                    };
                    if unused && !kept && !is_noted(self.routine, statement) {
                        continue;
                    }
                    self.simple(statement, &live, &mut steps);
                    if let Some(to) = statement.written() {
                        live.iter().for_each(|r| self.meet(to, r));
                        for r in statement.operands().into_iter().filter_map(Operand::register) {
                            self.meet(to, r);
                        }
                    }
                    if let Statement::Draw { count, .. } = statement {
                        live.iter().for_each(|r| self.meet(*count, r));
                    }
                    across(self.routine, statement, &mut live, around);
                }
            }
        }
        steps.reverse();
        (steps, live)
    }

    fn loop_body(&mut self, body: &Block, code: Vec<Step>, inside: &Around) -> LoopBody {
        LoopBody {
            body: code.into(),
            moves: self.moves(&inside.head.with(&inside.exit)),
            ended: self.moves(&inside.exit),
            nexts: has(body, &|s| matches!(s, Statement::Next), false),
            returns: has(body, &is_last, true),
        }
    }

    /// The steps of a statement without blocks, in reverse order. A loop's result must not alias its operands, so a
    /// result that overwrites an operand is computed in a spare slot and copied.
    fn simple(&mut self, statement: &Statement, live: &Set, steps: &mut Vec<Step>) {
        let routine = self.routine;
        let class_of = |this: &Self, operand: Operand| match operand {
            Operand::Register(r) => this.classes[r as usize],
            Operand::Constant(scalar) => scalar.class(),
        };
        let own = statement.written().map(|to| self.at(to)).unwrap_or_default();
        let aliases = statement.written().is_some_and(|to| statement.operands().contains(&Operand::Register(to)));
        let mut beside = own;
        if aliases && !is_elementwise(statement) {
            beside = self.spare[SIZES.iter().position(|s| *s == own.size).unwrap_or(0)];
            steps.push(Step::Copy { to: own, from: beside });
        }
        let to = beside;
        steps.push(match statement {
            Statement::Apply { op: id::SELECT, class, args, .. } => {
                let [test, yes, no] = [0, 1, 2].map(|k| self.of(args[k]));
                Step::Choose { body: CHOOSE[*class as usize], to: own, test, yes, no }
            }
            Statement::Apply { op, class, args, .. } => {
                let mut slots = [Slot::default(); MOST_OPERANDS];
                for (slot, arg) in slots.iter_mut().zip(args) {
                    *slot = self.of(*arg);
                }
                let body = LOOPS[op.0 as usize][*class as usize]
                    .expect("the compiler of routines asks for rows that there are");
                Step::Apply { body, to, args: slots, note: self.note(*op, statement) }
            }
            Statement::Move { from, .. } => Step::Copy { to: own, from: self.of(*from) },
            Statement::Step { to: register, from, counter, step } => {
                let body = match self.classes[*register as usize] {
                    Class::I32 => vg_lanes_step_i32,
                    _ => vg_lanes_step_f64,
                };
                let (from, counter, step) = (self.of(*from), self.at(*counter), self.of(*step));
                Step::Vary { body, to: own, from, counter, step }
            }
            Statement::Position { to: register, from, extent, low, high, .. } => {
                let class = class_of(self, *from);
                let mut moves = self.moves(&live.with(&[*register].into_iter().collect())).into_vec();
                if to != own {
                    moves.push(Moved { slot: to, parameter: None });
                }
                let (from, extent) = (self.of(*from), self.of(*extent));
                let body = LOCATE[class as usize];
                Step::Position { body, to, from, class, extent, low: *low, high: *high, moves: moves.into() }
            }
            Statement::Offset { at, .. } => {
                let at = at.iter().map(|(position, stride)| (self.of(*position), self.of(*stride))).collect();
                Step::Along { to, at }
            }
            Statement::Read { to: register, table, at } => {
                let dtype = routine.tables[*table as usize].dtype;
                let none = match dtype.number() {
                    Number::UInt => Scalar::I32(0),
                    _ => Scalar::na(self.classes[*register as usize]),
                };
                Step::Read { body: GATHERS[dtype as usize], to, none, table: *table, at: self.of(*at) }
            }
            Statement::Get { array, at, .. } => {
                let class = routine.arrays[*array as usize].class;
                Step::Get { body: GET[class as usize], to, array: *array, at: self.of(*at) }
            }
            Statement::Set { array, at, value } => {
                let class = routine.arrays[*array as usize].class;
                Step::Set { body: SET[class as usize], array: *array, at: self.of(*at), value: self.of(*value) }
            }
            Statement::Draw { draw, count, args, .. } => {
                let body = match draw {
                    Draw::Uniform => Ok(vg_lanes_uniform as Standard),
                    Draw::Normal => Ok(vg_lanes_normal as Standard),
                    Draw::Exponential => Ok(vg_lanes_exponential as Standard),
                    Draw::Row(op) => Err(*op),
                };
                let count = self.at(*count);
                match body {
                    Ok(body) => Step::Standard { body, to, count },
                    Err(op) => {
                        let mut slots = [Slot::default(); MOST_OPERANDS - 1];
                        for (slot, arg) in slots.iter_mut().zip(args) {
                            *slot = self.of(*arg);
                        }
                        let body = NUMBERED[op.0 as usize].expect("a row of the rule Drawn");
                        Step::Numbered { body, to, count, args: slots, note: self.note(op, statement) }
                    }
                }
            }
            Statement::Break => Step::Break,
            Statement::Next => Step::Next,
            Statement::Return => Step::Return,
            Statement::Fail(id) => Step::Fail(*id),
            Statement::If { .. } | Statement::For { .. } | Statement::Loop { .. } => {
                unreachable!("statements with blocks are not simple")
            }
        });
    }
}

/// Whether a loop may write over its operands, because element `k` depends on elements `k` alone.
fn is_elementwise(statement: &Statement) -> bool {
    matches!(statement, Statement::Move { .. } | Statement::Step { .. } | Statement::Apply { op: id::SELECT, .. })
}

/// The statement with another destination register, if it writes nothing else.
fn redirected(statement: &Statement, register: Register) -> Option<Statement> {
    let mut statement = statement.clone();
    match &mut statement {
        Statement::Apply { to, .. }
        | Statement::Offset { to, .. }
        | Statement::Read { to, .. }
        | Statement::Get { to, .. } => *to = register,
        _ => return None,
    }
    Some(statement)
}
