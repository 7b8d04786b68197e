//! Where a kernel records conditions that R reports: warning bits in the flag words of the launch, and a record of the
//! first failing element.

use verdigris_compile::Interned;
use verdigris_ops::OpId;

/// The meaning of bits in the flag words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Warnings of an operation of the table.
    Row(OpId),
    /// The record of the first element for which a routine's call failed.
    Failures(Interned),
}

/// The position of an instruction's bits, or of a failure record, in the flag words of its kernel. A call of a routine
/// has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagBits {
    pub word: u32,
    pub shift: u32,
    pub noted: Noted,
}
