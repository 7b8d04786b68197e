//! Reductions within groups and their epilogues: `sqrt(rowSums(x^2))` is one kernel.
//!
//! Such a reduction is recorded as a node. A kernel over as many elements as the reduction has results computes the
//! reduction, continues with the operations on the results (the epilogue), and stores both. For any other reader the
//! reduction is computed before.

use std::sync::Arc;

use crate::backend;
use crate::graph::builder::{recycle, Builder};
use crate::graph::node::{Args, Expr, Node, Operation};
use crate::memory::buffer::{Buffer, Device, View};
use crate::plan::{Bound, Epilogue, Instruction, Plan, Register};
use verdigris_ops::error::Result;
use verdigris_ops::layout::Layout;
use verdigris_ops::reduction::{Groups, Reduction};

/// Chooses the reduction that a kernel fuses: the one that reads most. A reduction whose results are repeated for its
/// elements is fused only if it is the only one, and its groups are many and long.
pub(crate) fn fusion_target(reductions: &[Arc<Node>]) -> Option<&Arc<Node>> {
    if let [alone] = reductions {
        if let Some((results, length)) = alone.repeats() {
            return Some(alone).filter(|_| results.is_reduction() && length >= LONG && results.len >= MANY);
        }
    }
    let read = |node: &Arc<Node>| node.args().map_or(0, |args| args.nodes().map(|arg| arg.len).sum::<usize>());
    reductions.iter().filter(|node| node.repeats().is_none()).max_by_key(|node| read(node))
}

/// Whether nothing but a stored root reads the results. (Any other node that reads them might be evaluated later, and
/// would compute the reduction again.) The caller holds two references: in its list of reductions, and as the fusion
/// target.
pub(crate) fn is_intermediate(target: &Arc<Node>, roots: &[Arc<Node>]) -> bool {
    let reads = |root: &Arc<Node>| root.args().is_some_and(|args| args.nodes().any(|arg| Arc::ptr_eq(arg, target)));
    // The third reference is the root's operand; a copy of the operands elsewhere only makes this false.
    Arc::strong_count(target) == 3 && roots.iter().any(reads)
}

/// Groups of at least `LONG` elements keep the threads of a block busy, and `MANY` groups fill a GPU with blocks.
const LONG: usize = 512;
const MANY: usize = 512;

/// A view without memory that represents values which the kernel computes itself.
pub(crate) fn stand_in(node: &Node) -> View {
    let nothing = Arc::new(Buffer::new(node.device, 0, 0, Box::new(())));
    match node.repeats() {
        Some((results, length)) => repeating(View::contiguous(nothing, node.dtype, results.len), length),
        None => View::contiguous(nothing, node.dtype, node.len),
    }
}

/// A view in which each element is repeated `length` times.
pub(crate) fn repeating(results: View, length: usize) -> View {
    let layout = Layout::new(results.layout.offset(), &[length, results.len()], &[0, 1]);
    View { layout, ..results }
}

/// The results of groups of `length` neighbours, or of a few operations on them, repeated for each element of their
/// group. None if the node is anything else.
pub(crate) fn repeated(node: &Arc<Node>, length: usize) -> Result<Option<Arc<Node>>> {
    let n = node.len * length;
    match node.expr() {
        Some(Expr { op: Operation::Reduce { groups, .. }, .. }) => {
            let fits = groups.inner == 1 && groups.length == length && groups.outer == node.len;
            let expr =
                Expr { op: Operation::Repeat { length }, class: node.dtype.class(), args: Args::of(node), site: None };
            Ok(fits.then(|| Arc::new(Node::lazy(node.dtype, n, node.device, expr))))
        }
        Some(expr) if node.cost.weight <= MOST_REPEATED && expr.is_by_element() => {
            node.over(expr, n, |below| match below.len == node.len {
                true => repeated(below, length),
                false => Ok(None),
            })
        }
        _ => Ok(None),
    }
}

/// The most operations on results that are recomputed for each element.
const MOST_REPEATED: u32 = 3;

/// A reduction within groups, and the plan of its operand.
pub(crate) struct Reducing {
    device: Device,
    operand: Arc<Node>,
    plan: Plan,
    bound: Bound,
    reduction: Reduction,
    na_rm: bool,
    groups: Groups,
    /// Whether the epilogue is over the elements, with each element's group result, instead of over the results.
    over_elements: bool,
}

impl Reducing {
    /// From a node recorded as a reduction; `planned` plans its operand.
    pub fn of(node: &Node, planned: impl FnOnce(&Arc<Node>) -> Result<(Plan, Bound)>) -> Result<Reducing> {
        let Some(Expr { op: Operation::Reduce { reduction, na_rm, groups }, args, .. }) = node.expr() else {
            unreachable!("it was recorded as a reduction");
        };
        let operand = args.nodes().next().expect("a reduction has an operand").clone();
        let (plan, bound) = planned(&operand)?;
        Ok(Reducing { device: node.device, operand, plan, bound, reduction, na_rm, groups, over_elements: false })
    }

    /// Makes the epilogue be over the elements.
    pub fn over_elements(self) -> Reducing {
        Reducing { over_elements: true, ..self }
    }

    /// The register of an epilogue over the elements that holds the reduced values. Must be called after everything
    /// else was added to `after`.
    pub fn values(&self, after: &mut Builder) -> Option<Register> {
        self.over_elements.then(|| after.find(&self.operand)).flatten()
    }

