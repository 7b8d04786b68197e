//! Gradients: a routine that computes, beside its value, the derivatives by some of its parameters.
//!
//! Forward mode: every float register that depends on a parameter has a register for each derivative, written together
//! with it. Loops and conditions need no special treatment, and no tape is kept (A. Griewank, A. Walther, "Evaluating
//! Derivatives", 2008, chapter 3). At a kink or a step the derivative is that of the branch that was taken.

mod distribution;

use std::collections::HashMap;

use super::{Block, LocalArray, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId, Rule};

/// By what is differentiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The number that is the n-th thing given.
    Number(u16),
    /// An element (from 0) of the table that is the n-th thing given.
    Element(u16, u32),
}

/// The routine that gives the first result of `routine`, then its derivative by each target.
///
/// # Errors
/// The operation that has no derivative here, by its name.
pub fn gradient(routine: &Routine, targets: &[Target]) -> Result<Routine, String> {
    let mut forward = Forward {
        out: Routine { results: routine.results[..1].to_vec(), body: Block::new(), ..routine.clone() },
        targets,
        tables: routine.tables.iter().map(|t| t.given).collect(),
        shadows: HashMap::new(),
        arrays: HashMap::new(),
    };
    forward.find_active(routine);
    let mut start = Block::new();
    for (r, shadow) in &forward.shadows {
        let class = routine.registers[*r as usize];
        let source = routine.parameters.iter().find(|p| p.register == *r).map(|p| p.source);
        for (target, d) in targets.iter().zip(shadow) {
            let one = matches!((target, source), (Target::Number(k), Some(Source::Given(j))) if *k == j);
            start.push(Statement::Move { to: *d, from: constant(if one { 1.0 } else { 0.0 }, class) });
        }
    }
    start.sort_by_key(Statement::written);
    let body = forward.block(&routine.body)?;
    forward.out.body = start.into_iter().chain(body).collect();
    let (result, dtype) = routine.results[0];
    for k in 0..targets.len() {
        let d = match forward.shadows.get(&result) {
            Some(shadow) => shadow[k],
            None => {
                let d = forward.fresh(dtype.class());
                forward.out.body.insert(0, Statement::Move { to: d, from: constant(0.0, dtype.class()) });
                d
            }
        };
        forward.out.results.push((d, dtype));
    }
    forward.out.name.push_str("_grad");
    super::compile::tidy::tidy(&mut forward.out);
    Ok(forward.out)
}

fn constant(x: f64, class: Class) -> Operand {
    Operand::Constant(Scalar::F64(x).to(class))
}

fn is_float(class: Class) -> bool {
    matches!(class, Class::F32 | Class::F64)
}

struct Forward<'a> {
    out: Routine,
    targets: &'a [Target],
    tables: Vec<u16>,
    /// Derivatives of each register that depends on a target.
    shadows: HashMap<Register, Vec<Register>>,
    arrays: HashMap<u16, Vec<u16>>,
}

/// Derivatives of an operand by the targets: none where it depends on none.
type Derivatives = Option<Vec<Operand>>;

