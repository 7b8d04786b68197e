//! Nodes of the lazy graph: an operation with its operands until values are needed, then a view of a buffer.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use crate::graph::cost::{Cost, COSTLY, MOST_CALL};
use crate::graph::spill::{self, Spilled};
use crate::memory;
use crate::memory::buffer::{any_shared, Buffer, Device, View};
use verdigris_compile::Interned;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::OpId;

/// An operand of a recorded operation, already in the class that the operation takes.
#[derive(Clone)]
pub enum Arg {
    Node(Arc<Node>),
    Scalar(Scalar),
}

/// The operands of one operation: up to three in place, so that recording a row allocates nothing for them. (The
/// crate smallvec was tried: recording and planning took a tenth more instructions.)
#[derive(Clone)]
pub struct Args {
    list: [Arg; 3],
    count: u8,
    /// All of them, where they are more. One word, since operands are moved often.
    #[allow(clippy::box_collection)]
    many: Option<Box<Vec<Arg>>>,
}

impl Args {
    pub fn new() -> Args {
        Args { list: [const { Arg::Scalar(Scalar::I32(0)) }; 3], count: 0, many: None }
    }

    /// One array.
    pub fn of(node: &Arc<Node>) -> Args {
        let mut args = Args::new();
        args.push(Arg::Node(node.clone()));
        args
    }

    pub fn push(&mut self, arg: Arg) {
        if let Some(slot) = self.list.get_mut(self.count as usize) {
            *slot = arg;
            self.count += 1;
        } else {
            self.push_many(arg);
        }
    }

    #[cold]
    fn push_many(&mut self, arg: Arg) {
        let list = &mut self.list;
        let take = |arg: &mut Arg| std::mem::replace(arg, Arg::Scalar(Scalar::I32(0)));
        self.many.get_or_insert_with(|| Box::new(list.iter_mut().map(take).collect())).push(arg);
    }

    /// Those that are arrays.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.iter().filter_map(|arg| match arg {
            Arg::Node(node) => Some(node),
            Arg::Scalar(_) => None,
        })
    }
}

impl Default for Args {
    fn default() -> Args {
        Args::new()
    }
}

impl Deref for Args {
    type Target = [Arg];

    fn deref(&self) -> &[Arg] {
        match &self.many {
            None => &self.list[..self.count as usize],
            Some(many) => many,
        }
    }
}

impl FromIterator<Arg> for Args {
    fn from_iter<I: IntoIterator<Item = Arg>>(args: I) -> Args {
        let mut out = Args::new();
        args.into_iter().for_each(|arg| out.push(arg));
        out
    }
}

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A row of the operation table, element by element.
    Row(OpId),
    /// The elements of an array at given positions: operands are the positions (int64, from 0; outside and NA give NA),
    /// and the array, which is computed and contiguous.
    Pick,
    /// The operand reduced within groups: one value each. Computed by a kernel of its own, which may go on to what
    /// reads it.
    Reduce { reduction: Reduction, na_rm: bool, groups: Groups },
    /// Each element of the operand, a reduction within groups of `length` neighbours, as often as its group has
    /// elements.
    Repeat { length: usize },
    /// A routine's run for each element: operands are its parameters in order, then its tables, which are computed and
    /// contiguous. It has no values itself. Its results have: nodes of their own, which read nothing but this one.
    Call(Interned),
    /// One of the results of the operand, a call.
    Result(u8),
}

impl Operation {
    /// What it costs by itself, in cheap operations.
    fn weight(self) -> u32 {
        match self {
            Operation::Row(op) => op.weight(),
            Operation::Reduce { .. } | Operation::Repeat { .. } => 1,
            // a line of memory for an element: a value needed twice is better stored
            Operation::Pick => COSTLY,
            // long ones leave no room for others in their kernel
            Operation::Call(routine) => routine.size().clamp(COSTLY, MOST_CALL),
            Operation::Result(_) => 1,
        }
    }
}

/// A recorded operation.
#[derive(Clone)]
pub struct Expr {
    pub op: Operation,
    /// The class that computes.
    pub class: Class,
    pub args: Args,
    /// Kept only where the operation may warn, or its result is large.
    pub site: Option<CallSite>,
}

