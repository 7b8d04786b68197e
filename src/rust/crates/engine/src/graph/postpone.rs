//! Postpones reductions within groups, so that a reader can fuse them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::graph::evaluate::{evaluate_together, holds_much};
use crate::graph::node::Node;
use verdigris_ops::error::{Kind as ErrorKind, Result};

thread_local! {
    /// The most recently recorded reduction.
    static LATEST: RefCell<Weak<Node>> = const { RefCell::new(Weak::new()) };
}

/// Postpones a reduction within groups, and `node`, which is the reduction itself or is computed from it, until it is
/// read. A postponed reduction keeps all its operands alive, so at most one is pending, and it is computed at once if
/// it reads far more than it returns.
pub(crate) fn postpone(reduction: Weak<Node>, node: &Arc<Node>, reads: usize) -> Result<()> {
    let earlier = LATEST.with(|latest| latest.replace(reduction));
    if let Some(earlier) = earlier.upgrade().filter(|earlier| earlier.is_reduction()) {
        match evaluate_together(&[earlier]) {
            // Any other failure recurs when the values are read.
            Err(error) if error.kind == ErrorKind::Interrupt => return Err(error),
            _ => {}
        }
    }
    if holds_much(reads, node.len * node.dtype.size()) {
        evaluate_together(std::slice::from_ref(node))?;
    }
    Ok(())
}
