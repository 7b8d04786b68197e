//! The carrier for arrays on GPUs, by NCCL. Arrays on the host are sent through sockets. Members compare their
//! collectives over the sockets while NCCL's kernels wait for each other on the GPUs.

use std::time::Duration;

use crate::array::Array;
use crate::backend;
use crate::backend::cuda::communicator::{self, Communicator, Transfer};
use crate::memory::buffer::{Device, View};
use crate::memory::fallible;
use crate::team::carrier::{Carrier, ReceiveTarget, Received};
use crate::team::collectives::{part_of, Collectives};
use crate::team::host::{self, Host, Sockets};
use crate::team::mesh::Mesh;
use crate::team::message::{Call, Fold, Verb};
use crate::team::{run, Caller, Transport};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::reduction::Reduction;

/// Arrays from this size on are long. NCCL reaches its full bandwidth at some hundred MiB, so there are few pieces.
const LONG: usize = 4 << 20;
const PIECE: usize = 32 << 20;
const MOST_PIECES: usize = 4;

pub struct Gpus {
    // Dropped first: its thread polls the connections of the mesh.
    communicator: Communicator,
    mesh: Mesh,
    /// Whether NCCL has connected all pairs; while it connects, members wait for each other.
    is_connected: bool,
}

/// Connects the members' GPUs, if each member has a GPU of its own and NCCL. `device` is this member's device.
/// Otherwise the members stay connected by sockets, and the reason is returned.
///
/// # Errors
/// Those of a collective.
pub fn connect(mut host: Host, device: Option<Device>, timeout: Duration) -> Result<Connected> {
    let own = match device {
        Some(Device::Cuda(ordinal)) => {
            communicator::is_there().and_then(|()| communicator::forget_lost(ordinal)).map(|()| ordinal)
        }
        _ => Err(Error::new(Kind::Device, "a member has no GPU")),
    };
    let others = || Error::new(Kind::Library, "another member has no GPU, or no NCCL (libnccl.so.2)");
    let ordinal = match (all(&mut host, own.is_ok())?, own) {
        (true, Ok(ordinal)) => ordinal,
        (_, own) => return Ok(Connected::Host(host, own.err().unwrap_or_else(others))),
    };
    let (rank, size) = (host.rank(), host.size());
    let id = if rank == 0 { communicator::new_id() } else { Ok([0; communicator::ID]) };
    let id = share_id(&mut host, id)?;
    let others_live = host.0 .0.others_live();
    // Half of the timeout: the other half is left to tell the others of a failure.
    let made = match id {
        Some(id) => Communicator::new(ordinal, id, rank, size, timeout / 2, others_live),
        None => Err(Error::new(Kind::Library, "NCCL made no id")),
    };
    if let Some(error) = made.as_ref().err().filter(|error| error.kind == Kind::Interrupt) {
        host.stop(&error.message);
        return Err(error.clone());
    }
    if !all(&mut host, made.is_ok())? {
        let failed = || Error::new(Kind::Member, "NCCL could not connect another member's GPU");
        return Ok(Connected::Host(host, made.err().unwrap_or_else(failed)));
    }
    let Collectives(Sockets(mesh)) = host;
    let mut gpus = Collectives(Gpus { mesh, communicator: made?, is_connected: false });
    // The first collective makes NCCL connect all pairs.
    let one = Array::from_view(View::contiguous(backend::of(Device::Cuda(ordinal))?.allocate(8)?, DType::Float64, 1));
    gpus.all_reduce(&one, Fold::Max, false, &Caller::default())?;
    backend::of(Device::Cuda(ordinal))?.synchronize()?;
    gpus.0.is_connected = true;
    Ok(Connected::Gpus(gpus))
}

pub enum Connected {
    Gpus(Collectives<Gpus>),
    /// The socket connections, and why the GPUs are not connected.
    Host(Host, Error),
}

fn bytes_on_host(bytes: &[u8]) -> Result<Array> {
    let cpu = backend::of(Device::Cpu)?;
    let buffer = cpu.allocate(bytes.len())?;
    cpu.upload(bytes, &buffer, 0)?;
    Ok(Array::from_view(View::contiguous(buffer, DType::UInt8, bytes.len())))
}

/// Whether something is true on all members.
pub(super) fn all(host: &mut Host, here: bool) -> Result<bool> {
    let least = host.all_reduce(&bytes_on_host(&[here.into()])?, Fold::Min, false, &Caller::default())?;
    Ok(host::bytes(&least.cast(DType::UInt8, None)?.contiguous()?) == [1])
}

/// The NCCL id of the first member; None if it could not make one.
pub(super) fn share_id(host: &mut Host, id: Result<[u8; communicator::ID]>) -> Result<Option<[u8; communicator::ID]>> {
    let own = id.as_ref().map_or(&[][..], |id| &id[..]);
    let view = host.broadcast(&bytes_on_host(own)?, 0, &Caller::default())?.contiguous()?;
    Ok(host::bytes(&view).try_into().ok())
}

