//! The lazy graph: what an array is until something needs its values.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::buffer::{Device, View};
use crate::dtype::{Class, DType};
use crate::ops::{OpId, Rule};
use crate::scalar::Scalar;

/// Who recorded an operation: R's call, which the engine only carries.
pub type Site = Arc<dyn Any + Send + Sync>;

/// An operand of a recorded operation, already in the class that the operation takes.
#[derive(Clone)]
pub enum Arg {
    Node(Arc<Node>),
    Scalar(Scalar),
}

/// A recorded operation.
#[derive(Clone)]
pub struct Expr {
    pub op: OpId,
    /// The class that computes.
    pub class: Class,
    pub args: Vec<Arg>,
    /// Kept only where the operation may warn.
    pub site: Option<Site>,
}

enum State {
    Lazy(Expr),
    Ready(View),
}

/// An array: its type, length and device are known, its values recorded or computed.
pub struct Node {
    pub dtype: DType,
    pub len: usize,
    pub device: Device,
    /// What computing the graph below costs, in cheap operations; so that it can be kept small.
    pub weight: u32,
    /// Whether some kernel has already computed it on the way to something else.
    passed: AtomicBool,
    state: Mutex<State>,
}

impl Node {
    pub fn lazy(dtype: DType, len: usize, device: Device, expr: Expr) -> Node {
        // a random draw is some hundred instructions
        let own = if matches!(expr.op.row().rule, Rule::Random(_)) { 16 } else { 1 };
        let weight = expr.args.iter().fold(own, |sum: u32, arg| match arg {
            Arg::Node(node) => sum.saturating_add(node.weight_now()),
            Arg::Scalar(_) => sum,
        });
        Node { dtype, len, device, weight, passed: AtomicBool::new(false), state: Mutex::new(State::Lazy(expr)) }
    }

    pub fn ready(view: View) -> Node {
        Node {
            dtype: view.dtype,
            len: view.len(),
            device: view.buffer.device,
            weight: 0,
            passed: AtomicBool::new(false),
            state: Mutex::new(State::Ready(view)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves a whole state behind: it is only ever replaced.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The values, where they are computed.
    pub fn view(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => Some(view.clone()),
            State::Lazy(_) => None,
        }
    }

    /// The recorded operation, where the values are not computed.
    pub fn expr(&self) -> Option<Expr> {
        match &*self.state() {
            State::Ready(_) => None,
            State::Lazy(expr) => Some(expr.clone()),
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(&*self.state(), State::Ready(_))
    }

    /// Notes that a kernel computes this value on its way; tells whether one has done so before.
    pub fn pass(&self) -> bool {
        self.passed.swap(true, Ordering::Relaxed)
    }

    /// Whether `pass` was called.
    pub fn was_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    fn weight_now(&self) -> u32 {
        if self.is_ready() {
            0
        } else {
            self.weight
        }
    }

    /// Gives the node its values and lets go of the graph below it.
    pub fn settle(&self, view: View) {
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
    }
}
