//! Collectives by sockets, on host copies. Members exchange raw elements in one step or two, and fold them by the
//! operation table in the order of ranks. So the rules on types, NA and overflow are those of R's operators, and the
//! bits depend on the members' values alone, whatever `exact` says.
//!
//! Of a long array each member folds its own run, which the others send to it, and sends the result to all. Over
//! connections between all pairs this moves as many bytes as a ring does, in 2 steps where a ring takes 2 (size - 1).

use std::ops::Range;
use std::sync::Arc;

use crate::array::{Array, Operand};
use crate::backend;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::fallible;
use crate::team::mesh::{Mesh, Parcel, Received, Room};
use crate::team::message::{Call, Fold, Verb};
use crate::team::rendezvous::{self, Listener, Place};
use crate::team::{run, Caller, Transport};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Layout;
use verdigris_ops::rule::{self, Typed};

/// Up to so many bytes each member sends all its elements to each other: the way back would cost more.
const SHORT: usize = 1 << 15;

pub struct Host {
    mesh: Mesh,
}

/// Joins a team; the first member has the listener.
///
/// # Errors
/// Those of `rendezvous::join`.
pub fn join(listener: Option<Listener>, place: &Place) -> Result<Host> {
    if place.rank >= place.size {
        return Err(Error::new(Kind::Argument, format!("a team of {} has no member {}", place.size, place.rank + 1)));
    }
    let mut host = Host { mesh: Mesh::new(place.rank, rendezvous::join(listener, place)?, place.timeout) };
    // so that none goes on while another fails
    host.barrier(&Caller::default())?;
    Ok(host)
}

/// The elements on the host, one after the other.
fn on_host(x: &Array) -> Result<View> {
    x.to_device(Device::Cpu)?.contiguous()
}

/// A part of a contiguous view on the host.
fn bytes(view: &View, part: Range<usize>) -> &[u8] {
    let size = view.dtype.size();
    if part.is_empty() {
        return &[];
    }
    // SAFETY: contiguous elements in a buffer on the host, which lives as long as the view and is not written.
    unsafe {
        let start = (view.address() as *const u8).add(part.start * size);
        std::slice::from_raw_parts(start, part.len() * size)
    }
}

/// The dtype of a fold.
fn folded(dtype: DType, fold: Fold) -> Result<DType> {
    rule::resolve(fold.row(), &[Typed::Array(dtype), Typed::Array(dtype)]).map(|(_, dtype)| dtype)
}

impl Host {
    fn call(&mut self, verb: Verb, x: Option<&View>, caller: &Caller) -> Result<Call> {
        let number = self.mesh.begin()?;
        let (dtype, length) = (x.map(|x| x.dtype), x.map_or(0, View::len));
        Ok(Call { verb, number, dtype, length, text: fallible::text(&caller.text)? })
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let (rank, size) = (self.mesh.rank, self.mesh.size());
        // from the next one on, so that not all send to one
        (1..size).map(move |k| (rank + k) % size)
    }

    /// Ends the team where this member fails when a collective has begun: the others would wait for it.
    fn or_end<R>(&mut self, result: Result<R>) -> Result<R> {
        result.inspect_err(|error| self.mesh.stop(&error.message))
    }

    /// Waits for all members, and compares what they are in.
    fn meet(&mut self, call: &Call) -> Result<()> {
        let rank = self.mesh.rank;
        let parcels = fallible::collected(self.others().map(|to| Parcel { to, bytes: &[] }))?;
        let rooms = fallible::collected((0..self.mesh.size()).filter(|&k| k != rank).map(|from| (from, Room::New)))?;
        self.mesh.exchange(call, 0, &parcels, rooms).map(|_| ())
    }