impl Expr {
    /// Whether an element depends on nothing but the operands' elements in its place, wherever that is: not on its
    /// index; and whether it stays silent, since warnings concern all elements.
    pub fn is_by_element(&self) -> bool {
        // calls are too long to be done again in another place
        matches!(self.op, Operation::Row(op) if !op.row().rule.uses_index() && !op.may_warn(self.class))
    }
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
    /// Of the graph below, so that it can be kept small; nothing where it was made computed.
    pub cost: Cost,
    /// Whether it was recorded as `Operation::Reduce`, or repeats such results.
    reduces: bool,
    /// Of a call: the nodes of its results.
    results: OnceLock<Box<[Weak<Node>]>>,
    /// Set by a walk of the graph where it has been; see `Walk`.
    mark: AtomicU64,
    /// Whether some kernel has already computed it on the way to something else.
    fused: AtomicBool,
    /// When it was last asked for its values.
    used: AtomicU64,
    state: Mutex<State>,
}

impl Node {
    pub fn lazy(dtype: DType, len: usize, device: Device, expr: Expr) -> Node {
        let cost = Node::cost_of(expr.op, &expr.args);
        Node {
            dtype,
            len,
            device,
            cost,
            reduces: matches!(expr.op, Operation::Reduce { .. } | Operation::Repeat { .. }),
            results: OnceLock::new(),
            mark: AtomicU64::new(0),
            fused: AtomicBool::new(false),
            used: AtomicU64::new(0),
            state: Mutex::new(State::Lazy(expr)),
        }
    }

    /// The cost of a node that records `op`.
    pub fn cost_of(op: Operation, args: &Args) -> Cost {
        let own = Cost::of(op.weight());
        // to its readers it is an input
        if let Operation::Reduce { .. } | Operation::Repeat { .. } = op {
            return own.and(Cost::COMPUTED);
        }
        args.nodes().fold(own, |cost, node| cost.and(node.cost_to_read()))
    }

    /// Of reading its values in another kernel.
    pub fn cost_to_read(&self) -> Cost {
        if self.is_ready() {
            Cost::COMPUTED
        } else {
            self.cost
        }
    }

    /// The same with a closer count of what is below.
    pub fn with_leaves(mut self, leaves: u32) -> Node {
        self.cost.leaves = leaves;
        self
    }

