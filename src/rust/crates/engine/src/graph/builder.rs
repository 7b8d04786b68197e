//! Builds a plan, the program of one kernel, from recorded nodes.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::graph::cost::{COSTLY, MOST_INPUTS, MOST_OPS};
use crate::graph::node::{Arg, Expr, Node, Operation, Walk};
use crate::memory::buffer::View;
use crate::plan::{Access, Bound, Call, Input, Instruction, Mix, Plan, Register};
use verdigris_compile::Interned;
use verdigris_ops::dtype::DType;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::MOST_OPERANDS;

/// Builds the plan that computes a node. Nodes below it that the plan cannot fuse (shorter ones, which are recycled)
/// must be evaluated before; `evaluate::prepare` does that.
///
/// Plans are built far more often than kernels are compiled, so building does not allocate: the vectors of an earlier
/// plan are reused (`recycle`), and each node notes its own register.
pub struct Builder {
    plan: Plan,
    bound: Bound,
    values: Values,
    walk: Walk,
    /// Whether to mark nodes as fused. False if the kernel computes only a few of their elements.
    marks: bool,
}

thread_local! {
    static SPARE: RefCell<Vec<(Plan, Bound)>> = const { RefCell::new(Vec::new()) };
    static VALUES: RefCell<Values> = const { RefCell::new(Values { slots: Vec::new() }) };
}

/// Keeps the vectors of a plan that has run, for the next plan.
pub fn recycle(mut plan: Plan, mut bound: Bound) {
    plan.inputs.clear();
    plan.code.clear();
    plan.outputs.clear();
    plan.scalars = 0;
    plan.epilogue = None;
    bound.epilogue = None;
    bound.n = 0;
    bound.inputs.clear();
    bound.scalars.clear();
    bound.sites.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < 4 {
            spare.push((plan, bound));
        }
    });
}

/// A hash table from instructions to the registers that hold their values.
#[derive(Default)]
struct Values {
    /// A register plus one; 0 if free. The number of slots is a power of two, and at most half are in use.
    slots: Vec<Register>,
}

impl Values {
    const SMALLEST: usize = 64;

    fn slot(&self, code: &[Instruction], instruction: &Instruction) -> usize {
        let mut hasher = Mix::default();
        instruction.hash(&mut hasher);
        let mask = self.slots.len() - 1;
        let mut at = hasher.finish() as usize & mask;
        while self.slots[at] != 0 && code[self.slots[at] as usize - 1] != *instruction {
            at = (at + 1) & mask;
        }
        at
    }

    /// The register of an equal instruction; if there is none, the instruction is appended to the code.
    fn register(&mut self, code: &mut Vec<Instruction>, instruction: Instruction) -> Register {
        if self.slots.len() < 2 * (code.len() + 1) {
            let size = (4 * code.len()).next_power_of_two().max(Values::SMALLEST);
            self.slots.clear();
            self.slots.resize(size, 0);
            for k in 0..code.len() {
                let at = self.slot(code, &code[k]);
                self.slots[at] = k as Register + 1;
            }
        }
        let at = self.slot(code, &instruction);
        if self.slots[at] == 0 {
            code.push(instruction);
            self.slots[at] = code.len() as Register;
        }
        self.slots[at] - 1
    }
}

impl Builder {
    pub fn new(n: usize) -> Builder {
        let (plan, mut bound) = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        bound.n = n;
        let mut values = VALUES.with(RefCell::take);
        values.slots.fill(0);
        Builder { plan, bound, values, walk: Walk::new(), marks: true }
    }

    /// Makes this builder not mark nodes as fused.
    pub fn unmarked(mut self) -> Builder {
        self.marks = false;
        self
    }

    fn push(&mut self, instruction: Instruction) -> Register {
        self.values.register(&mut self.plan.code, instruction)
    }

    fn load(&mut self, view: &View) -> Register {
        let n = self.bound.n;
        let access = match () {
            () if view.len() == 1 && n != 1 => Access::Broadcast,
            () if view.layout.is_contiguous() && view.len() == n => Access::Linear,
            () if view.layout.is_contiguous() => Access::Recycled,
            () => Access::Strided(view.layout.shape().len() as u8),
        };
        let k = self.input(view, access);
        self.push(Instruction::Load(k))
    }

    /// The index of an input that is accessed in this way; adds it if needed.
    fn input(&mut self, view: &View, access: Access) -> u16 {
        let known = self.plan.inputs.iter().zip(&self.bound.inputs).position(|(input, other)| {
            input.access == access
                && Arc::ptr_eq(&other.buffer, &view.buffer)
                && other.dtype == view.dtype
                && other.layout == view.layout
        });
        known.unwrap_or_else(|| {
            self.plan.inputs.push(Input { dtype: view.dtype, access });
            self.bound.inputs.push(view.clone());
            self.bound.inputs.len() - 1
        }) as u16
    }

