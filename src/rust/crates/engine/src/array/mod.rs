//! The array: a reference to a node of the graph, held by the bridge. This folder names no device's own types.

pub mod assign;
pub mod basis;
pub mod exact;
pub mod explain;
pub mod fact_cache;
pub mod fourier;
pub mod function_call;
mod gather;
pub mod gram;
pub mod grouped;
mod join;
pub mod kernel_call;
pub mod linear;
pub mod many;
mod reduce;
pub mod segments;
pub mod strided;
pub mod subscript;
pub mod transfer;
mod view;
pub mod weighted_gram;
pub mod write;

use std::sync::Arc;

use crate::backend;
use crate::graph::evaluate;
use crate::graph::node::{computed, Arg, Args, Expr, Node, Operation};
use crate::graph::spill;
use crate::memory;
use crate::memory::buffer::{any_shared, Buffer, Device, View};
use crate::plan::warning;
use crate::plan::{Bound, Plan};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{natural_dtype, Class, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::rule::{self, Typed};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::scan::Scan;
use verdigris_ops::{id, Group, OpId, Rule, MOST_OPERANDS};

/// The longest prefix that `short_prefix` computes alone, provided that it is at most a quarter of the array: readers
/// of a longer one are likely to ask for the rest next.
const SHORT_PREFIX: usize = 1 << 16;

/// An array on a device, recorded or computed. Cloning shares it.
#[derive(Clone)]
pub struct Array {
    node: Arc<Node>,
}

/// An operand of an operation.
#[derive(Clone)]
pub enum Operand {
    Array(Array),
    /// A host vector that was uploaded for this operation: for the type rules it is a host value, which adopts the
    /// arrays' dtype.
    Vector(Array, Kind),
    /// A single host value.
    Value(Scalar, Kind),
}

impl Operand {
    /// The operand as the type rules see it.
    pub fn typed(&self) -> Typed {
        match self {
            Operand::Array(a) => Typed::Array(a.dtype()),
            Operand::Vector(_, kind) | Operand::Value(_, kind) => Typed::Value(*kind),
        }
    }

    /// The number of elements.
    pub fn extent(&self) -> usize {
        match self {
            Operand::Array(a) | Operand::Vector(a, _) => a.len(),
            Operand::Value(..) => 1,
        }
    }
}

impl Array {
    pub fn from_view(view: View) -> Array {
        let node = Arc::new(Node::ready(view.clone()));
        computed(&node, &view);
        Array { node }
    }

    pub(crate) fn of(node: Arc<Node>) -> Array {
        Array { node }
    }

    pub fn len(&self) -> usize {
        self.node.len
    }

    pub fn is_empty(&self) -> bool {
        self.node.len == 0
    }

    pub fn dtype(&self) -> DType {
        self.node.dtype
    }

    pub fn device(&self) -> Device {
        self.node.device
    }

    /// Whether the values are computed.
    pub fn is_ready(&self) -> bool {
        self.node.is_ready()
    }

    /// Whether another library holds the memory's address (see `Buffer::is_shared`).
    pub fn is_shared(&self) -> bool {
        self.node.is_in(Buffer::is_shared)
    }

    /// Whether this engine's work on the memory must be ordered with another library's (see `Buffer::needs_ordering`).
    pub fn needs_ordering(&self) -> bool {
        self.node.is_in(Buffer::needs_ordering)
    }

    /// Whether another library may write to the memory at any time (see `Buffer::is_volatile`).
    pub fn is_volatile(&self) -> bool {
        self.node.is_in(Buffer::is_volatile)
    }

    /// The number of recorded operations, as a cost; 0 if computed.
    pub fn pending(&self) -> u32 {
        if self.is_ready() {
            0
        } else {
            self.node.cost.weight
        }
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// As `leading`, but None if `n` is large, for readers that may ask for the rest next.
    pub fn short_prefix(&self, n: usize) -> Result<Option<Array>> {
        if n > SHORT_PREFIX.min(self.len() / 4) {
            return Ok(None);
        }
        self.leading(n)
    }

    /// The first `n` elements, computed without the rest. None if `n` is the whole length, or if the values are already
    /// computed and contiguous. The array itself stays recorded, and no node is marked as fused.
    pub fn leading(&self, n: usize) -> Result<Option<Array>> {
        if n >= self.len() || self.node.view().is_some_and(|view| view.layout.is_contiguous()) {
            return Ok(None);
        }
        evaluate::leading(&self.node, n).map(|view| Some(Array::from_view(view)))
    }

    /// Records an operation. Operands are recycled to the longest. The result is on the device of the array operands.
    ///
    /// # Errors
    /// `DType` where R refuses the types; `Device` where array operands are on different devices.
    pub fn apply(op: OpId, operands: &[Operand], site: Option<CallSite>) -> Result<Array> {
        Array::apply_at(op, operands, |_| site)
    }

    /// As `apply`, but calls `site` only if the operation may warn (argument true) or the result is large (false).
    pub fn apply_at(op: OpId, operands: &[Operand], site: impl FnOnce(bool) -> Option<CallSite>) -> Result<Array> {
        let n = if operands.iter().any(|o| o.extent() == 0) {
            0
        } else {
            operands.iter().map(Operand::extent).max().unwrap_or(0)
        };
        let mut types = [Typed::Value(Kind::Logical); MOST_OPERANDS];
        for (typed, operand) in types.iter_mut().zip(operands) {
            *typed = operand.typed();
        }
        let types = &types[..operands.len()];
        let device = common_device(operands)?;
        let (class, dtype) = match rule::resolve(op, types) {
            // R refuses some operations on complex numbers element by element, so it accepts empty operands.
            Err(_) if n == 0 && op.row().group == Group::Ops => {
                let dtype = if op.row().rule == Rule::Compare { DType::Bool8 } else { rule::promote(types) };
                return Array::full(Scalar::I32(0), dtype, 0, device);
            }
            resolved => resolved?,
        };
        if n > 0 && exact::concerns(op, types) {
            if let Some(out) = exact::compare(op, operands, n, device)? {
                return Ok(out);
            }
        }
        let squares = op == id::POW && dtype.is_float() && types[0].kind() != Kind::Integer64;
        if let ([Operand::Array(x), Operand::Value(power, _)], true) = (operands, squares) {
            // A product gives the same bits, and avoids the pow function of CUDA that other exponents need.
            if power.to(Class::F64) == Scalar::F64(2.0) {
                let x = Operand::Array(x.in_class(class)?);
                return Array::record(id::MUL, class, dtype, n, device, &[x.clone(), x], site);
            }
        }
        Array::record(op, class, dtype, n, device, operands, site)
    }

    /// Records an operation whose elements depend on their index alone, such as a sequence.
    pub fn source(op: OpId, class: Class, dtype: DType, n: usize, device: Device, scalars: &[Scalar]) -> Result<Array> {
        backend::of(device)?;
        let args = scalars.iter().map(|&s| Arg::Scalar(s)).collect();
        let natural = op.row().result_class(class);
        let op = Operation::Row(op);
        let node = Node::lazy(natural_dtype(natural), n, device, Expr { op, class, args, site: None });
        Array { node: Arc::new(node) }.cast(dtype, None)
    }

    /// Records `n` random draws by a row of the operation table. The operands are the key, then the parameters:
    /// numbers, or arrays of at most `n` elements, which are recycled.
    ///
    /// # Errors
    /// `Device` where the parameters are on another device.
    pub fn draw(op: OpId, n: usize, device: Device, operands: &[Operand], site: Option<CallSite>) -> Result<Array> {
        backend::of(device)?;
        if operands.iter().any(|o| matches!(o, Operand::Array(_))) && common_device(operands)? != device {
            return Err(Error::new(ErrorKind::Device, "the parameters are on another device than the draws")
                .advise("Name the parameters' device, or copy them by as_gpu(x, device = )."));
        }
        Array::record(op, Class::F64, DType::Float64, n, device, operands, |_| site)
    }

    fn record(
        op: OpId,
        class: Class,
        dtype: DType,
        n: usize,
        device: Device,
        operands: &[Operand],
        site: impl FnOnce(bool) -> Option<CallSite>,
    ) -> Result<Array> {
        let row = op.row();
        let mut args = Args::new();
        // The site is computed at most once, by the first cast that may warn.
        let (mut site, mut known) = (Some(site), None);
        let mut of_rounded = || {
            if let Some(site) = site.take() {
                known = site(true);
            }
            known.clone()
        };
        for (k, operand) in operands.iter().enumerate() {
            let wanted = row.operand_class(k, class);
            let logical = matches!(row.rule, verdigris_ops::Rule::Logic)
                || (matches!(row.rule, verdigris_ops::Rule::Select) && k == 0);
            args.push(match operand {
                Operand::Value(scalar, _) => {
                    if scalar.is_rounded_to(wanted) {
                        warning::rounded(of_rounded().as_ref());
                    }
                    Arg::Scalar(if logical { scalar.to_logical() } else { scalar.to(wanted) })
                }
                Operand::Array(array) | Operand::Vector(array, _) if logical => {
                    Arg::Node(array.in_dtype(DType::Bool8)?.node)
                }
                Operand::Array(array) | Operand::Vector(array, _) => {
                    let rounds = array.dtype() == DType::Int64 && matches!(wanted, Class::F64 | Class::C128);
                    let cast =
                        if rounds { array.cast(natural_dtype(wanted), of_rounded()) } else { array.in_class(wanted) };
                    Arg::Node(cast?.node)
                }
            });
        }
        // A large result keeps its call, to be named in out-of-memory messages.
        let warns = op.may_warn(class);
        let site = match site {
            Some(site) if warns || n * dtype.size() >= memory::LARGE => site(warns),
            _ => known,
        };
        Array::lazy(dtype, n, device, Expr { op: Operation::Row(op), class, args, site })
    }

    /// Records an array, keeping its graph small enough for one kernel. If it reads memory that others may write to, it
    /// is computed at once, because the values may change.
    pub(crate) fn lazy(dtype: DType, n: usize, device: Device, expr: Expr) -> Result<Array> {
        let at_once = reads_volatile(&expr.args);
        let array = Array::recorded(dtype, n, device, expr)?;
        if at_once {
            array.compute()?;
        }
        Ok(array)
    }

    /// As `lazy`, but without the check for volatile memory.
    #[inline]
    pub(crate) fn recorded(dtype: DType, n: usize, device: Device, expr: Expr) -> Result<Array> {
        let leaves = evaluate::bound(expr.op, &expr.args)?;
        let node = Node::lazy(dtype, n, device, expr);
        let node = if leaves < node.cost.leaves { node.with_leaves(leaves) } else { node };
        Ok(Array { node: Arc::new(node) })
    }

    /// Records a cast to a dtype. Values that do not fit become NA, and are reported at the site. Rounding int64 to
    /// double warns even without a site; callers for which rounding does not matter use the row `nearest` instead.
    pub fn cast(&self, dtype: DType, site: Option<CallSite>) -> Result<Array> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        let class = self.dtype().class();
        let rounds = class == Class::I64 && matches!(dtype, DType::Float64 | DType::Complex128);
        let site = if rounds { site.or_else(warning::no_call) } else { site };
        let op = OpId::cast(dtype);
        Array::record(op, class, dtype, self.len(), self.device(), &[Operand::Array(self.clone())], |_| site)
    }

    fn in_dtype(&self, dtype: DType) -> Result<Array> {
        self.cast(dtype, None)
    }

    fn in_class(&self, class: Class) -> Result<Array> {
        if self.dtype().class() == class {
            Ok(self.clone())
        } else {
            self.cast(natural_dtype(class), None)
        }
    }

    /// As `evaluate`, for callers that do not need the view.
    pub fn compute(&self) -> Result<()> {
        if self.node.is_ready() {
            return Ok(());
        }
        evaluate::evaluate_together(std::slice::from_ref(&self.node))
    }

    /// Computes recorded values. The work is queued on the device, not waited for.
    pub fn evaluate(&self) -> Result<View> {
        evaluate::evaluate(&self.node)
    }

    /// Computes the values and copies a strided view to contiguous memory. The node keeps the contiguous buffer, unless
    /// the memory is shared with another library, whose later writes must be visible in this array.
    pub fn contiguous(&self) -> Result<View> {
        evaluate::contiguous(&self.node)
    }

    /// A copy of a view's values in a new buffer.
    pub fn duplicate(view: &View) -> Result<Array> {
        if !view.layout.is_contiguous() {
            return Array::from_view(view.clone()).contiguous().map(Array::from_view);
        }
        let backend = backend::of(view.buffer.device)?;
        let size = view.dtype.size();
        let buffer = backend.allocate(view.len() * size)?;
        if !view.is_empty() {
            backend.copy(&view.buffer, view.layout.offset() * size, &buffer, 0, view.len() * size)?;
        }
        Ok(Array::from_view(View::contiguous(buffer, view.dtype, view.len())))
    }

    /// The plan that computes this array's values. Operands that cannot be fused are computed first.
    pub fn plan(&self) -> Result<(Plan, Bound)> {
        self.planned(false)
    }

    /// As `plan`. With `root_too`, this array itself is computed first if it is worth keeping.
    pub(crate) fn planned(&self, root_too: bool) -> Result<(Plan, Bound)> {
        evaluate::planned(&self.node, root_too)
    }

    /// Scans from the first element to the last. From the first NA on, all results are NA. An integer sum that
    /// overflows gives NA from there on too; the flag says whether one did.
    pub fn scan(&self, scan: Scan) -> Result<(Array, bool)> {
        let class = scan.class(self.dtype().class()).ok_or_else(|| {
            Error::new(ErrorKind::DType, format!("'{}' not defined for complex numbers", scan.name()))
        })?;
        let dtype = scan.result(self.dtype());
        if dtype == DType::Complex64 {
            // scanned as complex128
            let (scanned, unfit) = self.cast(DType::Complex128, None)?.scan(scan)?;
            return Ok((scanned.cast(dtype, None)?, unfit));
        }
        let array = self.in_class(class)?;
        let backend = backend::of(self.device())?;
        let output = backend.allocate(self.len() * dtype.size())?;
        let mut unfit = false;
        if !self.is_empty() {
            let (mut plan, bound) = array.planned(true)?;
            plan.outputs[0].1 = dtype;
            unfit = backend.scan(&plan, &bound, scan, &output)?;
        }
        Ok((Array::from_view(View::contiguous(output, dtype, self.len())), unfit))
    }

    /// Whether it is recorded and, like a constant, as cheap to compute as to copy. Such values are computed directly
    /// into the memory that needs them.
    pub(super) fn costs_a_copy(&self) -> bool {
        !self.is_ready() && self.pending() <= 1
    }

    /// A copy with `copy[positions] = values`. Positions are 0-based int64; of equal positions the last one wins.
    /// Values are recycled, and cast to this dtype. `n` may exceed the length; the elements in between are NA.
    pub fn scatter(&self, positions: &Array, values: &Array, n: usize) -> Result<Array> {
        let at = positions.cast(DType::Int64, None)?.contiguous()?;
        let values = values.cast(self.dtype(), None)?.contiguous()?;
        let backend = backend::of(self.device())?;
        let (dtype, size) = (self.dtype(), self.dtype().size());
        let output = backend.allocate(crate::memory::fallible::product([n, size])?)?;
        let kept = n.min(self.len());
        if n >= self.len() && self.costs_a_copy() && n > 0 {
            let (plan, bound) = self.planned(true)?;
            backend.run(&plan, &bound, std::slice::from_ref(&output))?;
        } else {
            let source = self.contiguous()?;
            backend.copy(&source.buffer, source.layout.offset() * size, &output, 0, kept * size)?;
        }
        if n > kept {
            let tail = Array::filled(self.dtype(), n - kept, self.device())?.contiguous()?;
            backend.copy(&tail.buffer, 0, &output, kept * size, (n - kept) * size)?;
        }
        if !at.is_empty() && !values.is_empty() {
            backend.scatter(&output, dtype, n, &at, &values)?;
        }
        Ok(Array::from_view(View::contiguous(output, dtype, n)))
    }

    /// `n` NAs (0 for uint8, which has none).
    pub(crate) fn filled(dtype: DType, n: usize, device: Device) -> Result<Array> {
        Array::full(Scalar::I32(verdigris_ops::scalar::NA_I32), dtype, n, device)
    }

    /// `n` times one value.
    pub fn full(value: Scalar, dtype: DType, n: usize, device: Device) -> Result<Array> {
        Array::source(verdigris_ops::id::CONSTANT, value.class(), dtype, n, device, &[value])
    }

    /// The 0-based positions (int64) at which a logical array is TRUE and, if `keep_na`, -1 where it is NA. Waits for
    /// the count.
    pub fn positions(&self, keep_na: bool) -> Result<Array> {
        let mask = self.in_dtype(DType::Bool8)?;
        let (plan, bound) = mask.planned(true)?;
        Ok(Array::from_view(backend::of(self.device())?.mask(&plan, &bound, keep_na)?))
    }

    /// The elements where a logical array of the same length and device is TRUE, and NA where it is NA. Operands that
    /// both arrays are computed from are read once. Waits for the count.
    pub fn mask(&self, mask: &Array) -> Result<Array> {
        let (plan, bound) = self.chosen(mask)?;
        Ok(Array::from_view(backend::of(self.device())?.mask(&plan, &bound, true)?))
    }

    /// A plan whose two outputs are the mask and the values to select from.
    pub(crate) fn chosen(&self, mask: &Array) -> Result<(Plan, Bound)> {
        let mask = mask.in_dtype(DType::Bool8)?;
        let roots = [mask.node.clone(), self.node.clone()];
        let _used = spill::Used::new();
        let mut builder = evaluate::builder(&roots, true)?;
        let [test, value] = roots.each_ref().map(|root| builder.node(root));
        if !builder.fits() {
            // Once computed, each is at most an input of the plan.
            mask.evaluate()?;
            self.evaluate()?;
            return self.chosen(&mask);
        }
        Ok(builder.outputs(&[(test, DType::Bool8), (value, self.dtype())]))
    }

    /// The elements sorted, with NA and NaN last, and, if asked for, their 0-based positions (int32, or int64 for long
    /// arrays).
    pub fn sort(&self, decreasing: bool, with_positions: bool) -> Result<(Array, Option<Array>)> {
        let values = self.contiguous()?;
        let (sorted, at) = backend::of(self.device())?.sort(&values, decreasing, with_positions)?;
        Ok((Array::from_view(sorted), at.map(Array::from_view)))
    }

    /// The sorted order as 1-based positions; None if the caller should use `sort` instead.
    pub fn order(&self, decreasing: bool) -> Result<Option<Array>> {
        let values = self.contiguous()?;
        Ok(backend::of(self.device())?.order(&values, decreasing)?.map(Array::from_view))
    }
}

/// Computes several arrays, with one kernel for all of one length and device. The work is queued, not waited for.
pub fn evaluate_all(arrays: &[Array]) -> Result<()> {
    let mut groups: Vec<Vec<Arc<Node>>> = Vec::new();
    for array in arrays {
        let node = array.node();
        if node.is_ready() || groups.iter().flatten().any(|known| Arc::ptr_eq(known, node)) {
            continue;
        }
        match groups.iter_mut().find(|g| g[0].len == node.len && g[0].device == node.device) {
            Some(group) => group.push(node.clone()),
            None => groups.push(vec![node.clone()]),
        }
    }
    groups.iter().try_for_each(|group| evaluate::evaluate_together(group))
}

pub(crate) fn reads_volatile(args: &Args) -> bool {
    any_shared() && args.nodes().any(|node| node.is_in(Buffer::is_volatile))
}

pub(crate) fn common_device(operands: &[Operand]) -> Result<Device> {
    let mut devices = operands.iter().filter_map(|o| match o {
        Operand::Array(a) | Operand::Vector(a, _) => Some(a.device()),
        Operand::Value(..) => None,
    });
    let first =
        devices.next().ok_or_else(|| Error::new(ErrorKind::Argument, "an operation needs at least one array"))?;
    match devices.find(|d| *d != first) {
        None => Ok(first),
        Some(other) => {
            Err(Error::new(ErrorKind::Device, format!("the arrays are on different devices: {first} and {other}"))
                .advise(format!("Move one with `as_gpu(x, device = \"{first}\")`.")))
        }
    }
}

/// A view's bytes, copied to the host. For tests and for exchange.
pub fn host_bytes(view: &View) -> Result<Vec<u8>> {
    let mut out = crate::memory::fallible::filled(0u8, view.len() * view.dtype.size())?;
    if !out.is_empty() {
        backend::of(view.buffer.device)?.download(&view.buffer, view.layout.offset() * view.dtype.size(), &mut out)?;
    }
    Ok(out)
}

/// A new buffer on a device with these bytes.
pub fn buffer_from(bytes: &[u8], device: Device) -> Result<Arc<Buffer>> {
    let backend = backend::of(device)?;
    let buffer = backend.allocate(bytes.len())?;
    if !bytes.is_empty() {
        backend.upload(bytes, &buffer, 0)?;
    }
    Ok(buffer)
}