impl Gpus {
    fn backend(&self) -> Result<&'static dyn backend::Backend> {
        backend::of(Device::Cuda(self.communicator.ordinal()))
    }

    fn room(&self, dtype: DType, n: usize) -> Result<View> {
        Ok(View::contiguous(self.backend()?.allocate(n * dtype.size())?, dtype, n))
    }

    /// Queues sends, and receives into the targets that have a view.
    fn queue(&self, sends: &[Transfer], targets: &[(usize, Option<View>)]) -> Result<()> {
        let receives =
            targets.iter().filter_map(|(member, view)| Some(Transfer { member: *member, view: view.clone()? }));
        self.communicator.exchange(sends, &fallible::collected(receives)?)
    }

    /// Exchanges for collectives in which all members' arrays are on GPUs and have one length.
    fn exchange_known(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[Transfer],
        targets: &[(usize, Option<View>)],
    ) -> Result<Vec<Received>> {
        let meet = |mesh: &mut Mesh| {
            mesh.meet(call, step, sends.iter().map(|moved| moved.member), targets.iter().map(|room| room.0))
        };
        // While NCCL connects, it waits on the host, so a member in another collective must be detected before. Once it
        // is connected, comparing the calls overlaps with the transfer.
        let met = match self.is_connected {
            true => {
                self.queue(sends, targets)?;
                meet(&mut self.mesh)?
            }
            false => {
                let met = meet(&mut self.mesh)?;
                self.queue(sends, targets)?;
                met
            }
        };
        let buffer = |room: &(usize, Option<View>)| room.1.as_ref().map(|view| view.buffer.clone());
        fallible::collected(
            met.into_iter().zip(targets).map(|(r, room)| Received { call: r.call, buffer: buffer(room) }),
        )
    }

    /// Exchanges for collectives in which a message says how many elements follow, and from which device. Elements on a
    /// host follow in the message itself.
    fn exchange_told(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[(usize, View)],
        targets: Vec<(usize, ReceiveTarget)>,
    ) -> Result<Vec<Received>> {
        let mut received = if call.on_gpus {
            let met = self.mesh.meet(call, step, sends.iter().map(|p| p.0), targets.iter().map(|r| r.0))?;
            fallible::collected(met.into_iter().map(|r| Received { call: r.call, buffer: r.buffer }))?
        } else {
            host::exchange(&mut self.mesh, call, step, sends, &targets)?
        };
        let mut views = Vec::new();
        for (r, (from, _)) in received.iter_mut().zip(&targets) {
            let Some(dtype) = r.call.dtype.filter(|_| r.call.on_gpus) else { continue };
            let view = self.room(dtype, r.call.length)?;
            r.buffer = Some(view.buffer.clone());
            fallible::push(&mut views, (*from, Some(view)))?;
        }
        let sends = if call.on_gpus { moved(sends)? } else { Vec::new() };
        self.queue(&sends, &views)?;
        Ok(received)
    }

    /// All-reduces by NCCL's own sum or product. With two members, its bits are those of the operators, except for NA,
    /// which NCCL does not know. So each member looks for NA and NaN meanwhile and tells the others; None if a member
    /// has any.
    fn all_reduce_by_nccl(&mut self, call: &Call, x: &View, fold: Fold) -> Result<Option<View>> {
        let (rank, size) = (self.rank(), self.size());
        let whole = self.room(x.dtype, x.len())?;
        let aside = self.communicator.aside(x)?;
        self.communicator.reduce_on_side_stream(x, &whole, fold == Fold::Product)?;
        let (_, sum) = Array::from_view(x.clone()).reduce(Reduction::Sum, false)?;
        let mut bits = [0; 8];
        bits.copy_from_slice(&sum.value[..8]);
        let own = Call { missing: f64::from_ne_bytes(bits).is_nan(), ..call.clone() };
        let others = || (0..size).filter(|&k| k != rank);
        let met = self.mesh.meet(&own, 0, others(), others())?;
        drop(aside);
        let any_missing = own.missing || met.iter().any(|other| other.call.missing);
        Ok((!any_missing).then_some(whole))
    }

    /// All-reduces in pieces: while one piece is transferred, the one before is folded.
    fn all_reduce_by_pieces(
        &mut self,
        call: &Call,
        step: u32,
        x: &View,
        fold: &dyn Fn(Vec<View>) -> Result<View>,
    ) -> Result<View> {
        let (rank, size, n) = (self.rank(), self.size(), x.len());
        let others = fallible::collected((0..size).filter(|&k| k != rank))?;
        let pieces = (n * x.dtype.size() / PIECE).clamp(2, MOST_PIECES);
        // the elements of piece p that member k folds
        let part = |p: usize, k: usize| {
            let piece = run(n, p, pieces);
            let within = run(piece.len(), k, size);
            piece.start + within.start..piece.start + within.end
        };
        let mut targets = Vec::new();
        for p in 0..pieces {
            let of_others = others.iter().map(|_| self.room(x.dtype, part(p, rank).len()));
            fallible::push(&mut targets, fallible::all_of(of_others)?)?;
        }
        let mut whole: Option<View> = None;
        let mut folded = Vec::new();
        let aside = self.communicator.aside(x)?;
        for p in 0..=pieces {
            if p < pieces {
                let sends = others.iter().map(|&k| Transfer { member: k, view: part_of(x, part(p, k)) });
                let receives =
                    others.iter().zip(&targets[p]).map(|(&k, room)| Transfer { member: k, view: room.clone() });
                let (sends, receives) = (fallible::collected(sends)?, fallible::collected(receives)?);
                self.communicator.exchange_on_side_stream(&sends, &receives)?;
                self.communicator.record_side_event(p)?;
            }
            if p == 0 {
                // All members take part, so the queued transfers will complete.
                self.mesh.meet(call, step, others.iter().copied(), others.iter().copied())?;
                continue;
            }
            let p = p - 1;
            self.communicator.wait_for_side_event(p)?;
            let mut parts = Vec::new();
            let mut of_others = targets[p].iter();
            for k in 0..size {
                let own = || part_of(x, part(p, rank));
                fallible::push(
                    &mut parts,
                    if k == rank { own() } else { of_others.next().cloned().unwrap_or_else(own) },
                )?;
            }
            let result = fold(parts)?;
            if whole.is_none() {
                whole = Some(self.room(result.dtype, n)?);
            }
            let Some(whole) = &whole else { continue };
            let width = result.dtype.size();
            let (from, to) = (result.layout.offset() * width, part(p, rank).start * width);
            self.backend()?.copy(&result.buffer, from, &whole.buffer, to, result.len() * width)?;
            self.communicator.order_side_stream()?;
            let sends = others.iter().map(|&k| Transfer { member: k, view: result.clone() });
            let receives = others.iter().map(|&k| Transfer { member: k, view: part_of(whole, part(p, k)) });
            self.communicator.exchange_on_side_stream(&fallible::collected(sends)?, &fallible::collected(receives)?)?;
            fallible::push(&mut folded, result)?;
        }
        drop(aside);
        whole.ok_or_else(|| Error::new(Kind::Member, "an array without pieces"))
    }
}

