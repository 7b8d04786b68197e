//! Where a kernel records conditions that R warns of: bits in words of the launch, and the record of the first failure.

use verdigris_compile::Interned;
use verdigris_ops::OpId;

/// What bits stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// What a row may note.
    Row(OpId),
    /// How the first element of a call has failed.
    Failures(Interned),
}

/// Where an instruction's bits, or the record of a failure, are in the words of its kernel. A call has several such
/// places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagBits {
    pub word: u32,
    pub shift: u32,
    pub noted: Noted,
}
