//! Fusion: what one kernel computes.
//!
//! A plan is a straight-line program over registers. Its key names the kernel: addresses, lengths,
//! strides and scalars are not in it but are given when it runs (`Bound`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::buffer::View;
use crate::dtype::{Class, DType};
use crate::expr::{Arg, Node, Site};
use crate::ops::{Flag, OpId};
use crate::scalar::Scalar;

/// How an input's element is found from the index of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Element `i`.
    Linear,
    /// One element for all.
    Broadcast,
    /// Element `i` modulo the input's length.
    Recycled,
    /// By strides over this many axes.
    Strided(u8),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    pub dtype: DType,
    pub access: Access,
}

/// The number of the instruction that defines a value.
pub type Register = u16;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// An element of input `k`.
    Load(u16),
    /// Scalar `k`.
    Scalar(u16, Class),
    Apply {
        op: OpId,
        class: Class,
        args: [Register; 3],
    },
}

/// The program: instruction `k` defines register `k`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Plan {
    pub inputs: Vec<Input>,
    pub code: Vec<Instruction>,
    /// What is stored, and as what. A reduction's plan has one output, which is not stored.
    pub outputs: Vec<(Register, DType)>,
    /// How many scalars there are.
    pub scalars: usize,
}

/// What a plan is run on.
#[derive(Clone, Default)]
pub struct Bound {
    /// Elements of the result.
    pub n: usize,
    pub inputs: Vec<View>,
    pub scalars: Vec<Scalar>,
    /// Where the instructions that may warn were recorded: register and call.
    pub sites: Vec<(Register, Option<Site>)>,
}

impl Plan {
    pub fn class(&self, register: Register) -> Class {
        match &self.code[register as usize] {
            Instruction::Load(k) => self.inputs[*k as usize].dtype.class(),
            Instruction::Scalar(_, class) => *class,
            Instruction::Apply { op, class, .. } => op.row().result_class(*class),
        }
    }

    /// A text that is the same for two plans exactly when one kernel serves both.
    pub fn key(&self) -> String {
        let mut key = String::with_capacity(16 * self.code.len());
        for input in &self.inputs {
            let _ = write!(key, "{}", input.dtype);
            match input.access {
                Access::Linear => key.push('l'),
                Access::Broadcast => key.push('b'),
                Access::Recycled => key.push('r'),
                Access::Strided(rank) => {
                    let _ = write!(key, "s{rank}");
                }
            }
            key.push(';');
        }
        for instruction in &self.code {
            let _ = match instruction {
                Instruction::Load(k) => write!(key, "L{k}"),
                Instruction::Scalar(k, class) => write!(key, "S{k}{}", class.c_type()),
                Instruction::Apply { op, class, args } => write!(key, "{}.{}", op.row().name, class.c_type())
                    .and_then(|()| args[..op.row().arity as usize].iter().try_for_each(|a| write!(key, ",{a}"))),
            };
            key.push(';');
        }
        for (register, dtype) in &self.outputs {
            let _ = write!(key, ">{register}{dtype}");
        }
        key
    }
}

/// Builds the plan that computes `root`. Nodes below it that the plan cannot take in (shorter ones that
/// are recycled) must be settled before: `Array::prepare` does that.
pub struct Builder {
    plan: Plan,
    bound: Bound,
    nodes: HashMap<*const Node, Register>,
    values: HashMap<Instruction, Register>,
    /// Whether nodes hear that a kernel computes them: not where it computes a few elements only.
    marks: bool,
}

/// The most inputs, scalars and instructions that one kernel takes.
pub const MOST_INPUTS: usize = 24;
pub const MOST_OPS: u32 = 96;

impl Builder {
    pub fn new(n: usize) -> Builder {
        Builder {
            plan: Plan::default(),
            bound: Bound { n, ..Bound::default() },
            nodes: HashMap::new(),
            values: HashMap::new(),
            marks: true,
        }
    }

    /// Nodes do not hear of this plan.
    pub fn unmarked(mut self) -> Builder {
        self.marks = false;
        self
    }

    fn push(&mut self, instruction: Instruction) -> Register {
        if let Some(&register) = self.values.get(&instruction) {
            return register;
        }
        let register = self.plan.code.len() as Register;
        self.plan.code.push(instruction.clone());
        self.values.insert(instruction, register);
        register
    }

    fn input(&mut self, view: View) -> Register {
        let n = self.bound.n;
        let access = match () {
            () if view.len() == 1 && n != 1 => Access::Broadcast,
            () if view.layout.is_contiguous() && view.len() == n => Access::Linear,
            () if view.layout.is_contiguous() => Access::Recycled,
            () => Access::Strided(view.layout.shape().len() as u8),
        };
        let known = self.bound.inputs.iter().position(|other| {
            Arc::ptr_eq(&other.buffer, &view.buffer) && other.dtype == view.dtype && other.layout == view.layout
        });
        let k = known.unwrap_or_else(|| {
            self.plan.inputs.push(Input { dtype: view.dtype, access });
            self.bound.inputs.push(view);
            self.bound.inputs.len() - 1
        });
        self.push(Instruction::Load(k as u16))
    }

    /// The register that holds a node's value.
    pub fn node(&mut self, node: &Arc<Node>) -> Register {
        let at = Arc::as_ptr(node);
        if let Some(&register) = self.nodes.get(&at) {
            return register;
        }
        let register = match node.expr() {
            None => {
                let view = node.view().expect("a node is recorded or computed");
                self.input(view)
            }
            Some(expr) => {
                let mut args = [0; 3];
                for (k, arg) in expr.args.iter().enumerate() {
                    args[k] = match arg {
                        Arg::Node(node) => self.node(node),
                        Arg::Scalar(scalar) => self.scalar(*scalar),
                    };
                }
                if self.marks {
                    node.pass();
                }
                let known = self.plan.code.len();
                let register = self.push(Instruction::Apply { op: expr.op, class: expr.class, args });
                if register as usize == known && expr.op.row().flag != Flag::None && expr.site.is_some() {
                    self.bound.sites.push((register, expr.site));
                }
                register
            }
        };
        self.nodes.insert(at, register);
        register
    }

    fn scalar(&mut self, scalar: Scalar) -> Register {
        // equal scalars are not joined: a kernel must not depend on which of its arguments happen to agree
        let k = self.bound.scalars.len();
        self.bound.scalars.push(scalar);
        self.plan.scalars = k + 1;
        self.push(Instruction::Scalar(k as u16, scalar.class()))
    }

    /// Whether one kernel takes what has been built so far.
    pub fn fits(&self) -> bool {
        self.bound.inputs.len() <= MOST_INPUTS && self.plan.code.len() <= (MOST_OPS as usize + MOST_INPUTS) * 2
    }

    /// The plan that stores these registers.
    pub fn outputs(mut self, outputs: &[(Register, DType)]) -> (Plan, Bound) {
        self.plan.outputs.extend_from_slice(outputs);
        (self.plan, self.bound)
    }
}
