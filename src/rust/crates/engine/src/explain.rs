//! What computing an array would run: the kernels, what each reads and writes, and their sources. Computes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::Array;
use crate::buffer::{Buffer, Device, View};
use crate::dtype::DType;
use crate::evaluate::is_kept;
use crate::expr::{Arg, Args, Expr, Node};
use crate::ops::Group;
use crate::plan::{Access, Bound, Builder, Instruction, Plan};

/// An input or output of a kernel.
pub struct Traffic {
    /// As the kernel's text names it.
    pub name: String,
    pub dtype: DType,
    /// How elements are found; "" for an output.
    pub access: String,
    pub elements: usize,
    /// What moves through memory, each element counted once.
    pub bytes: usize,
}

/// A kernel that would run.
pub struct Kernel {
    /// Elements of the result.
    pub n: usize,
    /// The operations in order, as R would write them.
    pub code: Vec<String>,
    pub reads: Vec<Traffic>,
    pub writes: Vec<Traffic>,
    /// The CUDA C that a cuda device runs; empty where the build has no CUDA.
    pub source: String,
}

/// The kernels that computing the array would run, in order; none where it is computed.
pub fn explain(array: &Array) -> Vec<Kernel> {
    if array.is_ready() || array.is_empty() {
        return Vec::new();
    }
    let mut copy = Copy { device: array.device(), copies: HashMap::new(), kernels: Vec::new() };
    copy.kernel(array.node());
    copy.kernels
}

/// A copy of a graph in which nodes that would be computed by kernels of their own stand as computed.
struct Copy {
    device: Device,
    copies: HashMap<*const Node, Arc<Node>>,
    kernels: Vec<Kernel>,
}

impl Copy {
    /// Adds the kernel that computes a recorded node, after those that it needs.
    fn kernel(&mut self, root: &Arc<Node>) {
        let mut kept = Vec::new();
        let copy = self.copied(root, root, &mut kept);
        let mut builder = Builder::new(root.len);
        let mut outputs = vec![(builder.node(&copy), root.dtype)];
        for node in &kept {
            outputs.push((builder.node(node), node.dtype));
        }
        let (plan, bound) = builder.outputs(&outputs);
        self.kernels.push(described(&plan, &bound));
        for node in kept.into_iter().chain([copy]) {
            node.settle(self.stand_in(node.dtype, node.len));
        }
    }

    /// The copy of a node in the graph of `root`; `kept` gathers what the kernel stores besides the root.
    fn copied(&mut self, node: &Arc<Node>, root: &Arc<Node>, kept: &mut Vec<Arc<Node>>) -> Arc<Node> {
        if let Some(copy) = self.copies.get(&Arc::as_ptr(node)) {
            return copy.clone();
        }
        let copy = match node.expr() {
            None => match node.view() {
                // strided values are brought together before they are recycled
                Some(view) if node.len != root.len && !view.layout.is_contiguous() => {
                    let whole = Arc::new(Node::ready(view));
                    let mut builder = Builder::new(node.len);
                    let register = builder.node(&whole);
                    let (plan, bound) = builder.outputs(&[(register, node.dtype)]);
                    self.kernels.push(described(&plan, &bound));
                    Arc::new(Node::ready(self.stand_in(node.dtype, node.len)))
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
                if is_kept(node) && !Arc::ptr_eq(node, root) {
                    kept.push(copy.clone());
                }
                copy
            }
        };
        self.copies.insert(Arc::as_ptr(node), copy.clone());
        copy
    }

    fn stand_in(&self, dtype: DType, n: usize) -> View {
        View::contiguous(Arc::new(Buffer::new(self.device, 0, 0, Box::new(()))), dtype, n)
    }
}

fn described(plan: &Plan, bound: &Bound) -> Kernel {
    let reads = plan.inputs.iter().zip(&bound.inputs).enumerate().map(|(k, (input, view))| {
        let access = match input.access {
            Access::Linear => "linear".to_string(),
            Access::Broadcast => "one for all".to_string(),
            Access::Recycled => "recycled".to_string(),
            Access::Strided(_) => format!("strides {}", joined(view.layout.strides())),
            Access::Picked => "picked".to_string(),
        };
        let elements = view.len();
        let moved = if input.access == Access::Picked { bound.n.min(elements) } else { elements };
        Traffic { name: format!("x{}", k + 1), dtype: view.dtype, access, elements, bytes: moved * view.dtype.size() }
    });
    let writes = plan.outputs.iter().enumerate().map(|(k, (_, dtype))| Traffic {
        name: if k == 0 { "y".into() } else { format!("y{}", k + 1) },
        dtype: *dtype,
        access: String::new(),
        elements: bound.n,
        bytes: bound.n * dtype.size(),
    });
    let (reads, writes): (Vec<_>, Vec<_>) = (reads.collect(), writes.collect());
    Kernel { n: bound.n, code: listing(plan, bound, &writes), reads, writes, source: source(plan, bound.n) }
}

fn joined(strides: &[isize]) -> String {
    strides.iter().map(isize::to_string).collect::<Vec<_>>().join(" ")
}

/// The program in R's notation, a line for each operation: `t3 <- x1 * x2`.
fn listing(plan: &Plan, bound: &Bound, writes: &[Traffic]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(plan.code.len());
    let mut lines = Vec::new();
    for (register, instruction) in plan.code.iter().enumerate() {
        let text = match instruction {
            Instruction::Load(k) => Err(format!("x{}", k + 1)),
            Instruction::Scalar(k, _) => Err(bound.scalars[*k as usize].to_string()),
            // positions count from 0
            Instruction::Pick { input, at } => Ok(format!("x{}[{} + 1]", input + 1, names[*at as usize])),
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
        };
        let name = match text {
            Err(name) => name,
            Ok(text) => {
                // an output has its own name
                let name = match plan.outputs.iter().position(|(r, _)| *r as usize == register) {
                    Some(k) => writes[k].name.clone(),
                    None => format!("t{}", lines.len() + 1),
                };
                lines.push(format!("{name} <- {text}"));
                name
            }
        };
        names.push(name);
    }
    for (k, (register, _)) in plan.outputs.iter().enumerate() {
        if names[*register as usize] != writes[k].name {
            lines.push(format!("{} <- {}", writes[k].name, names[*register as usize]));
        }
    }
    lines
}

#[cfg(not(target_os = "macos"))]
fn source(plan: &Plan, n: usize) -> String {
    use crate::backend::cuda::codegen::{self, Variant};
    codegen::source(plan, Variant { wide: n > i32::MAX as usize, ..Variant::default() })
}

#[cfg(target_os = "macos")]
fn source(_: &Plan, _: usize) -> String {
    String::new()
}
