//! Which recorded values a kernel stores besides those that it was asked for.
//!
//! A value that is costly, and that an earlier kernel has computed too, is stored by its second reader, if it can be
//! asked for a third time: if something other than this kernel's own nodes refers to it. On a device that computes a
//! row in more time than it takes to store its values, the first reader stores them. What R still has of a value is
//! not known before it collects, so a forgotten variable counts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend;
use crate::graph::node::{Node, Operation, Walk};

/// Whether a kernel that needs this recorded value may store it: it is costly, and an earlier kernel has computed it,
/// or is for the device to store at once.
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

/// Those of `candidates`, recorded values below `roots`, that can be asked for once the roots are computed. `resolves`:
/// whether the roots' own operands are let go then.
pub(crate) fn lasting(roots: &[Arc<Node>], candidates: &mut Vec<Arc<Node>>, resolves: bool) {
    if candidates.is_empty() {
        return;
    }
    // parents before what they read; `order` and `candidates` have a reference to each
    let mut order = Vec::new();
    let walk = Walk::new();
    for root in roots {
        gather(root, walk, &mut order);
    }
    order.reverse();
    // how many references of walked nodes there are, and whether one of those lasts
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
        // what is stored, and what goes, lets its operands go
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

/// The recorded nodes below, what they read first.
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
        // both are variables, then one
        assert_eq!(lasting(&first), 2);
        let only = |costly: Array, inner: Array, root: &Array| {
            let mut found = vec![costly.node().clone(), inner.node().clone()];
            drop((costly, inner));
            super::lasting(std::slice::from_ref(root.node()), &mut found, true);
            found.len()
        };
        // the other reader refers to the inner one, which is stored; so nothing refers to what that reads
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
