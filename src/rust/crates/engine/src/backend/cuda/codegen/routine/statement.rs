//! Writes statements. Each becomes a statement of C, or an expression that is written inline at its only use.

use super::names::{breaks, leaves};
use super::text::{comment, Binds, Text};
use super::value::{is_logic, Condition};
use super::{kept_draw_variable, PendingExpr, PendingValue, Writer};
use verdigris_compile::{written, Block, Draw, FailureId, Operand, Register, Source, Statement};
use verdigris_ops::dtype::DType;
use verdigris_ops::scalar::Scalar;

/// Expressions longer than this (in characters) are assigned to a variable instead of written inline.
const LONGEST: usize = 90;
/// Loops over local arrays of at most this many iterations are unrolled, so that the arrays are held in registers.
const MOST_UNROLLED: i32 = 16;

impl Writer<'_> {
    /// Writes a line with the current indentation.
    pub fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Writes all pending values as statements.
    pub fn flush(&mut self) {
        while let Some(first) = self.pending.first() {
            self.emit_value(first.register);
        }
    }

    /// Writes `register = text` at once.
    pub fn assign(&mut self, register: Register, text: &Text) {
        let used = &self.uses[register as usize];
        let name = used.name.clone();
        let line = match used.local {
            true => format!("const {} {name} = {};", self.class(register).c_type(), text.as_str()),
            false => format!("{name} = {};", text.as_str()),
        };
        self.line(&line);
    }

    /// Whether a value may be written inline: it is local and used once, and either has no name in R or is itself just
    /// a name or number (`plain`).
    fn may_wait(&self, register: Register, plain: bool) -> bool {
        let used = &self.uses[register as usize];
        (!used.named || plain) && used.writes == 1 && used.reads == 1 && used.local
    }

    /// Writes the pending values for which `test` holds as statements.
    fn emit_where(&mut self, test: impl Fn(&PendingExpr) -> bool) {
        let found = |pending: &[PendingValue]| pending.iter().find(|w| test(&w.what)).map(|w| w.register);
        while let Some(register) = found(&self.pending) {
            self.emit_value(register);
        }
    }

    /// Writes pending values that read a register, before the register gets a new value.
    fn before_write(&mut self, register: Register) {
        let depends = |what: &PendingExpr| match what {
            PendingExpr::Text(text) => text.registers.contains(&register),
            PendingExpr::Logic { args, .. } => args.contains(&Operand::Register(register)),
        };
        self.emit_where(depends);
    }

    /// Assigns `text` to a register, now or inline at its use.
    fn define(&mut self, register: Register, text: Text) {
        self.before_write(register);
        if self.may_wait(register, text.is_atom()) && text.as_str().len() <= LONGEST {
            self.pending.push(PendingValue { register, what: PendingExpr::Text(text) });
        } else {
            self.assign(register, &text);
        }
    }

    /// Writes a block. Returns whether control can reach its end.
    pub fn block(&mut self, block: &Block) -> bool {
        block.iter().all(|statement| self.statement(statement))
    }

    /// Writes a block within braces, which the caller writes. Returns whether control can reach its end.
    fn inner(&mut self, block: &Block) -> bool {
        self.depth += 1;
        let falls = self.block(block);
        self.flush();
        self.depth -= 1;
        falls
    }

    /// Writes a statement. Returns whether control can pass beyond it.
    fn statement(&mut self, statement: &Statement) -> bool {
        match statement {
            Statement::Apply { to, op, class, args } => {
                if is_logic(*op, *class) && self.may_wait(*to, false) {
                    for &arg in args {
                        // a condition may contain an operand twice, so operands other than conditions need a name
                        let logical = |w: &PendingValue| matches!(w.what, PendingExpr::Logic { .. });
                        let waits = self.pending.iter().find(|w| Operand::Register(w.register) == arg);
                        if waits.is_some_and(|w| !logical(w)) {
                            arg.register().into_iter().for_each(|r| self.emit_value(r));
                        }
                    }
                    self.before_write(*to);
                    let what = PendingExpr::Logic { op: *op, class: *class, args: args.clone() };
                    self.pending.push(PendingValue { register: *to, what });
                } else {
                    let text = self.row(*op, *class, args);
                    self.define(*to, text);
                }
                self.known.computed(*to, *op, *class, args);
            }
            Statement::Move { to, from } => {
                let text = self.read(*from);
                self.define(*to, text);
                self.known.moved(*to, *from);
            }
            Statement::Step { to, from, counter, step } => {
                let text = self.step(*to, *from, *counter, *step);
                self.define(*to, text);
                self.known.forget(*to);
                self.known.number(*to);
                if above(*from, 1) && above(*step, 0) {
                    self.known.positive(*to);
                }
            }
            Statement::Position { to, from, extent, inside: true, .. } => {
                let from = Text::prefix("(i64)", &self.read(*from));
                self.define(*to, Text::infix(&from, "-", &Text::atom("1"), Binds::Sum));
                self.known.forget(*to);
                self.known.note_valid_position(*to, Some(*extent).filter(|&extent| extent != Operand::Register(*to)));
            }
            Statement::Position { to, from, extent, low, high, .. } => self.position(*to, *from, *extent, *low, *high),
            Statement::Offset { to, at } => self.offset(*to, at),
            Statement::Read { to, table, at } => {
                let dtype = self.routine.tables[*table as usize].dtype;
                let (base, inside) = (self.tables[*table as usize].clone(), self.is_inside(*table, *at));
                let at = self.read(*at);
                let text = match inside {
                    true => Text::call(&format!("load_{dtype}"), &[Text::atom(base), at], ""),
                    false => {
                        let args = [Text::atom(base.clone()), Text::atom(format!("{base}length")), at];
                        Text::call(&format!("pick_{dtype}"), &args, "")
                    }
                };
                self.define(*to, text);
                self.known.forget(*to);
            }
            Statement::Get { to, array, at } => {
                let mut text = match self.constant_index(*array, *at) {
                    Some(k) => Text::atom(format!("a{array}[{k}]")),
                    None => {
                        let at = self.read(*at);
                        Text::call("get", &[Text::atom(format!("a{array}")), at], "")
                    }
                };
                text.arrays.push(*array);
                self.define(*to, text);
                self.known.forget(*to);
            }
            Statement::Set { array, at, value } => {
                let index = self.constant_index(*array, *at);
                let (at, value) = (self.read(*at), self.read(*value));
                let reads = |what: &PendingExpr| matches!(what, PendingExpr::Text(text) if text.arrays.contains(array));
                self.emit_where(reads);
                match index {
                    Some(k) => self.line(&format!("a{array}[{k}] = {};", value.as_str())),
                    None => self.line(&format!("set(a{array}, {}, {});", at.as_str(), value.as_str())),
                }
            }
            Statement::Draw { to, draw, count, args } => self.draw(*to, *draw, *count, args),
            Statement::If { value, missing, then, otherwise } => return self.choose(*value, *missing, then, otherwise),
            Statement::For { counter, times, body } => self.count(*counter, *times, body),
            Statement::Loop { body } => {
                self.enter(body);
                self.line("for (;;) {");
                self.turn(body);
                return breaks(body);
            }
            Statement::Break => return self.leave("break;"),
            Statement::Next => return self.leave("continue;"),
            Statement::Return => {
                self.return_();
                return false;
            }
            Statement::Fail(failure) => {
                self.flush();
                self.fail("", *failure);
                return false;
            }
        }
        true
    }

    fn leave(&mut self, text: &str) -> bool {
        self.flush();
        self.line(text);
        false
    }

    pub fn return_(&mut self) {
        let results: Vec<Text> = self.routine.results.iter().map(|(r, _)| self.read(Operand::Register(*r))).collect();
        self.flush();
        let results: Vec<&str> = results.iter().map(Text::as_str).collect();
        self.line(&format!("return {{{}}};", results.join(", ")));
    }

    /// Writes a return with a failure if `test` holds, or unconditionally if `test` is "".
    fn fail(&mut self, test: &str, failure: FailureId) {
        self.fail_with(test, &code(failure), "0.0, 0", failure);
    }

    /// As `fail`, where `code` is the C expression of the failure's code (this failure, or another of the same source
    /// span), and `at` the subscript and the extent that it exceeds.
    fn fail_with(&mut self, test: &str, code: &str, at: &str, failure: FailureId) {
        self.fails = true;
        let known = &self.routine.failures[failure as usize];
        let line = known.line.map_or(String::new(), |line| format!("line {line}: "));
        let what = match known.expression.as_str() {
            "" => known.message.clone(),
            expression => format!("{expression}: {}", known.message),
        };
        let leave = format!("failed = {{{code}, {at}}}; return missing;");
        let leave = if test.is_empty() { leave } else { format!("if ({test}) {{ {leave} }}") };
        self.line(&format!("{leave}  // {line}{}", comment(&what)));
    }

    fn step(&mut self, to: Register, from: Operand, counter: Register, step: Operand) -> Text {
        let float = self.class(to) == verdigris_ops::dtype::Class::F64;
        let mut turns = self.read(Operand::Register(counter));
        if float {
            turns = Text::prefix("(f64)", &turns);
        }
        let is = |x: Operand, whole: i32| match x {
            Operand::Constant(Scalar::I32(x)) => x == whole,
            // also matches -0.0: adding either zero to a count changes nothing
            Operand::Constant(Scalar::F64(x)) => x == whole.into(),
            _ => false,
        };
        let by = match is(step, 1) {
            true => turns,
            false => Text::infix(&turns, "*", &self.read(step), Binds::Product),
        };
        // 0 * step is -0 for a negative step, which the addition of 0 turns into 0: so it can only be left out for
        // positive steps
        match is(from, 0) && (!float || matches!(step, Operand::Constant(Scalar::F64(x)) if x > 0.0)) {
            true => by,
            false => Text::infix(&by, "+", &self.read(from), Binds::Sum),
        }
    }

    fn position(&mut self, to: Register, from: Operand, extent: Operand, low: FailureId, high: Option<FailureId>) {
        let sure = self.known.is_number(from) && high.is_some();
        let positive = self.known.is_positive(from);
        let args = [self.read_name(from), self.read_name(extent)];
        self.before_write(to);
        let at = format!("(f64){}, {}", Text::prefix("", &args[0]).as_str(), args[1].as_str());
        let name = self.name(to).to_string();
        let declared = if self.uses[to as usize].local { "i64 " } else { "" };
        let from_one = format!("(i64){}", Text::prefix("", &args[0]).as_str());
        if let (true, None) = (positive, high) {
            let inside = format!("{from_one} <= {}", args[1].as_str());
            self.line(&format!("{declared}{name} = {inside} ? {from_one} - 1 : AT_NONE;"));
            self.known.forget(to);
            return;
        }
        if let (true, Some(high)) = (positive, high) {
            self.line(&format!("{declared}{name} = {from_one} - 1;"));
            self.fail_with(&format!("{name} >= {}", args[1].as_str()), &code(high), &at, high);
            self.known.forget(to);
            self.known.note_valid_position(to, Some(extent).filter(|&extent| extent != Operand::Register(to)));
            return;
        }
        let text = Text::call("position", &args, "");
        self.line(&format!("{declared}{name} = {};", text.as_str()));
        match high {
            Some(high) => {
                let code = match low == high {
                    true => code(high),
                    false => format!("{name} == AT_LOW ? {} : {}", code(low), code(high)),
                };
                self.fail_with(&format!("{name} < AT_NONE"), &code, &at, high);
            }
            None => {
                self.fail_with(&format!("{name} == AT_LOW"), &code(low), &at, low);
                self.line(&format!("if ({name} < 0) {name} = AT_NONE;"));
            }
        }
        self.known.forget(to);
        if sure {
            self.known.note_valid_position(to, Some(extent).filter(|&extent| extent != Operand::Register(to)));
        }
    }

    fn offset(&mut self, to: Register, at: &[(Operand, Operand)]) {
        let found = at.iter().all(|(position, _)| self.known.is_valid_position(*position));
        let one = |stride: Operand| stride == Operand::Constant(Scalar::I64(1));
        let mut sum: Option<Text> = None;
        for &(position, stride) in at {
            let plain = one(stride);
            let (position, stride) = (self.read(position), self.read(stride));
            sum = Some(match (sum, found) {
                (None, true) if plain => position,
                (None, true) => Text::infix(&position, "*", &stride, Binds::Product),
                (Some(sum), true) if plain => Text::infix(&sum, "+", &position, Binds::Sum),
                (Some(sum), true) => {
                    Text::infix(&sum, "+", &Text::infix(&position, "*", &stride, Binds::Product), Binds::Sum)
                }
                (sum, false) => Text::call("add_offset", &[sum.unwrap_or(Text::atom("0ll")), position, stride], ""),
            });
        }
        let part = self.part(at);
        self.define(to, sum.unwrap_or(Text::atom("0ll")));
        self.known.forget(to);
        if found {
            self.known.note_valid_position(to, None);
            part.into_iter().for_each(|part| self.known.note_in_range_axes(to, part));
        }
    }

    /// The table and its axes (bits) for which an offset is in range: all positions must be in range along their axes
    /// and be multiplied by the strides of these axes.
    fn part(&self, at: &[(Operand, Operand)]) -> Option<(u16, u8)> {
        let mut sum = None;
        for &(position, stride) in at {
            let (table, axes) = match self.known.in_range_axes(position) {
                Some(part) if stride == Operand::Constant(Scalar::I64(1)) => part,
                Some(_) => return None,
                None => {
                    let Source::Extent(table, axis) = self.source(self.known.extent(position)?)? else { return None };
                    let by = match axis {
                        0 => stride == Operand::Constant(Scalar::I64(1)),
                        1 => self.source(stride) == Some(Source::Extent(table, 0)),
                        _ => false,
                    };
                    if !by {
                        return None;
                    }
                    (table, 1 << axis)
                }
            };
            let (known, others) = sum.unwrap_or((table, 0));
            if known != table || others & axes != 0 {
                return None;
            }
            sum = Some((table, others | axes));
        }
        sum
    }

    /// The source of the parameter that an operand is, if nothing else is assigned to its register.
    fn source(&self, operand: Operand) -> Option<Source> {
        let register = operand.register().filter(|&r| self.uses[r as usize].writes == 1)?;
        self.routine.parameters.iter().find(|p| p.register == register).map(|p| p.source)
    }

    /// Whether an offset is known to be within a table, so that no bounds check is needed.
    fn is_inside(&self, table: u16, at: Operand) -> bool {
        let is_axis = |source| matches!(source, Source::Extent(of, _) if of == table);
        let axes = self.routine.parameters.iter().filter(|p| p.dtype == DType::Int64 && is_axis(p.source)).count();
        if axes > 0 && self.known.in_range_axes(at) == Some((table, (1u8 << axes) - 1)) {
            return true;
        }
        let lengths = self.routine.parameters.iter().filter(|p| p.source == Source::Length(table));
        let mut unchanged = lengths.map(|p| p.register).filter(|&r| self.uses[r as usize].writes == 1);
        unchanged.any(|length| self.known.is_below(at, length))
    }

    /// The index into a local array if it is constant and in range.
    fn constant_index(&self, array: u16, at: Operand) -> Option<i64> {
        match at {
            Operand::Constant(Scalar::I64(k)) => Some(k),
            _ => None,
        }
        .filter(|k| (0..self.routine.arrays[array as usize].length.into()).contains(k))
    }

    fn draw(&mut self, to: Register, draw: Draw, count: Register, args: &[Operand]) {
        let key = self.name(self.key.expect("a routine that draws has a key")).to_string();
        let number = self.name(count).to_string();
        let mut parameters: Vec<Text> = args.iter().map(|&arg| self.read(arg)).collect();
        self.before_write(count);
        self.before_write(to);
        let (function, kept) = match draw {
            Draw::Uniform => ("uniform", true),
            Draw::Normal => ("normal", true),
            Draw::Exponential => ("exponential", true),
            Draw::Row(_) => ("", false),
        };
        let text = match draw {
            Draw::Row(op) => {
                parameters.insert(0, Text::atom(format!("key_of_number({key}, {number})")));
                let word = self.word(op);
                Text::call(&op.row().function(verdigris_ops::dtype::Class::F64), &parameters, &format!("i, {word}"))
            }
            _ if self.kept.contains(&draw) => {
                Text::atom(format!("next_{function}({key}, i, {number}, {})", kept_draw_variable(draw).1))
            }
            _ => Text::atom(format!("{function}_number({key}, i, {number})")),
        };
        self.assign(to, &text);
        if !self.kept.contains(&draw) {
            self.line(&format!("{number}++;"));
        }
        self.known.forget(count);
        self.known.number(count);
        self.known.forget(to);
        if kept {
            self.known.number(to);
        }
    }

    fn choose(&mut self, value: Operand, missing: Option<FailureId>, then: &Block, otherwise: &Block) -> bool {
        let condition = self.condition(value);
        self.flush();
        let missing = missing.filter(|_| !condition.certain);
        let Condition { is_true, is_false, certain, if_true, if_false } = condition;
        let mut in_otherwise = self.known.clone();
        if_true.into_iter().for_each(|x| self.known.learn(x));
        // without a check for NA the `else` branch is also taken for NA
        if certain || missing.is_some() {
            if_false.into_iter().for_each(|x| in_otherwise.learn(x));
        }
        let not = |text: &Text| format!("!({})", text.as_str());
        let (not_true, not_false) = (not(&is_true), not(&is_false));
        // The C condition, the block under it and the check at its start, then the `else` block and its check. A
        // condition that is NA must fail; the check is placed in the branch that leaves, so that the path that
        // continues evaluates the condition only once.
        let mut known = [std::mem::take(&mut self.known), in_otherwise];
        let (test, first, here, second, there) = match missing {
            Some(failure) if leaves(then) => (not_false, then, Some((not_true, failure)), otherwise, None),
            Some(failure) if leaves(otherwise) || then.is_empty() => {
                known.swap(0, 1);
                (not_true, otherwise, Some((not_false, failure)), then, None)
            }
            Some(failure) => (is_true.as_str().into(), then, None, otherwise, Some((not_false, failure))),
            None if then.is_empty() => {
                known.swap(0, 1);
                (not_true, otherwise, None, then, None)
            }
            None => (is_true.as_str().into(), then, None, otherwise, None),
        };
        let [in_first, in_second] = known;
        self.line(&format!("if ({test}) {{"));
        self.known = in_first;
        let first_falls = self.way(first, here);
        let after_first = std::mem::replace(&mut self.known, in_second);
        let mut second_falls = true;
        if !second.is_empty() || there.is_some() {
            self.line("} else {");
            second_falls = self.way(second, there);
        }
        self.line("}");
        self.known = match (first_falls, second_falls) {
            (true, true) => after_first.meet(&self.known),
            (true, false) => after_first,
            _ => std::mem::take(&mut self.known),
        };
        first_falls || second_falls
    }

    /// Writes one branch of a condition, preceded by the check for NA if it is placed there.
    fn way(&mut self, block: &Block, check: Option<(String, FailureId)>) -> bool {
        if let Some((test, failure)) = check {
            self.depth += 1;
            self.fail(&test, failure);
            self.depth -= 1;
        }
        self.inner(block)
    }

    /// Before a loop: writes pending values, and drops the facts about registers that the loop assigns.
    fn enter(&mut self, body: &Block) {
        self.flush();
        written(body).into_iter().for_each(|r| self.known.forget(r));
    }

    /// Writes a loop's body and its closing brace.
    fn turn(&mut self, body: &Block) {
        let before = self.known.clone();
        self.inner(body);
        self.known = before;
        self.line("}");
    }

    fn count(&mut self, counter: Register, times: Operand, body: &Block) {
        let times_text = self.read(times);
        self.enter(body);
        let name = self.name(counter).to_string();
        let changes = times.register().is_some_and(|r| written(body).contains(&r));
        let draws = body.iter().any(|s| matches!(s, Statement::Draw { draw, .. } if self.kept.contains(draw)));
        match times {
            Operand::Constant(Scalar::I32(n)) if n <= MOST_UNROLLED && moves_arrays(body) => {
                self.line("#pragma unroll")
            }
            // a block of random numbers serves two iterations: unrolling by two resolves at compile time which
            // iteration draws it
            _ if draws => self.line("#pragma unroll 2"),
            _ => {}
        }
        let declared = if self.uses[counter as usize].local { "i32 " } else { "" };
        let plain = match times {
            Operand::Constant(_) => true,
            Operand::Register(r) => !changes && times_text.as_str() == self.name(r),
        };
        let (also, end) = match plain {
            true => (String::new(), times_text.as_str().to_string()),
            false if declared.is_empty() => {
                self.line(&format!("const i32 {name}_end = {};", times_text.as_str()));
                (String::new(), format!("{name}_end"))
            }
            false => (format!(", {name}_end = {}", times_text.as_str()), format!("{name}_end")),
        };
        self.line(&format!("for ({declared}{name} = 0{also}; {name} < {end}; {name}++) {{"));
        self.known.forget(counter);
        self.known.number(counter);
        self.turn(body);
        self.known.forget(counter);
    }
}

/// A failure's code in `Failed`: 1 more than its number, since 0 means none.
fn code(failure: FailureId) -> String {
    format!("{}u", u32::from(failure) + 1)
}

/// Whether an operand is an integer constant of at least `least`.
fn above(x: Operand, least: i32) -> bool {
    matches!(x, Operand::Constant(Scalar::I32(x)) if x >= least)
}

/// Whether a block reads or writes local arrays.
fn moves_arrays(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Get { .. } | Statement::Set { .. } => true,
        Statement::If { then, otherwise, .. } => moves_arrays(then) || moves_arrays(otherwise),
        Statement::For { body, .. } | Statement::Loop { body } => moves_arrays(body),
        _ => false,
    })
}