    /// The register that holds a node's value.
    pub fn node(&mut self, node: &Node) -> Register {
        if let Some(register) = self.walk.noted(node) {
            return register;
        }
        let register = node.with_state(|state| match state {
            Err(view) => self.load(view),
            Ok(expr) => {
                if self.marks {
                    node.mark_fused();
                }
                let op = match expr.op {
                    Operation::Row(op) => op,
                    Operation::Gather => return self.pick(&expr.args),
                    Operation::Reduce { .. } | Operation::Repeat { .. } => {
                        unreachable!("reductions are computed before, or stood in for")
                    }
                    Operation::Call(routine) => return self.call(routine, expr),
                    Operation::Result(result) => {
                        let call = self.operand(&expr.args[0]);
                        return self.push(Instruction::Result { call, result });
                    }
                };
                let mut args = [0; MOST_OPERANDS];
                for (k, arg) in expr.args.iter().enumerate() {
                    args[k] = self.operand(arg);
                }
                let known = self.plan.code.len();
                let register = self.push(Instruction::Apply { op, class: expr.class, args });
                if register as usize == known && expr.site.is_some() && op.may_warn(expr.class) {
                    self.bound.sites.push((register, expr.site.clone()));
                }
                register
            }
        });
        self.walk.note(node, register);
        register
    }

    /// Adds an input that represents a node whose values the kernel computes itself; the view has no memory. Returns
    /// the register and the input.
    pub fn stand_in(&mut self, node: &Node, view: &View) -> (Register, u16) {
        let register = self.load(view);
        self.walk.note(node, register);
        let Instruction::Load(input) = self.plan.code[register as usize] else { unreachable!("it was loaded") };
        (register, input)
    }

    /// Makes a register hold a node's value for what is added from now on.
    pub fn stand_for(&mut self, node: &Node, register: Register) {
        self.walk.note(node, register);
    }

    /// The register that already holds a node's value; None if nothing built so far computes it. Nothing may be added
    /// to the builder afterwards.
    pub fn find(&mut self, node: &Node) -> Option<Register> {
        fn is_plain(node: &Node) -> bool {
            node.with_state(|state| match state {
                Err(_) => true,
                Ok(expr) => matches!(expr.op, Operation::Row(_)) && expr.args.nodes().all(|arg| is_plain(arg)),
            })
        }
        if node.cost.weight > COSTLY || !is_plain(node) {
            return None;
        }
        let (code, inputs) = (self.plan.code.len(), self.plan.inputs.len());
        let (scalars, sites) = (self.bound.scalars.len(), self.bound.sites.len());
        let marks = std::mem::replace(&mut self.marks, false);
        let register = self.node(node);
        self.marks = marks;
        let known = self.plan.code.len() == code && self.bound.scalars.len() == scalars;
        self.plan.code.truncate(code);
        self.plan.inputs.truncate(inputs);
        self.plan.scalars = scalars;
        self.bound.inputs.truncate(inputs);
        self.bound.scalars.truncate(scalars);
        self.bound.sites.truncate(sites);
        known.then_some(register)
    }

    fn operand(&mut self, arg: &Arg) -> Register {
        match arg {
            Arg::Node(node) => self.node(node),
            Arg::Scalar(scalar) => self.scalar(*scalar),
        }
    }

    /// Adds a gather, `Operation::Gather`.
    fn pick(&mut self, args: &[Arg]) -> Register {
        let [at, Arg::Node(source)] = args else { unreachable!("a pick has positions and a source") };
        let at = self.operand(at);
        let input = self.picked(source);
        self.push(Instruction::Gather { input, at })
    }

    /// The input that a gather reads.
    fn picked(&mut self, source: &Node) -> u16 {
        source.with_state(|state| match state {
            Err(view) => self.input(view, Access::Gathered),
            Ok(_) => unreachable!("what is picked from is computed"),
        })
    }

    /// Adds a call of a routine, `Operation::Call`.
    fn call(&mut self, routine: Interned, expr: &Expr) -> Register {
        let (parameters, tables) = expr.args.split_at(routine.parameters.len());
        let args = parameters.iter().map(|arg| self.operand(arg)).collect();
        let tables = tables.iter().map(|table| match table {
            Arg::Node(source) => self.picked(source),
            Arg::Scalar(_) => unreachable!("a table is an array"),
        });
        let tables = tables.collect();
        let known = self.plan.code.len();
        let register = self.push(Instruction::Call(Box::new(Call { routine, args, tables })));
        if register as usize == known && routine.is_noted() {
            self.bound.sites.push((register, expr.site.clone()));
        }
        register
    }

    fn scalar(&mut self, scalar: Scalar) -> Register {
        // Equal scalars get separate arguments: the kernel must not depend on which scalars happen to be equal.
        let k = self.bound.scalars.len();
        self.bound.scalars.push(scalar);
        self.plan.scalars = k + 1;
        self.push(Instruction::Scalar(k as u16, scalar.class()))
    }

    /// Whether one kernel can compute what has been built so far.
    pub fn fits(&self) -> bool {
        self.bound.inputs.len() <= MOST_INPUTS && self.plan.code.len() <= (MOST_OPS as usize + MOST_INPUTS) * 2
    }

    /// Finishes the plan, with these registers as outputs.
    pub fn outputs(mut self, outputs: &[(Register, DType)]) -> (Plan, Bound) {
        self.plan.outputs.extend_from_slice(outputs);
        VALUES.with(|values| values.replace(self.values));
        (self.plan, self.bound)
    }
}
