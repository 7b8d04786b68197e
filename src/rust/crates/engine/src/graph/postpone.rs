//! Postponed reductions within groups: they wait for a reader that may fuse them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::graph::evaluate::{evaluate_together, holds_much};
use crate::graph::node::Node;
use verdigris_ops::error::{Kind as ErrorKind, Result};

thread_local! {
    /// The reduction that was recorded last.
    static LATEST: RefCell<Weak<Node>> = const { RefCell::new(Weak::new()) };
}

/// Postpones a reduction within groups, and `node`, which is computed from it or is the reduction itself, until a
/// reader fuses it. A postponed reduction keeps all that it reads alive, so at most one is pending, and none that reads
/// much.
pub(crate) fn postpone(reduction: Weak<Node>, node: &Arc<Node>, reads: usize) -> Result<()> {
    let earlier = LATEST.with(|latest| latest.replace(reduction));
    if let Some(earlier) = earlier.upgrade().filter(|earlier| earlier.is_reduction()) {
        match evaluate_together(&[earlier]) {
            // any other failure recurs when it is read
            Err(error) if error.kind == ErrorKind::Interrupt => return Err(error),
            _ => {}
        }
    }
    if holds_much(reads, node.len * node.dtype.size()) {
        evaluate_together(std::slice::from_ref(node))?;
    }
    Ok(())
}