    /// Folds a run: the members' elements of it, this one's own among them.
    fn fold(
        &mut self,
        call: &Call,
        fold: Fold,
        x: &View,
        run_of: impl Fn(usize) -> Range<usize>,
        site: &Option<CallSite>,
    ) -> Result<View> {
        let (rank, size) = (self.mesh.rank, self.mesh.size());
        let own = run_of(rank);
        let parcels = fallible::collected(self.others().map(|to| Parcel { to, bytes: bytes(x, run_of(to)) }))?;
        let rooms = fallible::collected((0..size).filter(|&k| k != rank).map(|from| (from, Room::New)))?;
        let received = self.mesh.exchange(call, 0, &parcels, rooms)?;
        let layout = Layout::new(x.layout.offset() + own.start, &[own.len()], &[1]);
        let own_part = View { buffer: x.buffer.clone(), dtype: x.dtype, layout };
        if own.is_empty() {
            return Array::from_view(own_part).cast(folded(x.dtype, fold)?, None)?.contiguous();
        }
        let mut received = received.into_iter();
        let mut total: Option<Array> = None;
        for from in 0..size {
            let part = if from == rank {
                own_part.clone()
            } else {
                let buffer = received.next().and_then(|r| r.buffer);
                // the other has checked that it has as much
                let buffer = buffer.ok_or_else(|| Error::new(Kind::Member, "a member sent nothing"))?;
                if buffer.bytes < own.len() * x.dtype.size() {
                    return Err(Error::new(Kind::Member, "a member sent too little"));
                }
                View::contiguous(buffer, x.dtype, own.len())
            };
            let part = Array::from_view(part);
            total = Some(match total {
                None => part,
                Some(total) => Array::apply(fold.row(), &[Operand::Array(total), Operand::Array(part)], site.clone())?,
            });
        }
        let total = total.ok_or_else(|| Error::new(Kind::Member, "a team without members"))?;
        // of one member nothing was folded
        total.cast(folded(x.dtype, fold)?, None)?.contiguous()
    }

    /// All members' runs of a result, together.
    fn assemble(&mut self, call: &Call, part: &View, n: usize) -> Result<View> {
        let (rank, size) = (self.mesh.rank, self.mesh.size());
        let width = part.dtype.size();
        let buffer = backend::of(Device::Cpu)?.allocate(n * width)?;
        let own = bytes(part, 0..part.len());
        {
            // SAFETY: a new buffer on the host, of so many bytes, which nobody else knows.
            let mut left = unsafe { std::slice::from_raw_parts_mut(buffer.address as *mut u8, n * width) };
            let mut rooms = Vec::new();
            for from in 0..size {
                let (room, rest) = left.split_at_mut(run(n, from, size).len() * width);
                left = rest;
                if from == rank {
                    room.copy_from_slice(own);
                } else {
                    fallible::push(&mut rooms, (from, Room::At(room)))?;
                }
            }
            let parcels = fallible::collected(self.others().map(|to| Parcel { to, bytes: own }))?;
            self.mesh.exchange(call, 1, &parcels, rooms)?;
        }
        Ok(View::contiguous(buffer, part.dtype, n))
    }
}

impl Transport for Host {
    fn rank(&self) -> usize {
        self.mesh.rank
    }

    fn size(&self) -> usize {
        self.mesh.size()
    }

    fn all_reduce(&mut self, x: &Array, fold: Fold, _exact: bool, caller: &Caller) -> Result<Array> {
        folded(x.dtype(), fold)?;
        let view = on_host(x)?;
        let (n, size) = (view.len(), self.mesh.size());
        let call = self.call(Verb::AllReduce(fold), Some(&view), caller)?;
        let total = if n * view.dtype.size() <= SHORT || size <= 2 && n * view.dtype.size() <= 4 * SHORT {
            self.fold(&call, fold, &view, |_| 0..n, &caller.site)
        } else {
            let part = self.fold(&call, fold, &view, |k| run(n, k, size), &caller.site);
            part.and_then(|part| self.assemble(&call, &part, n))
        };
        self.or_end(total.and_then(|total| Array::from_view(total).to_device(x.device())))
    }

    fn reduce_scatter(&mut self, x: &Array, fold: Fold, unit: usize, _exact: bool, caller: &Caller) -> Result<Array> {
        folded(x.dtype(), fold)?;
        let view = on_host(x)?;
        let (unit, size) = (unit.max(1), self.mesh.size());
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
        let view = on_host(x)?;
        let rank = self.mesh.rank;
        let call = self.call(Verb::AllGather, Some(&view), caller)?;
        let own = bytes(&view, 0..view.len());
        let parcels = fallible::collected(self.others().map(|to| Parcel { to, bytes: own }))?;
        let rooms = fallible::collected((0..self.mesh.size()).filter(|&k| k != rank).map(|from| (from, Room::New)))?;
        let received = self.mesh.exchange(&call, 0, &parcels, rooms)?;
        let arrive = |part: Received| arrived(part.buffer, view.dtype, part.call.length)?.to_device(x.device());
        let parts = fallible::all_of(received.into_iter().map(arrive));
        let mut parts = self.or_end(parts)?;
        parts.insert(rank, x.clone());
        Ok(parts)
    }

