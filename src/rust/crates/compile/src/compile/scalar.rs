//! Operations on single numbers: rows of the operation table, casts, and the registers that hold results.

use super::join::any_value;
use super::value::{self, Number};
use super::{Compiled, Compiler, Operand, Refusal, Span, Statement};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::{resolve, Typed};
use verdigris_ops::scalar::{Scalar, BEYOND_INT64};
use verdigris_ops::{id, OpId, Rule};

impl Compiler<'_> {
    /// Applies a row of the operation table to numbers.
    pub(super) fn apply(&mut self, op: OpId, args: &[Number], span: Span) -> Compiled<Number> {
        if let Some(folded) = fold(op, args) {
            return Ok(folded);
        }
        let lower = self.lower_result(op, args);
        let exact = self.exact(op, args);
        let args = exact.as_ref().map_or(args, |both| both.as_slice());
        let types: Vec<Typed> = args.iter().map(|n| n.typed).collect();
        let (class, dtype) = resolve(op, &types).map_err(|e| {
            Refusal::new(span, e.message, "Convert the operands first: as.integer(), as.double(), as.logical().")
        })?;
        let row = op.row();
        if op == id::POW && args[1].constant().is_some_and(|s| s.to(Class::F64) == Scalar::F64(2.0)) {
            // R computes x^2 as x * x.
            if matches!(class, Class::F32 | Class::F64) {
                let x = self.cast(args[0], dtype);
                let x = self.of_one_kind(x);
                return self.apply(id::MUL, &[x, x], span);
            }
        }
        let mut operands = Vec::with_capacity(args.len());
        for (k, &arg) in args.iter().enumerate() {
            let logical = row.rule == Rule::Logic || row.rule == Rule::Select && k == 0;
            let arg = if logical { self.cast(arg, DType::Bool8) } else { arg };
            operands.push(self.in_class(arg, row.operand_class(k, class)).at);
        }
        let to = self.fresh(row.result_class(class));
        self.emit(Statement::Apply { to, op, class, args: operands });
        // Results of R numbers alone stay weakly typed: they take the type of an array that they meet later.
        let weak = types.iter().all(|t| matches!(t, Typed::Value(_))) && !matches!(row.rule, Rule::To(_));
        let typed = if weak || matches!(row.rule, Rule::To(d) if d == d.kind().default_dtype()) {
            Typed::Value(dtype.kind())
        } else {
            Typed::Array(dtype)
        };
        if op == id::SELECT {
            self.mark_chosen(to, typed, &args[1..]);
        } else if let Some(lower) = lower {
            self.mark(to, typed, lower);
        }
        Ok(Number::register(to, typed))
    }

    /// The operands of a comparison of int64 with a constant double, converted so that the comparison is exact: see the
    /// engine's `array::exact`.
    fn exact(&mut self, op: OpId, args: &[Number]) -> Option<[Number; 2]> {
        let [a, b] = *args else { return None };
        if op.row().rule != Rule::Compare {
            return None;
        }
        let wide = |n: Number| n.typed == Typed::Array(DType::Int64);
        let double = |n: Number| n.constant().filter(|_| n.kind() == Kind::Double).map(|s| s.to(Class::F64));
        let turned = wide(b);
        let (n, Some(Scalar::F64(x))) = (if turned { (b, double(a)) } else { (a, double(b)) }) else { return None };
        if !wide(n) {
            return None;
        }
        let within = x.abs() < BEYOND_INT64;
        let (n, x) = if within && x.fract() == 0.0 {
            (n, Number::long(x as i64))
        } else {
            let to = self.fresh(Class::F64);
            self.emit(Statement::Apply { to, op: id::NEAREST, class: Class::I64, args: vec![n.at] });
            (
                Number::register(to, Typed::Array(DType::Float64)),
                Number::double(if within { x } else { x * f64::INFINITY }),
            )
        };
        Some(if turned { [x, n] } else { [n, x] })
    }

    /// The same value as another dtype.
    pub(super) fn cast(&mut self, n: Number, to: DType) -> Number {
        if n.dtype() == to {
            return n;
        }
        let typed = if to == to.kind().default_dtype() { Typed::Value(to.kind()) } else { Typed::Array(to) };
        let widens = to.class() == n.class() && to.kind() > n.kind() || to == DType::Int32 && n.class() == Class::I32;
        if widens {
            return Number { at: n.at, typed };
        }
        if let Some(scalar) = n.constant() {
            let exact = match to {
                DType::Bool8 => Some(scalar.to_logical()),
                DType::Int32
                | DType::Int64
                | DType::Float32
                | DType::Float64
                | DType::Complex64
                | DType::Complex128 => Some(scalar.to(to.class())),
                _ => None,
            };
            // A constant that does not fit is not folded, because the cast warns when it runs.
            let fits = |k: i64| to != DType::Int32 || i32::try_from(k).is_ok_and(|k| k != i32::MIN);
            let lost = n.kind() == Kind::Double && to.kind() < Kind::Double && !n.whole().is_some_and(fits);
            if let Some(scalar) = exact.filter(|_| !lost || to == DType::Bool8) {
                return Number { at: Operand::Constant(scalar), typed };
            }
        }
        // A 64-bit count is exact as a double, so it is converted by NEAREST.
        let counts = n.typed == Typed::Value(Kind::Integer64) && to == DType::Float64;
        let op = if counts { id::NEAREST } else { OpId::cast(to) };
        let class = n.class();
        let register = self.fresh(to.class());
        self.emit(Statement::Apply { to: register, op, class, args: vec![n.at] });
        Number::register(register, typed)
    }

    /// The same value in a class. Unchanged if the class is the same.
    pub(super) fn in_class(&mut self, n: Number, class: Class) -> Number {
        match n.class() == class {
            true => n,
            false => self.cast(n, natural_dtype(class)),
        }
    }

    /// Converts a number to a type that is at least as wide, for a variable of that type.
    pub(super) fn as_typed(&mut self, n: Number, typed: Typed) -> Number {
        Number { typed, ..self.cast(n, value::dtype(typed)) }
    }

    /// A position or count (I64). Fractions are truncated.
    pub(super) fn long(&mut self, n: Number) -> Operand {
        self.in_class(n, Class::I64).at
    }

    /// `a op b` of positions.
    pub(super) fn long_op(&mut self, op: OpId, a: Operand, b: Operand, span: Span) -> Compiled<Operand> {
        let number = |at| Number { at, typed: Typed::Value(Kind::Integer64) };
        Ok(self.apply(op, &[number(a), number(b)], span)?.at)
    }

    /// A copy in a new register if the number is in a variable's register, which may change.
    pub(super) fn frozen(&mut self, n: Number) -> Number {
        Number { at: self.frozen_at(n.at), ..n }
    }

    pub(super) fn frozen_at(&mut self, at: Operand) -> Operand {
        match at {
            Operand::Register(r) if self.variable_registers.contains(&r) => {
                let to = self.fresh(self.routine.registers[r as usize]);
                self.emit(Statement::Move { to, from: at });
                self.mark_copy(r, to);
                Operand::Register(to)
            }
            _ => at,
        }
    }

    /// Writes a number to a register of its class.
    pub(super) fn write(&mut self, to: super::Register, from: Operand) {
        if from == Operand::Register(to) {
            return;
        }
        // A temporary that the last statement computes is computed in `to` instead, unless a variable, such as an
        // argument, holds it too.
        if let (Operand::Register(r), true, Some(last)) = (from, self.reachable, self.block.last_mut()) {
            if !self.variable_registers.contains(&r)
                && last.written() == Some(r)
                && !last.operands().contains(&Operand::Register(to))
                && !any_value(&self.variables, |value| value.holds(r))
            {
                if let Statement::Apply { to: target, .. }
                | Statement::Step { to: target, .. }
                | Statement::Read { to: target, .. }
                | Statement::Get { to: target, .. }
                | Statement::Draw { to: target, .. } = last
                {
                    *target = to;
                    return;
                }
            }
        }
        self.emit(Statement::Move { to, from });
    }
}

