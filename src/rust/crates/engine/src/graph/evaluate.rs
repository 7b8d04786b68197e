//! Evaluation: decides when recorded nodes are computed, and which of them share a kernel.

use std::sync::Arc;

use crate::backend;
use crate::graph::builder::{recycle, Builder};
use crate::graph::epilogue::{self, fusion_target, repeating, stand_in, Reducing};
use crate::graph::kept::{is_worth_keeping, lasting};
use crate::graph::node::{Args, Expr, Node, Operation, Walk};
use crate::graph::spill;
use crate::memory;
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Bound, Plan, Register};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

/// Computes a node's values. The work is queued on the device, not waited for.
pub(crate) fn evaluate(node: &Arc<Node>) -> Result<View> {
    if let Some(view) = node.values()? {
        return Ok(view);
    }
    evaluate_together(std::slice::from_ref(node))?;
    node.values()?.ok_or_else(|| Error::new(ErrorKind::Panic, "a computed array has no values"))
}

/// As `evaluate`, but copies a strided view to contiguous memory. The node keeps the contiguous buffer, unless the
/// memory is shared with another library, whose later writes must be visible.
pub(crate) fn contiguous(node: &Arc<Node>) -> Result<View> {
    let view = evaluate(node)?;
    if view.layout.is_contiguous() {
        return Ok(view);
    }
    let backend = backend::of(node.device)?;
    let buffer = backend.allocate(view.len() * view.dtype.size())?;
    let (plan, bound) = planned(node, false)?;
    backend.run(&plan, &bound, std::slice::from_ref(&buffer))?;
    let shared = view.buffer.is_shared();
    let view = View::contiguous(buffer, node.dtype, node.len);
    if !shared {
        node.resolve(view.clone());
    }
    Ok(view)
}

/// The plan that computes a node's values, after computing what cannot be fused. With `root_too`, the node itself is
/// computed first if it is worth keeping.
pub(crate) fn planned(node: &Arc<Node>, root_too: bool) -> Result<(Plan, Bound)> {
    let _used = spill::Used::new();
    let mut builder = builder(std::slice::from_ref(node), root_too)?;
    let register = builder.node(node);
    Ok(builder.outputs(&[(register, node.dtype)]))
}

/// A builder for a plan of nodes of one length, after computing what the plan cannot fuse, and values that are worth
/// keeping.
pub(crate) fn builder(roots: &[Arc<Node>], root_too: bool) -> Result<Builder> {
    let below = prepare(roots, root_too)?;
    for node in below.reductions {
        evaluate_together(&[node])?;
    }
    for node in below.kept {
        match evaluate_together(&[node]) {
            Err(error) if error.kind != ErrorKind::Memory => return Err(error),
            _ => {}
        }
    }
    Ok(Builder::new(roots[0].len))
}