    fn broadcast(&mut self, x: &Array, root: usize, caller: &Caller) -> Result<Array> {
        if root >= self.mesh.size() {
            return Err(Error::new(Kind::Argument, format!("the team has no member {}", root + 1)));
        }
        let is_root = root == self.mesh.rank;
        let view = if is_root { Some(on_host(x)?) } else { None };
        let call = self.call(Verb::Broadcast(root), view.as_ref(), caller)?;
        // where calls are compared, those of members from whom nothing is received are, too
        let step = u32::from(!call.text.is_empty());
        if step == 1 {
            self.meet(&call)?;
        }
        if let Some(view) = view {
            let all = bytes(&view, 0..view.len());
            let parcels = fallible::collected(self.others().map(|to| Parcel { to, bytes: all }))?;
            self.mesh.exchange(&call, step, &parcels, Vec::new())?;
            return Ok(x.clone());
        }
        let received = self.mesh.exchange(&call, step, &[], vec![(root, Room::New)])?.into_iter().next();
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
        self.mesh.stop(reason);
    }
}

/// The array of what came.
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

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::team::rendezvous::Token;
    use crate::testing::{array, values};
    use verdigris_ops::scalar::Scalar;

    /// Runs each member on a thread; what they return, by rank.
    fn team<R: Send + 'static>(
        size: usize,
        timeout: f64,
        member: impl Fn(Host) -> R + Send + Clone + 'static,
    ) -> Vec<R> {
        let listener = Listener::new("127.0.0.1", 0).unwrap();
        let (port, token) = (listener.port().unwrap(), Token::new());
        let mut first = Some(listener);
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (listener, member) = (first.take(), member.clone());
                thread::spawn(move || {
                    let timeout = Duration::from_secs_f64(timeout);
                    let place = Place { rank, size, address: "127.0.0.1", port, token, version: "1", timeout };
                    member(join(listener, &place).unwrap())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn element(rank: usize, k: usize) -> f64 {
        ((k * 7 + rank * 31) % 101) as f64 * 0.1 - 3.0
    }

    fn elements(rank: usize, n: usize) -> Vec<f64> {
        (0..n).map(|k| element(rank, k)).collect()
    }

    #[test]
    fn sums_are_those_in_the_order_of_ranks_however_long() {
        for size in 1..=4 {
            for n in [0, 1, 7, 5000, 200_003] {
                let all = team(size, 30.0, move |mut host| {
                    let x = array(&elements(host.rank(), n));
                    let sum = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).unwrap();
                    let part = host.reduce_scatter(&x, Fold::Sum, 1, false, &Caller::default()).unwrap();
                    let most = host.all_reduce(&x, Fold::Max, true, &Caller::default()).unwrap();
                    (values(&sum), values(&part), values(&most))
                });
                let folded = |f: fn(f64, f64) -> f64| -> Vec<f64> {
                    (0..n).map(|k| (0..size).map(|rank| element(rank, k)).reduce(f).unwrap()).collect()
                };
                let (sum, most) = (folded(|a, b| a + b), folded(f64::max));
                for (rank, (total, part, greatest)) in all.into_iter().enumerate() {
                    assert!(total == sum && greatest == most, "{size} members, {n} elements");
                    assert_eq!(part, sum[run(n, rank, size)]);
                }
            }
        }
    }

    #[test]
    fn each_dtype_folds_as_the_operators_do() {
        for dtype in DType::ALL {
            for fold in [Fold::Sum, Fold::Product, Fold::Min, Fold::Max] {
                let found = team(3, 30.0, move |mut host| {
                    let part = |rank| array(&elements(rank, 100)).cast(dtype, None).unwrap();
                    let got = host.all_reduce(&part(host.rank()), fold, false, &Caller::default());
                    let one =
                        |a: Array, b: Array| Array::apply(fold.row(), &[Operand::Array(a), Operand::Array(b)], None);
                    let want = one(part(0), part(1)).and_then(|two| one(two, part(2)));
                    match (got, want) {
                        (Ok(got), Ok(want)) => {
                            let (got, want) = (got.contiguous().unwrap(), want.contiguous().unwrap());
                            got.dtype == want.dtype && bytes(&got, 0..100) == bytes(&want, 0..100)
                        }
                        (Err(got), Err(want)) => got.kind == want.kind && got.message == want.message,
                        _ => false,
                    }
                });
                assert_eq!(found, [true; 3], "{dtype} {fold:?}");
            }
        }
    }

    #[test]
    fn parts_are_gathered_and_broadcast() {
        team(3, 30.0, |mut host| {
            let rank = host.rank();
            let parts = host.all_gather(&array(&elements(rank, 1000 * rank)), &Caller::default()).unwrap();
            for (k, part) in parts.iter().enumerate() {
                assert_eq!(values(part), elements(k, 1000 * k));
            }
            for root in 0..3 {
                // who receives need not know what
                let own = if rank == root { array(&elements(root, 70_000)) } else { array(&[]) };
                let x = host.broadcast(&own, root, &Caller::default()).unwrap();
                assert_eq!(values(&x), elements(root, 70_000));
            }
            assert!(host.broadcast(&array(&[]), 3, &Caller::default()).is_err());
            host.barrier(&Caller::default()).unwrap();
        });
    }

    #[test]
    fn whole_numbers_that_overflow_are_missing() {
        let sums = team(2, 30.0, |mut host| {
            let one = Operand::Value(Scalar::F64(2e9), verdigris_ops::dtype::Kind::Double);
            let x = Array::apply(verdigris_ops::id::ADD, &[Operand::Array(array(&[0.0, -1.9e9])), one], None).unwrap();
            let x = x.cast(DType::Int32, None).unwrap();
            let sum = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).unwrap();
            values(&sum.cast(DType::Float64, None).unwrap())
        });
        assert!(sums.iter().all(|sum| sum[0].is_nan() && sum[1] == 2e8));
    }

    #[test]
    fn different_collectives_are_an_error_that_names_both() {
        let said = team(3, 30.0, |mut host| {
            let caller = Caller { site: None, text: format!("f{}()", host.rank() + 1) };
            let x = array(&[1.0, 2.0]);
            let error = match host.rank() {
                1 => host.barrier(&caller).unwrap_err(),
                _ => host.all_reduce(&x, Fold::Sum, false, &caller).err().unwrap(),
            };
            // the team has ended, for the same reason
            assert_eq!(host.barrier(&caller).unwrap_err().message, error.message);
            assert_eq!(error.kind, Kind::Member);
            error.message
        });
        for (rank, message) in said.iter().enumerate() {
            let heard = message.contains("f2()") && (message.contains("f1()") || message.contains("f3()"));
            assert!(heard && message.contains("barrier") && message.contains("2 float64"), "{rank}: {message}");
        }
    }

    #[test]
    fn a_member_that_ends_or_stops_is_told_of_soon() {
        for n in [3, 3_000_000] {
            for stops in [false, true] {
                let took = team(3, 60.0, move |mut host| {
                    if host.rank() == 1 {
                        if stops {
                            host.stop("planted");
                        }
                        return (0.0, String::new());
                    }
                    let (began, x) = (Instant::now(), array(&elements(0, n)));
                    let error = host.all_reduce(&x, Fold::Sum, false, &Caller::default()).err().unwrap();
                    assert_eq!(error.kind, Kind::Member);
                    (began.elapsed().as_secs_f64(), error.message)
                });
                for (seconds, message) in took.iter().filter(|(_, message)| !message.is_empty()) {
                    assert!(*seconds < 2.0 && message.contains(if stops { "planted" } else { "ended" }), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_member_may_end_after_its_last_collective() {
        let sums = team(3, 30.0, |mut host| {
            // the first two have what they need long before the third
            if host.rank() == 2 {
                thread::sleep(Duration::from_millis(100));
            }
            let x = array(&elements(host.rank(), 1_000_000));
            host.all_reduce(&x, Fold::Sum, false, &Caller::default()).is_ok()
        });
        assert_eq!(sums, [true; 3]);
    }

    #[test]
    fn a_member_that_does_not_come_is_waited_for_no_longer_than_asked() {
        team(2, 0.3, |mut host| {
            if host.rank() == 1 {
                return thread::sleep(Duration::from_millis(900));
            }
            let began = Instant::now();
            let error = host.barrier(&Caller::default()).unwrap_err();
            assert!(error.message.contains("has not come within 0.3 s"), "{error}");
            assert!(began.elapsed() < Duration::from_millis(800));
        });
    }
}
