//! Decides which recorded values a kernel stores besides those that were requested.
//!
//! A costly value that an earlier kernel has already computed is stored by its second reader, if it can be requested a
//! third time: if something other than this kernel's own nodes refers to it. If a device takes longer to compute a row
//! than to store its values, the first reader stores them. R's references are unknown before it collects garbage, so a
//! forgotten variable counts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend;
use crate::graph::node::{Node, Operation, Walk};

/// Whether a kernel that computes this recorded value should store it: either it is costly and an earlier kernel has
/// computed it, or the device wants it stored the first time.
pub(crate) fn is_worth_keeping(node: &Node) -> bool {
    if node.is_call() || node.is_ready() {
        return false;
    }
    node.was_fused() && node.cost.is_costly() || is_kept_at_once(node)
}

fn is_kept_at_once(node: &Node) -> bool {
    let Some(Operation::Row(row)) = node.operation() else { return false };
    backend::of(node.device).is_ok_and(|device| device.keeps_at_once(row, node.len * node.dtype.size()))
}

/// Drops from `candidates`, recorded values below `roots`, those that nothing can request once the roots are computed.
/// `resolves`: whether the roots then drop their operands.
pub(crate) fn lasting(roots: &[Arc<Node>], candidates: &mut Vec<Arc<Node>>, resolves: bool) {
    if candidates.is_empty() {
        return;
    }
    // Readers before their operands. `order` and `candidates` each hold one reference.
    let mut order = Vec::new();
    let walk = Walk::new();
    for root in roots {
        gather(root, walk, &mut order);
    }
    order.reverse();
    // For each node: the number of references from walked nodes, and whether one of those nodes keeps its operands.
    let mut below: HashMap<*const Node, (usize, bool)> = HashMap::with_capacity(order.len());
    for node in &order {
        let is_root = roots.iter().any(|root| Arc::ptr_eq(root, node));
        let candidate = candidates.iter().position(|other| Arc::ptr_eq(other, node));
        let (inside, by_lasting) = below.get(&Arc::as_ptr(node)).copied().unwrap_or_default();
        let own = 1 + usize::from(candidate.is_some());
        let lasts = by_lasting || is_root || Arc::strong_count(node) > inside + own;
        if let (Some(at), false) = (candidate, lasts) {
            candidates.swap_remove(at);
        }
        // A node that is stored, or is dropped, releases its operands.
        let holds = lasts && candidate.is_none() && !(is_root && resolves);
        node.with_state(|state| {
            let Ok(expr) = state else { return };
            for arg in expr.args.nodes() {
                let entry = below.entry(Arc::as_ptr(arg)).or_default();
                entry.0 += 1;
                entry.1 |= holds;
            }
        });
    }
}

/// Lists the recorded nodes below, operands first.
fn gather(node: &Arc<Node>, walk: Walk, order: &mut Vec<Arc<Node>>) {
    if !walk.visit(node) {
        return;
    }
    if let Some(args) = node.args() {
        for arg in args.nodes().filter(|arg| !arg.is_reduction()) {
            gather(arg, walk, order);
        }
        drop(args);
        order.push(node.clone());
    }
}

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::graph::cost::COSTLY;
    use crate::testing::{array, twice};

    #[test]
    fn a_value_that_nothing_else_refers_to_does_not_last() {
        let x = array(&[1.0, 2.0]);
        let costly = (0..COSTLY).fold(x, |x, _| twice(&x));
        let inner = twice(&costly);
        let (first, second) = (twice(&inner), twice(&inner));
        let lasting = |root: &Array| {
            let mut found = vec![costly.node().clone(), inner.node().clone()];
            super::lasting(std::slice::from_ref(root.node()), &mut found, true);
            found.len()
        };
        // both costly values are referred to by variables, then only one is
        assert_eq!(lasting(&first), 2);
        let only = |costly: Array, inner: Array, root: &Array| {
            let mut found = vec![costly.node().clone(), inner.node().clone()];
            drop((costly, inner));
            super::lasting(std::slice::from_ref(root.node()), &mut found, true);
            found.len()
        };
        // `second` refers to the inner value, which is stored, so nothing refers to the inner value's operands any more
        assert_eq!(only(costly.clone(), inner.clone(), &first), 2);
        let kept = only(costly, inner, &first);
        assert_eq!(kept, 1);
        drop(second);
    }

    #[test]
    fn what_goes_with_its_reader_does_not_last() {
        let costly = (0..COSTLY).fold(array(&[1.0, 2.0]), |x, _| twice(&x));
        let root = twice(&costly);
        let mut found = vec![costly.node().clone()];
        drop(costly);
        super::lasting(std::slice::from_ref(root.node()), &mut found, true);
        assert!(found.is_empty());
    }
}