    pub fn ready(view: View) -> Node {
        Node {
            dtype: view.dtype,
            len: view.len(),
            device: view.buffer.device,
            cost: Cost::default(),
            reduces: false,
            results: OnceLock::new(),
            mark: AtomicU64::new(0),
            fused: AtomicBool::new(false),
            used: AtomicU64::new(0),
            state: Mutex::new(State::Ready(view)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held leaves a whole state behind: it is only ever replaced.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether computing it may warn; of a large graph yes.
    pub fn may_warn(&self) -> bool {
        const MOST: u32 = 64;
        match &*self.state() {
            State::Lazy(_) if self.cost.weight > MOST => true,
            State::Lazy(expr) => match expr.op {
                Operation::Call(_) | Operation::Result(_) => true,
                Operation::Row(op) if op.may_warn(expr.class) => true,
                _ => expr.args.nodes().any(|node| node.may_warn()),
            },
            State::Ready(_) | State::Spilled(_) => false,
        }
    }

    /// The values, where they are computed and on the device.
    pub fn view(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => Some(view.clone()),
            State::Lazy(_) | State::Spilled(_) => None,
        }
    }

    /// Whether the values lie in a buffer of which `test` is true. Of one that is not shared nothing is asked.
    pub fn is_in(&self, test: fn(&Buffer) -> bool) -> bool {
        any_shared() && matches!(&*self.state(), State::Ready(view) if test(&view.buffer))
    }

    /// The values, where they are computed and nobody but this node holds or knows their buffer.
    pub fn sole(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => {
                (Arc::strong_count(&view.buffer) == 1 && view.buffer.is_private()).then(|| view.clone())
            }
            State::Lazy(_) | State::Spilled(_) => None,
        }
    }

    /// Whether the values lie in this buffer.
    pub fn lies_in(&self, buffer: &Arc<Buffer>) -> bool {
        matches!(&*self.state(), State::Ready(view) if Arc::ptr_eq(&view.buffer, buffer))
    }

    /// The values, if they are computed, after bringing them back to the device if they were spilled.
    ///
    /// # Errors
    /// `Memory` where the device has too little.
    pub fn values(&self) -> Result<Option<View>> {
        if let State::Ready(view) = &*self.state() {
            self.touch(view);
            return Ok(Some(view.clone()));
        }
        self.bring()?;
        Ok(self.view())
    }

    /// Brings spilled values back to the device, and notes the use.
    ///
    /// # Errors
    /// `Memory` where the device has too little.
    pub fn bring(&self) -> Result<()> {
        let spilled = match &*self.state() {
            State::Ready(view) => {
                self.touch(view);
                return Ok(());
            }
            State::Lazy(_) => return Ok(()),
            State::Spilled(spilled) => spilled.clone(),
        };
        // not under the lock: freeing memory may run R code that asks for this node
        let view = spilled.restore()?;
        self.touch(&view);
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
        Ok(())
    }

    /// Whether it is a reduction within groups that is not computed, or repeats one.
    pub fn is_reduction(&self) -> bool {
        self.reduces && !self.is_ready()
    }

    /// The nodes of a call's results: those with other references are computed together.
    pub fn give_results(&self, results: &[Arc<Node>]) {
        let results = results.iter().map(Arc::downgrade).collect();
        // set once, when the call is recorded
        let _ = self.results.set(results);
    }

    /// What is recorded; `None` once it is computed.
    pub fn operation(&self) -> Option<Operation> {
        self.with_state(|state| state.ok().map(|expr| expr.op))
    }

    /// Whether it is a call, which has no values.
    pub fn is_call(&self) -> bool {
        self.results.get().is_some()
    }

    /// Of a call: its results that somebody holds and that are not computed.
    pub fn living_results(&self) -> impl Iterator<Item = Arc<Node>> + '_ {
        self.results.get().into_iter().flatten().filter_map(Weak::upgrade).filter(|node| !node.is_ready())
    }

    /// What is recorded here, its `expr`, on other arrays: what `other` gives for each operand, of `len` elements. None
    /// where it gives none.
    pub fn over(
        &self,
        expr: Expr,
        len: usize,
        mut other: impl FnMut(&Arc<Node>) -> Result<Option<Arc<Node>>>,
    ) -> Result<Option<Arc<Node>>> {
        let mut args = Args::new();
        for arg in expr.args.iter() {
            args.push(match arg {
                Arg::Node(node) => match other(node)? {
                    Some(node) => Arg::Node(node),
                    None => return Ok(None),
                },
                Arg::Scalar(scalar) => Arg::Scalar(*scalar),
            });
        }
        Ok(Some(Arc::new(Node::lazy(self.dtype, len, self.device, Expr { args, ..expr }))))
    }

    /// What it repeats, and how often each, where it does and is not computed.
    pub fn repeats(&self) -> Option<(Arc<Node>, usize)> {
        match &*self.state() {
            State::Lazy(Expr { op: Operation::Repeat { length }, args, .. }) => {
                Some((args.nodes().next()?.clone(), *length))
            }
            _ => None,
        }
    }

    /// What the recorded operation takes, where the values are not computed. A copy: the lock is not held.
    pub fn args(&self) -> Option<Args> {
        match &*self.state() {
            State::Lazy(expr) => Some(expr.args.clone()),
            State::Ready(_) | State::Spilled(_) => None,
        }
    }

