//! Connections between all members, and the exchange on which collectives are built: each member sends to some members
//! and receives from some, concurrently. Any failure ends the team for all members, with the reason, because a broken
//! exchange leaves connections in the middle of a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend;
use crate::memory::buffer::{Buffer, Device};
use crate::memory::fallible;
use crate::team::link::{self, Awaited, Link, Moved};
use crate::team::message::{Call, Message, HEADER, MOST_TEXT};
use crate::team::rendezvous::Links;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;

/// The time between two checks whether members from whom nothing is awaited have stopped.
const LOOK: Duration = Duration::from_millis(10);
/// How long a wait spins before it sleeps: about the time to wake a thread.
const LIVELY: Duration = Duration::from_micros(30);
/// The most bytes moved on one connection before the next connection has its turn.
const TURN: usize = 1 << 20;

/// A member's connections to all other members.
pub struct Mesh {
    pub rank: usize,
    links: Links,
    timeout: Duration,
    /// The number of collectives begun.
    number: u64,
    /// Why the team has ended; None while it lives.
    ended: Option<Error>,
}

/// Bytes to send to a member.
pub struct SendItem<'a> {
    pub to: usize,
    pub bytes: &'a [u8],
}

/// Where to put the bytes that a member sends.
pub enum ReceiveTarget<'a> {
    /// In this memory, whose length must match.
    At(&'a mut [u8]),
    /// In a new host buffer, for as many bytes as are sent.
    New,
}

/// The message received from a member.
pub struct Received {
    pub call: Call,
    /// None if the bytes were written to a `ReceiveTarget::At`.
    pub buffer: Option<Arc<Buffer>>,
}

struct Sending<'a> {
    to: usize,
    head: ([u8; HEADER + MOST_TEXT], usize),
    bytes: &'a [u8],
    sent: usize,
}

struct Receiving<'a> {
    from: usize,
    head: [u8; HEADER + MOST_TEXT],
    have: usize,
    message: Option<Message>,
    room: ReceiveTarget<'a>,
    buffer: Option<Arc<Buffer>>,
    got: usize,
}

impl Sending<'_> {
    fn is_done(&self) -> bool {
        self.sent == self.head.1 + self.bytes.len()
    }

    /// Whether part of a message has been sent, so that the other end waits for the rest.
    fn is_begun(&self) -> bool {
        self.sent > 0 && !self.is_done()
    }

    fn step(&mut self, link: &mut Link) -> Moved {
        let head = self.head.1;
        let left = if self.sent < head { &self.head.0[self.sent..head] } else { &self.bytes[self.sent - head..] };
        let moved = link.write(&left[..left.len().min(TURN)]);
        if let Moved::Bytes(n) = moved {
            self.sent += n;
        }
        moved
    }
}

impl Receiving<'_> {
    fn is_done(&self) -> bool {
        self.message.as_ref().is_some_and(|message| self.got == message.bytes)
    }

    /// Reads what is available. Checks the message once its header and text are complete.
    fn step(&mut self, link: &mut Link, own: &Call, step: u32, rank: usize) -> Result<Moved> {
        let Some(message) = &self.message else {
            let needed = if self.have < HEADER { HEADER } else { HEADER + Message::text_length(&self.head[..HEADER])? };
            let moved = if self.have < needed { link.read(&mut self.head[self.have..needed]) } else { Moved::Bytes(0) };
            if let Moved::Bytes(n) = moved {
                self.have += n;
            }
            if self.have >= HEADER && self.have == HEADER + Message::text_length(&self.head[..HEADER])? {
                self.begin(own, step, rank)?;
            }
            return Ok(moved);
        };
        let most = (message.bytes - self.got).min(TURN);
        let into = match (&mut self.room, &self.buffer) {
            (ReceiveTarget::At(bytes), _) => &mut bytes[self.got..self.got + most],
            // SAFETY: a new host buffer of this many bytes, which nobody else uses.
            (ReceiveTarget::New, Some(buffer)) => unsafe {
                std::slice::from_raw_parts_mut((buffer.address as *mut u8).add(self.got), most)
            },
            (ReceiveTarget::New, None) => return Ok(Moved::Bytes(0)),
        };
        let moved = link.read(into);
        if let Moved::Bytes(n) = moved {
            self.got += n;
        }
        Ok(moved)
    }

    /// Checks a complete header and text, and prepares to receive the data.
    fn begin(&mut self, own: &Call, step: u32, rank: usize) -> Result<()> {
        let message = Message::decode(&self.head[..HEADER], &self.head[HEADER..self.have])?;
        if message.stops {
            return Err(stopped(self.from, &message.call.text));
        }
        if !own.goes_with(&message.call) || message.step != step {
            return Err(mismatch(rank, own, self.from, &message.call));
        }
        match &self.room {
            ReceiveTarget::At(bytes) if bytes.len() != message.bytes => {
                return Err(mismatch(rank, own, self.from, &message.call));
            }
            ReceiveTarget::New if message.bytes > 0 => {
                self.buffer = Some(backend::of(Device::Cpu)?.allocate(message.bytes)?);
            }
            _ => {}
        }
        self.message = Some(message);
        Ok(())
    }
}

