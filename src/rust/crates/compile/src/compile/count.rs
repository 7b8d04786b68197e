//! Element counts: 64-bit in routines, integers in R.

use super::value::Number;
use super::{Compiler, Operand};
use crate::{Parameter, Source};
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::rule::Typed;

impl Compiler<'_> {
    /// A number of elements (I64) as R's integer.
    pub(super) fn count_to_int(&mut self, at: Operand) -> Number {
        if let Some(known) = at.register().and_then(|r| self.counted.get(&r)) {
            return *known;
        }
        let source = self.routine.parameters.iter().find(|p| Operand::Register(p.register) == at).map(|p| p.source);
        match source {
            Some(source @ (Source::Length(_) | Source::Extent(..))) => {
                Number::register(self.parameter_as(source, DType::Int32), Typed::Value(Kind::Integer))
            }
            _ => self.cast(Number { at, typed: Typed::Value(Kind::Integer64) }, DType::Int32),
        }
    }

    /// An integer count as a number of elements (I64). NA is not checked.
    pub(super) fn int_to_count(&mut self, n: Number) -> Operand {
        let n = self.frozen(n);
        let length = self.long(n);
        if let (Operand::Register(r), Class::I32) = (length, n.class()) {
            self.counted.insert(r, Number { typed: Typed::Value(Kind::Integer), ..n });
        }
        length
    }

    /// Whether a number is the length or an extent of a table, which is neither NA nor negative.
    pub(super) fn is_count(&self, n: Number) -> bool {
        self.is_size(n.at)
    }

    /// `is_count()` for an operand (I64).
    pub(super) fn is_size(&self, at: Operand) -> bool {
        let size = |p: &Parameter| matches!(p.source, Source::Length(_) | Source::Extent(..));
        self.routine.parameters.iter().any(|p| Operand::Register(p.register) == at && size(p))
    }
}
