//! `gpu_explain()`: the kernels that computing an array would launch, the memory that each of them reads and writes,
//! and their source code. Nothing is computed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::Array;
use crate::graph::builder::Builder;
use crate::graph::epilogue::{fusion_target, is_intermediate, stand_in};
use crate::graph::kept::{is_worth_keeping, lasting};
use crate::graph::node::{Arg, Args, Expr, Node, Operation, Walk};
use crate::plan::{Access, Bound, Call, Epilogue, Instruction, Plan};
use verdigris_compile::Source;
use verdigris_ops::dtype::DType;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::Group;

/// An input or output of a kernel.
pub struct Traffic {
    /// The name in the kernel's code.
    pub name: String,
    pub dtype: DType,
    /// How the kernel indexes the elements; empty for an output.
    pub access: String,
    pub elements: usize,
    /// Bytes transferred, counting each element once.
    pub bytes: usize,
}

/// A kernel that would be launched.
pub struct Kernel {
    /// Number of elements of the result.
    pub n: usize,
    /// The operations in order, as R would write them.
    pub code: Vec<String>,
    pub reads: Vec<Traffic>,
    pub writes: Vec<Traffic>,
    /// CUDA C source of the kernel; empty if the build has no CUDA.
    pub source: String,
}

/// The kernels that computing the array would launch, in order; empty if the array is already computed.
pub fn explain(array: &Array) -> Vec<Kernel> {
    if array.is_ready() || array.is_empty() {
        return Vec::new();
    }
    let mut copy = Copy { copies: HashMap::new(), calls: Vec::new(), stored: Vec::new(), kernels: Vec::new() };
    copy.kernel(array.node());
    copy.kernels
}

/// A copy of the graph. Nodes that separate kernels would compute are replaced by placeholders that count as computed.
struct Copy {
    copies: HashMap<*const Node, Arc<Node>>,
    /// Calls of routines that the current kernel makes.
    calls: Vec<Arc<Node>>,
    /// Nodes that the current kernel stores besides its root.
    stored: Vec<*const Node>,
    kernels: Vec<Kernel>,
}

impl Copy {
    /// Adds the kernel that computes a recorded node, after the kernels whose results it reads.
    fn kernel(&mut self, root: &Arc<Node>) {
        if root.is_reduction() {
            let (reduction, plan, bound) = self.reduced(root);
            self.kernels.push(described(&plan, &bound, Some(reduction)));
            self.copies.insert(Arc::as_ptr(root), Arc::new(Node::ready(stand_in(root))));
            return;
        }
        let mut reductions = Vec::new();
        below(root, Walk::new(), &mut reductions);
        // As in `evaluate`: one of the reductions is fused with this kernel's operations.
        let target = fusion_target(&reductions).cloned();
        for node in reductions.iter().filter(|node| !target.as_ref().is_some_and(|target| Arc::ptr_eq(target, node))) {
            self.missing(node);
        }
        let target = target.filter(|target| !self.copies.contains_key(&Arc::as_ptr(target)));
        let spread = target.as_ref().is_some_and(|target| target.repeats().is_some());
        let intermediate =
            spread || target.as_ref().is_some_and(|target| is_intermediate(target, std::slice::from_ref(root)));
        let reduced = target
            .as_ref()
            .map(|target| self.reduced(&target.repeats().map_or(target.clone(), |(results, _)| results)));
        let mut builder = Builder::new(root.len);
        let mut results = None;
        if let Some(target) = &target {
            let copy = Arc::new(Node::ready(stand_in(target)));
            results = Some(builder.stand_in(&copy, &stand_in(target)));
            self.copies.insert(Arc::as_ptr(target), copy);
        }
        let mut kept = Vec::new();
        let others = std::mem::take(&mut self.calls);
        let stored = stored(root).iter().map(Arc::as_ptr).collect();
        let stored_by_others = std::mem::replace(&mut self.stored, stored);
        let copy = self.copied(root, root, &mut kept);
        self.stored = stored_by_others;
        let calls = std::mem::replace(&mut self.calls, others);
        for result in calls.iter().flat_map(|call| call.living_results()) {
            if !self.copies.contains_key(&Arc::as_ptr(&result)) {
                kept.push(self.copied(&result, root, &mut Vec::new()));
            }
        }
        let mut outputs = vec![(builder.node(&copy), root.dtype)];
        for node in &kept {
            outputs.push((builder.node(node), node.dtype));
        }
        if let (Some(target), Some((register, _)), false) = (&target, results, intermediate) {
            outputs.push((register, target.dtype));
        }
        let reduced_node = |target: &Arc<Node>| target.repeats()?.0.args()?.nodes().next().cloned();
        let values = target.as_ref().and_then(reduced_node).and_then(|operand| builder.find(&operand));
        let (plan, bound) = builder.outputs(&outputs);
        self.kernels.push(match (reduced, results) {
            (Some((reduction, mut prologue, mut read)), Some((_, results))) => {
                prologue.epilogue = Some(Box::new(Epilogue { plan, results, over_elements: spread, values }));
                read.epilogue = Some(Box::new(bound));
                described(&prologue, &read, Some(reduction))
            }
            _ => described(&plan, &bound, None),
        });
        for node in kept.into_iter().chain([copy]) {
            node.resolve(stand_in(&node));
        }
    }

