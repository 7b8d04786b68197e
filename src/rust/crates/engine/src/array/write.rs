//! `gpu_compute(out = )`: new values for an existing array, in new memory or in place.

use std::sync::Arc;

use crate::array::fact_cache;
use crate::array::strided;
use crate::array::Array;
use crate::backend;
use crate::graph::node::{Args, Node};
use crate::memory::buffer::View;
use crate::plan::Access;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

/// Computes `value` as the new values of `target`, cast to its dtype; values that do not fit are reported at the call
/// site. Returns the array that replaces `target`. Other references to the old array keep its values.
///
/// The values go to new memory, and the old memory returns to the pool with its last reference. If memory is too short
/// for both and nothing else refers to the target, its own memory is overwritten. Memory that others may write to is
/// always overwritten. So is memory that was requested with strides or lent read-only, if nothing here reads the old
/// values. `holders` is the number of the caller's own references to the target's node.
///
/// # Errors
/// `Shape` for another length, and for shared memory in which elements overlap; `Device` for another device; those of
/// computing.
pub fn compute_into(value: &Array, target: &Array, holders: usize, site: Option<CallSite>) -> Result<Array> {
    if value.len() != target.len() {
        let message = format!("`out` has {} elements, the expression {}", target.len(), value.len());
        return Err(Error::new(ErrorKind::Shape, message).advise("Give an `out` of the same length."));
    }
    if value.device() != target.device() {
        let message = format!("`out` is on {}, the expression on {}", target.device(), value.device());
        return Err(Error::new(ErrorKind::Device, message)
            .advise(format!("Move one of them with `as_gpu(x, device = \"{}\")`.", value.device())));
    }
    let value = value.cast(target.dtype(), site)?;
    let Some(view) = target.node().view() else {
        return value.evaluate().map(Array::from_view);
    };
    if view.buffer.is_shared() && !view.buffer.is_read_only() {
        strided::refuse_overlap(target, "out")?;
        let value = Array::from_view(value.contiguous()?);
        // Overwriting shows read-only borrowers the new values too. It is not done if something here still reads the
        // old values; borrowers then keep the old ones as well.
        let alone = || {
            let readers = Arc::strong_count(&view.buffer) - view.buffer.lent();
            Arc::strong_count(target.node()) <= holders && readers <= 2
        };
        if view.buffer.is_volatile() || alone() {
            strided::store(&value, &view)?;
            return Ok(target.clone());
        }
        return Ok(value);
    }
    match value.evaluate() {
        Err(error) if error.kind == ErrorKind::Memory => {
            if write_over(&value, target, &view, holders)? {
                Ok(Array::from_view(view))
            } else {
                Err(error)
            }
        }
        done => done.map(Array::from_view),
    }
}

/// Computes a value into the memory of its own operand; returns false if something else may still read that memory.
fn write_over(value: &Array, target: &Array, view: &View, holders: usize) -> Result<bool> {
    // Count the edges from the value's graph to the target, and check that nothing outside refers to the graph's
    // recorded nodes.
    let (mut edges, mut alone) = (0, true);
    let mut held: Vec<(Arc<Node>, usize)> = vec![(value.node().clone(), 0)];
    let mut next = 0;
    while next < held.len() {
        let node = held[next].0.clone();
        for below in node.args().iter().flat_map(Args::nodes) {
            if Arc::ptr_eq(below, target.node()) {
                edges += 1;
            } else if let Some((_, count)) = held.iter_mut().find(|(known, _)| Arc::ptr_eq(known, below)) {
                *count += 1;
            } else {
                held.push((below.clone(), 1));
            }
        }
        next += 1;
    }
    for (node, count) in &held[1..] {
        // `held` itself has one reference.
        alone &= node.is_ready() || Arc::strong_count(node) == count + 1;
    }
    let (plan, bound) = value.plan()?;
    let readers = plan.inputs.iter().zip(&bound.inputs).filter(|(_, input)| Arc::ptr_eq(&input.buffer, &view.buffer));
    let mut reads = 0;
    for (input, other) in readers {
        reads += 1;
        alone &= input.access == Access::Linear && other.dtype == view.dtype && other.layout == view.layout;
    }
    alone &= view.layout.is_contiguous() && view.layout.offset() == 0;
    alone &= Arc::strong_count(target.node()) == holders + edges;
    // Allowed references to the buffer: the node's, the caller's view, and the plan's inputs.
    alone &= Arc::strong_count(&view.buffer) == 2 + reads;
    if alone {
        fact_cache::invalidate(&view.buffer);
        backend::of(value.device())?.run(&plan, &bound, std::slice::from_ref(&view.buffer))?;
        value.node().resolve(view.clone());
    }
    Ok(alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Operand;
    use crate::testing::{apply, array, twice, values};

    #[test]
    fn a_value_goes_over_its_operand_only_where_nobody_else_reads_that() {
        let x = array(&[1.0, 2.0]);
        let view = x.evaluate().expect("values");
        let value = twice(&x);
        let other = apply("neg", &[Operand::Array(x.clone())]);
        assert!(!write_over(&value, &x, &view, 1).expect("asked"), "another operation is recorded on it");
        drop(other);
        let alias = x.clone();
        assert!(!write_over(&value, &x, &view, 1).expect("asked"), "another handle holds it");
        drop(alias);
        assert!(write_over(&value, &x, &view, 1).expect("asked"));
        assert_eq!(values(&x), [2.0, 4.0]);
        assert_eq!(value.evaluate().expect("values").address(), view.address());
    }

    #[test]
    fn a_value_never_goes_over_what_it_reads_in_another_order() {
        let x = array(&[1.0, 2.0, 3.0, 4.0]);
        let axes = [(1, 2), (0, 2)].map(|(of, extent)| verdigris_ops::layout::Axis { of, start: 0, step: 1, extent });
        let value = apply("add", &[Operand::Array(x.view(&[2, 2], &axes).expect("a view")), Operand::Array(x.clone())]);
        let view = x.evaluate().expect("values");
        assert!(!write_over(&value, &x, &view, 1).expect("asked"));
        let new = compute_into(&value, &x, 1, None).expect("computed");
        assert_eq!(values(&new), [2.0, 5.0, 5.0, 8.0]);
        assert_eq!(values(&x), [1.0, 2.0, 3.0, 4.0]);
    }
}
