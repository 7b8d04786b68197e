//! The cost of recorded operations, and the limits of a graph's size. Used for nodes and for the bridge's lazy cells.

use verdigris_ops::OpId;

/// The most inputs and scalars, and the most operations, of one kernel.
pub const MOST_INPUTS: usize = 24;
pub const MOST_OPS: u32 = 96;

/// Operations of at most this weight are recomputed, for other elements or in another order, rather than stored.
pub const CHEAP: u32 = 4;

/// From this weight on, computing a value twice costs more than keeping it.
pub const COSTLY: u32 = 8;

/// The greatest weight of a routine: two of them are about as much as one kernel takes.
pub const MOST_CALL: u32 = 45;

/// The cost of the graph below a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In units of a cheap operation.
    pub weight: u32,
    /// An upper bound of the computed values that are read: one that is reached on two paths may count twice.
    pub leaves: u32,
}

impl Cost {
    /// The cost of a number.
    pub const NUMBER: Cost = Cost { weight: 0, leaves: 0 };
    /// The cost to a reader of values that are already computed.
    pub const COMPUTED: Cost = Cost { weight: 0, leaves: 1 };

    /// The cost of an operation of this weight, without its operands.
    pub fn of(weight: u32) -> Cost {
        Cost { weight, leaves: 0 }
    }

    /// The cost of a row of the operation table, without its operands, of which `casts` are cast first.
    #[inline]
    pub fn of_row(op: OpId, casts: u32) -> Cost {
        Cost::of(op.weight() + casts)
    }

    /// Adds the cost of an operand.
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

    /// Whether one kernel can read this many inputs.
    pub fn reads_few(self) -> bool {
        self.leaves as usize <= MOST_INPUTS
    }

    /// Whether one kernel can compute this many operations.
    pub fn is_short(self) -> bool {
        self.weight <= MOST_OPS
    }
}
