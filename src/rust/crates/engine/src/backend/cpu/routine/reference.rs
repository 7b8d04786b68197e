//! The reference semantics of a routine, one element at a time. Tests compare the lanes with it.

use std::ffi::c_void;

use verdigris_compile::{Draw, Failed, Operand, Routine, Source, Statement};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::loops::{LOADS, LOOPS, NUMBERED};
use verdigris_ops::scalar::{Scalar, NA_I32, NA_I64};
use verdigris_ops::OpId;

unsafe extern "C" {
    fn vg_lanes_uniform(o: *mut c_void, key: i64, i: i64, home: *const i32, count: *mut i32, n: i32);
    fn vg_lanes_normal(o: *mut c_void, key: i64, i: i64, home: *const i32, count: *mut i32, n: i32);
    fn vg_lanes_exponential(o: *mut c_void, key: i64, i: i64, home: *const i32, count: *mut i32, n: i32);
}

enum Flow {
    Through,
    Break,
    Next,
    Return,
    Failed,
}

pub struct Element<'a> {
    routine: &'a Routine,
    registers: Vec<Option<Scalar>>,
    arrays: Vec<Vec<Scalar>>,
    tables: &'a [(*const c_void, i64)],
    index: i64,
    words: Vec<u32>,
    failed: Option<Failed>,
}

pub fn scalar(class: Class, bytes: &[u8]) -> Scalar {
    let half = class.size() / 2;
    let f32 = |b: &[u8]| f32::from_ne_bytes(b[..4].try_into().unwrap());
    let f64 = |b: &[u8]| f64::from_ne_bytes(b[..8].try_into().unwrap());
    match class {
        Class::I32 => Scalar::I32(i32::from_ne_bytes(bytes[..4].try_into().unwrap())),
        Class::I64 => Scalar::I64(i64::from_ne_bytes(bytes[..8].try_into().unwrap())),
        Class::F32 => Scalar::F32(f32(bytes)),
        Class::F64 => Scalar::F64(f64(bytes)),
        Class::C64 => Scalar::C64([f32(bytes), f32(&bytes[half..])]),
        Class::C128 => Scalar::C128([f64(bytes), f64(&bytes[half..])]),
    }
}

/// The results of an element, its flag words, and its failure.
pub fn run(
    routine: &Routine,
    args: &[Scalar],
    tables: &[(*const c_void, i64)],
    index: i64,
) -> (Vec<Scalar>, Vec<u32>, Option<Failed>) {
    let mut element = Element {
        routine,
        registers: vec![None; routine.registers.len()],
        arrays: routine.arrays.iter().map(|a| vec![Scalar::na(a.class); a.length as usize]).collect(),
        tables,
        index,
        words: vec![0; routine.notes.len()],
        failed: None,
    };
    for (parameter, arg) in routine.parameters.iter().zip(args) {
        element.registers[parameter.register as usize] = Some(*arg);
    }
    let failed = matches!(element.block(&routine.body), Flow::Failed);
    let result = |(r, _): &(u16, DType)| match failed {
        true => Scalar::na(routine.registers[*r as usize]),
        false => element.registers[*r as usize].expect("a result is written"),
    };
    (routine.results.iter().map(result).collect(), element.words.clone(), element.failed)
}