    fn touch(&self, view: &View) {
        if view.buffer.bytes >= memory::LARGE {
            self.used.store(spill::tick(), Ordering::Relaxed);
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

    /// Spills the values to the host. Returns the bytes of device memory freed: 0 where the buffer is in use.
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

    /// Calls `read` with the values or the recorded operation, under the lock of the node. `read` may lock nodes below,
    /// and must not evaluate nodes above.
    pub fn with_state<R>(&self, read: impl FnOnce(std::result::Result<&Expr, &View>) -> R) -> R {
        loop {
            match &*self.state() {
                State::Ready(view) => return read(Err(view)),
                State::Lazy(expr) => return read(Ok(expr)),
                State::Spilled(_) => {}
            }
            // planning has brought its operands to the device; a failure here is a bug
            self.bring().expect("memory on the device");
        }
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

    /// Notes that a kernel computes this value without storing it; returns whether one has done so before.
    pub fn mark_fused(&self) -> bool {
        self.fused.swap(true, Ordering::Relaxed)
    }

    /// Whether `mark_fused` was called.
    pub fn was_fused(&self) -> bool {
        self.fused.load(Ordering::Relaxed)
    }

    /// Gives the node its values and drops the graph below it.
    pub fn resolve(self: &Arc<Node>, view: View) {
        computed(self, &view);
        self.touch(&view);
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
    }
}

/// Computed nodes with large buffers.
static NODES: Mutex<Vec<Weak<Node>>> = Mutex::new(Vec::new());

/// Tells of a node that has got a buffer.
pub(crate) fn computed(node: &Arc<Node>, view: &View) {
    // on the cpu device memory is the host's already
    if view.buffer.device != Device::Cpu && spill::is_eligible(&view.buffer) {
        enlist(node);
    }
}

/// Registers a computed node for spilling.
pub fn enlist(node: &Arc<Node>) {
    let mut nodes = NODES.lock().unwrap_or_else(|p| p.into_inner());
    if nodes.len() == nodes.capacity() {
        nodes.retain(|node| node.strong_count() > 0);
        let more = nodes.len().max(64);
        nodes.reserve(more);
    }
    nodes.push(Arc::downgrade(node));
    memory::set_spill(spill_nodes);
}

/// Spills nodes of a device, least recently used first, until this many bytes are free. Where that is not possible it
/// spills nothing and returns false.
///
/// # Errors
/// Those of copying to the host.
pub fn spill_nodes(device: Device, bytes: u64) -> Result<bool> {
    let nodes = NODES.lock().unwrap_or_else(|p| p.into_inner()).clone();
    let since = spill::under_way().since;
    let mut nodes: Vec<(u64, u64, Arc<Node>)> = nodes
        .iter()
        .filter_map(Weak::upgrade)
        .filter(|node| node.device == device && node.last_use() < since)
        .filter_map(|node| Some((node.last_use(), node.spillable()?, node)))
        .collect();
    nodes.sort_by_key(|(used, ..)| *used);
    nodes.dedup_by(|a, b| Arc::ptr_eq(&a.2, &b.2));
    // the host needs its memory too
    let most = (memory::machine() / 4).saturating_sub(spill::spilled());
    if nodes.iter().map(|(_, bytes, _)| bytes).sum::<u64>().min(most) < bytes {
        return Ok(false);
    }
    let mut freed = 0;
    for (.., node) in nodes {
        if freed >= bytes {
            break;
        }
        freed += node.spill()?;
    }
    Ok(freed > 0)
}

/// One walk over a graph: it knows where it has been by a mark in the nodes, so that it needs no table of them. Two
/// walks at once, on different threads, may wipe out each other's marks; then a node is visited again, no more.
#[derive(Clone, Copy)]
pub struct Walk(u64);

impl Walk {
    /// Bits of a mark that hold the note; the walk's number is above them.
    const NOTE: u32 = 16;

    pub fn new() -> Walk {
        static WALKS: AtomicU64 = AtomicU64::new(1);
        Walk(WALKS.fetch_add(1, Ordering::Relaxed) << Walk::NOTE)
    }

    /// What this walk has noted at the node.
    pub fn noted(self, node: &Node) -> Option<u16> {
        let mark = node.mark.load(Ordering::Relaxed);
        (mark >> Walk::NOTE == self.0 >> Walk::NOTE).then_some(mark as u16)
    }

    pub fn note(self, node: &Node, note: u16) {
        node.mark.store(self.0 | note as u64, Ordering::Relaxed);
    }

    /// Whether this is the first visit.
    pub fn visit(self, node: &Node) -> bool {
        let first = self.noted(node).is_none();
        if first {
            self.note(node, 0);
        }
        first
    }
}

impl Default for Walk {
    fn default() -> Walk {
        Walk::new()
    }
}
