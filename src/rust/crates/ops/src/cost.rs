//! What a row of the operation table costs. The graph counts operations, CUDA kernels count code, the cpu device counts
//! time; each has its function here, and all of them begin at the row's subject.

use crate::dtype::Class;
use crate::operation::{id, OpId};
use crate::table::{Rule, Subject};

impl OpId {
    /// In a recorded graph: how many cheap operations it is worth computing twice for.
    #[inline]
    pub fn weight(self) -> u32 {
        match self.row().rule {
            // a draw is some hundred instructions
            Rule::Random(_) | Rule::Drawn => 16,
            _ => 1,
        }
    }

    /// In a kernel's text: roughly how much code an element takes, in additions.
    pub fn code(self, class: Class) -> usize {
        if self.row().rule == Rule::Drawn {
            // loops that end where the element has its draw
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

    /// On a processor: roughly how long an element takes, in loads.
    pub fn time(self, class: Class) -> usize {
        self.parts(class, 4) * if self.is_plain() { 1 } else { 20 }
    }

    /// Whether a processor takes a few instructions for it: most operators and casts, and what it has itself of the math
    /// functions.
    pub fn is_plain(self) -> bool {
        let short = [id::ABS, id::SIGN, id::SQRT, id::FLOOR, id::CEILING, id::TRUNC, id::ROUND];
        let long = [id::POW, id::MOD, id::INTDIV];
        match self.subject() {
            Subject::Arithmetic => !long.contains(&self),
            Subject::Cast => true,
            _ => short.contains(&self),
        }
    }

    /// Of complex numbers `more` for each.
    fn parts(self, class: Class, more: usize) -> usize {
        match class {
            Class::C64 | Class::C128 => more,
            _ => 1,
        }
    }
}
