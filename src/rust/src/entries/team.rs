//! Entries: joining a team, and its collectives. The R object is this process's membership in a team.

use std::cell::RefCell;
use std::time::Duration;

use verdigris_engine::array::Array;
use verdigris_engine::backend::ExportedCopy;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::team::message::Fold;
use verdigris_engine::team::rendezvous::{JoinOptions, Listener, Token};
use verdigris_engine::team::{host, Caller, Transport};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::{convert, device as devices, handle};
use crate::entries::entry::entries;
use crate::r::typed::{External, FromR, Taken};
use crate::r::{call_site, options, List, SEXP};

impl External for Listener {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "the first member of this team has joined already")
    }
}

/// This process as a member of a team.
struct Member {
    transport: RefCell<Box<dyn Transport>>,
    /// What transports elements, "nccl" or "host"; and if GPUs were wanted but cannot be used, the reason.
    carrier: &'static str,
    why_not: Option<String>,
}

impl External for Member {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Member, "this process is not a member of the team any more")
            .advise("A team belongs to a session; `gpu_repair(team)` or `gpu_team()` makes one.")
    }
}

impl Member {
    /// Uses the transport. An error inside a collective: R may run a finalizer there, which must not start another.
    fn with<R>(&self, use_it: impl FnOnce(&mut dyn Transport) -> Result<R>) -> Result<R> {
        match self.transport.try_borrow_mut() {
            Ok(mut transport) => use_it(transport.as_mut()),
            Err(_) => Err(Error::new(Kind::Member, "this member is in a collective, and cannot begin another")),
        }
    }
}

/// A copy of a member's array that the session may read.
struct Exported {
    _copy: ExportedCopy,
}

impl External for Exported {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "the copy for the session was freed")
    }
}

impl FromR for Fold {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Fold> {
        let name = <&str>::from_r(x, argument)?;
        Fold::from_name(name).ok_or_else(|| {
            Error::new(Kind::Argument, format!("`{argument}` must be \"+\", \"*\", \"min\" or \"max\", not \"{name}\""))
        })
    }
}

impl FromR for Token {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Token> {
        Token::parse(<&str>::from_r(x, argument)?)
    }
}

/// The caller of a collective. With `verdigris.debug` the text of its call goes along, for members to compare.
fn caller(call: SEXP) -> Result<Caller> {
    let site = call_site::of(call);
    let compared = options::flag(c"verdigris.debug")?;
    let text = site.as_ref().filter(|_| compared).map_or_else(String::new, call_site::text);
    Ok(Caller { site, text })
}

/// The elements of an array, or of a host vector, which is put on the cpu device.
fn elements(x: SEXP) -> Result<Array> {
    match convert::array_or_none(x)? {
        Some(array) => Ok(array),
        None => convert::upload(x, None, Device::Cpu, None),
    }
}

