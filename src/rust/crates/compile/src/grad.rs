//! Gradients: a routine that computes its value and the derivatives with respect to some of its parameters.
//!
//! Forward mode: every float register that depends on a parameter has a register for each derivative, written together
//! with it. Loops and conditions need no special treatment, and no tape is kept (A. Griewank, A. Walther, "Evaluating
//! Derivatives", 2008, chapter 3). At a kink or a step the derivative is that of the branch that was taken.

mod bessel;
mod distribution;
mod rules;

use std::collections::HashMap;

use super::{Block, Draw, LocalArray, Operand, Register, Routine, Source, Statement};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{id, OpId};

/// A variable of differentiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The number that is given argument n.
    Number(u16),
    /// Element (from 0) of the table that is given argument n.
    Element(u16, u32),
}

/// A routine that returns the first result of `routine`, then its derivative with respect to each target.
///
/// # Errors
/// The name of an operation that has no derivative here.
pub fn gradient(routine: &Routine, targets: &[Target]) -> Result<Routine, String> {
    let mut forward = Forward {
        out: Routine { results: routine.results[..1].to_vec(), body: Block::new(), ..routine.clone() },
        targets,
        tables: routine.tables.iter().map(|t| t.given).collect(),
        shadows: HashMap::new(),
        arrays: HashMap::new(),
    };
    forward.find_active(routine)?;
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

/// An operation's name in R.
fn shown(op: OpId) -> String {
    let row = op.row();
    if row.r.is_empty() { row.name } else { row.r }.to_string()
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
    /// The derivative registers of each register that depends on a target, one per target.
    shadows: HashMap<Register, Vec<Register>>,
    arrays: HashMap<u16, Vec<u16>>,
}

/// Derivatives of an operand with respect to each target; None if it depends on no target.
type Derivatives = Option<Vec<Operand>>;

impl Forward<'_> {
    fn fresh(&mut self, class: Class) -> Register {
        self.out.registers.push(class);
        self.out.names.push(String::new());
        (self.out.registers.len() - 1) as Register
    }

    /// Gives a register registers for its derivatives. False if it has them, or is no float.
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
    fn find_active(&mut self, routine: &Routine) -> Result<(), String> {
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
                return self.refuse_inactive(routine);
            }
        }
    }

    /// Refuses operations on numbers that depend on a target, but whose results carry no derivatives: complex numbers,
    /// and draws from distributions that a transformation of a standard draw does not give.
    fn refuse_inactive(&self, routine: &Routine) -> Result<(), String> {
        let mut found = Ok(());
        routine.walk(&mut |statement| {
            let depends = match statement {
                Statement::Read { table, .. } => {
                    let given = self.tables[*table as usize];
                    self.targets.iter().any(|t| matches!(t, Target::Element(k, _) if *k == given))
                }
                other => other.operands().iter().any(|o| self.is_active(o)),
            };
            let complex = |to| matches!(routine.registers[to as usize], Class::C64 | Class::C128);
            match statement {
                Statement::Draw { draw: Draw::Row(op), .. } if depends => found = Err(shown(*op)),
                Statement::Apply { to, op, .. } if depends && complex(*to) => found = Err(shown(*op)),
                other if depends && other.written().is_some_and(complex) => found = Err("a complex number".into()),
                _ => {}
            }
        });
        found
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

    /// Emits a statement that writes a register with derivatives, and the statements for its derivatives.
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
                // The value goes to a new register first, because `to` may be an operand of the derivative.
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

/// Emits the operations that compute a derivative.
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
}