fn stopped(from: usize, reason: &str) -> Error {
    advised(Error::new(Kind::Member, format!("member {} has stopped: {reason}", from + 1)))
}

fn advised(error: Error) -> Error {
    error.advise("`gpu_repair(team)` continues with the members that are left.")
}

fn mismatch(rank: usize, own: &Call, from: usize, theirs: &Call) -> Error {
    let (own, theirs) = ((rank, own), (from, theirs));
    let (a, b) = if rank < from { (own, theirs) } else { (theirs, own) };
    let message =
        format!("members are in different collectives: member {} in {}; member {} in {}", a.0 + 1, a.1, b.0 + 1, b.1);
    let error = Error::new(Kind::Member, message)
        .advise("All members must call the same collectives in the same order, with arrays of one type and length.");
    if a.1.text.is_empty() && b.1.text.is_empty() {
        return error.advise("With `options(verdigris.debug = TRUE)` on the members this names their calls.");
    }
    error
}

impl Mesh {
    pub fn new(rank: usize, links: Links, timeout: Duration) -> Mesh {
        Mesh { rank, links, timeout, number: 0, ended: None }
    }

    pub fn size(&self) -> usize {
        self.links.len()
    }

    /// Returns a function that says, on any thread, whether all other members have their connections open. It may only
    /// be called while the mesh lives.
    #[cfg(all(unix, not(target_os = "macos")))]
    pub fn others_live(&self) -> Box<dyn Fn() -> bool + Send> {
        link::are_open(self.links.iter().flatten())
    }

    /// Begins a collective, and returns its number.
    ///
    /// # Errors
    /// `Fork` in a forked child; if the team has ended, the error that ended it.
    pub fn begin(&mut self) -> Result<u64> {
        self.links.iter().flatten().try_for_each(Link::check)?;
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        self.number += 1;
        Ok(self.number - 1)
    }

