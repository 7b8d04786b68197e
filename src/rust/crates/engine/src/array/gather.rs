//! Gather: the elements at given positions. A gather is recorded, and fuses with the kernel that reads its result.

use std::sync::Arc;

use crate::array::Array;
use crate::graph::evaluate::holds_much;
use crate::graph::node::{Arg, Args, Expr, Node, Operation, Walk};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

impl Array {
    /// `self[positions]`, with 0-based int64 positions; a position out of bounds, or NA, gives NA. This array is
    /// computed now. The result is recorded, unless it would keep alive far more memory than it takes itself.
    pub fn gather(&self, positions: &Array) -> Result<Array> {
        let (n, dtype) = (positions.len(), self.dtype());
        if self.is_empty() || n == 0 {
            return Array::filled(dtype, n, self.device());
        }
        let source = self.contiguous_array()?;
        let mut args = Args::new();
        args.push(Arg::Node(positions.cast(DType::Int64, None)?.node().clone()));
        args.push(Arg::Node(source.node().clone()));
        let expr = Expr { op: Operation::Gather, class: dtype.class(), args, site: None };
        let out = Array::lazy(dtype, n, self.device(), expr)?;
        if holds_much(self.len() * dtype.size(), n * dtype.size()) {
            out.evaluate()?;
        }
        Ok(out)
    }

    /// The same values, computed and contiguous in memory.
    pub(crate) fn contiguous_array(&self) -> Result<Array> {
        let view = self.contiguous()?;
        // If another library shares the memory, the node keeps its strided view.
        let is_own = self.node().view().is_some_and(|own| own.layout.is_contiguous());
        Ok(if is_own { self.clone() } else { Array::from_view(view) })
    }

    /// As `gather`, for positions that are known to be within bounds. If this array is recorded as a few elementwise
    /// operations on one array, only the selected elements are computed: `(x * 2)[i]` becomes `x[i] * 2`.
    pub fn gather_inside(&self, positions: &Array) -> Result<Array> {
        if let (false, true) = (self.is_ready(), positions.len() <= self.len()) {
            if let Some(leaf) = only_leaf(self.node()) {
                let picked = Array::of(leaf.clone()).gather(positions)?;
                if let Some(recorded) = over(self.node(), &leaf, picked.node())? {
                    return Ok(Array::of(recorded));
                }
            }
        }
        self.gather(positions)
    }
}

/// The one computed array from which elementwise operations compute `root`. None if the operands are several, differ in
/// length or order, or if an operation depends on the index, may warn (warnings concern all elements), or if the
/// operations are many.
fn only_leaf(root: &Arc<Node>) -> Option<Arc<Node>> {
    fn below(node: &Arc<Node>, len: usize, walk: Walk, leaf: &mut Option<Arc<Node>>) -> bool {
        if !walk.visit(node) {
            return true;
        }
        let Some(expr) = node.expr() else {
            let is_plain = node.len == len && node.view().is_some_and(|view| view.layout.is_contiguous());
            return is_plain && leaf.replace(node.clone()).is_none();
        };
        node.len == len && expr.is_by_element() && expr.args.nodes().all(|arg| below(arg, len, walk, leaf))
    }
    let mut leaf = None;
    (root.cost.is_cheap() && below(root, root.len, Walk::new(), &mut leaf)).then_some(leaf).flatten()
}

/// Records the same operations with `instead` in place of the leaf. There are few operations, so a shared subexpression
/// is copied each time; the plan joins equal instructions again.
fn over(node: &Arc<Node>, leaf: &Arc<Node>, instead: &Arc<Node>) -> Result<Option<Arc<Node>>> {
    if Arc::ptr_eq(node, leaf) {
        return Ok(Some(instead.clone()));
    }
    let expr = node.expr().expect("only the leaf is computed");
    node.over(expr, instead.len, |below| over(below, leaf, instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::transfer::Host;
    use crate::array::Operand;
    use crate::memory::buffer::Device;
    use crate::testing::{self, apply, array, values};

    #[test]
    fn few_operations_are_done_with_what_is_picked() {
        let x = array(&[4.0, 9.0, 25.0]);
        let at = Array::upload(Host::Integer64(&[2, 0]), None, Device::Cpu, None).expect("an upload");
        let twice = testing::twice(&x);
        let both = apply("add", &[Operand::Array(twice.clone()), Operand::Array(x.clone())]);
        let picked = both.gather_inside(&at).expect("recorded");
        assert!(!both.is_ready() && !twice.is_ready());
        assert_eq!(picked.plan().expect("a plan").0.inputs.len(), 2);
        assert_eq!(values(&picked), [75.0, 12.0]);
        // computed first: operations that may warn, two arrays, another length
        let root = apply("sqrt", &[Operand::Array(x.clone())]);
        assert_eq!(values(&root.gather_inside(&at).expect("recorded")), [5.0, 2.0]);
        assert!(root.is_ready());
        let sum = apply("add", &[Operand::Array(x.clone()), Operand::Array(array(&[1.0, 2.0, 3.0]))]);
        assert_eq!(values(&sum.gather_inside(&at).expect("recorded")), [28.0, 5.0]);
        assert!(sum.is_ready());
        let scaled = apply("mul", &[Operand::Array(x), Operand::Array(array(&[3.0]))]);
        assert_eq!(values(&scaled.gather_inside(&at).expect("recorded")), [75.0, 12.0]);
        assert!(scaled.is_ready());
    }
}
