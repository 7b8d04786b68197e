//! Cost estimates for rows of the operation table, by a row's subject. The graph counts operations, CUDA kernels count
//! code, the cpu device counts time: each has its own function.

use crate::dtype::Class;
use crate::operation::{id, OpId};
use crate::table::{Rule, Subject};

impl OpId {
    /// Its weight in a recorded graph: the number of cheap operations that it is worth in the decision to compute
    /// twice.
    #[inline]
    pub fn weight(self) -> u32 {
        match self.row().rule {
            // a draw is some hundred instructions
            Rule::Random(_) | Rule::Drawn => 16,
            _ => 1,
        }
    }

    /// The length of its code in a kernel, roughly, in additions.
    pub fn code(self, class: Class) -> usize {
        if self.row().rule == Rule::Drawn {
            // rejection loops
            return 100;
        }
        self.parts(class, 3)
            * match self.subject() {
                Subject::Arithmetic | Subject::Complex | Subject::Cast => 1,
                Subject::Source => 4,
                Subject::Math | Subject::Draw => 8,
                Subject::Special => 100,
                Subject::Distribution | Subject::Bessel => 300,
            }
    }

    /// Its time for an element on the cpu device, roughly, in loads.
    pub fn time(self, class: Class) -> usize {
        self.parts(class, 4) * if self.is_plain() { 1 } else { 20 }
    }

    /// Whether a processor needs only a few instructions: most operators and casts, and math functions that are
    /// instructions.
    pub fn is_plain(self) -> bool {
        let short = [id::ABS, id::SIGN, id::SQRT, id::FLOOR, id::CEILING, id::TRUNC, id::ROUND];
        let long = [id::POW, id::MOD, id::INTDIV];
        match self.subject() {
            Subject::Arithmetic => !long.contains(&self),
            Subject::Cast => true,
            _ => short.contains(&self),
        }
    }

    /// `more` for complex classes, else 1.
    fn parts(self, class: Class, more: usize) -> usize {
        match class {
            Class::C64 | Class::C128 => more,
            _ => 1,
        }
    }
}