    /// As `kernel`, unless the node's kernel was added before.
    fn missing(&mut self, node: &Arc<Node>) {
        if let Some((results, _)) = node.repeats() {
            self.missing(&results);
            self.copies.insert(Arc::as_ptr(node), Arc::new(Node::ready(stand_in(node))));
        }
        if !self.copies.contains_key(&Arc::as_ptr(node)) {
            self.kernel(node);
        }
    }

    /// A reduction within groups and the plan of its operand, after adding the kernels whose results the operand reads.
    fn reduced(&mut self, node: &Arc<Node>) -> (Grouped, Plan, Bound) {
        let Some(Expr { op: Operation::Reduce { reduction, na_rm, groups }, args, .. }) = node.expr() else {
            unreachable!("it was recorded as a reduction");
        };
        let operand = args.nodes().next().expect("a reduction has an operand");
        let mut reductions = Vec::new();
        if operand.is_reduction() {
            reductions.push(operand.clone());
        }
        below(operand, Walk::new(), &mut reductions);
        reductions.iter().for_each(|node| self.missing(node));
        let copy = self.copied(operand, operand, &mut Vec::new());
        let mut builder = Builder::new(operand.len);
        let register = builder.node(&copy);
        let (plan, bound) = builder.outputs(&[(register, operand.dtype)]);
        ((reduction, na_rm, groups), plan, bound)
    }

    /// Copies a node of `root`'s graph; `kept` collects the nodes that the kernel stores besides the root.
    fn copied(&mut self, node: &Arc<Node>, root: &Arc<Node>, kept: &mut Vec<Arc<Node>>) -> Arc<Node> {
        if let Some(copy) = self.copies.get(&Arc::as_ptr(node)) {
            return copy.clone();
        }
        let copy = match node.expr() {
            None => match node.view() {
                // Strided values are copied to contiguous memory before they are recycled.
                Some(view) if node.len != root.len && !view.layout.is_contiguous() => {
                    let whole = Arc::new(Node::ready(view));
                    let mut builder = Builder::new(node.len);
                    let register = builder.node(&whole);
                    let (plan, bound) = builder.outputs(&[(register, node.dtype)]);
                    self.kernels.push(described(&plan, &bound, None));
                    Arc::new(Node::ready(stand_in(node)))
                }
                _ => node.clone(),
            },
            Some(_) if node.len != root.len => {
                self.kernel(node);
                return self.copies[&Arc::as_ptr(node)].clone();
            }
            Some(expr) => {
                let mut args = Args::new();
                for arg in expr.args.iter() {
                    args.push(match arg {
                        Arg::Node(below) => Arg::Node(self.copied(below, root, kept)),
                        Arg::Scalar(scalar) => Arg::Scalar(*scalar),
                    });
                }
                let copy = Arc::new(Node::lazy(node.dtype, node.len, node.device, Expr { args, ..expr }));
                if node.is_call() {
                    self.calls.push(node.clone());
                }
                if self.stored.contains(&Arc::as_ptr(node)) {
                    kept.push(copy.clone());
                }
                copy
            }
        };
        self.copies.insert(Arc::as_ptr(node), copy.clone());
        copy
    }
}

/// The nodes below `root` that its kernel would also store.
fn stored(root: &Arc<Node>) -> Vec<Arc<Node>> {
    fn below(node: &Arc<Node>, walk: Walk, found: &mut Vec<Arc<Node>>) {
        let Some(args) = node.args().filter(|_| !node.is_reduction()) else { return };
        for arg in args.nodes().filter(|arg| arg.len == node.len && !arg.is_reduction() && walk.visit(arg)) {
            below(arg, walk, found);
            if is_worth_keeping(arg) {
                found.push(arg.clone());
            }
        }
    }
    let mut found = Vec::new();
    below(root, Walk::new(), &mut found);
    lasting(std::slice::from_ref(root), &mut found, true);
    found
}

