//! Collectives over any carrier. Members exchange raw elements in one or two steps, and fold them with the operation
//! table in the order of ranks. So types, NA and overflow follow the rules of R's operators, and the bits depend only
//! on the members' values. Only for long arrays, and if not `exact`, may a carrier use another order.
//!
//! For a long array, each member folds one run, for which the others send it their elements, and sends the result to
//! all. With connections between all pairs this moves as many bytes as a ring, in 2 steps instead of 2 (size - 1).

use std::ops::Range;
use std::sync::Arc;

use crate::array::{Array, Operand};
use crate::backend;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::fallible;
use crate::team::carrier::{Carrier, ReceiveTarget, Received};
use crate::team::message::{Call, Fold, Verb};
use crate::team::{run, Caller, Transport};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Layout;
use verdigris_ops::rule::{self, Typed};

pub struct Collectives<C>(pub C);

/// A part of a contiguous view.
pub(super) fn part_of(view: &View, part: Range<usize>) -> View {
    let layout = Layout::new(view.layout.offset() + part.start, &[part.len()], &[1]);
    View { buffer: view.buffer.clone(), dtype: view.dtype, layout }
}

/// The dtype of the result of a fold.
fn folded(dtype: DType, fold: Fold) -> Result<DType> {
    rule::resolve(fold.row(), &[Typed::Array(dtype), Typed::Array(dtype)]).map(|(_, dtype)| dtype)
}

/// The members' elements of one run, folded in the order of ranks.
fn fold_parts(parts: Vec<View>, fold: Fold, site: &Option<CallSite>) -> Result<View> {
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or_else(|| Error::new(Kind::Member, "a team without members"))?;
    let dtype = folded(first.dtype, fold)?;
    let total = parts.try_fold(Array::from_view(first), |total, part| {
        Array::apply(fold.row(), &[Operand::Array(total), Operand::Array(Array::from_view(part))], site.clone())
    })?;
    // With a single member nothing was folded, so cast to the fold's dtype.
    total.cast(dtype, None)?.contiguous()
}

impl<C: Carrier> Collectives<C> {
    /// The elements, contiguous and on the device from which the carrier sends.
    fn at_place(&self, x: &Array) -> Result<View> {
        x.to_device(self.0.place(x.device()))?.contiguous()
    }

    /// Begins a collective, and describes it for the other members. `x` is None if this member only receives.
    fn call(&mut self, verb: Verb, x: Option<&View>, caller: &Caller) -> Result<Call> {
        let number = self.0.mesh().begin()?;
        let (dtype, length) = (x.map(|x| x.dtype), x.map_or(0, View::len));
        let on_gpus = x.is_some_and(|x| x.buffer.device != Device::Cpu);
        Ok(Call {
            verb,
            number,
            dtype,
            length,
            on_gpus,
            missing: false,
            algorithm: 0,
            text: fallible::text(&caller.text)?,
        })
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let (rank, size) = (self.0.rank(), self.0.size());
        // Starts with the next rank, so that members do not all send to the same one.
        (1..size).map(move |k| (rank + k) % size)
    }

    fn each_other<R>(&self, make: impl Fn(usize) -> R) -> Result<Vec<(usize, R)>> {
        fallible::collected(self.others().map(|k| (k, make(k))))
    }

    /// As `each_other`, but in the order of ranks.
    fn by_rank<R>(&self, make: impl Fn(usize) -> R) -> Result<Vec<(usize, R)>> {
        let rank = self.0.rank();
        fallible::collected((0..self.0.size()).filter(|&k| k != rank).map(|k| (k, make(k))))
    }

    /// Ends the team if this member fails after a collective has begun, because the others would wait for it.
    fn or_end<R>(&mut self, result: Result<R>) -> Result<R> {
        result.inspect_err(|error| self.0.stop(&error.message))
    }

    /// Exchanges and folds a run: the elements of all members for this member's run.
    fn fold(
        &mut self,
        call: &Call,
        fold: Fold,
        x: &View,
        run_of: impl Fn(usize) -> Range<usize>,
        site: &Option<CallSite>,
    ) -> Result<View> {
        let (rank, size) = (self.0.rank(), self.0.size());
        let own = run_of(rank);
        let sends = self.each_other(|to| part_of(x, run_of(to)))?;
        let targets = self.by_rank(|_| ReceiveTarget::Of(own.len()))?;
        let mut received = self.0.exchange(call, 0, &sends, targets)?.into_iter();
        let mut parts = Vec::new();
        for k in 0..size {
            let part = if k == rank {
                part_of(x, own.clone())
            } else {
                let buffer = match received.next().and_then(|r| r.buffer) {
                    Some(buffer) => buffer,
                    None => backend::of(x.buffer.device)?.allocate(0)?,
                };
                // The other member has checked that both arrays have one length.
                if buffer.bytes < own.len() * x.dtype.size() {
                    return Err(Error::new(Kind::Member, "a member sent too little"));
                }
                View::contiguous(buffer, x.dtype, own.len())
            };
            fallible::push(&mut parts, part)?;
        }
        fold_parts(parts, fold, site)
    }