impl Forward<'_> {
    fn fresh(&mut self, class: Class) -> Register {
        self.out.registers.push(class);
        self.out.names.push(String::new());
        (self.out.registers.len() - 1) as Register
    }

    fn activate(&mut self, r: Register) -> bool {
        let class = self.out.registers[r as usize];
        if self.shadows.contains_key(&r) || !is_float(class) {
            return false;
        }
        let shadow = self.targets.iter().map(|_| self.fresh(class)).collect();
        self.shadows.insert(r, shadow);
        true
    }

    fn is_active(&self, operand: &Operand) -> bool {
        operand.register().is_some_and(|r| self.shadows.contains_key(&r))
    }

    /// Finds the registers and arrays that depend on a target.
    fn find_active(&mut self, routine: &Routine) {
        for parameter in &routine.parameters {
            let hit = |t: &Target| matches!((t, parameter.source), (Target::Number(k), Source::Given(j)) if *k == j);
            if self.targets.iter().any(hit) {
                self.activate(parameter.register);
            }
        }
        loop {
            let mut statements = Vec::new();
            routine.walk(&mut |s| statements.push(s));
            let mut changed = false;
            for statement in statements {
                let depends = match statement {
                    Statement::Read { table, .. } => {
                        let given = self.tables[*table as usize];
                        self.targets.iter().any(|t| matches!(t, Target::Element(k, _) if *k == given))
                    }
                    Statement::Get { array, .. } => self.arrays.contains_key(array),
                    Statement::Position { .. } | Statement::Offset { .. } | Statement::Draw { .. } => false,
                    Statement::Set { array, value, .. } => {
                        let new = self.is_active(value) && !self.arrays.contains_key(array);
                        if new {
                            let local: LocalArray = routine.arrays[*array as usize].clone();
                            let shadow = self
                                .targets
                                .iter()
                                .map(|_| {
                                    self.out.arrays.push(local.clone());
                                    (self.out.arrays.len() - 1) as u16
                                })
                                .collect();
                            self.arrays.insert(*array, shadow);
                        }
                        changed |= new;
                        false
                    }
                    other => other.operands().iter().any(|o| self.is_active(o)),
                };
                if let (true, Some(to)) = (depends, statement.written()) {
                    changed |= self.activate(to);
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn derivatives(&self, operand: &Operand) -> Derivatives {
        let shadow = self.shadows.get(&operand.register()?)?;
        Some(shadow.iter().map(|&d| Operand::Register(d)).collect())
    }

    fn block(&mut self, block: &Block) -> Result<Block, String> {
        let mut out = Block::new();
        for statement in block {
            self.statement(statement, &mut out)?;
        }
        Ok(out)
    }

    fn statement(&mut self, statement: &Statement, out: &mut Block) -> Result<(), String> {
        match statement {
            Statement::If { value, missing, then, otherwise } => {
                let (then, otherwise) = (self.block(then)?, self.block(otherwise)?);
                out.push(Statement::If { value: *value, missing: *missing, then, otherwise });
            }
            Statement::For { counter, times, body } => {
                let body = self.block(body)?;
                out.push(Statement::For { counter: *counter, times: *times, body });
            }
            Statement::Loop { body } => {
                let body = self.block(body)?;
                out.push(Statement::Loop { body });
            }
            Statement::Set { array, at, value } => {
                if let Some(shadows) = self.arrays.get(array).cloned() {
                    let class = self.out.arrays[*array as usize].class;
                    let ds = self.derivatives(value);
                    for (k, shadow) in shadows.into_iter().enumerate() {
                        let d = ds.as_ref().map_or(constant(0.0, class), |ds| ds[k]);
                        out.push(Statement::Set { array: shadow, at: *at, value: d });
                    }
                }
                out.push(statement.clone());
            }
            _ => match statement.written().and_then(|to| self.shadows.get(&to).cloned().map(|ds| (to, ds))) {
                Some((to, shadow)) => self.active(statement, to, &shadow, out)?,
                None => out.push(statement.clone()),
            },
        }
        Ok(())
    }

    /// A statement that writes a register with derivatives.
    fn active(
        &mut self,
        statement: &Statement,
        to: Register,
        shadow: &[Register],
        out: &mut Block,
    ) -> Result<(), String> {
        let class = self.out.registers[to as usize];
        let zero = constant(0.0, class);
        match statement {
            Statement::Move { from, .. } => {
                let ds = self.derivatives(from);
                for (k, &d) in shadow.iter().enumerate() {
                    out.push(Statement::Move { to: d, from: ds.as_ref().map_or(zero, |ds| ds[k]) });
                }
                out.push(statement.clone());
            }
            Statement::Step { from, counter, step, .. } => {
                let (a, b) = (self.derivatives(from), self.derivatives(step));
                for (k, &d) in shadow.iter().enumerate() {
                    let of = |ds: &Derivatives| ds.as_ref().map_or(zero, |ds| ds[k]);
                    out.push(Statement::Step { to: d, from: of(&a), counter: *counter, step: of(&b) });
                }
                out.push(statement.clone());
            }
            Statement::Read { table, at, .. } => {
                let given = self.tables[*table as usize];
                for (target, &d) in self.targets.iter().zip(shadow) {
                    match target {
                        Target::Element(k, element) if *k == given => {
                            let mut write = Writer { forward: self, out, class: Class::I64 };
                            let here = write.apply(id::EQ, &[*at, Operand::Constant(Scalar::I64((*element).into()))]);
                            write.class = class;
                            let one = write.apply(id::SELECT, &[here, constant(1.0, class), zero]);
                            out.push(Statement::Move { to: d, from: one });
                        }
                        _ => out.push(Statement::Move { to: d, from: zero }),
                    }
                }
                out.push(statement.clone());
            }
            Statement::Get { array, at, .. } => {
                let shadows = self.arrays.get(array).cloned();
                for (k, &d) in shadow.iter().enumerate() {
                    out.push(match &shadows {
                        Some(shadows) => Statement::Get { to: d, array: shadows[k], at: *at },
                        None => Statement::Move { to: d, from: zero },
                    });
                }
                out.push(statement.clone());
            }
            Statement::Apply { op, class: computing, args, .. } => {
                // the value first, beside its register, which may be an operand
                let y = self.fresh(class);
                out.push(Statement::Apply { to: y, op: *op, class: *computing, args: args.clone() });
                let ds: Vec<Derivatives> = args.iter().map(|a| self.derivatives(a)).collect();
                let mut new = Vec::new();
                for k in 0..shadow.len() {
                    let d: Vec<Option<Operand>> = ds.iter().map(|d| d.as_ref().map(|d| d[k])).collect();
                    let mut write = Writer { forward: self, out, class };
                    new.push(write.rule(*op, args, Operand::Register(y), &d)?);
                }
                for (&d, from) in shadow.iter().zip(new) {
                    out.push(Statement::Move { to: d, from });
                }
                out.push(Statement::Move { to, from: Operand::Register(y) });
            }
            Statement::Draw { .. } => {
                for &d in shadow {
                    out.push(Statement::Move { to: d, from: zero });
                }
                out.push(statement.clone());
            }
            other => unreachable!("{other:?} writes no float"),
        }
        Ok(())
    }
}

/// Writes what a derivative is computed by.
struct Writer<'a, 'b> {
    forward: &'a mut Forward<'b>,
    out: &'a mut Block,
    class: Class,
}

impl Writer<'_, '_> {
    fn apply(&mut self, op: OpId, args: &[Operand]) -> Operand {
        let to = self.forward.fresh(op.row().result_class(self.class));
        self.out.push(Statement::Apply { to, op, class: self.class, args: args.to_vec() });
        Operand::Register(to)
    }

    fn c(&self, x: f64) -> Operand {
        constant(x, self.class)
    }

    fn add(&mut self, a: Operand, b: Operand) -> Operand {
        self.apply(id::ADD, &[a, b])
    }

    fn sub(&mut self, a: Operand, b: Operand) -> Operand {
        self.apply(id::SUB, &[a, b])
    }

    fn mul(&mut self, a: Operand, b: Operand) -> Operand {
        self.apply(id::MUL, &[a, b])
    }

    fn div(&mut self, a: Operand, b: Operand) -> Operand {
        self.apply(id::DIV, &[a, b])
    }

    fn of(&mut self, op: OpId, a: Operand) -> Operand {
        self.apply(op, &[a])
    }

    /// The sum of `factor * d` over the operands that have a derivative.
    fn sum(&mut self, terms: &[(Option<Operand>, Operand)]) -> Operand {
        let mut total = None;
        for (d, factor) in terms {
            let Some(d) = d else { continue };
            let term = self.mul(*factor, *d);
            total = Some(match total {
                None => term,
                Some(sum) => self.add(sum, term),
            });
        }
        total.unwrap_or(self.c(0.0))
    }

    /// The derivative of `y = op(args)`, where `d` are those of the operands.
    fn rule(&mut self, op: OpId, args: &[Operand], y: Operand, d: &[Option<Operand>]) -> Result<Operand, String> {
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        // one operand: the factor of its derivative
        let factor = match op {
            id::NEG => Some(self.c(-1.0)),
            id::POS => Some(self.c(1.0)),
            id::EXP => Some(y),
            id::EXPM1 => Some(self.add(y, self.c(1.0))),
            id::LOG => Some(self.div(self.c(1.0), a)),
            id::LOG2 => {
                let scaled = self.mul(a, self.c(std::f64::consts::LN_2));
                Some(self.div(self.c(1.0), scaled))
            }
            id::LOG10 => {
                let scaled = self.mul(a, self.c(std::f64::consts::LN_10));
                Some(self.div(self.c(1.0), scaled))
            }
            id::LOG1P => {
                let one = self.add(a, self.c(1.0));
                Some(self.div(self.c(1.0), one))
            }
            id::SQRT => Some(self.div(self.c(0.5), y)),
            id::SIN => Some(self.of(id::COS, a)),
            id::COS => {
                let s = self.of(id::SIN, a);
                Some(self.of(id::NEG, s))
            }
            id::TAN => {
                let s = self.mul(y, y);
                Some(self.add(s, self.c(1.0)))
            }
            id::ASIN | id::ACOS => {
                let s = self.mul(a, a);
                let s = self.sub(self.c(1.0), s);
                let root = self.of(id::SQRT, s);
                Some(self.div(self.c(if op == id::ASIN { 1.0 } else { -1.0 }), root))
            }
            id::ATAN => {
                let s = self.mul(a, a);
                let s = self.add(self.c(1.0), s);
                Some(self.div(self.c(1.0), s))
            }
            id::SINH => Some(self.of(id::COSH, a)),
            id::COSH => Some(self.of(id::SINH, a)),
            id::TANH => {
                let s = self.mul(y, y);
                Some(self.sub(self.c(1.0), s))
            }
            id::ASINH | id::ACOSH => {
                let s = self.mul(a, a);
                let s = self.apply(if op == id::ASINH { id::ADD } else { id::SUB }, &[s, self.c(1.0)]);
                let root = self.of(id::SQRT, s);
                Some(self.div(self.c(1.0), root))
            }
            id::ATANH => {
                let s = self.mul(a, a);
                let s = self.sub(self.c(1.0), s);
                Some(self.div(self.c(1.0), s))
            }
            id::ABS => Some(self.of(id::SIGN, a)),
            id::GAMMA => {
                let p = self.of(id::DIGAMMA, a);
                Some(self.mul(y, p))
            }
            id::LGAMMA => Some(self.of(id::DIGAMMA, a)),
            id::DIGAMMA => Some(self.of(id::TRIGAMMA, a)),
            id::SIGN | id::FLOOR | id::CEILING | id::TRUNC | id::ROUND | id::ROUND_DIGITS | id::SIGNIF | id::INTDIV => {
                return Ok(self.c(0.0))
            }
            _ => None,
        };
        if let Some(factor) = factor {
            return Ok(self.sum(&[(d[0], factor)]));
        }
        if let Rule::To(dtype) = op.row().rule {
            // from one float type to another
            return match d[0] {
                Some(d) if dtype.is_float() => {
                    let class = std::mem::replace(
                        &mut self.class,
                        self.forward.out.registers[d.register().map_or(0, usize::from)],
                    );
                    let cast = self.apply(op, &[d]);
                    self.class = class;
                    Ok(cast)
                }
                _ => Ok(self.c(0.0)),
            };
        }
        let one = self.c(1.0);
        Ok(match op {
            id::ADD => match (d[0], d[1]) {
                (Some(x), Some(z)) => self.add(x, z),
                (Some(x), None) | (None, Some(x)) => x,
                _ => self.c(0.0),
            },
            id::SUB => match (d[0], d[1]) {
                (Some(x), Some(z)) => self.sub(x, z),
                (Some(x), None) => x,
                (None, Some(z)) => self.of(id::NEG, z),
                _ => self.c(0.0),
            },
            id::MUL => self.sum(&[(d[0], b), (d[1], a)]),
            id::DIV => {
                // (da - y db) / b
                let top = match (d[0], d[1]) {
                    (Some(x), None) => x,
                    (x, Some(z)) => {
                        let t = self.mul(y, z);
                        match x {
                            Some(x) => self.sub(x, t),
                            None => self.of(id::NEG, t),
                        }
                    }
                    _ => self.c(0.0),
                };
                self.div(top, b)
            }
            id::POW => {
                let by_base = match d[0] {
                    Some(_) => {
                        let less = self.sub(b, one);
                        let p = self.apply(id::POW, &[a, less]);
                        self.mul(b, p)
                    }
                    None => one,
                };
                let by_power = match d[1] {
                    Some(_) => {
                        // a positive base has a logarithm; of 0 the power stays 0
                        let log = self.of(id::LOG, a);
                        let p = self.mul(y, log);
                        let zero = self.c(0.0);
                        let is_zero = self.apply(id::EQ, &[y, zero]);
                        self.apply(id::SELECT, &[is_zero, zero, p])
                    }
                    None => one,
                };
                self.sum(&[(d[0], by_base), (d[1], by_power)])
            }
            id::LOG_BASE => {
                let log = self.of(id::LOG, b);
                let x = self.mul(a, log);
                let by_a = self.div(one, x);
                let z = self.mul(b, log);
                let by_b = self.div(y, z);
                let by_b = self.of(id::NEG, by_b);
                self.sum(&[(d[0], by_a), (d[1], by_b)])
            }
            id::ATAN2 => {
                let (p, q) = (self.mul(a, a), self.mul(b, b));
                let r = self.add(p, q);
                let by_a = self.div(b, r);
                let by_b = self.div(a, r);
                let by_b = self.of(id::NEG, by_b);
                self.sum(&[(d[0], by_a), (d[1], by_b)])
            }
            id::MOD => {
                let q = self.apply(id::INTDIV, &[a, b]);
                let q = self.of(id::NEG, q);
                self.sum(&[(d[0], one), (d[1], q)])
            }
            id::SELECT => {
                let zero = self.c(0.0);
                self.apply(id::SELECT, &[a, d[1].unwrap_or(zero), d[2].unwrap_or(zero)])
            }
            id::PMIN | id::PMAX => {
                let zero = self.c(0.0);
                let first = self.apply(if op == id::PMIN { id::LE } else { id::GE }, &[a, b]);
                self.apply(id::SELECT, &[first, d[0].unwrap_or(zero), d[1].unwrap_or(zero)])
            }
            id::BETA | id::LBETA => {
                let s = self.add(a, b);
                let both = self.of(id::DIGAMMA, s);
                let (p, q) = (self.of(id::DIGAMMA, a), self.of(id::DIGAMMA, b));
                let (p, q) = (self.sub(p, both), self.sub(q, both));
                let sum = self.sum(&[(d[0], p), (d[1], q)]);
                if op == id::BETA {
                    self.mul(y, sum)
                } else {
                    sum
                }
            }
            id::DNORM | id::DNORM_LOG | id::PNORM | id::PNORM_UPPER | id::PNORM_LOG | id::PNORM_UPPER_LOG => {
                let (mean, sd) = (args[1], args[2]);
                let centred = self.sub(a, mean);
                let z = self.div(centred, sd);
                // dz = (dx - dm - z ds) / s
                let minus = self.c(-1.0);
                let minus_z = self.of(id::NEG, z);
                let top = self.sum(&[(d[0], one), (d[1], minus), (d[2], minus_z)]);
                let dz = self.div(top, sd);
                let (zero, unit) = (self.c(0.0), self.c(1.0));
                match op {
                    id::DNORM | id::DNORM_LOG => {
                        let t = self.mul(minus_z, dz);
                        let t = match d[2] {
                            Some(ds) => {
                                let scale = self.div(ds, sd);
                                self.sub(t, scale)
                            }
                            None => t,
                        };
                        if op == id::DNORM {
                            self.mul(y, t)
                        } else {
                            t
                        }
                    }
                    id::PNORM | id::PNORM_UPPER => {
                        let density = self.apply(id::DNORM, &[z, zero, unit]);
                        let t = self.mul(density, dz);
                        if op == id::PNORM {
                            t
                        } else {
                            self.of(id::NEG, t)
                        }
                    }
                    _ => {
                        let density = self.apply(id::DNORM_LOG, &[z, zero, unit]);
                        let ratio = self.sub(density, y);
                        let ratio = self.of(id::EXP, ratio);
                        let t = self.mul(ratio, dz);
                        if op == id::PNORM_LOG {
                            t
                        } else {
                            self.of(id::NEG, t)
                        }
                    }
                }
            }
            id::QNORM => {
                let (mean, sd) = (args[1], args[2]);
                let centred = self.sub(y, mean);
                let z = self.div(centred, sd);
                let (zero, unit) = (self.c(0.0), self.c(1.0));
                let density = self.apply(id::DNORM, &[z, zero, unit]);
                let by_p = self.div(sd, density);
                self.sum(&[(d[0], by_p), (d[1], one), (d[2], z)])
            }
            // standard draws do not depend on parameters; what is made of them does
            id::NORMAL_DRAW => self.sum(&[(d[0], args[2]), (d[1], one), (d[2], a)]),
            id::LOGNORMAL_DRAW => {
                let t = self.sum(&[(d[0], args[2]), (d[1], one), (d[2], a)]);
                self.mul(y, t)
            }
            id::UNIFORM_DRAW => {
                let rest = self.sub(one, a);
                self.sum(&[(d[1], rest), (d[2], a)])
            }
            id::EXPONENTIAL_DRAW => {
                let t = self.div(y, b);
                let t = self.of(id::NEG, t);
                self.sum(&[(d[1], t)])
            }
            other if other.row().is_distribution() => self.distribution(other, args, y, d)?,
            other => return Err(if other.row().r.is_empty() { other.row().name } else { other.row().r }.to_string()),
        })
    }
}