impl Element<'_> {
    fn of(&self, operand: Operand) -> Scalar {
        match operand {
            Operand::Constant(scalar) => scalar,
            Operand::Register(r) => self.registers[r as usize].expect("written before it is read"),
        }
    }

    fn i64(&self, operand: Operand) -> i64 {
        match self.of(operand) {
            Scalar::I64(x) => x,
            other => panic!("{other:?} is no position"),
        }
    }

    fn i32(&self, operand: Operand) -> i32 {
        match self.of(operand) {
            Scalar::I32(x) => x,
            other => panic!("{other:?} is no integer"),
        }
    }

    fn note(&mut self, op: OpId, bits: u32) {
        if let Some(k) = self.routine.notes.iter().position(|other| *other == op) {
            self.words[k] |= bits;
        }
    }

    fn fail(&mut self, failure: u8) -> Flow {
        self.fail_at(failure, 0.0, 0)
    }

    fn fail_at(&mut self, failure: u8, subscript: f64, extent: i64) -> Flow {
        self.failed = Some(Failed { element: self.index, failure, subscript, extent });
        Flow::Failed
    }

    fn block(&mut self, block: &[Statement]) -> Flow {
        for statement in block {
            match self.statement(statement) {
                Flow::Through => {}
                other => return other,
            }
        }
        Flow::Through
    }

    fn statement(&mut self, statement: &Statement) -> Flow {
        match statement {
            Statement::Apply { to, op, class, args } => {
                let operands: Vec<[u8; 16]> = args.iter().map(|&a| self.of(a).bytes()).collect();
                let at = |k: usize| operands.get(k).map_or(std::ptr::null(), |b| b.as_ptr().cast::<c_void>());
                let (mut out, mut bits) = ([0u8; 16], 0u32);
                let body = LOOPS[op.0 as usize][*class as usize].unwrap();
                // SAFETY: one element of each.
                unsafe { body(out.as_mut_ptr().cast(), at(0), at(1), at(2), at(3), 0, 1, &mut bits) };
                self.note(*op, bits);
                self.set(*to, scalar(self.routine.registers[*to as usize], &out));
            }
            Statement::Move { to, from } => self.set(*to, self.of(*from)),
            Statement::Step { to, from, counter, step } => {
                let counter = self.i32(Operand::Register(*counter));
                let value = match (self.of(*from), self.of(*step)) {
                    (Scalar::I32(from), Scalar::I32(step)) => Scalar::I32(from + counter * step),
                    (Scalar::F64(from), Scalar::F64(step)) => Scalar::F64(from + f64::from(counter) * step),
                    other => panic!("{other:?} are no steps"),
                };
                self.set(*to, value);
            }
            Statement::Position { to, from, extent, low, high, .. } => {
                let extent = self.i64(*extent);
                let value = match self.of(*from) {
                    Scalar::I32(NA_I32) | Scalar::I64(NA_I64) => None,
                    Scalar::I32(x) => Some(f64::from(x)),
                    Scalar::I64(x) => Some(x as f64),
                    Scalar::F64(x) => Some(x.trunc()).filter(|x| !x.is_nan()),
                    Scalar::F32(x) => Some(f64::from(x.trunc())).filter(|x| !x.is_nan()),
                    other => panic!("{other:?} is no subscript"),
                };
                let given = match self.of(*from) {
                    Scalar::F64(x) => x,
                    Scalar::F32(x) => x.into(),
                    _ => value.unwrap_or(0.0),
                };
                let at = match (value, high) {
                    (None, _) => -1,
                    (Some(x), _) if x < 1.0 => return self.fail_at(*low, given, extent),
                    (Some(x), Some(high)) if x > extent as f64 => return self.fail_at(*high, given, extent),
                    (Some(x), None) if x > extent as f64 => -1,
                    (Some(x), _) => x as i64 - 1,
                };
                self.set(*to, Scalar::I64(at));
            }
            Statement::Offset { to, at } => {
                let axes: Vec<(i64, i64)> = at.iter().map(|&(p, s)| (self.i64(p), self.i64(s))).collect();
                let nowhere = axes.iter().any(|(p, _)| *p < 0);
                let offset = if nowhere { -1 } else { axes.iter().map(|(p, s)| p * s).sum() };
                self.set(*to, Scalar::I64(offset));
            }
            Statement::Read { to, table, at } => {
                let at = self.i64(*at);
                let (address, n) = self.tables[*table as usize];
                let dtype = self.routine.tables[*table as usize].dtype;
                let value = if (0..n).contains(&at) {
                    let mut out = [0u8; 16];
                    // SAFETY: the table has the element.
                    unsafe { LOADS[dtype as usize](out.as_mut_ptr().cast(), address, at, 1) };
                    scalar(dtype.class(), &out)
                } else {
                    Scalar::na(dtype.class())
                };
                self.set(*to, value);
            }
            Statement::Get { to, array, at } => {
                let at = self.i64(*at);
                let elements = &self.arrays[*array as usize];
                let none = Scalar::na(self.routine.arrays[*array as usize].class);
                let value = usize::try_from(at).ok().and_then(|at| elements.get(at).copied()).unwrap_or(none);
                self.set(*to, value);
            }
            Statement::Set { array, at, value } => {
                let (at, value) = (self.i64(*at), self.of(*value));
                let elements = &mut self.arrays[*array as usize];
                if let Some(element) = usize::try_from(at).ok().and_then(|at| elements.get_mut(at)) {
                    *element = value;
                }
            }
            Statement::Draw { to, draw, count, args } => {
                let k = self.routine.parameters.iter().position(|p| p.source == Source::Key).unwrap();
                let key = self.i64(Operand::Register(self.routine.parameters[k].register));
                let mut number = self.i32(Operand::Register(*count));
                let operands: Vec<[u8; 16]> = args.iter().map(|&a| self.of(a).bytes()).collect();
                let at = |k: usize| operands.get(k).map_or(std::ptr::null(), |b| b.as_ptr().cast::<c_void>());
                let (mut out, mut bits, home) = ([0u8; 16], 0u32, 0i32);
                let o = out.as_mut_ptr().cast();
                // SAFETY: one element of each.
                unsafe {
                    match draw {
                        Draw::Uniform => vg_lanes_uniform(o, key, self.index, &home, &mut number, 1),
                        Draw::Normal => vg_lanes_normal(o, key, self.index, &home, &mut number, 1),
                        Draw::Exponential => vg_lanes_exponential(o, key, self.index, &home, &mut number, 1),
                        Draw::Row(op) => {
                            let body = NUMBERED[op.0 as usize].unwrap();
                            body(o, key, self.index, &home, &mut number, at(0), at(1), at(2), 1, &mut bits);
                            self.note(*op, bits);
                        }
                    }
                }
                self.set(*count, Scalar::I32(number));
                self.set(*to, scalar(Class::F64, &out));
            }
            Statement::If { value, missing, then, otherwise } => {
                return match (self.i32(*value), missing) {
                    (NA_I32, Some(failure)) => self.fail(*failure),
                    (NA_I32 | 0, _) => self.block(otherwise),
                    _ => self.block(then),
                }
            }
            Statement::For { counter, times, body } => {
                for turn in 0..self.i32(*times) {
                    self.set(*counter, Scalar::I32(turn));
                    match self.block(body) {
                        Flow::Through | Flow::Next => {}
                        Flow::Break => break,
                        other => return other,
                    }
                }
            }
            Statement::Loop { body } => loop {
                match self.block(body) {
                    Flow::Through | Flow::Next => {}
                    Flow::Break => break,
                    other => return other,
                }
            },
            Statement::Break => return Flow::Break,
            Statement::Next => return Flow::Next,
            Statement::Return => return Flow::Return,
            Statement::Fail(failure) => return self.fail(*failure),
        }
        Flow::Through
    }

    fn set(&mut self, register: u16, value: Scalar) {
        assert_eq!(value.class(), self.routine.registers[register as usize], "r{register}");
        self.registers[register as usize] = Some(value);
    }
}
