//! Variables: assignment, and merging at control-flow joins (phi nodes).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::function::missing_flag;
use super::kinds;
use super::value::{self, join, Number, Parts, Value, Vector};
use super::{Block, Compiled, Compiler, Operand, Refusal, Register, Span, Statement, Variables};
use crate::LocalArray;
use verdigris_ops::rule::Typed;

/// The most elements of a local vector.
pub const MOST_LOCAL: usize = 1024;

/// Whether a variable of any frame has a value for which `test` holds.
pub(super) fn any_value(variables: &Variables, test: impl Fn(&Value) -> bool) -> bool {
    variables.iter().flat_map(|frame| frame.values()).any(test)
}

impl Compiler<'_> {
    /// Gives a variable of the innermost frame a value.
    pub(super) fn assign(&mut self, name: &str, value: Value, span: Span) -> Compiled<()> {
        let frame = self.frames.len() - 1;
        let value = self.held(frame, name, value, span)?;
        if self.reachable {
            self.variables[frame].insert(name.to_string(), value);
            if let Some(flag) = self.variables[frame].get_mut(&missing_flag(name)) {
                *flag = Value::Number(Number::logical(Some(false)));
            }
        }
        Ok(())
    }

    /// Moves a value into registers and arrays that belong to the variable.
    pub(super) fn held(&mut self, frame: usize, name: &str, value: Value, span: Span) -> Compiled<Value> {
        Ok(match value {
            Value::Number(n) => {
                let slot = self.slot(frame, name, n.typed);
                let kinds = self.kinds(n);
                self.write(slot, n.at);
                self.mark(slot, n.typed, kinds);
                Value::Number(Number::register(slot, n.typed))
            }
            Value::Vector(v) => {
                // Ranges and tables stay lazy until an element is assigned.
                let lazy = matches!(&*v, Vector::Range { .. } | Vector::Table { .. });
                if lazy || v.fixed().is_none_or(|n| n > MOST_LOCAL) {
                    self.frozen_value(Value::Vector(v))
                } else {
                    self.stored(frame, name, &v, span)?
                }
            }
            Value::Parts(container, parts) => {
                let parts = self.unclobbered(frame, name, parts);
                let mut held = Vec::with_capacity(parts.len());
                for (k, (part, value)) in parts.into_iter().enumerate() {
                    let label = label(name, part.as_deref(), k);
                    held.push((part, self.held(frame, &label, value, span)?));
                }
                Value::Parts(container, held)
            }
            other => other,
        })
    }

    /// The parts of a variable's new value, copied where they read what the variable's earlier parts overwrite.
    fn unclobbered(&mut self, frame: usize, name: &str, mut parts: Parts) -> Parts {
        for k in 0..parts.len() {
            let (mut registers, mut arrays) = (Vec::new(), Vec::new());
            let (part, value) = &parts[k];
            self.overwritten(frame, &label(name, part.as_deref(), k), value, &mut registers, &mut arrays);
            for (_, later) in &mut parts[k + 1..] {
                if registers.iter().any(|&r| later.holds(r)) || arrays.iter().any(|&a| later.reads(a)) {
                    *later = self.frozen_value(std::mem::replace(later, Value::Null));
                }
            }
        }
        parts
    }

    /// The registers and arrays of a variable that the assignment of a value changes.
    fn overwritten(
        &self,
        frame: usize,
        name: &str,
        value: &Value,
        registers: &mut Vec<Register>,
        arrays: &mut Vec<u16>,
    ) {
        let uid = self.frames[frame].uid;
        match value {
            Value::Number(n) => {
                let slot = self.slots.get(&(uid, name.to_string(), n.typed));
                registers.extend(slot.filter(|&&slot| n.at != Operand::Register(slot)));
            }
            Value::Vector(v) => {
                let length = v.fixed().filter(|&n| n <= MOST_LOCAL).map(|n| n as u16);
                let array = length.and_then(|n| self.arrays.get(&(uid, name.to_string(), v.typed(), n)));
                arrays.extend(array.filter(|a| !matches!(&**v, Vector::Local { array, .. } if array == *a)));
            }
            Value::Parts(_, parts) => {
                for (k, (part, value)) in parts.iter().enumerate() {
                    self.overwritten(frame, &label(name, part.as_deref(), k), value, registers, arrays);
                }
            }
            _ => {}
        }
    }

    /// Stores a vector of fixed length in the variable's own array.
    pub(super) fn stored(&mut self, frame: usize, name: &str, v: &Vector, span: Span) -> Compiled<Value> {
        let length = v.fixed().expect("only vectors of fixed length are stored") as u16;
        let missing = match v {
            Vector::Local { array, .. } if self.missing_arrays.contains(array) => true,
            _ => self.constant_elements(v).is_some_and(|all| all.iter().all(|&n| self.is_missing(n))),
        };
        let array = self.array_slot(frame, name, v.typed(), length, Some(v));
        match missing {
            true => self.missing_arrays.insert(array),
            false => self.missing_arrays.remove(&array),
        };
        self.fill(array, v, span)?;
        Ok(Value::vector(Vector::Local { array, typed: v.typed(), length, dim: v.dim() }))
    }

    /// The register that holds a variable while it has a type.
    fn slot(&mut self, frame: usize, name: &str, typed: Typed) -> Register {
        let key = (self.frames[frame].uid, name.to_string(), typed);
        if let Some(&slot) = self.slots.get(&key) {
            return slot;
        }
        let slot = self.fresh(value::dtype(typed).class());
        self.routine.names[slot as usize] = name.into();
        self.variable_registers.insert(slot);
        self.slots.insert(key, slot);
        slot
    }

    /// The array that holds a variable of a type and length. A temporary array that nothing else reads becomes it.
    fn array_slot(&mut self, frame: usize, name: &str, typed: Typed, length: u16, from: Option<&Vector>) -> u16 {
        let key = (self.frames[frame].uid, name.to_string(), typed, length);
        if let Some(&array) = self.arrays.get(&key) {
            return array;
        }
        let is_read = |array| any_value(&self.variables, |value| value.reads(array));
        let array = match from {
            Some(Vector::Local { array, .. }) if !self.variable_arrays.contains(array) && !is_read(*array) => *array,
            _ => self.new_array(typed, length),
        };
        self.variable_arrays.insert(array);
        self.arrays.insert(key, array);
        array
    }

    pub(super) fn new_array(&mut self, typed: Typed, length: u16) -> u16 {
        self.routine.arrays.push(LocalArray { class: value::dtype(typed).class(), length });
        (self.routine.arrays.len() - 1) as u16
    }

    /// Writes the elements of a vector into an array of its type and length. If the vector reads the array, all
    /// elements are computed into a temporary first.
    pub(super) fn fill(&mut self, array: u16, from: &Vector, span: Span) -> Compiled<()> {
        match from {
            Vector::Local { array: other, .. } if *other == array => return Ok(()),
            _ => {}
        }
        let n = from.fixed().expect("only vectors of fixed length are stored");
        if from.reads(array) {
            let other = self.new_array(from.typed(), n as u16);
            self.fill(other, from, span)?;
            let copy = Vector::Local { array: other, typed: from.typed(), length: n as u16, dim: None };
            return self.fill(array, &copy, span);
        }
        self.each(Number::long(n as i64).at, &mut |c, index| {
            let element = c.element(from, index, span)?;
            let element = c.as_typed(element, from.typed());
            let at = c.long(Number { at: index, typed: Typed::Value(verdigris_ops::dtype::Kind::Integer) });
            c.emit(Statement::Set { array, at, value: element.at });
            Ok(())
        })
    }

    /// The value, copied where needed so that later assignments to variables do not change it.
    pub(super) fn frozen_value(&mut self, value: Value) -> Value {
        match value {
            Value::Number(n) => Value::Number(self.frozen(n)),
            Value::Vector(v) => Value::vector(match (*v).clone() {
                Vector::Table { table, typed, start, step, length, dim } => Vector::Table {
                    table,
                    typed,
                    start: self.frozen_at(start),
                    step: self.frozen_at(step),
                    length: self.frozen_at(length),
                    dim: dim.into_iter().map(|d| self.frozen_at(d)).collect(),
                },
                Vector::Range { from, step, length } => {
                    Vector::Range { from: self.frozen(from), step: self.frozen(step), length: self.frozen_at(length) }
                }
                Vector::Same { value, length, dim } => {
                    Vector::Same { value: self.frozen(value), length: self.frozen_at(length), dim }
                }
                Vector::Map { op, args, typed, length, dim } => Vector::Map {
                    op,
                    args: args.into_iter().map(|a| self.frozen_value(a)).collect(),
                    typed,
                    length: self.frozen_at(length),
                    dim,
                },
                Vector::Pick { of, at, strict } => {
                    Vector::Pick { of: self.frozen_vector(of), at: self.frozen_vector(at), strict }
                }
                Vector::Where { of, keep, length } => Vector::Where {
                    of: self.frozen_vector(of),
                    keep: self.frozen_vector(keep),
                    length: self.frozen_at(length),
                },
                Vector::Except { of, length } => {
                    Vector::Except { of: self.frozen_vector(of), length: self.frozen_at(length) }
                }
                // Elements of a variable's array may change, so they are copied.
                Vector::Local { array, typed, length, dim } if self.variable_arrays.contains(&array) => {
                    let copy = self.new_array(typed, length);
                    let _ = self.fill(copy, &v, 0);
                    Vector::Local { array: copy, typed, length, dim }
                }
                local => local,
            }),
            Value::Parts(container, parts) => {
                Value::Parts(container, parts.into_iter().map(|(name, v)| (name, self.frozen_value(v))).collect())
            }
            other => other,
        }
    }

    pub(super) fn frozen_vector(&mut self, v: Rc<Vector>) -> Rc<Vector> {
        match self.frozen_value(Value::Vector(v)) {
            Value::Vector(v) => v,
            _ => unreachable!("a frozen vector is one"),
        }
    }

    // ---- control-flow joins -------------------------------------------------------------------------

    /// Continues after several branches, each with its block and its variables at the end. Appends to each block the
    /// moves that merge the values.
    pub(super) fn merge(&mut self, ways: &mut [(&mut Block, Variables)], span: Span, why: &str) -> Compiled<()> {
        let frames = ways[0].1.len();
        let mut merged: Variables = Vec::with_capacity(frames);
        for frame in 0..frames {
            let mut names: Vec<String> = ways.iter().flat_map(|(_, vars)| vars[frame].keys().cloned()).collect();
            names.sort();
            names.dedup();
            let mut variables = BTreeMap::new();
            for name in names {
                let values = ways.iter().map(|(_, vars)| vars[frame].get(&name).cloned()).collect();
                let mut blocks: Vec<&mut Block> = ways.iter_mut().map(|(block, _)| &mut **block).collect();
                let value = self.merge_values((frame, &name), values, &mut blocks, span, why)?;
                variables.insert(name, value);
            }
            merged.push(variables);
        }
        self.variables = merged;
        self.reachable = true;
        Ok(())
    }

    /// Merges a variable's values, one per branch: None if the branch does not set it. `why` explains the missing
    /// value.
    fn merge_values(
        &mut self,
        owner: (usize, &str),
        values: Vec<Option<Value>>,
        blocks: &mut [&mut Block],
        span: Span,
        why: &str,
    ) -> Compiled<Value> {
        let missing = values.iter().any(Option::is_none);
        let mut values: Vec<Value> = values.into_iter().flatten().collect();
        if let (true, Some(unset)) = (missing, values.iter().position(|v| matches!(v, Value::Unset(..)))) {
            return Ok(values.swap_remove(unset));
        }
        match missing {
            true => Ok(Value::Unset(why.into(), span)),
            false => self.meet(Some(owner), values, blocks, span),
        }
    }

    /// Merges values, one per block. Appends to the blocks the moves into the slots and arrays of the owning variable
    /// (its frame and name), or into new ones. Unset if the values have different forms.
    pub(super) fn meet(
        &mut self,
        owner: Option<(usize, &str)>,
        mut values: Vec<Value>,
        blocks: &mut [&mut Block],
        span: Span,
    ) -> Compiled<Value> {
        if values.iter().all(|v| *v == values[0]) {
            return Ok(values.swap_remove(0));
        }
        if let Some(unset) = values.iter().position(|v| matches!(v, Value::Unset(..))) {
            return Ok(values.swap_remove(unset));
        }
        let (mut numbers, mut vectors, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        for value in &values {
            match value {
                Value::Number(n) => numbers.push(*n),
                Value::Vector(v) => vectors.push(v.clone()),
                Value::Parts(container, parts) => lists.push((*container, parts)),
                _ => {}
            }
        }
        let all = values.len();
        if numbers.len() == all {
            let typed = numbers.iter().map(|n| n.typed).reduce(join).expect("there are ways");
            let to = match owner {
                Some((frame, name)) => self.slot(frame, name, typed),
                None => self.fresh(value::dtype(typed).class()),
            };
            let kinds = kinds::met(numbers.iter().map(|&n| self.kinds(n)));
            self.mark(to, typed, kinds);
            for (block, n) in blocks.iter_mut().zip(numbers) {
                self.at_end_of(block, |c| {
                    let n = c.as_typed(n, typed);
                    c.write(to, n.at);
                    Ok(())
                })?;
            }
            return Ok(Value::Number(Number::register(to, typed)));
        }
        let same = |a: &Parts, b: &Parts| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.0 == y.0);
        if lists.len() == all && lists.iter().all(|l| l.0 == lists[0].0 && same(l.1, lists[0].1)) {
            let mut parts = Vec::new();
            for (k, (part, _)) in lists[0].1.iter().enumerate() {
                let label = owner.map(|(frame, name)| (frame, label(name, part.as_deref(), k)));
                let owner = label.as_ref().map(|(frame, label)| (*frame, label.as_str()));
                let each = lists.iter().map(|l| l.1[k].1.clone()).collect();
                match self.meet(owner, each, blocks, span)? {
                    // A list without an owner is unset as a whole if a part is.
                    unset @ Value::Unset(..) if owner.is_none() => return Ok(unset),
                    value => parts.push((part.clone(), value)),
                }
            }
            return Ok(Value::Parts(lists[0].0, parts));
        }
        let fixed = vectors.first().and_then(|v| v.fixed()).filter(|&n| n <= MOST_LOCAL);
        if let (true, Some(n)) = (vectors.len() == all, fixed) {
            let dim = vectors[0].dim();
            if vectors.iter().all(|v| v.fixed() == fixed && v.dim() == dim) {
                let length = n as u16;
                let typed = vectors.iter().map(|v| v.typed()).reduce(join).expect("there are ways");
                for v in &vectors {
                    self.needs_type(v, typed);
                }
                let array = match owner {
                    Some((frame, name)) => self.array_slot(frame, name, typed, length, None),
                    None => self.new_array(typed, length),
                };
                for (block, v) in blocks.iter_mut().zip(&vectors) {
                    self.at_end_of(block, |c| c.fill_as(array, v, typed, span))?;
                }
                return Ok(Value::vector(Vector::Local { array, typed, length, dim }));
            }
        }
        let what: Vec<String> = values.iter().map(Value::what).collect();
        let which = if owner.is_some() { "it" } else { "the value" };
        Ok(Value::Unset(format!("{which} is {} in different branches", what.join(" or ")), span))
    }

    /// `fill()`, with conversion of the elements to the array's type.
    pub(super) fn fill_as(&mut self, array: u16, v: &Vector, typed: Typed, span: Span) -> Compiled<()> {
        if v.typed() == typed {
            return self.fill(array, v, span);
        }
        let as_typed = self.converted(v, typed);
        self.fill(array, &as_typed, span)
    }

    /// Emits code at the end of a block that is not the current one.
    pub(super) fn at_end_of(
        &mut self,
        block: &mut Block,
        write: impl FnOnce(&mut Self) -> Compiled<()>,
    ) -> Compiled<()> {
        std::mem::swap(&mut self.block, block);
        let reachable = std::mem::replace(&mut self.reachable, true);
        let result = write(self);
        self.reachable = reachable;
        std::mem::swap(&mut self.block, block);
        result
    }

    /// Before a loop: moves the variables that the body assigns into registers of their own, of the wider type if
    /// `wider` has one, so that every iteration finds them in the same place.
    pub(super) fn widen_at_head(
        &mut self,
        assigned: &[String],
        wider: &std::collections::HashMap<(usize, String), Typed>,
        span: Span,
    ) -> Compiled<()> {
        for frame in 0..self.frames.len() {
            let flags: Vec<String> = assigned.iter().map(|name| missing_flag(name)).collect();
            for name in assigned.iter().chain(&flags) {
                let Some(value) = self.variables[frame].get(name).cloned() else { continue };
                let wanted = wider.get(&(frame, name.clone()));
                let value = match value {
                    Value::Number(n) => {
                        let typed = wanted.map_or(n.typed, |w| join(n.typed, *w));
                        let kinds = self.kinds(n);
                        let kinds = kinds::met([kinds, wanted.map_or(kinds, |&w| kinds::of(w))].into_iter());
                        let n = self.as_typed(n, typed);
                        let slot = self.slot(frame, name, typed);
                        self.write(slot, n.at);
                        self.mark(slot, typed, kinds);
                        Value::Number(Number::register(slot, typed))
                    }
                    Value::Vector(v) if v.fixed().is_some_and(|n| n <= MOST_LOCAL) => {
                        let typed = wanted.map_or(v.typed(), |w| join(v.typed(), *w));
                        self.needs_type(&v, typed);
                        let v = self.converted(&v, typed);
                        self.stored(frame, name, &v, span)?
                    }
                    Value::Parts(container, parts) => {
                        let mut held = Vec::new();
                        for (k, (part, v)) in parts.into_iter().enumerate() {
                            let label = label(name, part.as_deref(), k);
                            let v = match (v, wider.get(&(frame, label.clone()))) {
                                (Value::Number(n), Some(w)) => {
                                    self.varying.within |= kinds::differ(n.typed, join(n.typed, *w));
                                    Value::Number(self.as_typed(n, join(n.typed, *w)))
                                }
                                (v, _) => v,
                            };
                            held.push((part, self.held(frame, &label, v, span)?));
                        }
                        Value::Parts(container, held)
                    }
                    other => other,
                };
                self.variables[frame].insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// At the end of an iteration: moves the variables back to their registers of the loop's head. A variable that does
    /// not fit is noted in `wider`.
    pub(super) fn back_to_head(&mut self, span: Span) -> Compiled<()> {
        let context = self.loops.last().expect("a loop is open");
        let head = context.head.clone();
        for (frame, variables) in head.iter().enumerate() {
            for (name, at_head) in variables {
                let now = self.variables[frame].get(name).cloned();
                self.back(frame, name, at_head, now, span)?;
            }
        }
        Ok(())
    }

    fn back(&mut self, frame: usize, name: &str, at_head: &Value, now: Option<Value>, span: Span) -> Compiled<()> {
        let Some(now) = now else { return Ok(()) };
        if *at_head == now {
            return Ok(());
        }
        let wider = |c: &mut Self, typed: Typed| {
            let known = &mut c.loops.last_mut().expect("a loop is open").wider;
            let entry = known.entry((frame, name.to_string())).or_insert(typed);
            *entry = join(*entry, typed);
        };
        match (at_head, &now) {
            (Value::Number(a), Value::Number(b)) => {
                if join(a.typed, b.typed) != a.typed {
                    wider(self, b.typed);
                } else if let Operand::Register(slot) = a.at {
                    let kinds = kinds::met([self.kinds(*a), self.kinds(*b)].into_iter());
                    // What the body reads has other kinds than it was compiled with: it is compiled again.
                    if self.mark(slot, a.typed, kinds) {
                        wider(self, a.typed);
                    }
                    let b = self.as_typed(*b, a.typed);
                    self.write(slot, b.at);
                }
            }
            (Value::Vector(a), Value::Vector(b)) if a.fixed().is_some() && a.fixed() == b.fixed() => {
                if join(a.typed(), b.typed()) != a.typed() {
                    wider(self, b.typed());
                } else if let Vector::Local { array, typed, .. } = **a {
                    self.needs_type(b, typed);
                    self.fill_as(array, b, typed, span)?;
                } else {
                    return Err(changes_form(name, at_head, &now, span));
                }
            }
            (Value::Parts(x, a), Value::Parts(y, b))
                if x == y && a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.0 == y.0) =>
            {
                for (k, (part, value)) in a.iter().enumerate() {
                    let label = label(name, part.as_deref(), k);
                    self.back(frame, &label, value, Some(b[k].1.clone()), span)?;
                }
            }
            (Value::Unset(..), _) => {}
            _ => return Err(changes_form(name, at_head, &now, span)),
        }
        Ok(())
    }
}

/// The label of the `k`-th element of a variable's list. Names may occur twice in a list, so it has the number too.
fn label(name: &str, part: Option<&str>, k: usize) -> String {
    match part {
        Some(part) => format!("{name}${}.{part}", k + 1),
        None => format!("{name}${}", k + 1),
    }
}

/// Refuses a variable that has another form after an iteration than before.
fn changes_form(name: &str, before: &Value, after: &Value, span: Span) -> Refusal {
    let shown = |value: &Value| match value {
        Value::Vector(v) => match v.fixed() {
            Some(n) => format!("a vector of {n} element{}", if n == 1 { "" } else { "s" }),
            None => "a vector".to_string(),
        },
        other => other.what(),
    };
    let grows = matches!(after, Value::Vector(_)) && !matches!(before, Value::Parts(..) | Value::Closure(..));
    let remedy = match grows {
        true => {
            format!("Make it of its full length first, {name} <- numeric(10), and assign elements: {name}[k] <- ....")
        }
        false => format!("Keep `{name}` of one form and length; use another name for the other."),
    };
    let message =
        format!("`{name}` is {} before an iteration of the loop and {} after it", shown(before), shown(after));
    Refusal::new(span, message, remedy)
}