/// Collects the reductions that a kernel of the node's length would read.
fn below(node: &Node, walk: Walk, found: &mut Vec<Arc<Node>>) {
    let Some(args) = node.args().filter(|_| !node.is_reduction()) else { return };
    for arg in args.nodes().filter(|arg| arg.len == node.len && walk.visit(arg)) {
        if arg.is_reduction() {
            found.push(arg.clone());
        } else {
            below(arg, walk, found);
        }
    }
}

/// The inputs of a plan, numbered after the first `first`, except for the input `made` that the kernel computes itself.
fn reads(plan: &Plan, bound: &Bound, first: usize, made: Option<u16>) -> Vec<Traffic> {
    let mut all = Vec::new();
    for (k, (input, view)) in plan.inputs.iter().zip(&bound.inputs).enumerate() {
        if made == Some(k as u16) {
            continue;
        }
        let access = match input.access {
            Access::Linear => "linear".to_string(),
            Access::Broadcast => "one for all".to_string(),
            Access::Recycled => "recycled".to_string(),
            Access::Strided(_) => format!("strides {}", joined(view.layout.strides())),
            Access::Gathered => "picked".to_string(),
        };
        let elements = view.len();
        let moved = if input.access == Access::Gathered { bound.n.min(elements) } else { elements };
        let name = format!("x{}", first + all.len() + 1);
        all.push(Traffic { name, dtype: view.dtype, access, elements, bytes: moved * view.dtype.size() });
    }
    all
}

fn described(plan: &Plan, bound: &Bound, grouped: Option<Grouped>) -> Kernel {
    // The plan whose outputs are stored, and their length: the epilogue's, the reduction's, or the plan's own.
    let (last, n) = match (&plan.epilogue, &bound.epilogue, grouped) {
        (Some(after), Some(given), _) => (&after.plan, given.n),
        (_, _, Some((.., groups))) => (plan, groups.count()),
        _ => (plan, bound.n),
    };
    let stored = |dtype: DType| match grouped {
        Some((reduction, ..)) if plan.epilogue.is_none() => reduction.result(dtype.class()),
        _ => dtype,
    };
    let writes = last.outputs.iter().enumerate().map(|(k, (_, dtype))| Traffic {
        name: if k == 0 { "y".into() } else { format!("y{}", k + 1) },
        dtype: stored(*dtype),
        access: String::new(),
        elements: n,
        bytes: n * stored(*dtype).size(),
    });
    let mut writes: Vec<_> = writes.collect();
    let (mut read, mut code) = (reads(plan, bound, 0, None), Vec::new());
    let source = source(plan, bound.n, grouped);
    let Some(grouped) = grouped else {
        listing(plan, bound, &writes, (0, None), &mut code);
        return Kernel { n, code, reads: read, writes, source };
    };
    let names = listing(plan, bound, &[], (0, None), &mut code);
    let text = applied(grouped, &names[plan.outputs[0].0 as usize]);
    if let (Some(after), Some(given)) = (&plan.epilogue, &bound.epilogue) {
        let name = format!("t{}", code.len() + 1);
        code.push(format!("{name} <- {text}"));
        let own = (read.len(), Some((after.results, name.clone())));
        listing(&after.plan, given, &writes, own, &mut code);
        if after.over_elements {
            let (.., groups) = grouped;
            // An epilogue over the elements also stores the results of the reduction.
            let (name_out, dtype) = (format!("y{}", writes.len() + 1), after.plan.inputs[after.results as usize].dtype);
            code.push(format!("{name_out} <- {name}"));
            let (elements, bytes) = (groups.count(), after.results_size(groups));
            writes.push(Traffic { name: name_out, dtype, access: String::new(), elements, bytes });
        }
        read.extend(reads(&after.plan, given, read.len(), Some(after.results)));
    } else {
        code.push(format!("y <- {text}"));
    }
    Kernel { n, code, reads: read, writes, source }
}

/// A reduction within groups: the operation, whether it drops NAs (na.rm), and the groups.
type Grouped = (Reduction, bool, Groups);

/// The reduction of `value` in R's notation, as if `value` had an axis for each extent of the groups.
fn applied((reduction, na_rm, groups): Grouped, value: &str) -> String {
    let also = if na_rm { ", na.rm = TRUE" } else { "" };
    let axis = match groups {
        Groups { inner: 1, .. } => "2",
        Groups { outer: 1, .. } => "1",
        _ => "c(1, 3)",
    };
    format!("apply({value}, {axis}, {}{also})", reduction.name())
}

