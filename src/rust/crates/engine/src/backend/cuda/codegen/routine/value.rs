//! Writes operations of the table, as C operators where these have the same meaning, and comparisons as conditions.

use super::text::{Binds, Text};
use super::{PendingExpr, Writer};
use verdigris_compile::{Operand, Register};
use verdigris_ops::dtype::Class;
use verdigris_ops::scalar::{Scalar, NA_I32};
use verdigris_ops::{id, OpId};

/// A logical value as two C conditions. Neither holds where the value is NA.
pub struct Condition {
    pub is_true: Text,
    pub is_false: Text,
    /// Whether the value is never NA.
    pub certain: bool,
    /// Operands that are known not to be NA where the value is TRUE, and where it is FALSE.
    pub if_true: Vec<Operand>,
    pub if_false: Vec<Operand>,
}

/// The C operator of a comparison, and the operator of its negation.
fn comparison(op: OpId) -> Option<(&'static str, &'static str)> {
    match op {
        id::EQ => Some(("==", "!=")),
        id::NE => Some(("!=", "==")),
        id::LT => Some(("<", ">=")),
        id::LE => Some(("<=", ">")),
        id::GT => Some((">", "<=")),
        id::GE => Some((">=", "<")),
        _ => None,
    }
}

/// Whether an operation can be written as a condition.
pub fn is_logic(op: OpId, class: Class) -> bool {
    let real = !matches!(class, Class::C64 | Class::C128);
    real && (comparison(op).is_some() || [id::AND, id::OR, id::NOT, id::IS_NA].contains(&op))
}

