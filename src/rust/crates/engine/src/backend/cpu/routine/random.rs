//! Compares random programs with the reference, which runs one element at a time.

use super::tests::*;
use verdigris_compile::{Block, Draw, LocalArray, Operand, Parameter, Register, Routine, Source, Statement};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32};
use verdigris_ops::{id, OpId};

/// Registers of the programs: doubles 0 to 4, of which 0 and 1 are parameters; integers 5 to 8, of which 5 is a
/// parameter; logicals 9 and 10; positions 11 and 12; counts of draws 13 and 14; the key 15; a double parameter 16 that
/// is never written. Counters and tests are added as needed.
struct Random {
    state: u64,
    registers: Vec<Class>,
    depth: usize,
    loops: usize,
}

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn double(&mut self) -> Operand {
        match self.below(6) {
            5 => num(self.one_of_doubles()),
            k => r(k as Register),
        }
    }

    fn one_of_doubles(&mut self) -> f64 {
        self.one(&[0.0, 1.0, -0.5, 2.0, 3.75, NA_F64, f64::NAN, f64::INFINITY])
    }

    fn integer(&mut self) -> Operand {
        match self.below(5) {
            4 => int(self.one(&[0, 1, -3, 7, NA_I32, i32::MAX])),
            k => r(5 + k as Register),
        }
    }

    fn logical(&mut self) -> Operand {
        match self.below(8) {
            7 => int(self.one(&[0, 1, NA_I32])),
            k => r(9 + k as Register % 2),
        }
    }

    /// Returns a condition that mostly differs between lanes: it tests a parameter or a random draw.
    fn test(&mut self, out: &mut Block) -> Operand {
        let draw = match self.below(4) {
            0 => return self.logical(),
            1 => None,
            _ => Some(self.new_register(Class::F64)),
        };
        if let Some(to) = draw {
            out.push(Statement::Draw { to, draw: Draw::Uniform, count: 13, args: vec![] });
        }
        let bound = self.below(8) as f64 / if draw.is_some() { 8.0 } else { 1.0 };
        let test = self.new_register(Class::I32);
        out.push(f64(test, id::LT, &[r(draw.unwrap_or(16)), num(bound)]));
        r(test)
    }

    fn new_register(&mut self, class: Class) -> Register {
        self.registers.push(class);
        (self.registers.len() - 1) as Register
    }

    fn block(&mut self, most: usize) -> Block {
        let n = 1 + self.below(most);
        let mut block = Vec::new();
        for _ in 0..n {
            self.statement(&mut block);
        }
        block
    }

    fn statement(&mut self, out: &mut Block) {
        let (x, n, b, p) = (
            self.below(5) as Register,
            5 + self.below(4) as Register,
            9 + self.below(2) as Register,
            11 + self.below(2) as Register,
        );
        let (a, c) = (self.double(), self.double());
        let (i, j) = (self.integer(), self.integer());
        let statement = match self.below(34) {
            0..=4 => {
                let op = self.one(&[id::ADD, id::SUB, id::MUL, id::DIV, id::PMAX, id::MOD, id::POW]);
                f64(x, op, &[a, c])
            }
            5 => {
                let op = self.one(&[id::SQRT, id::EXP, id::LOG, id::FLOOR, id::ABS, id::NEG]);
                f64(x, op, &[a])
            }
            6 => f64(x, id::POW, &[a, num(2.0)]),
            7 | 8 => {
                let op = self.one(&[id::ADD, id::SUB, id::MUL, id::MOD, id::INTDIV, id::PMIN]);
                i32(n, op, &[i, j])
            }
            9..=11 => {
                let op = self.one(&[id::LT, id::GE, id::EQ, id::NE]);
                f64(b, op, &[a, c])
            }
            12 => i32(b, id::GT, &[i, j]),
            13 => {
                let (y, z) = (self.logical(), self.logical());
                let op = self.one(&[id::AND, id::OR]);
                i32(b, op, &[y, z])
            }
            14 => {
                let test = self.logical();
                apply(x, id::SELECT, Class::F64, &[test, a, c])
            }
            15 => set(x, a),
            16 => f64(n, OpId::cast(DType::Int32), &[a]),
            17 => i32(x, OpId::cast(DType::Float64), &[i]),
            18 => {
                let (low, high) = (self.below(3) as u8, self.one(&[None, Some(1), Some(2)]));
                let (extent, from) = (at(self.one(&[3, 5, 7])), self.one(&[a, i, r(p), r(11)]));
                Statement::Position { to: p, from, extent, low, high, inside: false }
            }
            19 => Statement::Read { to: x, table: self.one(&[0, 0, 2]), at: r(p) },
            20 => match self.below(3) {
                0 => Statement::Read { to: b, table: 1, at: r(p) },
                1 => Statement::Get { to: x, array: 0, at: r(p) },
                _ => Statement::Set { array: 0, at: r(p), value: a },
            },
            21 => {
                let draw = self.one(&[Draw::Uniform, Draw::Normal, Draw::Exponential, Draw::Row(id::RPOIS)]);
                let args = if let Draw::Row(_) = draw { vec![a] } else { vec![] };
                Statement::Draw { to: x, draw, count: 13 + self.below(2) as Register, args }
            }
            22..=25 if self.depth < 4 => {
                self.depth += 1;
                let (value, missing) = (self.test(out), self.one(&[None, None, Some(0), Some(2)]));
                let then = self.block(4);
                let otherwise = if self.below(2) == 0 { vec![] } else { self.block(4) };
                self.depth -= 1;
                Statement::If { value, missing, then, otherwise }
            }
            26 if self.depth < 4 && self.loops < 3 => {
                let (counter, times) = (self.new_register(Class::I32), self.new_register(Class::I32));
                out.push(i32(times, id::MOD, &[i, int(5)]));
                let test = self.new_register(Class::I32);
                out.push(apply(test, id::IS_NA, Class::I32, &[r(times)]));
                out.push(apply(times, id::SELECT, Class::I32, &[r(test), int(2), r(times)]));
                let times = if self.below(3) == 0 { int(3) } else { r(times) };
                (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
                let mut body = match self.below(3) {
                    0 => vec![Statement::Step { to: n, from: r(n), counter, step: int(2) }],
                    1 => vec![Statement::Step { to: x, from: a, counter, step: num(0.5) }],
                    _ => vec![i32(n, id::ADD, &[i, r(counter)])],
                };
                // Integer steps start from a small number, so that they do not overflow.
                if let Statement::Step { to, from, step: Operand::Constant(Scalar::I32(_)), .. } = &mut body[0] {
                    (*to, *from) = (n, int(4));
                }
                body.extend(self.block(5));
                (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
                Statement::For { counter, times, body }
            }
            27 if self.depth < 4 && self.loops < 3 => {
                let (turn, test) = (self.new_register(Class::I32), self.new_register(Class::I32));
                let most = 1 + self.below(6) as i32;
                out.push(set(turn, int(0)));
                (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
                let mut body = vec![
                    i32(turn, id::ADD, &[r(turn), int(1)]),
                    i32(test, id::GT, &[r(turn), int(most)]),
                    when(r(test), vec![Statement::Break], vec![]),
                ];
                body.extend(self.block(5));
                (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
                Statement::Loop { body }
            }
            28..=32 if self.depth > 0 => match self.below(4) {
                0 => Statement::Return,
                1 => Statement::Fail(self.below(3) as u8),
                2 if self.loops > 0 => Statement::Break,
                3 if self.loops > 0 => Statement::Next,
                _ => set(x, c),
            },
            _ => f64(x, id::ADD, &[a, c]),
        };
        out.push(statement);
    }
}

fn random_routine(seed: u64) -> Routine {
    let registers = [
        vec![Class::F64; 5],
        vec![Class::I32; 6],
        vec![Class::I64; 2],
        vec![Class::I32; 2],
        vec![Class::I64],
        vec![Class::F64],
    ];
    let mut random = Random { state: seed, registers: registers.concat(), depth: 0, loops: 0 };
    random.below(2);
    let mut body: Block = (2..5).map(|x| set(x, num(f64::from(x)))).collect();
    body.extend((6..9).map(|n| set(n, int(i32::from(n) - 6))));
    body.extend([set(9, int(0)), set(10, int(1)), set(11, at(1)), set(12, at(-1)), set(13, int(0)), set(14, int(3))]);
    body.extend(random.block(14));
    let mut parameters = given(&[0, 1, 5], &random.registers);
    parameters.push(Parameter { register: 15, source: Source::Key, dtype: DType::Int64 });
    parameters.push(Parameter { register: 16, source: Source::Given(3), dtype: DType::Float64 });
    Routine {
        name: format!("random{seed}"),
        registers: random.registers,
        arrays: vec![LocalArray { class: Class::F64, length: 4 }],
        parameters,
        tables: described(),
        results: vec![(2, DType::Float64), (6, DType::Int32), (0, DType::Float64), (11, DType::Int64)],
        notes: vec![id::ADD, id::SQRT, id::MUL, id::LOG, id::RPOIS],
        failures: failures(3),
        body,
        ..Routine::default()
    }
}

#[test]
fn random_programs_are_what_each_element_gives_alone() {
    let programs = std::env::var("VERDIGRIS_ROUTINES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let [x, n] = some(90);
    let y = doubles(90, |i| if i % 17 == 16 { NA_F64 } else { (i % 5) as f64 - 1.0 });
    let key = vec![Scalar::I64(77); 90];
    let z = doubles(90, |i| (i * 37 % 83) as f64 / 10.0);
    let columns = [x, y, n, key, z];
    for seed in 0..programs {
        check(&random_routine(seed), &columns, &[64, 90, 7]);
    }
}
