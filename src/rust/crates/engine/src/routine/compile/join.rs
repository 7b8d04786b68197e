//! Variables: what is assigned, and what they are where ways meet.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::value::{self, join, Number, Parts, Value, Vector};
use super::{Block, Compiled, Compiler, Operand, Place, Refusal, Register, Statement, Variables};
use crate::ops::rule::Typed;
use crate::routine::LocalArray;

/// The most elements of a vector that a function has for itself.
pub const MOST_LOCAL: usize = 1024;

impl Compiler<'_> {
    /// Gives a variable of the innermost frame a value.
    pub(super) fn assign(&mut self, name: &str, value: Value, place: Place) -> Compiled<()> {
        let frame = self.frames.len() - 1;
        let value = self.held(frame, name, value, place)?;
        if self.reachable {
            self.variables[frame].insert(name.to_string(), value);
        }
        Ok(())
    }

    /// The value, in registers and arrays of the variable's own.
    fn held(&mut self, frame: usize, name: &str, value: Value, place: Place) -> Compiled<Value> {
        Ok(match value {
            Value::Number(n) => {
                let slot = self.slot(frame, name, n.typed);
                self.write(slot, n.at);
                Value::Number(Number::register(slot, n.typed))
            }
            Value::Vector(v) => {
                // what is found without a memory stays so, until it is changed
                let lazy = matches!(&*v, Vector::Range { .. } | Vector::Table { .. });
                if lazy || v.fixed().is_none_or(|n| n > MOST_LOCAL) {
                    self.frozen_value(Value::Vector(v))
                } else {
                    self.stored(frame, name, &v, place)?
                }
            }
            Value::List(parts) => {
                let mut held = Vec::with_capacity(parts.len());
                for (k, (part, value)) in parts.into_iter().enumerate() {
                    let label = format!("{name}${}", part.clone().unwrap_or_else(|| (k + 1).to_string()));
                    held.push((part, self.held(frame, &label, value, place)?));
                }
                Value::List(held)
            }
            other => other,
        })
    }

    /// A vector of fixed length in the variable's own array.
    pub(super) fn stored(&mut self, frame: usize, name: &str, v: &Vector, place: Place) -> Compiled<Value> {
        let length = v.fixed().expect("only vectors of fixed length are stored") as u16;
        let array = self.array_slot(frame, name, v.typed(), length, v);
        self.fill(array, v, place)?;
        Ok(Value::vector(Vector::Local { array, typed: v.typed(), length, dim: v.dim() }))
    }

    /// The register of a variable for a type.
    fn slot(&mut self, frame: usize, name: &str, typed: Typed) -> Register {
        let key = (self.frames[frame].uid, name.to_string(), typed);
        if let Some(&slot) = self.slots.get(&key) {
            return slot;
        }
        let slot = self.fresh(value::dtype(typed).class());
        self.routine.names[slot as usize] = name.into();
        self.owned.insert(slot);
        self.slots.insert(key, slot);
        slot
    }

    /// The array of a variable: one that nobody owns becomes it, where it has none.
    fn array_slot(&mut self, frame: usize, name: &str, typed: Typed, length: u16, from: &Vector) -> u16 {
        let key = (self.frames[frame].uid, name.to_string(), typed, length);
        if let Some(&array) = self.arrays.get(&key) {
            return array;
        }
        let array = match from {
            Vector::Local { array, .. } if !self.owned_arrays.contains(array) => *array,
            _ => self.new_array(typed, length),
        };
        self.owned_arrays.insert(array);
        self.arrays.insert(key, array);
        array
    }

    pub(super) fn new_array(&mut self, typed: Typed, length: u16) -> u16 {
        self.routine.arrays.push(LocalArray { class: value::dtype(typed).class(), length });
        (self.routine.arrays.len() - 1) as u16
    }

    /// Writes the elements of a vector into an array of its type and length. They are all found before any is written, where the vector may
    /// read the array.
    pub(super) fn fill(&mut self, array: u16, from: &Vector, place: Place) -> Compiled<()> {
        match from {
            Vector::Local { array: other, .. } if *other == array => return Ok(()),
            _ => {}
        }
        let n = from.fixed().expect("only vectors of fixed length are stored");
        if from.reads(array) {
            let other = self.new_array(from.typed(), n as u16);
            self.fill(other, from, place)?;
            let copy = Vector::Local { array: other, typed: from.typed(), length: n as u16, dim: None };
            return self.fill(array, &copy, place);
        }
        self.each(Number::long(n as i64).at, place, &mut |c, index| {
            let element = c.element(from, index, place)?;
            let element = c.as_typed(element, from.typed(), place)?;
            let at = c.long(Number { at: index, typed: Typed::Value(crate::dtype::Kind::Integer) }, place)?;
            c.emit(Statement::Set { array, at, value: element.at });
            Ok(())
        })
    }

    /// A value that later assignments to variables leave as it is.
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
                Vector::Pick { of, at } => {
                    let (Value::Vector(of), Value::Vector(at)) =
                        (self.frozen_value(Value::Vector(of)), self.frozen_value(Value::Vector(at)))
                    else {
                        unreachable!("a frozen vector is one")
                    };
                    Vector::Pick { of, at }
                }
                // its elements may change: a copy
                Vector::Local { array, typed, length, dim } if self.owned_arrays.contains(&array) => {
                    let copy = self.new_array(typed, length);
                    let _ = self.fill(copy, &v, 0);
                    Vector::Local { array: copy, typed, length, dim }
                }
                local => local,
            }),
            Value::List(parts) => {
                Value::List(parts.into_iter().map(|(name, v)| (name, self.frozen_value(v))).collect())
            }
            other => other,
        }
    }

    // ---- where ways meet ----------------------------------------------------------------------------

    /// Goes on from several ways, each with its block and the variables at its end. The blocks get what brings their values together.
    pub(super) fn merge(&mut self, ways: &mut [(&mut Block, Variables)], place: Place, why: &str) -> Compiled<()> {
        let frames = ways[0].1.len();
        let mut merged: Variables = Vec::with_capacity(frames);
        for frame in 0..frames {
            let mut names: Vec<String> = ways.iter().flat_map(|(_, vars)| vars[frame].keys().cloned()).collect();
            names.sort();
            names.dedup();
            let mut variables = BTreeMap::new();
            for name in names {
                let values: Vec<Option<Value>> = ways.iter().map(|(_, vars)| vars[frame].get(&name).cloned()).collect();
                let value = self.merge_values(frame, &name, values, ways, place, why)?;
                variables.insert(name, value);
            }
            merged.push(variables);
        }
        self.variables = merged;
        self.reachable = true;
        Ok(())
    }

    fn merge_values(
        &mut self,
        frame: usize,
        name: &str,
        values: Vec<Option<Value>>,
        ways: &mut [(&mut Block, Variables)],
        place: Place,
        why: &str,
    ) -> Compiled<Value> {
        let Some(known) = values.iter().flatten().next().cloned() else { unreachable!("some way has it") };
        if values.iter().all(|v| v.as_ref() == Some(&known)) {
            return Ok(known);
        }
        if let Some(unset) = values.iter().flatten().find(|v| matches!(v, Value::Unset(..))) {
            return Ok(unset.clone());
        }
        if values.iter().any(Option::is_none) {
            return Ok(Value::Unset(why.into(), place));
        }
        let values: Vec<Value> = values.into_iter().flatten().collect();
        let numbers: Option<Vec<Number>> =
            values.iter().map(|v| if let Value::Number(n) = v { Some(*n) } else { None }).collect();
        if let Some(numbers) = numbers {
            let typed = numbers.iter().map(|n| n.typed).reduce(join).expect("there are ways");
            let slot = self.slot(frame, name, typed);
            for ((block, _), n) in ways.iter_mut().zip(&numbers) {
                self.at_end_of(block, |c| {
                    let n = c.as_typed(*n, typed, place)?;
                    c.write(slot, n.at);
                    Ok(())
                })?;
            }
            return Ok(Value::Number(Number::register(slot, typed)));
        }
        let lists: Option<Vec<&Parts>> =
            values.iter().map(|v| if let Value::List(parts) = v { Some(parts) } else { None }).collect();
        if let Some(lists) = lists {
            let same = |a: &Parts, b: &Parts| a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| x.0 == y.0);
            if lists.iter().all(|l| same(l, lists[0])) {
                let mut parts = Vec::new();
                for (k, (part, _)) in lists[0].iter().enumerate() {
                    let label = format!("{name}${}", part.clone().unwrap_or_else(|| (k + 1).to_string()));
                    let each = lists.iter().map(|l| Some(l[k].1.clone())).collect();
                    parts.push((part.clone(), self.merge_values(frame, &label, each, ways, place, why)?));
                }
                return Ok(Value::List(parts));
            }
        }
        let vectors: Option<Vec<Rc<Vector>>> =
            values.iter().map(|v| if let Value::Vector(v) = v { Some(v.clone()) } else { None }).collect();
        if let Some(vectors) = vectors {
            let n = vectors[0].fixed();
            if n.is_some_and(|n| n <= MOST_LOCAL)
                && vectors.iter().all(|v| v.fixed() == n && v.dim() == vectors[0].dim())
            {
                let n = n.expect("it was looked at") as u16;
                let typed = vectors.iter().map(|v| v.typed()).reduce(join).expect("there are ways");
                let key = (self.frames[frame].uid, name.to_string(), typed, n);
                let array = match self.arrays.get(&key) {
                    Some(&array) => array,
                    None => {
                        let array = self.new_array(typed, n);
                        self.owned_arrays.insert(array);
                        self.arrays.insert(key, array);
                        array
                    }
                };
                for ((block, _), v) in ways.iter_mut().zip(&vectors) {
                    self.at_end_of(block, |c| c.fill_as(array, v, typed, place))?;
                }
                return Ok(Value::vector(Vector::Local { array, typed, length: n, dim: vectors[0].dim() }));
            }
        }
        let what: Vec<String> = values.iter().map(Value::what).collect();
        Ok(Value::Unset(format!("it is {} on different ways", what.join(" or ")), place))
    }

    /// `fill`, with elements of another type than the array's.
    pub(super) fn fill_as(&mut self, array: u16, v: &Vector, typed: Typed, place: Place) -> Compiled<()> {
        if v.typed() == typed {
            return self.fill(array, v, place);
        }
        let as_typed = self.converted(v, typed);
        self.fill(array, &as_typed, place)
    }

    /// Writes at the end of a block that is not the current one.
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

    /// The value of two ways of an expression, in a register or array of its own.
    pub(super) fn merge_results(&mut self, ways: &mut [(&mut Block, Value)], place: Place) -> Compiled<Value> {
        let first = ways[0].1.clone();
        if ways.iter().all(|(_, v)| *v == first) && !matches!(first, Value::Unset(..)) {
            return Ok(first);
        }
        let numbers: Option<Vec<Number>> =
            ways.iter().map(|(_, v)| if let Value::Number(n) = v { Some(*n) } else { None }).collect();
        if let Some(numbers) = numbers {
            let typed = numbers.iter().map(|n| n.typed).reduce(join).expect("there are ways");
            let to = self.fresh(value::dtype(typed).class());
            for ((block, _), n) in ways.iter_mut().zip(&numbers) {
                self.at_end_of(block, |c| {
                    let n = c.as_typed(*n, typed, place)?;
                    c.write(to, n.at);
                    Ok(())
                })?;
            }
            return Ok(Value::Number(Number::register(to, typed)));
        }
        let vectors: Option<Vec<Rc<Vector>>> = ways
            .iter()
            .map(|(_, v)| match v {
                Value::Vector(v) => Some(v.clone()),
                _ => None,
            })
            .collect();
        if let Some(vectors) = vectors {
            let n = vectors[0].fixed();
            if n.is_some_and(|n| n <= MOST_LOCAL)
                && vectors.iter().all(|v| v.fixed() == n && v.dim() == vectors[0].dim())
            {
                let n = n.expect("it was looked at") as u16;
                let typed = vectors.iter().map(|v| v.typed()).reduce(join).expect("there are ways");
                let array = self.new_array(typed, n);
                for ((block, _), v) in ways.iter_mut().zip(&vectors) {
                    self.at_end_of(block, |c| c.fill_as(array, v, typed, place))?;
                }
                return Ok(Value::vector(Vector::Local { array, typed, length: n, dim: vectors[0].dim() }));
            }
        }
        let lists: Option<Vec<Parts>> = ways
            .iter()
            .map(|(_, v)| match v {
                Value::List(parts) => Some(parts.clone()),
                _ => None,
            })
            .collect();
        if let Some(lists) = lists {
            let same =
                lists.iter().all(|l| l.len() == lists[0].len() && l.iter().zip(&lists[0]).all(|(a, b)| a.0 == b.0));
            if same {
                let mut parts = Vec::new();
                for k in 0..lists[0].len() {
                    let mut each: Vec<(&mut Block, Value)> =
                        ways.iter_mut().zip(&lists).map(|((b, _), l)| (&mut **b, l[k].1.clone())).collect();
                    parts.push((lists[0][k].0.clone(), self.merge_results(&mut each, place)?));
                }
                return Ok(Value::List(parts));
            }
        }
        let what: Vec<String> = ways.iter().map(|(_, v)| v.what()).collect();
        Err(Refusal::new(
            place,
            format!("the value is {} on different ways", what.join(" or ")),
            "Let every way give values of one form: a number, or as many numbers with the same names.",
        ))
    }

    /// Before a loop: what its body assigns lies in registers of its own type `typed` for that name, so that turns find it there.
    pub(super) fn settle_at_head(
        &mut self,
        assigned: &[String],
        wider: &std::collections::HashMap<(usize, String), Typed>,
        place: Place,
    ) -> Compiled<()> {
        for frame in 0..self.frames.len() {
            for name in assigned {
                let Some(value) = self.variables[frame].get(name).cloned() else { continue };
                let wanted = wider.get(&(frame, name.clone()));
                let value = match value {
                    Value::Number(n) => {
                        let typed = wanted.map_or(n.typed, |w| join(n.typed, *w));
                        let n = self.as_typed(n, typed, place)?;
                        let slot = self.slot(frame, name, typed);
                        self.write(slot, n.at);
                        Value::Number(Number::register(slot, typed))
                    }
                    Value::Vector(v) if v.fixed().is_some_and(|n| n <= MOST_LOCAL) => {
                        let typed = wanted.map_or(v.typed(), |w| join(v.typed(), *w));
                        let v = self.converted(&v, typed);
                        self.stored(frame, name, &v, place)?
                    }
                    Value::List(parts) => {
                        let mut held = Vec::new();
                        for (k, (part, v)) in parts.into_iter().enumerate() {
                            let label = format!("{name}${}", part.clone().unwrap_or_else(|| (k + 1).to_string()));
                            let v = match (v, wider.get(&(frame, label.clone()))) {
                                (Value::Number(n), Some(w)) => {
                                    Value::Number(self.as_typed(n, join(n.typed, *w), place)?)
                                }
                                (v, _) => v,
                            };
                            held.push((part, self.held(frame, &label, v, place)?));
                        }
                        Value::List(held)
                    }
                    other => other,
                };
                self.variables[frame].insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// At an end of a turn: brings what the variables are now to where the turn began. What does not fit is noted as wider.
    pub(super) fn back_to_head(&mut self, place: Place) -> Compiled<()> {
        let context = self.loops.last().expect("a loop is open");
        let head = context.head.clone();
        for (frame, variables) in head.iter().enumerate() {
            for (name, at_head) in variables {
                let now = self.variables[frame].get(name).cloned();
                self.back(frame, name, at_head, now, place)?;
            }
        }
        Ok(())
    }

    fn back(&mut self, frame: usize, name: &str, at_head: &Value, now: Option<Value>, place: Place) -> Compiled<()> {
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
                    let b = self.as_typed(*b, a.typed, place)?;
                    self.write(slot, b.at);
                }
            }
            (Value::Vector(a), Value::Vector(b)) if a.fixed().is_some() && a.fixed() == b.fixed() => {
                if join(a.typed(), b.typed()) != a.typed() {
                    wider(self, b.typed());
                } else if let Vector::Local { array, typed, .. } = **a {
                    self.fill_as(array, b, typed, place)?;
                } else {
                    return Err(changes_form(name, at_head, &now, place));
                }
            }
            (Value::List(a), Value::List(b)) if a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.0 == y.0) => {
                for (k, (part, value)) in a.iter().enumerate() {
                    let label = format!("{name}${}", part.clone().unwrap_or_else(|| (k + 1).to_string()));
                    self.back(frame, &label, value, Some(b[k].1.clone()), place)?;
                }
            }
            (Value::Unset(..), _) => {}
            _ => return Err(changes_form(name, at_head, &now, place)),
        }
        Ok(())
    }
}

/// A variable that a turn of a loop leaves in another form than it found.
fn changes_form(name: &str, before: &Value, after: &Value, place: Place) -> Refusal {
    let shown = |value: &Value| match value {
        Value::Vector(v) => match v.fixed() {
            Some(n) => format!("a vector of {n} element{}", if n == 1 { "" } else { "s" }),
            None => "a vector".to_string(),
        },
        other => other.what(),
    };
    let grows = matches!(after, Value::Vector(_)) && !matches!(before, Value::List(_) | Value::Closure(..));
    let remedy = match grows {
        true => {
            format!("Make it of its full length first, {name} <- numeric(10), and assign elements: {name}[k] <- ....")
        }
        false => format!("Keep `{name}` of one form and length; use another name for the other."),
    };
    let message = format!("`{name}` is {} before the loop's turn and {} after it", shown(before), shown(after));
    Refusal::new(place, message, remedy)
}