/// Computes recorded nodes of one length and device, and values that are worth keeping, in one kernel; in several
/// kernels if they do not fit one.
pub(crate) fn evaluate_together(roots: &[Arc<Node>]) -> Result<()> {
    if let [node] = roots {
        if node.repeats().is_some() {
            return repeat(node);
        }
    }
    let (n, device) = (roots[0].len, roots[0].device);
    let backend = backend::of(device)?;
    let _used = spill::Used::new();
    let Below { kept, reductions } = if n == 0 { Below::default() } else { prepare(roots, false)? };
    let target = prepared_target(&reductions)?;
    if let ([node], [], None) = (roots, &kept[..], &target) {
        return evaluate_alone(node);
    }
    // Plan the reduction's operand first, as that may compute some of the roots.
    let reduction = target.as_ref().map(reducing).transpose()?;
    let target = target.filter(|target| !target.is_ready());
    let intermediate =
        target.as_ref().is_some_and(|target| target.repeats().is_some() || epilogue::is_intermediate(target, roots));
    let mut builder = Builder::new(n);
    let results = target.as_ref().map(|target| builder.stand_in(target, &stand_in(target)));
    let mut stored: Vec<(Arc<Node>, Register)> = Vec::with_capacity(roots.len() + kept.len() + 1);
    // The results are stored too: R may still hold them, which is unknown before it collects garbage.
    for node in roots.iter().chain(&kept).chain(target.as_ref().filter(|_| !intermediate)) {
        // Computing what cannot be fused may have computed a root as well.
        if !node.is_ready() && !stored.iter().any(|(known, _)| Arc::ptr_eq(known, node)) {
            stored.push((node.clone(), builder.node(node)));
        }
    }
    if stored.len() > 1 && !builder.fits() {
        if let Some(target) = &target {
            evaluate_together(std::slice::from_ref(target))?;
        }
        // The roots' operands are prepared; the kept values are below them.
        return kept.iter().chain(roots).try_for_each(evaluate_alone);
    }
    let mut outputs = Vec::with_capacity(stored.len());
    let mut buffers = Vec::with_capacity(stored.len());
    for (k, (node, register)) in stored.iter().enumerate() {
        match allocate_for(node) {
            Ok(buffer) => {
                outputs.push((*register, node.dtype));
                buffers.push((node, buffer));
            }
            // Storing a kept value is optional, so it may fail for lack of memory.
            Err(error) if error.kind == ErrorKind::Memory && k >= roots.len() && target.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    if outputs.is_empty() {
        return Ok(());
    }
    // The results that are repeated for the elements are stored as well: they are small in comparison.
    let repeated = match target.as_ref().and_then(|target| target.repeats()) {
        Some((results, _)) => Some((allocate_for(&results)?, results)),
        None => None,
    };
    if n > 0 {
        let values = reduction.as_ref().and_then(|reduction| reduction.values(&mut builder));
        let (plan, bound) = builder.outputs(&outputs);
        let targets = buffers.iter().map(|(_, buffer)| buffer).chain(repeated.as_ref().map(|(buffer, _)| buffer));
        let targets: Vec<_> = targets.cloned().collect();
        match reduction.zip(results) {
            Some((reduction, (_, input))) => reduction.run((plan, bound), input, values, &targets)?,
            None => {
                backend.run(&plan, &bound, &targets)?;
                recycle(plan, bound);
            }
        }
    }
    for (node, buffer) in buffers {
        node.resolve(View::contiguous(buffer, node.dtype, n));
    }
    if let Some((buffer, results)) = repeated {
        results.resolve(View::contiguous(buffer, results.dtype, results.len));
    }
    Ok(())
}

/// Chooses the reduction to fuse, and computes the others.
fn prepared_target(reductions: &[Arc<Node>]) -> Result<Option<Arc<Node>>> {
    let target = fusion_target(reductions);
    for node in reductions.iter().filter(|node| !target.is_some_and(|target| Arc::ptr_eq(node, target))) {
        evaluate_together(std::slice::from_ref(node))?;
    }
    Ok(target.filter(|target| !target.is_ready()).cloned())
}

/// Computes the results that a node repeats, and makes the node a view of them.
fn repeat(node: &Arc<Node>) -> Result<()> {
    if let Some((results, length)) = node.repeats() {
        node.resolve(repeating(contiguous(&results)?, length));
    }
    Ok(())
}

/// The reduction of a node, and the plan of its operand.
fn reducing(node: &Arc<Node>) -> Result<Reducing> {
    let Some((results, _)) = node.repeats() else {
        return Reducing::of(node, |operand| planned(operand, true));
    };
    let reducing = reducing(&results)?;
    // Planning the operand may have computed the results.
    if results.is_ready() {
        repeat(node)?;
    }
    Ok(reducing.over_elements())
}

/// A buffer for a node's values. A large one is attributed to the call that recorded the node.
fn allocate_for(node: &Node) -> Result<Arc<Buffer>> {
    let bytes = node.len * node.dtype.size();
    let backend = backend::of(node.device)?;
    if bytes < memory::LARGE {
        return backend.allocate(bytes);
    }
    memory::made_by(node.expr().and_then(|expr| expr.site), || backend.allocate(bytes))
}

/// As `evaluate_together` for a single node without anything to keep; allocates only the result.
fn evaluate_alone(node: &Arc<Node>) -> Result<()> {
    if node.is_ready() {
        return Ok(());
    }
    let backend = backend::of(node.device)?;
    let buffer = allocate_for(node)?;
    if node.len > 0 {
        let mut builder = Builder::new(node.len);
        let register = builder.node(node);
        let (plan, bound) = builder.outputs(&[(register, node.dtype)]);
        backend.run(&plan, &bound, std::slice::from_ref(&buffer))?;
        recycle(plan, bound);
    }
    node.resolve(View::contiguous(buffer, node.dtype, node.len));
    Ok(())
}

/// The first `n` elements of a node. The node stays recorded, and no node is marked as fused.
pub(crate) fn leading(node: &Arc<Node>, n: usize) -> Result<View> {
    let _used = spill::Used::new();
    for reduction in prepare(std::slice::from_ref(node), false)?.reductions {
        evaluate_together(&[reduction])?;
    }
    let backend = backend::of(node.device)?;
    let buffer = backend.allocate(n * node.dtype.size())?;
    if n > 0 {
        let mut builder = Builder::new(node.len).unmarked();
        let register = builder.node(node);
        let (plan, mut bound) = builder.outputs(&[(register, node.dtype)]);
        bound.n = n;
        backend.run(&plan, &bound, std::slice::from_ref(&buffer))?;
        recycle(plan, bound);
    }
    Ok(View::contiguous(buffer, node.dtype, n))
}

/// The nodes of the roots' length that a walk found below them.
#[derive(Default)]
pub(crate) struct Below {
    /// Nodes to store.
    pub kept: Vec<Arc<Node>>,
    /// Reductions within groups that are not computed. The kernel can fuse one of them, by starting with it.
    pub reductions: Vec<Arc<Node>>,
}

/// Computes the nodes below the roots that their kernel cannot fuse: recorded nodes of another length, and strided
/// views that would be recycled. Returns the reductions (a root that is one, too) and the nodes of the roots' length
/// that are to be stored: those that are worth keeping (a root only if `root_too`), and the other results of calls that
/// the kernel runs anyway.
pub(crate) fn prepare(roots: &[Arc<Node>], root_too: bool) -> Result<Below> {
    let mut found = Below::default();
    let mut calls = Vec::new();
    let walk = Walk::new();
    for root in roots.iter().filter(|root| walk.visit(root)) {
        if root.is_reduction() {
            found.reductions.push(root.clone());
            continue;
        }
        below(root, walk, &mut found, &mut calls)?;
        if root_too && is_worth_keeping(root) {
            found.kept.push(root.clone());
        }
    }
    lasting(roots, &mut found.kept, !root_too);
    // Storing a call's other results now costs only memory; computing them later would run the whole call again.
    let aside = calls.iter().flat_map(|call| call.living_results()).filter(|node| walk.noted(node).is_none());
    found.kept.extend(aside);
    found.kept.retain(|node| root_too || !roots.iter().any(|root| Arc::ptr_eq(root, node)));
    Ok(found)
}

/// `prepare` for the operands of a node; `calls` collects the calls of routines.
fn below(node: &Node, walk: Walk, found: &mut Below, calls: &mut Vec<Arc<Node>>) -> Result<()> {
    // A copy of the operands, so that the node is not locked while others are computed.
    let args = match node.args() {
        Some(args) => args,
        // Values that the kernel reads must be on the device.
        None => return node.bring(),
    };
    for arg in args.nodes().filter(|arg| walk.visit(arg)) {
        if arg.len != node.len {
            contiguous(arg)?;
            continue;
        }
        if arg.is_reduction() {
            found.reductions.push(arg.clone());
            continue;
        }
        if arg.is_call() {
            calls.push(arg.clone());
        }
        below(arg, walk, found, calls)?;
        if is_worth_keeping(arg) {
            found.kept.push(arg.clone());
        }
    }
    Ok(())
}

/// Keeps the graph small enough for one kernel: computes a new node's operands if it would become too large. Returns
/// the number of computed nodes below. The next operation then starts from computed operands again, so each iteration
/// of an update loop records the same graph, and uses the same kernel.
pub(crate) fn bound(op: Operation, args: &Args) -> Result<u32> {
    let mut cost = Node::cost_of(op, args);
    if !cost.reads_few() {
        cost.leaves = leaves(args);
    }
    if cost.is_short() && cost.reads_few() {
        return Ok(cost.leaves);
    }
    for node in args.nodes() {
        evaluate(node)?;
    }
    Ok(args.nodes().count() as u32)
}

/// Whether a recorded result should be computed at once, because it is small and keeps far more memory alive.
pub(crate) fn holds_much(reads: usize, bytes: usize) -> bool {
    const MUCH: usize = 256 << 20;
    reads > MUCH && reads / 8 > bytes
}

/// The number of distinct computed nodes below.
fn leaves(args: &Args) -> u32 {
    fn count(node: &Node, walk: Walk) -> u32 {
        if !walk.visit(node) {
            return 0;
        }
        node.with_state(|state| match state {
            Err(_) | Ok(Expr { op: Operation::Reduce { .. } | Operation::Repeat { .. }, .. }) => 1,
            Ok(expr) => expr.args.nodes().map(|below| count(below, walk)).sum(),
        })
    }
    let walk = Walk::new();
    args.nodes().map(|node| count(node, walk)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::explain::explain;
    use crate::array::{evaluate_all, Array, Operand};
    use crate::graph::cost::{COSTLY, MOST_OPS};
    use crate::testing::{apply, array, twice, values};
    use verdigris_ops::dtype::Kind;
    use verdigris_ops::scalar::Scalar;

    #[test]
    fn arrays_of_one_length_are_computed_together() {
        let (x, y) = (array(&[1.0, 2.0, 3.0]), array(&[1.0]));
        let (a, b) = (twice(&x), twice(&y));
        let c = twice(&a);
        evaluate_all(&[c.clone(), a.clone(), b.clone(), c.clone()]).expect("computed");
        assert!(a.is_ready() && b.is_ready() && c.is_ready());
        assert_eq!((values(&c), values(&a), values(&b)), (vec![4.0, 8.0, 12.0], vec![2.0, 4.0, 6.0], vec![2.0]));
    }

    #[test]
    fn what_is_costly_and_used_again_is_stored_by_its_second_reader() {
        let x = array(&[1.0, 2.0]);
        let costly = (0..COSTLY).fold(x, |x, _| twice(&x));
        twice(&costly).evaluate().expect("computed");
        assert!(!costly.is_ready());
        let second = twice(&costly);
        let kernels = explain(&second);
        assert_eq!((kernels.len(), kernels[0].writes.len()), (1, 2));
        assert!(!second.is_ready() && !costly.is_ready());
        second.evaluate().expect("computed");
        assert!(costly.is_ready());
        assert_eq!(values(&costly), [256.0, 512.0]);
        assert_eq!(values(&second), [512.0, 1024.0]);
    }

    #[test]
    fn mask_and_values_read_an_operand_once() {
        let (x, y) = (array(&[0.5, -1.0, 3.0]), array(&[0.5, 0.5, 2.0]));
        let than = |op: &str, x: &Array, value: f64| {
            apply(op, &[Operand::Array(x.clone()), Operand::Value(Scalar::F64(value), Kind::Double)])
        };
        let mask = apply("and", &[than("gt", &x, 0.0), than("lt", &y, 1.0)].map(Operand::Array));
        let (plan, bound) = x.chosen(&mask).expect("a plan");
        assert_eq!((plan.inputs.len(), plan.outputs.len(), bound.n), (2, 2, 3));
        assert_eq!(values(&x.mask(&mask).expect("chosen")), [0.5]);
    }

    #[test]
    fn what_is_too_much_for_one_kernel_is_stored_by_several() {
        let x = array(&[1.0, -2.0]);
        let costly = (0..COSTLY).fold(x, |x, _| twice(&x));
        twice(&costly).evaluate().expect("computed");
        let long: Vec<Array> = (0..4).map(|_| (0..MOST_OPS - COSTLY).fold(costly.clone(), |y, _| twice(&y))).collect();
        let mut builder = Builder::new(2);
        for root in &long {
            builder.node(root.node());
        }
        assert!(!builder.fits() && !costly.is_ready());
        evaluate_all(&long).expect("computed");
        assert!(costly.is_ready() && long.iter().all(Array::is_ready));
        let by = f64::from(MOST_OPS).exp2();
        assert!(long.iter().all(|root| values(root) == [by, -2.0 * by]));
    }
}
