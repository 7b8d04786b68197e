//! The order in which a reduction adds: a function of shapes alone, for every kernel, tier and device.
//!
//! Element p of a group is in lane p mod `lanes` of row p / `lanes`; `rows` rows make a tile. Within a tile each lane
//! adds its elements in order. Then lanes are merged pairwise, by bit 0 of their numbers first, the lower lane as the
//! left operand; tiles likewise. Merging with an absent lane or tile changes nothing.
//!
//! For groups of adjacent elements, p counts from the last multiple of `ALIGN` at or before the group's first element,
//! so that a thread's four lanes are 16 aligned bytes of a float32 array.

use crate::dtype::Class;
use crate::reduction::{Groups, Reduction};

/// The alignment of the first position of a group of adjacent elements.
pub const ALIGN: usize = 4;

/// Lanes of the longest row: four for each thread of a block.
pub const MOST_LANES: usize = 1024;

/// For groups across memory: the most elements of a row, lanes times adjacent groups.
const ACROSS: usize = 256;

/// From this many elements on, over all groups, tiles are longer.
const MANY: usize = 1 << 22;

/// The fewest rows of a tile in a reduction across memory.
const FEWEST_ROWS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// A power of two.
    pub lanes: usize,
    /// A power of two.
    pub rows: usize,
}

impl Tree {
    /// The order for a reduction of elements of `class`.
    pub fn of(reduction: Reduction, class: Class, groups: Groups) -> Tree {
        let Groups { outer, length, inner } = groups;
        let all = outer.saturating_mul(length).saturating_mul(inner);
        if inner > 1 {
            let beside = power_below((ACROSS / inner).max(1));
            let lanes = beside.min(length.div_ceil(4).next_power_of_two());
            // blocks of adjacent groups share the work too
            let rows = if inner > ACROSS { all >> 21 } else { all >> 20 }.max(FEWEST_ROWS);
            return Tree { lanes, rows: rows.next_power_of_two() };
        }
        if outer == 1 || length > 2048 || length > 512 && outer < 512 {
            // merging moments takes much arithmetic
            let longer = if matches!(reduction, Reduction::Var | Reduction::Product) { 4 } else { 1 };
            return Tree { lanes: MOST_LANES, rows: longer * if all < MANY { 4 } else { 16 } };
        }
        // short groups are a tile each
        let lanes = match length {
            4 | 8 | 16 | 32 if merges_fast(reduction, class) => 32,
            0..=32 => 4,
            33..=64 => 8,
            65..=128 => 16,
            129..=256 => 32,
            257..=512 => 64,
            _ => 128,
        };
        Tree { lanes, rows: 64 }
    }

    /// Positions of a tile.
    pub fn tile(self) -> usize {
        self.lanes * self.rows
    }
}

/// Elements of a row of a chunk, one per lane of a warp. Elements with equal codes are merged first.
pub const CODED_ROW: usize = 32;

/// The number of rows of a chunk is a multiple of this.
const CODED_ROWS: usize = 4;

/// The most chunks.
const CHUNKS: usize = 4096;

/// Elements of a chunk in a reduction by code. Making and merging a table of all codes pays only for several elements
/// per code. Chunks are merged pairwise, by bit 0 of their numbers first.
pub fn chunk(n: usize, groups: usize) -> usize {
    let least = (CODED_ROWS * CODED_ROW).max(4 * groups);
    let chunks = n.div_ceil(least).clamp(1, CHUNKS);
    n.div_ceil(chunks).next_multiple_of(CODED_ROWS * CODED_ROW)
}

/// Bytes of a table of accumulators for all codes up to which elements are reduced by code without sorting, on every
/// card (the shared memory of a block on an H100).
pub const MOST_CODED: usize = 232_448;

/// Whether merging accumulators is cheap: not if they are two doubles, or several numbers.
pub fn merges_fast(reduction: Reduction, class: Class) -> bool {
    use Reduction::*;
    match reduction {
        Min | Max | Any | All => true,
        Sum | Mean => matches!(class, Class::I32 | Class::F32),
        _ => false,
    }
}

fn power_below(n: usize) -> usize {
    1 << n.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_neighbouring_groups_fit_a_block() {
        for inner in [2, 3, 10, 100, 128, 129, 255, 256, 257, 100_000] {
            for length in [1, 2, 7, 100, 1 << 20] {
                let tree = Tree::of(Reduction::Sum, Class::F64, Groups { outer: 3, length, inner });
                assert!(tree.lanes == 1 || tree.lanes * inner <= ACROSS, "{inner} {length} {tree:?}");
                assert!(tree.lanes <= 2 * length, "{inner} {length} {tree:?}");
            }
        }
    }

    #[test]
    fn short_groups_have_one_tile() {
        for length in 1..=2048 {
            for reduction in [Reduction::Sum, Reduction::Var] {
                for class in [Class::F32, Class::F64] {
                    let tree = Tree::of(reduction, class, Groups { outer: 1000, length, inner: 1 });
                    assert!(length + ALIGN - 1 <= tree.tile(), "{length} {tree:?}");
                    assert!((4..=128).contains(&tree.lanes));
                }
            }
        }
    }
}
