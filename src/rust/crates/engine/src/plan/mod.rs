//! Plans: the program of one kernel.
//!
//! A plan is a straight-line program over registers, the result of fusing recorded operations. It holds no addresses,
//! lengths, strides or scalars; these are passed when it runs (`Bound`). So equal plans share a kernel.

pub mod warning;

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::memory::buffer::{Buffer, View};
use verdigris_compile::{fingerprint, Interned};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::reduction::Groups;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::{OpId, MOST_OPERANDS};

/// How the index of a result element maps to an element of an input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Element `i`.
    Linear,
    /// The same element for all.
    Broadcast,
    /// Element `i` modulo the input's length.
    Recycled,
    /// By strides over this many axes.
    Strided(u8),
    /// By positions that the plan computes. The input is contiguous and not empty.
    Gathered,
}

impl Access {
    /// Whether neighbouring results read neighbouring elements, so that a thread may load several at once.
    pub fn follows(self) -> bool {
        !matches!(self, Access::Broadcast | Access::Gathered)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    pub dtype: DType,
    pub access: Access,
}

/// The index of the instruction that defines a value.
pub type Register = u16;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// An element of input `k`.
    Load(u16),
    /// The element of an input at a position (int64, 0-based); NA if out of bounds.
    Gather {
        input: u16,
        at: Register,
    },
    /// Scalar `k`.
    Scalar(u16, Class),
    Apply {
        op: OpId,
        class: Class,
        args: [Register; MOST_OPERANDS],
    },
    /// A run of a routine. It defines no value itself; `Result` does.
    Call(Box<Call>),
    /// A result of a call.
    Result {
        call: Register,
        result: u8,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    pub routine: Interned,
    /// The registers of its parameters.
    pub args: Box<[Register]>,
    /// The inputs that are its tables, accessed as `Access::Gathered`.
    pub tables: Box<[u16]>,
}

impl Instruction {
    /// The registers that the instruction reads.
    pub fn operands(&self) -> &[Register] {
        match self {
            Instruction::Load(_) | Instruction::Scalar(..) => &[],
            Instruction::Gather { at, .. } => std::slice::from_ref(at),
            Instruction::Apply { op, args, .. } => &args[..op.row().arity as usize],
            Instruction::Call(call) => &call.args,
            Instruction::Result { call, .. } => std::slice::from_ref(call),
        }
    }
}

/// The program: instruction `k` defines register `k`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Plan {
    pub inputs: Vec<Input>,
    pub code: Vec<Instruction>,
    /// The registers to store, and their dtypes. A reduction's plan has one output, which is reduced and not stored.
    pub outputs: Vec<(Register, DType)>,
    /// The number of scalars.
    pub scalars: usize,
    /// The epilogue of a reduction, which its kernel computes from the results. Then only the epilogue's outputs are
    /// stored.
    pub epilogue: Option<Box<Epilogue>>,
}

/// The epilogue of a reduction: a plan over its results or, if `over_elements`, over its elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Epilogue {
    pub plan: Plan,
    /// The input that represents the reduction's results; it has no memory.
    pub results: u16,
    /// Whether the epilogue is over the elements that were reduced, each with its group's result, and not over the
    /// results.
    pub over_elements: bool,
    /// If it is over the elements: the register that equals the reduced values, which the kernel may keep instead of
    /// recomputing.
    pub values: Option<Register>,
}

impl Epilogue {
    /// Bytes of the reduction's results.
    pub fn results_size(&self, groups: Groups) -> usize {
        groups.count() * self.plan.inputs[self.results as usize].dtype.size()
    }
}

/// The arguments of a plan.
#[derive(Clone, Default)]
pub struct Bound {
    /// The number of elements of the result.
    pub n: usize,
    pub inputs: Vec<View>,
    pub scalars: Vec<Scalar>,
    /// For each instruction that may warn, its register and the call that recorded it.
    pub sites: Vec<(Register, Option<CallSite>)>,
    /// The arguments of `Plan::epilogue`.
    pub epilogue: Option<Box<Bound>>,
}

