//! What recorded operations cost, and how large a graph may become: for nodes and for the bridge's lazy cells.

use verdigris_ops::OpId;

/// The most inputs, scalars and operations that one kernel takes.
pub const MOST_INPUTS: usize = 24;
pub const MOST_OPS: u32 = 96;

/// Up to this weight recorded operations are rather done again, on other elements or in another order, than stored.
pub const CHEAP: u32 = 4;

/// From this weight on, computing a value twice costs more than keeping it.
pub const COSTLY: u32 = 8;

/// What a long routine weighs: two of them are as much as one kernel takes.
pub const MOST_CALL: u32 = 45;

/// The graph below a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In cheap operations.
    pub weight: u32,
    /// Computed values that are read, at most: one that is reached by two ways may count twice.
    pub leaves: u32,
}

impl Cost {
    /// Of a number.
    pub const NUMBER: Cost = Cost { weight: 0, leaves: 0 };
    /// To its reader, of values that are computed.
    pub const COMPUTED: Cost = Cost { weight: 0, leaves: 1 };

    /// Of an operation that weighs so much, without its operands.
    pub fn of(weight: u32) -> Cost {
        Cost { weight, leaves: 0 }
    }

    /// Of a row without its operands, some of which are cast before it.
    #[inline]
    pub fn of_row(op: OpId, casts: u32) -> Cost {
        Cost::of(op.weight() + casts)
    }

    /// With an operand.
    #[inline]
    pub fn and(self, operand: Cost) -> Cost {
        Cost { weight: self.weight.saturating_add(operand.weight), leaves: self.leaves.saturating_add(operand.leaves) }
    }

    pub fn is_cheap(self) -> bool {
        self.weight <= CHEAP
    }

    pub fn is_costly(self) -> bool {
        self.weight >= COSTLY
    }

    /// Whether one kernel takes so many inputs.
    pub fn reads_few(self) -> bool {
        self.leaves as usize <= MOST_INPUTS
    }

    /// Whether one kernel takes so many operations.
    pub fn is_short(self) -> bool {
        self.weight <= MOST_OPS
    }
}
