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

/// An operand of a recorded operation, already in the class that the operation reads.
#[derive(Clone)]
pub enum Arg {
    Node(Arc<Node>),
    Scalar(Scalar),
}

/// The operands of an operation: up to three are stored inline, so that recording a row allocates nothing for them.
/// (The crate smallvec was tried: recording and planning took a tenth more instructions.)
#[derive(Clone)]
pub struct Args {
    list: [Arg; 3],
    count: u8,
    /// All operands, if there are more than three. Boxed to take one word, since operands are moved often.
    #[allow(clippy::box_collection)]
    many: Option<Box<Vec<Arg>>>,
}

impl Args {
    pub fn new() -> Args {
        Args { list: [const { Arg::Scalar(Scalar::I32(0)) }; 3], count: 0, many: None }
    }

    /// A single array.
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

    /// The operands that are arrays.
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

/// A recorded operation, without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A row of the operation table, applied elementwise.
    Row(OpId),
    /// A gather: the elements of an array at positions. The operands are the positions (int64, 0-based; out of bounds
    /// and NA give NA) and the array, which is computed and contiguous.
    Gather,
    /// A reduction of the operand within groups, to one value for each. Its kernel can continue with operations that
    /// read the results.
    Reduce { reduction: Reduction, na_rm: bool, groups: Groups },
    /// Each result of the operand, a reduction within groups of `length` neighbours, repeated for each element of its
    /// group.
    Repeat { length: usize },
    /// A run of a routine for each element. The operands are its parameters in order, then its tables, which are
    /// computed and contiguous. The node has no values; nodes for its results, whose only operand is this node, have
    /// them.
    Call(Interned),
    /// One of the results of the operand, which is a call.
    Result(u8),
}

impl Operation {
    /// The cost of the operation itself, in units of a cheap operation.
    fn weight(self) -> u32 {
        match self {
            Operation::Row(op) => op.weight(),
            Operation::Reduce { .. } | Operation::Repeat { .. } => 1,
            // An access may load a cache line for one element, so a value that is needed twice should be stored.
            Operation::Gather => COSTLY,
            // A long routine leaves no room for other operations in its kernel.
            Operation::Call(routine) => routine.size().clamp(COSTLY, MOST_CALL),
            Operation::Result(_) => 1,
        }
    }
}

/// A recorded operation.
#[derive(Clone)]
pub struct Expr {
    pub op: Operation,
    /// The class in which the operation computes.
    pub class: Class,
    pub args: Args,
    /// Kept only if the operation may warn, or its result is large.
    pub site: Option<CallSite>,
}

impl Expr {
    /// Whether an element depends only on the operands' elements at the same index, and not on the index itself, and
    /// whether the operation cannot warn (warnings concern all elements). Such operations can be applied to a view of
    /// the operands.
    pub fn is_by_element(&self) -> bool {
        // Calls are too long to be recomputed elsewhere.
        matches!(self.op, Operation::Row(op) if !op.row().rule.uses_index() && !op.may_warn(self.class))
    }
}

enum State {
    Lazy(Expr),
    Ready(View),
    /// Computed, and moved to the host.
    Spilled(Arc<Spilled>),
}

/// An array: its dtype, length and device, and its values, recorded or computed.
pub struct Node {
    pub dtype: DType,
    pub len: usize,
    pub device: Device,
    /// The cost of the graph below, which is kept small; the default for nodes made from computed values.
    pub cost: Cost,
    /// Whether it was recorded as a reduction or as its repeated results.
    reduces: bool,
    /// For a call: the nodes of its results.
    results: OnceLock<Box<[Weak<Node>]>>,
    /// Set when a walk of the graph visits the node; see `Walk`.
    mark: AtomicU64,
    /// Whether a kernel has computed the value without storing it.
    fused: AtomicBool,
    /// The tick of the last use; see `spill::tick`.
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

    /// The cost of a node that would record `op`.
    pub fn cost_of(op: Operation, args: &Args) -> Cost {
        let own = Cost::of(op.weight());
        // To its readers, a reduction is an input.
        if let Operation::Reduce { .. } | Operation::Repeat { .. } = op {
            return own.and(Cost::COMPUTED);
        }
        args.nodes().fold(own, |cost, node| cost.and(node.cost_to_read()))
    }

    /// The cost of reading its values in another kernel.
    pub fn cost_to_read(&self) -> Cost {
        if self.is_ready() {
            Cost::COMPUTED
        } else {
            self.cost
        }
    }

    /// Sets a more accurate count of the computed nodes below.
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
        // A panic while the lock is held leaves the state intact, as it is only ever replaced as a whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether computing it may warn; assumed for a large graph.
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