impl Bound {
    /// A copy in which an input without memory gets a buffer.
    pub fn with(&self, input: u16, buffer: Arc<Buffer>) -> Bound {
        let mut bound = self.clone();
        let view = &mut bound.inputs[input as usize];
        *view = View { buffer, ..view.clone() };
        bound
    }
}

impl Plan {
    /// Whether it is a reduction with an epilogue over the elements.
    pub fn over_elements(&self) -> bool {
        self.epilogue.as_ref().is_some_and(|after| after.over_elements)
    }

    /// The call that defines a register.
    pub fn call(&self, register: Register) -> &Call {
        match &self.code[register as usize] {
            Instruction::Call(call) => call,
            other => unreachable!("a result is of a call, not of {other:?}"),
        }
    }

    /// Whether the plan or its epilogue calls a routine.
    pub fn calls(&self) -> bool {
        self.code.iter().any(|i| matches!(i, Instruction::Call(_)))
            || self.epilogue.as_ref().is_some_and(|a| a.plan.calls())
    }

    /// The class of a register's value. A call has none.
    pub fn class(&self, register: Register) -> Class {
        match &self.code[register as usize] {
            Instruction::Load(k) | Instruction::Gather { input: k, .. } => self.inputs[*k as usize].dtype.class(),
            Instruction::Scalar(_, class) => *class,
            Instruction::Apply { op, class, .. } => op.row().result_class(*class),
            Instruction::Result { call, result } => {
                let routine = self.call(*call).routine;
                routine.registers[routine.results[*result as usize].0 as usize]
            }
            Instruction::Call(_) => unreachable!("a call has no value"),
        }
    }

    /// A string that is equal for two plans exactly if they can share a kernel.
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
                Access::Gathered => key.push('p'),
            }
            key.push(';');
        }
        for instruction in &self.code {
            let _ = match instruction {
                Instruction::Load(k) => write!(key, "L{k}"),
                Instruction::Gather { input, at } => write!(key, "P{input},{at}"),
                Instruction::Scalar(k, class) => write!(key, "S{k}{}", class.c_type()),
                Instruction::Apply { op, class, args } => write!(key, "{}.{}", op.row().name, class.c_type())
                    .and_then(|()| args[..op.row().arity as usize].iter().try_for_each(|a| write!(key, ",{a}"))),
                Instruction::Call(call) => write!(key, "{}.{:016x}", call.routine.name, fingerprint(call.routine.0))
                    .and_then(|()| call.args.iter().try_for_each(|a| write!(key, ",{a}")))
                    .and_then(|()| call.tables.iter().try_for_each(|t| write!(key, ",x{t}"))),
                Instruction::Result { call, result } => write!(key, "R{call},{result}"),
            };
            key.push(';');
        }
        for (register, dtype) in &self.outputs {
            let _ = write!(key, ">{register}{dtype}");
        }
        if let Some(after) = &self.epilogue {
            let over = if after.over_elements { "each" } else { "then" };
            let _ = write!(key, "; x{} {over} {}", after.results, after.plan.key());
        }
        key
    }
}

/// A fast hasher for tables of internal values, for which nobody provokes collisions.
#[derive(Clone, Copy, Default)]
pub struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        // Fibonacci hashing: the multiplier is 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_ne_bytes(word));
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.add(x.into());
    }

    fn write_u16(&mut self, x: u16) {
        self.add(x.into());
    }

    fn write_u32(&mut self, x: u32) {
        self.add(x.into());
    }

    fn write_u64(&mut self, x: u64) {
        self.add(x);
    }

    fn write_usize(&mut self, x: usize) {
        self.add(x as u64);
    }

    fn write_isize(&mut self, x: isize) {
        self.add(x as u64);
    }
}
