//! Estimated cost of a routine for an element, in plain operations.

use super::{Block, Draw, Operand, Routine, Statement};
use verdigris_ops::scalar::Scalar;

/// The assumed number of iterations of a loop whose count is not known.
const TURNS: usize = 64;
/// The cap on costs.
const MOST: usize = 1 << 20;

impl Routine {
    /// The cost of an element, in plain operations, at least 1 and capped.
    pub fn cost(&self) -> usize {
        1 + of(&self.body).min(MOST)
    }

    /// Whether the routine has a loop.
    pub fn loops(&self) -> bool {
        let mut loops = false;
        self.walk(&mut |s| loops |= matches!(s, Statement::For { .. } | Statement::Loop { .. }));
        loops
    }
}

fn of(block: &Block) -> usize {
    let total = block.iter().map(|statement| match statement {
        Statement::Apply { op, class, .. } => op.code(*class),
        // A memory access.
        Statement::Read { .. } => 4,
        Statement::Draw { draw: Draw::Uniform, .. } => 50,
        Statement::Draw { .. } => 100,
        Statement::If { then, otherwise, .. } => 1 + of(then).max(of(otherwise)),
        Statement::For { times, body, .. } => {
            let times = match times {
                Operand::Constant(Scalar::I32(times)) => (*times).max(0) as usize,
                _ => TURNS,
            };
            times.saturating_mul(1 + of(body))
        }
        Statement::Loop { body } => TURNS * (1 + of(body)),
        _ => 1,
    });
    total.fold(0, |sum: usize, cost| sum.saturating_add(cost).min(MOST))
}