    /// The values, if they are computed and on the device.
    pub fn view(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => Some(view.clone()),
            State::Lazy(_) | State::Spilled(_) => None,
        }
    }

    /// Whether the values are in a buffer for which `test` holds. False without a test if no buffer is shared at all.
    pub fn is_in(&self, test: fn(&Buffer) -> bool) -> bool {
        any_shared() && matches!(&*self.state(), State::Ready(view) if test(&view.buffer))
    }

    /// The values, if they are computed and their buffer is private and held by this node alone.
    pub fn sole(&self) -> Option<View> {
        match &*self.state() {
            State::Ready(view) => {
                (Arc::strong_count(&view.buffer) == 1 && view.buffer.is_private()).then(|| view.clone())
            }
            State::Lazy(_) | State::Spilled(_) => None,
        }
    }

    /// Whether the values are in this buffer.
    pub fn lies_in(&self, buffer: &Arc<Buffer>) -> bool {
        matches!(&*self.state(), State::Ready(view) if Arc::ptr_eq(&view.buffer, buffer))
    }

    /// The values, if they are computed. Spilled values are moved back to the device.
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

    /// Moves spilled values back to the device, and notes the use.
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
        // The lock is not held here: freeing memory may run R code that needs this node.
        let view = spilled.restore()?;
        self.touch(&view);
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
        Ok(())
    }

    /// Whether it is a reduction within groups, or its repeated results, and not computed.
    pub fn is_reduction(&self) -> bool {
        self.reduces && !self.is_ready()
    }

    /// Sets the result nodes of a call. Results that something still refers to are computed together.
    pub fn give_results(&self, results: &[Arc<Node>]) {
        let results = results.iter().map(Arc::downgrade).collect();
        // The call is recorded once, so this cannot fail.
        let _ = self.results.set(results);
    }

    /// The recorded operation; `None` once the values are computed.
    pub fn operation(&self) -> Option<Operation> {
        self.with_state(|state| state.ok().map(|expr| expr.op))
    }

    /// Whether it is a call of a routine, which has no values.
    pub fn is_call(&self) -> bool {
        self.results.get().is_some()
    }

    /// The results of a call that something refers to and that are not computed.
    pub fn living_results(&self) -> impl Iterator<Item = Arc<Node>> + '_ {
        self.results.get().into_iter().flatten().filter_map(Weak::upgrade).filter(|node| !node.is_ready())
    }

    /// Records `expr` (this node's operation) on other operands: `other` maps each operand to one of `len` elements.
    /// None if `other` returns None for an operand.
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

    /// The results that it repeats, and how often each, if it is `Operation::Repeat` and not computed.
    pub fn repeats(&self) -> Option<(Arc<Node>, usize)> {
        match &*self.state() {
            State::Lazy(Expr { op: Operation::Repeat { length }, args, .. }) => {
                Some((args.nodes().next()?.clone(), *length))
            }
            _ => None,
        }
    }

    /// The operands, if the values are not computed. A copy, so that the lock is not held.
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

    /// The tick at which its values were last used; see `spill::tick`.
    pub fn last_use(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes that `spill` would free; None if the buffer is in use or not eligible.
    pub fn spillable(&self) -> Option<u64> {
        // A locked node is in use.
        match &*self.state.try_lock().ok()? {
            State::Ready(view) if Arc::strong_count(&view.buffer) == 1 && spill::is_eligible(&view.buffer) => {
                Some(view.buffer.bytes as u64)
            }
            _ => None,
        }
    }

    /// Spills the values to the host. Returns the bytes of device memory freed: 0 if the buffer is in use.
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
            // Two references: the node's, and `view`.
            State::Ready(now) if Arc::ptr_eq(&now.buffer, &view.buffer) && Arc::strong_count(&view.buffer) == 2 => {}
            _ => return Ok(0),
        }
        let old = std::mem::replace(&mut *state, State::Spilled(spilled));
        drop(state);
        drop(old);
        Ok(view.buffer.bytes as u64)
    }

    /// Calls `read` with the values or the recorded operation, while the node is locked. `read` may lock nodes below
    /// this one, but must not evaluate nodes above it.
    pub fn with_state<R>(&self, read: impl FnOnce(std::result::Result<&Expr, &View>) -> R) -> R {
        loop {
            match &*self.state() {
                State::Ready(view) => return read(Err(view)),
                State::Lazy(expr) => return read(Ok(expr)),
                State::Spilled(_) => {}
            }
            // Planning has moved the operands to the device, so a failure here is a bug.
            self.bring().expect("memory on the device");
        }
    }

    /// The recorded operation, if the values are not computed.
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

    /// Whether `mark_fused` has been called.
    pub fn was_fused(&self) -> bool {
        self.fused.load(Ordering::Relaxed)
    }

    /// Sets the node's values and drops the graph below it.
    pub fn resolve(self: &Arc<Node>, view: View) {
        computed(self, &view);
        self.touch(&view);
        let old = std::mem::replace(&mut *self.state(), State::Ready(view));
        drop(old);
    }
}

/// Computed nodes with large buffers, which may be spilled.
static NODES: Mutex<Vec<Weak<Node>>> = Mutex::new(Vec::new());

/// Must be called when a node gets a buffer.
pub(crate) fn computed(node: &Arc<Node>, view: &View) {
    // Memory of the cpu device is already on the host.
    if view.buffer.device != Device::Cpu && spill::is_eligible(&view.buffer) {
        enlist(node);
    }
}

/// Registers a computed node as a candidate for spilling.
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

/// Spills nodes of a device, least recently used first, until this many bytes are freed. If that is not possible, it
/// spills nothing and returns false. Fewer are freed if nodes come into use meanwhile.
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
    // At most a quarter of the host's memory is used for spilled values.
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

/// A walk over a graph. It marks the nodes that it visits, so that it needs no table of them. Concurrent walks on
/// different threads may overwrite each other's marks; a node is then visited again, which is harmless.
#[derive(Clone, Copy)]
pub struct Walk(u64);

impl Walk {
    /// Bits of a mark that hold the note; the walk's number is in the bits above.
    const NOTE: u32 = 16;

    pub fn new() -> Walk {
        static WALKS: AtomicU64 = AtomicU64::new(1);
        Walk(WALKS.fetch_add(1, Ordering::Relaxed) << Walk::NOTE)
    }

    /// The note that this walk left at the node; None if it has not visited it.
    pub fn noted(self, node: &Node) -> Option<u16> {
        let mark = node.mark.load(Ordering::Relaxed);
        (mark >> Walk::NOTE == self.0 >> Walk::NOTE).then_some(mark as u16)
    }

    pub fn note(self, node: &Node, note: u16) {
        node.mark.store(self.0 | note as u64, Ordering::Relaxed);
    }

    /// Whether this is the walk's first visit of the node; marks it as visited.
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
