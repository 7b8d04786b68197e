//! Random routines: expressions whose values are used once, among variables that change meanwhile; nested conditions;
//! all statements.

use super::{d, i, l, r, set, when, Writing};
use verdigris_compile::{Block, Draw, LocalArray, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::{NA_F64, NA_I32};
use verdigris_ops::OpId;

struct Random {
    state: u64,
    writing: Writing,
    doubles: Vec<Register>,
    wholes: Vec<Register>,
    counts: Vec<Register>,
    length: Register,
    /// Loops around, and how deep blocks and expressions are.
    loops: usize,
    depth: usize,
}

/// Two numbers and a whole number are given, and a table of doubles; it draws.
pub fn routine(seed: u64) -> Routine {
    let mut writing = Writing::new(&format!("random{seed}"), "function(x, y, n) ...");
    let (x, y) = (writing.given(0, DType::Float64, "x"), writing.given(1, DType::Float64, "y"));
    let n = writing.given(2, DType::Int32, "n");
    writing.key();
    let v = writing.table(3, DType::Float64, "v");
    let length = writing.parameter(Source::Length(v), DType::Int64, "");
    let doubles = vec![x, y, writing.double("a.b"), writing.double("a_b"), writing.double("")];
    let wholes = vec![n, writing.whole("if"), writing.whole("")];
    let counts = (0..4).map(|_| writing.whole("")).collect();
    writing.routine.arrays.push(LocalArray { class: Class::F64, length: 3 });
    for (k, message) in ["missing", "low", "high", "stop"].into_iter().enumerate() {
        writing.failure(message, "", k as u32);
    }
    let mut random = Random { state: seed, writing, doubles, wholes, counts, length, loops: 0, depth: 0 };
    // seeds that follow each other begin alike
    for _ in 0..3 {
        random.below(2);
    }
    let mut body: Block = random.doubles[2..].iter().map(|&to| set(to, d(0.5))).collect();
    body.extend(random.wholes[1..].iter().map(|&to| set(to, i(2))));
    body.extend(random.counts.iter().map(|&to| set(to, i(0))));
    body.extend(random.block(9));
    let results = [(2, DType::Float64), (0, DType::Float64), (4, DType::Float64)].map(|(k, t)| (random.doubles[k], t));
    let last = (random.wholes[1], DType::Int32);
    random.writing.done(body, &[&results[..], &[last]].concat())
}

impl Random {
    /// Knuth's generator (MMIX).
    fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn block(&mut self, most: usize) -> Block {
        let mut block = Vec::new();
        for _ in 0..=self.below(most) {
            self.statement(&mut block);
        }
        block
    }

    fn double(&mut self, out: &mut Block) -> Operand {
        self.depth += 1;
        let value = match self.below(if self.depth > 4 { 4 } else { 16 }) {
            0..=2 => r(self.one(&self.doubles.clone())),
            3 => d(self.one(&[0.0, -0.0, 1.0, -2.5, 3.0, 1e308, NA_F64, f64::NAN, f64::NEG_INFINITY])),
            4..=8 => {
                let op = self.one(&["add", "sub", "mul", "div", "pmax", "pmin", "sub", "mod"]);
                let args = [self.double(out), self.double(out)];
                self.between(out);
                self.writing.f(out, op, &args)
            }
            9..=10 => {
                let op = self.one(&["neg", "abs", "sqrt", "floor"]);
                let args = [self.double(out)];
                self.writing.f(out, op, &args)
            }
            11 => {
                let from = self.whole(out);
                let to = self.writing.double("");
                out.push(self.writing.apply(to, "to_float64", Class::I32, &[from]));
                r(to)
            }
            12 => {
                let test = self.logical(out);
                let args = [test, self.double(out), self.double(out)];
                self.writing.f(out, "select", &args)
            }
            13 => {
                let (at, to) = (self.position(out), self.writing.double(""));
                self.between(out);
                out.push(Statement::Read { to, table: 0, at });
                r(to)
            }
            _ => {
                let at = if self.below(2) == 0 { l(self.below(4) as i64) } else { self.position(out) };
                let to = self.writing.double("");
                out.push(Statement::Get { to, array: 0, at });
                r(to)
            }
        };
        self.depth -= 1;
        value
    }

    fn whole(&mut self, out: &mut Block) -> Operand {
        self.depth += 1;
        let value = match self.below(if self.depth > 4 { 4 } else { 9 }) {
            0..=2 => r(self.one(&self.wholes.clone())),
            3 => i(self.one(&[0, 1, -1, 7, -100, i32::MAX, i32::MIN + 1, NA_I32])),
            4..=7 => {
                let op = self.one(&["add", "sub", "mul", "pmax", "intdiv"]);
                let args = [self.whole(out), self.whole(out)];
                self.between(out);
                self.writing.n(out, op, &args)
            }
            _ => self.logical(out),
        };
        self.depth -= 1;
        value
    }

    fn logical(&mut self, out: &mut Block) -> Operand {
        self.depth += 1;
        let value = match self.below(if self.depth > 4 { 3 } else { 8 }) {
            0..=2 => {
                let op = self.one(&["eq", "ne", "lt", "le", "gt", "ge"]);
                let args = [self.double(out), self.double(out)];
                self.between(out);
                self.writing.f(out, op, &args)
            }
            3 => {
                let op = self.one(&["eq", "ne", "lt", "le", "gt", "ge"]);
                let args = [self.whole(out), self.whole(out)];
                self.writing.n(out, op, &args)
            }
            4 => {
                let arg = self.double(out);
                self.writing.f(out, "is_na", &[arg])
            }
            5 => {
                let arg = self.logical(out);
                self.writing.n(out, "not", &[arg])
            }
            _ => {
                let op = self.one(&["and", "or"]);
                let args = [self.logical(out), self.logical(out)];
                self.between(out);
                self.writing.n(out, op, &args)
            }
        };
        self.depth -= 1;
        value
    }

    fn position(&mut self, out: &mut Block) -> Operand {
        let from = if self.below(3) == 0 { self.double(out) } else { self.whole(out) };
        let extent = if self.below(3) == 0 { l(3) } else { r(self.length) };
        let high = self.one(&[None, None, Some(2)]);
        // mostly inside
        let class = self.writing.routine.registers.get(from.register().map_or(usize::MAX, usize::from)).copied();
        let from = match (class, self.below(8)) {
            (Some(Class::I32), 1..) => {
                let low = self.writing.n(out, "pmax", &[from, i(1)]);
                self.writing.n(out, "pmin", &[low, i(4)])
            }
            _ => from,
        };
        let to = self.writing.position();
        out.push(Statement::Position { to, from, extent, low: 1, high, inside: false });
        if self.below(3) > 0 {
            return r(to);
        }
        let sum = self.writing.position();
        out.push(Statement::Offset { to: sum, at: vec![(r(to), l(1)), (l(1), l(1))] });
        r(sum)
    }

    /// A variable that changes between a computation and its reader.
    fn between(&mut self, out: &mut Block) {
        match self.below(12) {
            0 => {
                let to = self.one(&self.doubles.clone());
                let from = r(self.one(&self.doubles.clone()));
                out.push(self.writing.apply(to, "mul", Class::F64, &[from, d(0.75)]));
            }
            1 => {
                let to = self.one(&self.wholes.clone());
                out.push(self.writing.apply(to, "sub", Class::I32, &[r(to), i(1)]));
            }
            2 => {
                let (at, value) = (l(self.below(3) as i64), r(self.one(&self.doubles.clone())));
                out.push(Statement::Set { array: 0, at, value });
            }
            _ => {}
        }
    }

    fn statement(&mut self, out: &mut Block) {
        match self.below(20) {
            0..=5 => {
                let (to, from) = (self.one(&self.doubles.clone()), self.double(out));
                out.push(set(to, from));
            }
            6..=7 => {
                let (to, from) = (self.one(&self.wholes.clone()), self.whole(out));
                out.push(set(to, from));
            }
            8 => {
                let value = self.double(out);
                let at = if self.below(2) == 0 { l(self.below(4) as i64) } else { self.position(out) };
                out.push(Statement::Set { array: 0, at, value });
            }
            9..=12 if self.depth < 4 => {
                let value = self.logical(out);
                let missing = self.one(&[None, None, Some(0)]);
                self.depth += 1;
                let mut then = self.block(3);
                match self.below(8) {
                    0..=1 if self.loops > 0 => then.push(Statement::Break),
                    2 if self.loops > 0 => then.push(Statement::Next),
                    3 => then.push(if self.below(3) == 0 { Statement::Fail(3) } else { Statement::Return }),
                    _ => {}
                }
                let otherwise = if self.below(2) == 0 { vec![] } else { self.block(2) };
                self.depth -= 1;
                out.push(when(value, missing, then, otherwise));
            }
            13..=14 if self.loops < 2 => {
                let counter = self.writing.whole("");
                let times = if self.below(2) == 0 {
                    i(self.below(4) as i32)
                } else {
                    let least = self.writing.n(out, "is_na", &[r(self.wholes[2])]);
                    let least = self.writing.n(out, "pmax", &[least, i(2)]);
                    self.writing.n(out, "pmin", &[least, i(3)])
                };
                self.loops += 1;
                self.depth += 1;
                let mut body = self.block(3);
                let (k, from) = (self.writing.whole("k"), self.one(&[1, 0, -3]));
                body.insert(0, Statement::Step { to: k, from: i(from), counter, step: i(self.one(&[1, 2])) });
                let (x, at) = (self.writing.double(""), self.writing.position());
                let length = r(self.length);
                body.insert(
                    1,
                    Statement::Position {
                        to: at,
                        from: r(k),
                        extent: length,
                        low: 1,
                        high: self.one(&[None, Some(2)]),
                        inside: false,
                    },
                );
                body.insert(2, Statement::Read { to: x, table: 0, at: r(at) });
                body.insert(3, self.writing.apply(self.doubles[2], "add", Class::F64, &[r(self.doubles[2]), r(x)]));
                self.loops -= 1;
                self.depth -= 1;
                out.push(Statement::For { counter, times, body });
            }
            15 if self.loops < 2 => {
                let turns = self.writing.whole("");
                out.push(set(turns, i(0)));
                self.loops += 1;
                self.depth += 1;
                let mut body = vec![self.writing.apply(turns, "add", Class::I32, &[r(turns), i(1)])];
                let many = self.writing.n(&mut body, "gt", &[r(turns), i(3)]);
                body.push(when(many, None, vec![Statement::Break], vec![]));
                body.extend(self.block(3));
                self.loops -= 1;
                self.depth -= 1;
                out.push(Statement::Loop { body });
            }
            16..=18 => {
                let family = self.below(4);
                let to = self.one(&self.doubles.clone());
                let (draw, args) = match family {
                    0 => (Draw::Uniform, vec![]),
                    1 => (Draw::Normal, vec![]),
                    2 => (Draw::Exponential, vec![]),
                    _ => {
                        let op = OpId::find("rpois").expect("a row");
                        if !self.writing.routine.notes.contains(&op) {
                            self.writing.routine.notes.push(op);
                        }
                        (Draw::Row(op), vec![d(2.5)])
                    }
                };
                let count = self.counts[family];
                out.push(Statement::Draw { to, draw, count, args });
            }
            _ => {
                let (to, from) = (self.one(&self.doubles.clone()), self.logical(out));
                out.push(self.writing.apply(to, "to_float64", Class::I32, &[from]));
            }
        }
    }
}