/// Folds operators on constants, if the result is exact and needs no warning.
pub(super) fn fold(op: OpId, args: &[Number]) -> Option<Number> {
    let constants: Vec<Scalar> = args.iter().map(|n| n.constant()).collect::<Option<_>>()?;
    if args.iter().any(|n| matches!(n.typed, Typed::Array(_))) {
        return None;
    }
    match (op, &constants[..]) {
        (id::NEG, [Scalar::I32(x)]) if args[0].kind() == Kind::Integer && *x != i32::MIN => Some(Number::integer(-x)),
        (id::NEG, [Scalar::F64(x)]) if !x.is_nan() => Some(Number::double(-x)),
        (id::POS, [_]) if args[0].kind() != Kind::Logical => Some(args[0]),
        (id::NOT, [Scalar::I32(x)]) if args[0].kind() == Kind::Logical => {
            Some(Number::logical((*x != verdigris_ops::scalar::NA_I32).then_some(*x == 0)))
        }
        (id::ADD | id::SUB | id::MUL, [Scalar::I32(a), Scalar::I32(b)]) if *a != i32::MIN && *b != i32::MIN => {
            let x = match op {
                id::ADD => a.checked_add(*b),
                id::SUB => a.checked_sub(*b),
                _ => a.checked_mul(*b),
            };
            x.filter(|x| *x != i32::MIN).map(Number::integer)
        }
        (id::ADD | id::SUB | id::MUL, [Scalar::I64(a), Scalar::I64(b)]) => {
            let x = match op {
                id::ADD => a.checked_add(*b),
                id::SUB => a.checked_sub(*b),
                _ => a.checked_mul(*b),
            };
            x.filter(|x| *x != i64::MIN).map(Number::long)
        }
        (id::ADD | id::SUB | id::MUL | id::DIV, [a, b]) if args.iter().all(|n| n.kind() <= Kind::Double) => {
            let (Scalar::F64(a), Scalar::F64(b)) = (a.to(Class::F64), b.to(Class::F64)) else { return None };
            if args.iter().any(|n| n.kind() == Kind::Integer64)
                || op != id::DIV && args.iter().all(|n| n.kind() != Kind::Double)
            {
                return None;
            }
            let x = match op {
                id::ADD => a + b,
                id::SUB => a - b,
                id::MUL => a * b,
                _ => a / b,
            };
            x.is_finite().then(|| Number::double(x))
        }
        _ => None,
    }
}