    /// Exchanges the members' runs of a result, so that all have all of it.
    fn assemble(&mut self, call: &Call, part: &View, n: usize) -> Result<View> {
        let (rank, size) = (self.0.rank(), self.0.size());
        let width = part.dtype.size();
        let backend = backend::of(part.buffer.device)?;
        let whole = View::contiguous(backend.allocate(n * width)?, part.dtype, n);
        let sends = self.each_other(|_| part.clone())?;
        let targets = self.by_rank(|from| ReceiveTarget::At(part_of(&whole, run(n, from, size))))?;
        self.0.exchange(call, 1, &sends, targets)?;
        let from = part.layout.offset() * width;
        backend.copy(&part.buffer, from, &whole.buffer, run(n, rank, size).start * width, part.len() * width)?;
        Ok(whole)
    }

    /// Waits for all members, and checks that they are in the same collective.
    fn meet(&mut self, call: &Call) -> Result<()> {
        let (sends, targets) = (self.each_other(|_| ())?, self.by_rank(|_| ())?);
        let met = self.0.mesh().meet(call, 0, sends.iter().map(|p| p.0), targets.iter().map(|r| r.0)).map(|_| ());
        self.or_end(met)
    }
}

impl<C: Carrier> Transport for Collectives<C> {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn all_reduce(&mut self, x: &Array, fold: Fold, exact: bool, caller: &Caller) -> Result<Array> {
        folded(x.dtype(), fold)?;
        let view = self.at_place(x)?;
        let (n, size) = (view.len(), self.0.size());
        let call = self.call(Verb::AllReduce(fold), Some(&view), caller)?;
        let bytes = n * view.dtype.size();
        let total = if bytes <= self.0.one_step_max_bytes() || size <= 2 && bytes <= 4 * self.0.one_step_max_bytes() {
            self.fold(&call, fold, &view, |_| 0..n, &caller.site)
        } else if let Some(total) =
            self.0.all_reduce(&call, &view, exact, &|parts| fold_parts(parts, fold, &caller.site))
        {
            total
        } else {
            let part = self.fold(&call, fold, &view, |k| run(n, k, size), &caller.site);
            part.and_then(|part| self.assemble(&call, &part, n))
        };
        self.or_end(total.and_then(|total| Array::from_view(total).to_device(x.device())))
    }

    fn reduce_scatter(&mut self, x: &Array, fold: Fold, unit: usize, _exact: bool, caller: &Caller) -> Result<Array> {
        folded(x.dtype(), fold)?;
        let view = self.at_place(x)?;
        let (unit, size) = (unit.max(1), self.0.size());
        let pieces = view.len() / unit;
        let call = self.call(Verb::ReduceScatter(fold), Some(&view), caller)?;
        let run_of = |k: usize| {
            let run = run(pieces, k, size);
            run.start * unit..run.end * unit
        };
        let part = self.fold(&call, fold, &view, run_of, &caller.site);
        self.or_end(part.and_then(|part| Array::from_view(part).to_device(x.device())))
    }

    fn all_gather(&mut self, x: &Array, caller: &Caller) -> Result<Vec<Array>> {
        let view = self.at_place(x)?;
        let rank = self.0.rank();
        let call = self.call(Verb::AllGather, Some(&view), caller)?;
        let sends = self.each_other(|_| view.clone())?;
        let targets = self.by_rank(|_| ReceiveTarget::New)?;
        let received = self.0.exchange(&call, 0, &sends, targets)?;
        let arrive = |part: Received| arrived(part.buffer, view.dtype, part.call.length)?.to_device(x.device());
        let parts = fallible::all_of(received.into_iter().map(arrive));
        let mut parts = self.or_end(parts)?;
        parts.insert(rank, x.clone());
        Ok(parts)
    }

    fn broadcast(&mut self, x: &Array, root: usize, caller: &Caller) -> Result<Array> {
        if root >= self.0.size() {
            return Err(Error::new(Kind::Argument, format!("the team has no member {}", root + 1)));
        }
        let is_root = root == self.0.rank();
        let view = if is_root { Some(self.at_place(x)?) } else { None };
        let call = self.call(Verb::Broadcast(root), view.as_ref(), caller)?;
        // If calls are compared, do so with all members, even those from whom nothing is received.
        let step = u32::from(!call.text.is_empty());
        if step == 1 {
            self.meet(&call)?;
        }
        if let Some(view) = view {
            let sends = self.each_other(|_| view.clone())?;
            self.0.exchange(&call, step, &sends, Vec::new())?;
            return Ok(x.clone());
        }
        let received = self.0.exchange(&call, step, &[], vec![(root, ReceiveTarget::New)])?.into_iter().next();
        let received = received.ok_or_else(|| Error::new(Kind::Member, "the member sent nothing"))?;
        let dtype = received.call.dtype.ok_or_else(|| Error::new(Kind::Member, "the member sent no array"))?;
        let array = arrived(received.buffer, dtype, received.call.length);
        self.or_end(array.and_then(|array| array.to_device(x.device())))
    }

    fn barrier(&mut self, caller: &Caller) -> Result<()> {
        let call = self.call(Verb::Barrier, None, caller)?;
        self.meet(&call)
    }

    fn stop(&mut self, reason: &str) {
        self.0.stop(reason);
    }
}

/// The array of received elements.
fn arrived(buffer: Option<Arc<Buffer>>, dtype: DType, n: usize) -> Result<Array> {
    let buffer = match buffer {
        Some(buffer) => buffer,
        None => backend::of(Device::Cpu)?.allocate(0)?,
    };
    if n.checked_mul(dtype.size()) != Some(buffer.bytes) {
        return Err(Error::new(Kind::Member, "a member sent another number of elements than it said"));
    }
    Ok(Array::from_view(View::contiguous(buffer, dtype, n)))
}