    /// Sends and receives. The result is in the order of `targets`.
    ///
    /// # Errors
    /// `Member` if a member has ended, has stopped, is in another collective, or is not there in time; `Interrupt`;
    /// `Memory`. The team has then ended.
    pub fn exchange(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[SendItem<'_>],
        targets: Vec<(usize, ReceiveTarget<'_>)>,
    ) -> Result<Vec<Received>> {
        let mut sending = Vec::new();
        for SendItem { to, bytes } in sends {
            let message = Message { step, call: call.clone(), stops: false, bytes: bytes.len() };
            fallible::push(&mut sending, Sending { to: *to, head: message.encode(), bytes, sent: 0 })?;
        }
        let mut receiving = Vec::new();
        for (from, room) in targets {
            let head = [0; HEADER + MOST_TEXT];
            let empty = Receiving { from, head, have: 0, message: None, room, buffer: None, got: 0 };
            fallible::push(&mut receiving, empty)?;
        }
        match self.carry(call, step, &mut sending, &mut receiving) {
            Ok(()) => fallible::collected(
                receiving.into_iter().filter_map(|r| r.message.map(|m| Received { call: m.call, buffer: r.buffer })),
            ),
            Err(error) => {
                let begun = |to: usize| sending.iter().any(|s| s.to == to && s.is_begun());
                self.end(&error, begun);
                Err(error)
            }
        }
    }

    /// Exchanges calls without data: sends this member's to some members, and receives those of some.
    ///
    /// # Errors
    /// As `exchange`.
    pub fn meet(
        &mut self,
        call: &Call,
        step: u32,
        to: impl Iterator<Item = usize>,
        from: impl Iterator<Item = usize>,
    ) -> Result<Vec<Received>> {
        let sends = fallible::collected(to.map(|to| SendItem { to, bytes: &[] }))?;
        let targets = fallible::collected(from.map(|from| (from, ReceiveTarget::New)))?;
        self.exchange(call, step, &sends, targets)
    }

    fn carry(
        &mut self,
        call: &Call,
        step: u32,
        sending: &mut [Sending<'_>],
        receiving: &mut [Receiving<'_>],
    ) -> Result<()> {
        let mut watch = Watch::new();
        let (mut moved_at, mut looked_at) = (Instant::now(), Instant::now());
        loop {
            let (mut moved, mut done, mut closed) = (false, true, None);
            for s in sending.iter_mut().filter(|s| !s.is_done()) {
                let Some(link) = self.links[s.to].as_mut() else { continue };
                match s.step(link) {
                    Moved::Bytes(n) => moved |= n > 0,
                    Moved::Closed => closed = closed.or(Some(s.to)),
                }
                done &= s.is_done();
            }
            for r in receiving.iter_mut().filter(|r| !r.is_done()) {
                let Some(link) = self.links[r.from].as_mut() else { continue };
                match r.step(link, call, step, self.rank)? {
                    Moved::Bytes(n) => moved |= n > 0,
                    Moved::Closed => closed = closed.or(Some(r.from)),
                }
                done &= r.is_done();
            }
            if let Some(from) = closed {
                return Err(self.why(from, call, receiving));
            }
            if done {
                return Ok(());
            }
            if moved {
                moved_at = Instant::now();
                continue;
            }
            watch.check()?;
            if moved_at.elapsed() < LIVELY {
                std::thread::yield_now();
                continue;
            }
            let reads = receiving.iter().filter(|r| !r.is_done()).map(|r| (r.from, false));
            let writes = sending.iter().filter(|s| !s.is_done()).map(|s| (s.to, true));
            let links = &self.links;
            link::sleep(
                reads.chain(writes).filter_map(|(k, writes)| links[k].as_ref().map(|link| Awaited { link, writes })),
                LOOK,
            );
            if looked_at.elapsed() >= LOOK {
                looked_at = Instant::now();
                self.look(receiving)?;
                if moved_at.elapsed() >= self.timeout {
                    let late = receiving.iter().find(|r| !r.is_done()).map(|r| r.from);
                    let late = late.or_else(|| sending.iter().find(|s| !s.is_done()).map(|s| s.to));
                    return Err(self.late(late.unwrap_or(self.rank), call));
                }
            }
        }
    }

    /// Checks whether a member from whom nothing is awaited has sent that it stops. A member that has closed its
    /// connection without that has completed its part of this collective.
    fn look(&self, receiving: &[Receiving<'_>]) -> Result<()> {
        let awaited = |from: usize| receiving.iter().any(|r| r.from == from && !r.is_done());
        for from in (0..self.size()).filter(|&from| !awaited(from)) {
            if let Some(reason) = self.reason(from)? {
                return Err(reason);
            }
        }
        Ok(())
    }

    /// The error for a closed connection. A reason to stop that any member has sent takes precedence.
    fn why(&self, closed: usize, call: &Call, receiving: &[Receiving<'_>]) -> Error {
        // In the middle of a message, the next bytes are not a header.
        let midst = |from: usize| receiving.iter().any(|r| r.from == from && r.have > 0 && !r.is_done());
        let told =
            (0..self.size()).filter(|&from| !midst(from)).find_map(|from| self.reason(from).unwrap_or_else(Some));
        told.unwrap_or_else(|| self.gone(closed, call))
    }

    /// Why a member stops, if the next message in its connection says so.
    fn reason(&self, from: usize) -> Result<Option<Error>> {
        let Some(link) = &self.links[from] else { return Ok(None) };
        let mut head = [0; HEADER + MOST_TEXT];
        let Moved::Bytes(n) = link.peek(&mut head) else { return Ok(None) };
        if n < HEADER {
            return Ok(None);
        }
        let end = HEADER + Message::text_length(&head[..HEADER])?;
        if n < end {
            return Ok(None);
        }
        let message = Message::decode(&head[..HEADER], &head[HEADER..end])?;
        Ok(message.stops.then(|| stopped(from, &message.call.text)))
    }

    fn gone(&self, from: usize, call: &Call) -> Error {
        advised(Error::new(Kind::Member, format!("member {} of {} has ended, in {call}", from + 1, self.size())))
    }

    fn late(&self, from: usize, call: &Call) -> Error {
        let seconds = self.timeout.as_secs_f64();
        advised(Error::new(
            Kind::Member,
            format!("member {} of {} has not come within {seconds} s, to {call}", from + 1, self.size()),
        ))
        .advise("It is busy, stuck, or calls no collective; `gpu_team(timeout = )` waits longer.")
    }

    /// Ends the team, for this member and all others.
    pub fn stop(&mut self, reason: &str) {
        self.end(&advised(Error::new(Kind::Member, reason)), |_| false);
    }

    /// As `stop`, with an error. `begun` says to which members a message is only partly sent, so that no other message
    /// can be sent.
    fn end(&mut self, error: &Error, begun: impl Fn(usize) -> bool) {
        if self.ended.is_some() {
            return;
        }
        let reason = error.message.as_str();
        let (message, n) = Message::stop(self.number, reason).encode();
        for (to, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link.as_mut().filter(|link| link.check().is_ok()) else { continue };
            if !begun(to) {
                // There is space in the socket's buffer, unless the member reads nothing; it then notices the closed
                // connection.
                _ = link.write(&message[..n]);
            }
            link.end();
        }
        self.ended = Some(if error.kind == Kind::Interrupt {
            advised(Error::new(Kind::Member, "a collective of this team was interrupted"))
        } else {
            error.clone()
        });
    }
}