fn moved(sends: &[(usize, View)]) -> Result<Vec<Transfer>> {
    fallible::collected(sends.iter().map(|(member, view)| Transfer { member: *member, view: view.clone() }))
}

impl Carrier for Gpus {
    fn mesh(&mut self) -> &mut Mesh {
        &mut self.mesh
    }

    fn rank(&self) -> usize {
        self.mesh.rank
    }

    fn size(&self) -> usize {
        self.mesh.size()
    }

    fn place(&self, device: Device) -> Device {
        match device {
            Device::Cpu => Device::Cpu,
            Device::Cuda(_) => Device::Cuda(self.communicator.ordinal()),
        }
    }

    fn one_step_max_bytes(&self) -> usize {
        1 << 18
    }

    fn exchange(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[(usize, View)],
        targets: Vec<(usize, ReceiveTarget)>,
    ) -> Result<Vec<Received>> {
        let done = match call.verb {
            Verb::AllReduce(_) | Verb::ReduceScatter(_) if call.on_gpus => (|| {
                let dtype = sends.first().map(|(_, view)| view.dtype);
                let mut views = Vec::new();
                for (from, room) in targets {
                    let view = match (room, dtype) {
                        (ReceiveTarget::At(view), _) => Some(view),
                        (ReceiveTarget::Of(n), Some(dtype)) => Some(self.room(dtype, n)?),
                        _ => None,
                    };
                    fallible::push(&mut views, (from, view))?;
                }
                self.exchange_known(call, step, &moved(sends)?, &views)
            })(),
            Verb::AllReduce(_) | Verb::ReduceScatter(_) => host::exchange(&mut self.mesh, call, step, sends, &targets),
            _ => self.exchange_told(call, step, sends, targets),
        };
        done.inspect_err(|error| self.stop(&error.message))
    }

    fn all_reduce(
        &mut self,
        call: &Call,
        x: &View,
        exact: bool,
        fold: &dyn Fn(Vec<View>) -> Result<View>,
    ) -> Option<Result<View>> {
        if !call.on_gpus || x.len() * x.dtype.size() < LONG || self.communicator.is_capturing() {
            return None;
        }
        let by_nccl = match call.verb {
            Verb::AllReduce(kind @ (Fold::Sum | Fold::Product)) if !exact || self.size() == 2 => Some(kind),
            _ => None,
        };
        let by_nccl = by_nccl.filter(|_| matches!(x.dtype, DType::Float32 | DType::Float64));
        // The algorithm must be equal on all members: this detects members that capture a graph or need another order.
        let call = &Call { algorithm: if by_nccl.is_some() { 2 } else { 1 }, ..call.clone() };
        let done = match by_nccl {
            Some(kind) => match self.all_reduce_by_nccl(call, x, kind) {
                Ok(Some(whole)) => Ok(whole),
                Ok(None) => self.all_reduce_by_pieces(call, 1, x, fold),
                Err(error) => Err(error),
            },
            None => self.all_reduce_by_pieces(call, 0, x, fold),
        };
        Some(done.inspect_err(|error| self.stop(&error.message)))
    }

    fn stop(&mut self, reason: &str) {
        self.mesh.stop(reason);
        self.communicator.abort(reason);
    }
}