fn joined(strides: &[isize]) -> String {
    strides.iter().map(isize::to_string).collect::<Vec<_>>().join(" ")
}

/// Appends the plan in R's notation, a line for each operation: `t3 <- x1 * x2`. Inputs are numbered after the first
/// `first`; `made` names an input that an earlier line computes. Returns the registers' names.
fn listing(
    plan: &Plan,
    bound: &Bound,
    writes: &[Traffic],
    (first, made): (usize, Option<(u16, String)>),
    lines: &mut Vec<String>,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(plan.code.len());
    let input = |k: u16| match &made {
        Some((own, name)) if *own == k => name.clone(),
        // The input that the kernel computes itself is not numbered.
        Some((own, _)) if *own < k => format!("x{}", first + k as usize),
        _ => format!("x{}", first + k as usize + 1),
    };
    for (register, instruction) in plan.code.iter().enumerate() {
        let text = match instruction {
            Instruction::Load(k) => Err(input(*k)),
            Instruction::Scalar(k, _) => Err(bound.scalars[*k as usize].to_string()),
            // The plan's positions are 0-based.
            Instruction::Gather { input: k, at } => Ok(format!("{}[{} + 1]", input(*k), names[*at as usize])),
            Instruction::Apply { op, args, .. } => {
                let row = op.row();
                let operands: Vec<&str> =
                    args[..row.arity as usize].iter().map(|&a| names[a as usize].as_str()).collect();
                let called = if row.r.is_empty() { row.name } else { row.r };
                Ok(match (&operands[..], row.group) {
                    ([a, b], Group::Ops) => format!("{a} {called} {b}"),
                    ([a], Group::Ops) => format!("{called}{a}"),
                    _ => format!("{called}({})", operands.join(", ")),
                })
            }
            Instruction::Call(call) => Err(called(call, &names, input)),
            Instruction::Result { call, result } => {
                let run = names[*call as usize].clone();
                let several = plan.call(*call).routine.results.len() > 1;
                Ok(if several { format!("{run}[[{}]]", result + 1) } else { run })
            }
        };
        let name = match text {
            Err(name) => name,
            Ok(text) => {
                // An output is called by its own name instead of a temporary one.
                let name = match plan.outputs.iter().position(|(r, _)| *r as usize == register) {
                    Some(k) if k < writes.len() => writes[k].name.clone(),
                    _ => format!("t{}", lines.len() + 1),
                };
                lines.push(format!("{name} <- {text}"));
                name
            }
        };
        names.push(name);
    }
    for ((register, _), write) in plan.outputs.iter().zip(writes) {
        if names[*register as usize] != write.name {
            lines.push(format!("{} <- {}", write.name, names[*register as usize]));
        }
    }
    names
}

/// A call of a routine in R's notation, with its arguments in the order of the R function's parameters.
fn called(call: &Call, names: &[String], input: impl Fn(u16) -> String) -> String {
    let routine = call.routine.0;
    let parameters = routine.parameters.iter().zip(&call.args);
    let given = parameters.filter_map(|(p, &arg)| match p.source {
        Source::Given(k) => Some((k, names[arg as usize].clone())),
        _ => None,
    });
    let tables = routine.tables.iter().zip(&call.tables).map(|(table, &k)| (table.given, input(k)));
    let mut given: Vec<(u16, String)> = given.chain(tables).collect();
    given.sort_by_key(|(k, _)| *k);
    given.dedup_by_key(|(k, _)| *k);
    let given: Vec<String> = given.into_iter().map(|(_, name)| name).collect();
    format!("{}({})", routine.name, given.join(", "))
}

#[cfg(not(target_os = "macos"))]
fn source(plan: &Plan, n: usize, grouped: Option<Grouped>) -> String {
    use crate::backend::cuda::codegen::{self, Variant};
    let variant = Variant { wide: n > i32::MAX as usize, ..Variant::default() };
    match grouped {
        None => codegen::source(plan, variant),
        Some((reduction, na_rm, groups)) => {
            let form = codegen::reduce::form(plan, reduction, groups);
            codegen::source_reduce(plan, variant, reduction, na_rm, form)
        }
    }
}

#[cfg(target_os = "macos")]
fn source(_: &Plan, _: usize, _: Option<Grouped>) -> String {
    String::new()
}
