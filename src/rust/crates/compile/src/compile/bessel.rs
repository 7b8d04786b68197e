//! Bessel functions and psigamma, with base R's arguments.

use super::builtin::Matched;
use super::value::{Number, Value};
use super::{Compiled, Compiler, Span};
use crate::syntax::Argument;
use verdigris_ops::OpId;

impl Compiler<'_> {
    /// None if `name` is none of these functions.
    pub(super) fn bessel(&mut self, name: &str, args: &[Argument], span: Span) -> Compiled<Option<Value>> {
        let (names, default): (&[&str], _) = match name {
            "besselI" | "besselK" => (&["x", "nu", "expon.scaled"], None),
            "besselJ" | "besselY" => (&["x", "nu"], None),
            "psigamma" => (&["x", "deriv"], Some(0.0)),
            _ => return Ok(None),
        };
        let matched = Matched::new(name, names, args, span)?;
        let is_scaled = names.len() == 3 && matched.flag(self, names[2], false)?;
        let row = if is_scaled { format!("{name}_scaled") } else { name.to_string() };
        let x = matched.needed(names[0])?;
        let operands = match (matched.expr(names[1]), default) {
            (None, Some(default)) => {
                let mut operands = self.operands(&[x])?;
                operands.push(Value::Number(Number::double(default)));
                operands
            }
            _ => self.operands(&[x, matched.needed(names[1])?])?,
        };
        self.row_on(OpId::find(&row).expect("it is in the table"), operands, span).map(Some)
    }
}