    /// Computes the reduction and its epilogue, the plan `after`, whose input `input` represents the results.
    pub fn run(
        mut self,
        (after, bound): (Plan, Bound),
        input: u16,
        values: Option<Register>,
        outputs: &[Arc<Buffer>],
    ) -> Result<()> {
        // Whether the epilogue only stores the results themselves.
        let plain = !self.over_elements
            && after.outputs.len() == 1
            && matches!(after.code[after.outputs[0].0 as usize], Instruction::Load(k) if k == input);
        if !plain {
            self.plan.epilogue =
                Some(Box::new(Epilogue { plan: after, results: input, over_elements: self.over_elements, values }));
            self.bound.epilogue = Some(Box::new(bound));
        }
        let backend = backend::of(self.device)?;
        backend.reduce_groups(&self.plan, &self.bound, self.reduction, self.na_rm, self.groups, outputs)?;
        recycle(self.plan, self.bound);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::explain::explain;
    use crate::array::{Array, Operand};
    use crate::testing::{self, array, twice, values};

    const ROWS: Groups = Groups { outer: 1, length: 3, inner: 2 };

    /// A matrix of two rows and three columns, by columns.
    fn matrix() -> Array {
        array(&[3.0, 1.0, 0.0, 2.0, 4.0, 2.0])
    }

    fn sums(x: &Array) -> Array {
        x.reduce_groups(Reduction::Sum, false, ROWS).expect("recorded")
    }

    fn apply(name: &str, operands: &[&Array]) -> Array {
        let operands: Vec<Operand> = operands.iter().map(|x| Operand::Array((*x).clone())).collect();
        testing::apply(name, &operands)
    }

    #[test]
    fn what_is_done_with_the_results_is_done_by_their_kernel() {
        let x = matrix();
        let squares = sums(&apply("mul", &[&x, &x]));
        let norms = apply("sqrt", &[&squares]);
        let kernels = explain(&norms);
        assert_eq!((kernels.len(), kernels[0].reads.len(), kernels[0].writes.len()), (1, 1, 2));
        assert_eq!(kernels[0].code, ["t1 <- x1 * x1", "t2 <- apply(t1, 1, sum)", "y <- sqrt(t2)", "y2 <- t2"]);
        assert!(!squares.is_ready());
        assert_eq!(values(&norms), [5.0, 3.0]);
        assert!(squares.is_ready());
        assert_eq!(values(&squares), [25.0, 9.0]);
    }

    #[test]
    fn results_that_nobody_holds_are_not_stored() {
        let x = matrix().cast(verdigris_ops::dtype::DType::Float32, None).expect("a cast");
        let sums = x.reduce_groups_in_width(Reduction::Sum, false, ROWS).expect("recorded");
        assert_eq!(sums.dtype(), verdigris_ops::dtype::DType::Float32);
        let kernels = explain(&sums);
        assert_eq!((kernels.len(), kernels[0].writes.len()), (1, 1));
        assert_eq!(values(&sums.cast(verdigris_ops::dtype::DType::Float64, None).expect("a cast")), [7.0, 5.0]);
        // a second use of the sums does not reduce again
        let sums = x.reduce_groups_in_width(Reduction::Sum, false, ROWS).expect("recorded");
        let root = apply("sqrt", &[&sums]);
        let kernels = explain(&root);
        assert_eq!((kernels.len(), kernels[0].writes.len()), (1, 2));
        root.evaluate().expect("computed");
        assert_eq!(explain(&sums)[0].reads[0].elements, 2);
        // another node refers to the sums
        let sums = x.reduce_groups(Reduction::Sum, false, ROWS).expect("recorded");
        let (twice, root) = (twice(&sums), apply("sqrt", &[&sums]));
        drop(sums);
        assert_eq!(explain(&twice)[0].writes.len(), 2);
        assert_eq!(values(&twice), [14.0, 10.0]);
        assert_eq!(values(&root), [7f64.sqrt(), 5f64.sqrt()]);
    }

    #[test]
    fn of_several_one_goes_on_and_others_are_computed_before() {
        let x = matrix();
        let (a, b) = (sums(&x), sums(&twice(&x)));
        assert!(a.is_ready() && !b.is_ready());
        let ratio = apply("div", &[&b, &a]);
        assert_eq!(explain(&ratio).len(), 1);
        assert_eq!(values(&ratio), [2.0, 2.0]);
        // for any other reader the sums are computed first
        let scaled = apply("div", &[&x, &apply("sqrt", &[&sums(&apply("mul", &[&x, &x]))])]);
        assert_eq!(explain(&scaled).len(), 2);
        assert_eq!(values(&scaled)[..2], [0.6, 1.0 / 3.0]);
        let (_, total) = twice(&sums(&x)).reduce(Reduction::Sum, false).expect("a sum");
        assert_eq!(f64::from_ne_bytes(total.value[..8].try_into().expect("eight")), 24.0);
        assert_eq!(
            values(&sums(
                &sums(&x)
                    .view(&[2], &[verdigris_ops::layout::Axis::whole(0, 2)])
                    .map(|v| apply("add", &[&x, &v]))
                    .expect("a view")
            )),
            [28.0, 20.0]
        );
    }

    #[test]
    fn results_and_what_comes_of_them_are_asked_for_together() {
        let x = matrix();
        let a = sums(&x);
        let more = apply("add", &[&twice(&a), &a]);
        crate::array::evaluate_all(&[a.clone(), more.clone()]).expect("computed");
        assert_eq!((values(&a), values(&more)), (vec![7.0, 5.0], vec![21.0, 15.0]));
        // empty groups
        let none = array(&[]);
        let groups = Groups { outer: 1, length: 0, inner: 2 };
        let empty = none.reduce_groups(Reduction::Sum, false, groups).expect("recorded");
        assert_eq!(values(&twice(&empty)), [0.0, 0.0]);
    }
}