entries! {
    /// Listens on an address of this host, for the first member. Returns list(listener, port, token); the token is new
    /// if NULL is given.
    fn team_listen(address: &str, port: usize, token: Option<Token>) -> Result<List> {
        let port = u16::try_from(port).map_err(|_| Error::new(Kind::Argument, "`port` must be 0 to 65535"))?;
        let listener = Listener::new(address, port)?;
        let port = f64::from(listener.port()?);
        Ok(List::new(3).add("listener", listener).add("port", port).add("token", token.unwrap_or_default().text()))
    }

    /// The id of the parent process; 0 if the system does not tell.
    fn team_parent() -> f64 {
        #[cfg(unix)]
        {
            f64::from(std::os::unix::process::parent_id())
        }
        #[cfg(not(unix))]
        {
            0.0
        }
    }

    /// Joins a team; the first member (rank 0) passes its listener. With `gpus`, elements go from GPU to GPU if all
    /// members can do that; `device` is this member's.
    fn team_join(
        listener: Option<Taken<Listener>>,
        address: &str,
        port: usize,
        token: Token,
        rank: usize,
        size: usize,
        timeout: f64,
        version: &str,
        device: &str,
        gpus: bool,
    ) -> Result<Member> {
        let port = u16::try_from(port).map_err(|_| Error::new(Kind::Argument, "`port` must be 0 to 65535"))?;
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|_| Error::new(Kind::Argument, "`timeout` must be a number of seconds"))?;
        let place = JoinOptions { rank, size, address, port, token, version, timeout };
        let host = host::join(listener.map(|Taken(listener)| listener), &place)?;
        let member = |transport, carrier, why_not| Member { transport: RefCell::new(transport), carrier, why_not };
        #[cfg(all(unix, not(target_os = "macos")))]
        if gpus {
            use verdigris_engine::team::gpus::{connect, Connected};
            let device = devices::named(device).ok().filter(|device| *device != Device::Cpu);
            return Ok(match connect(host, device, timeout)? {
                Connected::Gpus(gpus) => member(Box::new(gpus), "nccl", None),
                Connected::Host(host, error) => member(Box::new(host), "host", Some(error.to_string())),
            });
        }
        let _ = device;
        Ok(member(Box::new(host), "host", gpus.then(|| "NCCL connects GPUs on Linux alone".into())))
    }

    /// list(carrier, why_not): what transports elements, and why not GPUs although they were wanted ("" otherwise).
    fn team_carrier(member: &Member) -> List {
        List::new(2).add("carrier", member.carrier).add("why_not", member.why_not.as_deref().unwrap_or_default())
    }

    /// The elements of all members, folded, with the shape of x. `exact`: in the order of ranks.
    fn team_all_reduce(member: &Member, x: SEXP, op: Fold, exact: bool, call: SEXP) -> Result<SEXP> {
        let (own, caller) = (elements(x)?, caller(call)?);
        let result = member.with(|transport| transport.all_reduce(&own, op, exact, &caller))?;
        Ok(handle::new_like(result, x))
    }

    /// This member's run of the folded elements, which are divided in pieces of `unit` elements.
    fn team_reduce_scatter(
        member: &Member,
        x: SEXP,
        unit: usize,
        op: Fold,
        exact: bool,
        call: SEXP,
    ) -> Result<Array> {
        let (own, caller) = (elements(x)?, caller(call)?);
        member.with(|transport| transport.reduce_scatter(&own, op, unit, exact, &caller))
    }

    /// A list of the arrays of all members.
    fn team_all_gather(member: &Member, x: SEXP, call: SEXP) -> Result<List> {
        let (own, caller) = (elements(x)?, caller(call)?);
        let parts = member.with(|transport| transport.all_gather(&own, &caller))?;
        let list = List::new(parts.len());
        Ok(parts.into_iter().fold(list, |list, part| list.add("", part)))
    }

    /// The array of the member of rank `root`.
    fn team_broadcast(member: &Member, x: SEXP, root: usize, call: SEXP) -> Result<Array> {
        let (own, caller) = (elements(x)?, caller(call)?);
        member.with(|transport| transport.broadcast(&own, root, &caller))
    }

    fn team_barrier(member: &Member, call: SEXP) -> Result<()> {
        let caller = caller(call)?;
        member.with(|transport| transport.barrier(&caller))
    }

    /// A copy of an array's elements on its GPU, for other processes of this host: list(copy, handle), of which the copy
    /// is to be kept until the other process has read it. NULL where there is no such copy.
    fn team_export(x: Array) -> Result<Option<List>> {
        let exported = x.export_copy()?;
        Ok(exported.map(|copy| List::new(2).add("handle", &copy.handle[..]).add("copy", Exported { _copy: copy })))
    }

    /// Frees a copy of `team_export()`; nothing for NULL.
    fn team_free_export(copy: Option<Taken<Exported>>) {
        drop(copy);
    }

    /// The elements of another process's copy, as an array on a GPU; NULL where this process cannot read it.
    fn team_import(handle: [u8; 64], dtype: DType, n: usize, device: Device) -> Result<Option<Array>> {
        Array::import_copy(&handle, dtype, n, device)
    }

    /// Ends the team, and sends the reason to the other members.
    fn team_stop(member: &Member, reason: &str) -> Result<()> {
        member.with(|transport| {
            transport.stop(reason);
            Ok(())
        })
    }
}
