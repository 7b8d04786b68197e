//! The lazy graph: what an array is until something needs its values.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::buffer::{Device, View};
use crate::dtype::{Class, DType};
use crate::error::Result;
use crate::ops::{OpId, Rule};
use crate::scalar::Scalar;
use crate::spill::{self, Spilled};

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
    /// Kept only where the operation may warn, or its result is large.
    pub site: Option<Site>,
}

enum State {
    Lazy(Expr),
    Ready(View),
    /// Computed, and moved to the host.
    Spilled(Arc<Spilled>),
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
    /// When it was last asked for its values.
    used: AtomicU64,
    state: Mutex<State>,
}

impl Node {
    pub fn lazy(dtype: DType, len: usize, device: Device, expr: Expr) -> Node {
        // a random draw is some hundred instructions
        let own = if expr.op.row().rule == Rule::Random { 16 } else { 1 };
        let weight = expr.args.iter().fold(own, |sum: u32, arg| match arg {
            Arg::Node(node) => sum.saturating_add(node.weight_now()),
            Arg::Scalar(_) => sum,
        });
        Node {
            dtype,
            len,
            device,
            weight,
            passed: AtomicBool::new(false),
            used: AtomicU64::new(0),
            state: Mutex::new(State::Lazy(expr)),
        }
    }

    pub fn ready(view: View) -> Node {
        Node {
            dtype: view.dtype,
            len: view.len(),
            device: view.buffer.device,
            weight: 0,
            passed: AtomicBool::new(false),
            used: AtomicU64::new(0),
            state: Mutex::new(State::Ready(view)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves a whole state behind: it is only ever replaced.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The values, where they are computed and on the device.
    pub fn view(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => Some(view.clone()),
            State::Lazy(_) | State::Spilled(_) => None,
        }
    }

    /// The values, where they are computed; brings them back to the device first.
    ///
    /// # Errors
    /// `Memory` where there is no room for them.
    pub fn values(self: &Arc<Node>) -> Result<Option<View>> {
        let spilled = match &*self.state() {
            State::Ready(view) => {
                self.touch(view);
                return Ok(Some(view.clone()));
            }
            State::Lazy(_) => return Ok(None),
            State::Spilled(spilled) => spilled.clone(),
        };
        // not under the lock: making room may run R code that asks for this node
        let view = spilled.restore()?;
        self.touch(&view);
        self.settle(view.clone());
        Ok(Some(view))
    }

    fn touch(&self, view: &View) {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        if spill::is_eligible(&view.buffer) {
            self.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// When its values were last asked for, on a clock of its own.
    pub fn last_use(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes that `spill` would free; None where the buffer is in use.
    pub fn spillable(&self) -> Option<u64> {
        // a lock that is held is a node in use
        match &*self.state.try_lock().ok()? {
            State::Ready(view) if Arc::strong_count(&view.buffer) == 1 && spill::is_eligible(&view.buffer) => {
                Some(view.buffer.bytes as u64)
            }
            _ => None,
        }
    }

    /// Moves the values to the host. Returns the bytes that the device has got back: 0 where the buffer is in use.
    ///
    /// # Errors
    /// Those of copying to the host.
    pub fn spill(&self) -> Result<u64> {
        if self.spillable().is_none() {
            return Ok(0);
        }
        let Some(view) = self.view() else { return Ok(0) };
        let spilled = Arc::new(Spilled::new(&view)?);
        let mut state = self.state();
        match &*state {
            // the node's, and ours
            State::Ready(now) if Arc::ptr_eq(&now.buffer, &view.buffer) && Arc::strong_count(&view.buffer) == 2 => {}
            _ => return Ok(0),
        }
        let old = std::mem::replace(&mut *state, State::Spilled(spilled));
        drop(state);
        drop(old);
        Ok(view.buffer.bytes as u64)
    }

    /// The recorded operation, where the values are not computed.
    pub fn expr(&self) -> Option<Expr> {
        match &*self.state() {
            State::Ready(_) | State::Spilled(_) => None,
            State::Lazy(expr) => Some(expr.clone()),
        }
    }

    pub fn is_ready(&self) -> bool {
        !matches!(&*self.state(), State::Lazy(_))
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
    pub fn settle(self: &Arc<Node>, view: View) {
        spill::enlist(self, &view);
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
    }
}