impl Writer<'_> {
    /// The expression of an operand. A pending value is consumed and written inline.
    pub fn read(&mut self, operand: Operand) -> Text {
        let register = match operand {
            Operand::Constant(scalar) => return Text::constant(scalar),
            Operand::Register(register) => register,
        };
        match self.pending.iter().position(|pending| pending.register == register) {
            None => Text::register(register, self.name(register)),
            Some(at) => match self.pending.remove(at).what {
                PendingExpr::Text(text) => text,
                PendingExpr::Logic { op, class, args } => self.row(op, class, &args),
            },
        }
    }

    /// The expression of an operand as a name or constant, which may be written more than once.
    pub fn read_name(&mut self, operand: Operand) -> Text {
        if let Some(register) = operand.register() {
            self.emit_value(register);
        }
        self.read(operand)
    }

    /// The flag word that an operation sets its bits in; `unread` where its warnings are not reported.
    pub fn word(&mut self, op: OpId) -> String {
        match self.routine.notes.iter().position(|&noted| noted == op) {
            Some(k) => format!("w[{k}]"),
            None => {
                self.needs_unread_word = true;
                "unread".into()
            }
        }
    }

    /// The expression of an operation of the table.
    pub fn row(&mut self, op: OpId, class: Class, args: &[Operand]) -> Text {
        let numbers: Vec<bool> = args.iter().map(|&arg| self.known.is_number(arg)).collect();
        let (all, any) = (numbers.iter().all(|&x| x), numbers.iter().any(|&x| x));
        let float = matches!(class, Class::F32 | Class::F64);
        if let Some(text) = self.plus(op, class, args) {
            return text;
        }
        // x * 1 is x for integers, also for NA
        let whole = matches!(class, Class::I32 | Class::I64);
        let one = |x: Operand| x == Operand::Constant(Scalar::I32(1)) || x == Operand::Constant(Scalar::I64(1));
        match args {
            [x, y] if whole && op == id::MUL && one(*y) => return self.read(*x),
            [x, y] if whole && op == id::MUL && one(*x) => return self.read(*y),
            _ => {}
        }
        let texts: Vec<Text> = args.iter().map(|&arg| self.read(arg)).collect();
        let infix = |op: &str, binds| Text::infix(&texts[0], op, &texts[1], binds);
        match op {
            // If both operands are NaN, the GPU's + and * return the first one, as R does; - and / may not. See
            // kernels/arith.h.
            id::ADD if float => infix("+", Binds::Sum),
            id::MUL if float => infix("*", Binds::Product),
            id::SUB if float && (any || class == Class::F32) => infix("-", Binds::Sum),
            id::DIV if float && any => infix("/", Binds::Product),
            id::SUB if float => Text::call("difference", &texts, ""),
            id::DIV if float => Text::call("r_div", &texts, ""),
            id::NEG if float || all => Text::prefix("-", &texts[0]),
            id::POS => texts[0].clone(),
            id::ABS if float => Text::call("fabs", &texts, ""),
            id::TO_FLOAT64 if class == Class::I32 && all => Text::prefix("(f64)", &texts[0]),
            id::TO_FLOAT64 if class == Class::I32 => Text::call("double_of", &texts, ""),
            _ if all && class != Class::C64 && class != Class::C128 && comparison(op).is_some() => {
                let (operator, _) = comparison(op).expect("it is one");
                let binds = if matches!(op, id::EQ | id::NE) { Binds::Equal } else { Binds::Less };
                Text::prefix("(i32)", &infix(operator, binds))
            }
            _ => {
                let word = self.word(op);
                Text::call(&op.row().function(class), &texts, &format!("i, {word}"))
            }
        }
    }

    /// The sum or difference of an integer variable and a constant, by `int_plus`, which tests for NA and overflow at
    /// once.
    fn plus(&mut self, op: OpId, class: Class, args: &[Operand]) -> Option<Text> {
        let of = |x: &Operand| match x {
            Operand::Constant(Scalar::I32(x)) if *x != NA_I32 => Some(*x),
            _ => None,
        };
        let (variable, k) = match (op, args) {
            _ if class != Class::I32 => return None,
            (id::ADD, [a, b]) => of(b).map(|k| (*a, k)).or_else(|| of(a).map(|k| (*b, k)))?,
            (id::SUB, [a, b]) => (*a, -of(b)?),
            _ => return None,
        };
        if !matches!(variable, Operand::Register(_)) {
            return None;
        }
        let (text, word) = (self.read(variable), self.word(op));
        Some(Text::call(&format!("int_plus<{k}>"), &[text], &word))
    }

    /// The conditions of a logical value.
    pub fn condition(&mut self, value: Operand) -> Condition {
        let register = match value {
            Operand::Constant(scalar) => {
                let held = |x: bool| Text::atom(if x { "true" } else { "false" });
                let Scalar::I32(x) = scalar.to_logical() else { unreachable!("logical values are I32") };
                let (is_true, is_false) = (held(x == 1), held(x == 0));
                return Condition { is_true, is_false, certain: x != NA_I32, if_true: vec![], if_false: vec![] };
            }
            Operand::Register(register) => register,
        };
        let at = self.pending.iter().position(|pending| pending.register == register);
        if let Some(PendingExpr::Logic { op, class, args }) = at.map(|at| &self.pending[at].what) {
            let (op, class, args) = (*op, *class, args.clone());
            let direct = matches!(class, Class::F32 | Class::F64) || args.iter().all(|&arg| self.known.is_number(arg));
            match op {
                id::AND | id::OR | id::NOT | id::IS_NA => {
                    self.pending.remove(at.expect("it waits"));
                    return self.logic(op, &args);
                }
                _ if direct => {
                    self.pending.remove(at.expect("it waits"));
                    return self.compared(op, &args);
                }
                _ => {}
            }
        }
        let certain = self.known.is_number(value);
        let name = self.read_name(value);
        let zero = Text::atom("0");
        let known = vec![Operand::Register(register)];
        let operator = if certain { "!=" } else { ">" };
        Condition {
            is_true: Text::infix(&name, operator, &zero, Binds::Less),
            is_false: Text::infix(&name, "==", &zero, Binds::Equal),
            certain,
            if_true: known.clone(),
            if_false: known,
        }
    }

    /// The conditions of `is.na()`, `!`, `&` and `|`.
    fn logic(&mut self, op: OpId, args: &[Operand]) -> Condition {
        if op == id::IS_NA {
            let name = self.read_name(args[0]);
            let is_na = Text::call("is_na", &[name], "");
            let is_false = Text::prefix("!", &is_na);
            return Condition { is_true: is_na, is_false, certain: true, if_true: vec![], if_false: vec![args[0]] };
        }
        let a = self.condition(args[0]);
        if op == id::NOT {
            let (is_true, is_false) = (a.is_false, a.is_true);
            return Condition { is_true, is_false, if_true: a.if_false, if_false: a.if_true, ..a };
        }
        let b = self.condition(args[1]);
        let both = |x: &Text, y: &Text| Text::infix(x, "&&", y, Binds::And);
        let either = |x: &Text, y: &Text| Text::infix(x, "||", y, Binds::Or);
        let together = |x: Vec<Operand>, y: Vec<Operand>| x.into_iter().chain(y).collect();
        let certain = a.certain && b.certain;
        if op == id::AND {
            let (is_true, is_false) = (both(&a.is_true, &b.is_true), either(&a.is_false, &b.is_false));
            Condition { is_true, is_false, certain, if_true: together(a.if_true, b.if_true), if_false: vec![] }
        } else {
            let (is_true, is_false) = (either(&a.is_true, &b.is_true), both(&a.is_false, &b.is_false));
            Condition { is_true, is_false, certain, if_true: vec![], if_false: together(a.if_false, b.if_false) }
        }
    }

    /// The conditions of a comparison of floating-point values, or of integers that are not NA.
    fn compared(&mut self, op: OpId, args: &[Operand]) -> Condition {
        let certain = args.iter().all(|&arg| self.known.is_number(arg));
        let [a, b] = [args[0], args[1]].map(|arg| self.read_name(arg));
        let (yes, no) = comparison(op).expect("it is a comparison");
        let text = |operator: &str| match operator {
            // C's != also holds for NaN
            "!=" if !certain => {
                let [less, more] = ["<", ">"].map(|operator| Text::infix(&a, operator, &b, Binds::Less));
                Text::infix(&less, "||", &more, Binds::Or)
            }
            "==" | "!=" => Text::infix(&a, operator, &b, Binds::Equal),
            _ => Text::infix(&a, operator, &b, Binds::Less),
        };
        Condition { is_true: text(yes), is_false: text(no), certain, if_true: args.to_vec(), if_false: args.to_vec() }
    }

    /// Assigns a pending value to its variable, by a statement of its own.
    pub fn emit_value(&mut self, register: Register) {
        if let Some(at) = self.pending.iter().position(|pending| pending.register == register) {
            // the operands of a pending value are names by now
            let text = match self.pending.remove(at).what {
                PendingExpr::Text(text) => text,
                PendingExpr::Logic { op, class, args } => self.row(op, class, &args),
            };
            self.assign(register, &text);
        }
    }
}
