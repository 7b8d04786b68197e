//! How members connect. The first member listens. Each other member that presents the token, with the same package
//! version and team size, is told where the others listen, and then each pair connects. A stranger can send only a
//! fixed number of bytes, within a few seconds, after which the connection is closed without an answer.

use std::hash::{BuildHasher, Hasher};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::memory::fallible;
use crate::team::link::{Link, Moved};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;

/// The secret that the members of a team share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 16]);

impl Token {
    /// A token from the system's random numbers.
    pub fn new() -> Token {
        let mut bytes = [0; 16];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        if read.is_err() {
            // The standard library seeds its hashes from the system.
            for half in bytes.chunks_mut(8) {
                let number = std::collections::hash_map::RandomState::new().build_hasher().finish();
                half.copy_from_slice(&number.to_ne_bytes());
            }
        }
        Token(bytes)
    }

    /// The token as 32 hexadecimal digits.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).fold(String::new(), |all, byte| all + &byte)
    }

    /// Parses 32 hexadecimal digits.
    ///
    /// # Errors
    /// `Argument` for anything else.
    pub fn parse(text: &str) -> Result<Token> {
        let wrong = || Error::new(Kind::Argument, "a team's token has 32 hexadecimal digits");
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (k, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * k..2 * k + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Token(bytes))
    }

    /// Compares in constant time, so that timing does not reveal how many bytes are right.
    fn is(&self, other: &[u8]) -> bool {
        self.0.iter().zip(other).fold(other.len() ^ 16, |off, (a, b)| off | usize::from(a ^ b)) == 0
    }
}

impl Default for Token {
    fn default() -> Token {
        Token::new()
    }
}

/// What a member needs to know to join.
pub struct JoinOptions<'a> {
    /// From 0.
    pub rank: usize,
    pub size: usize,
    /// The address at which the first member listens.
    pub address: &'a str,
    pub port: u16,
    pub token: Token,
    /// The package's version, which must be the same for all members.
    pub version: &'a str,
    /// The time limit for all of the joining.
    pub timeout: Duration,
}

/// The first member's listening socket.
pub struct Listener {
    socket: TcpListener,
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Kind::Member, format!("{what}: {error}"))
}

impl Listener {
    /// Listens on a port of one address of this host, and on no other address. Port 0 picks a free port.
    ///
    /// # Errors
    /// `Member` if the host does not have the address.
    pub fn new(address: &str, port: u16) -> Result<Listener> {
        let fails = |e: std::io::Error| {
            failed(&format!("cannot listen on {address}"), &e).advise("It must be an address of the member's own host.")
        };
        let socket = TcpListener::bind((address, port)).map_err(fails)?;
        socket.set_nonblocking(true).map_err(fails)?;
        Ok(Listener { socket })
    }

    /// The port on which it listens.
    ///
    /// # Errors
    /// `Member`.
    pub fn port(&self) -> Result<u16> {
        self.socket.local_addr().map(|address| address.port()).map_err(|e| failed("a socket has no address", &e))
    }
}

// ---- greetings ---------------------------------------------------------------------------------------

const VERSION: usize = 32;
/// The fields: token, byte order, protocol, rank, size, port, version.
const GREETING: usize = 16 + 4 + 4 + 4 + 4 + 4 + VERSION;
const PROTOCOL: u32 = 1;
/// Written in native byte order, to detect a member with another one: data are sent in native order.
const ORDER: u32 = 0x0102_0304;
/// The first member's answer: a status and a length, then each member's address and port, or the text of a refusal.
const ANSWER: usize = 8;
const TEXT: usize = 256;
const ADDRESS: usize = 18;

/// How long a connection may take to present the token.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most connections that have not yet presented the token.
const MOST_WAITING: usize = 64;

struct Greeting {
    order: u32,
    protocol: u32,
    rank: usize,
    size: usize,
    port: u16,
    version: [u8; VERSION],
}

fn padded(version: &str) -> [u8; VERSION] {
    let mut out = [0; VERSION];
    for (to, from) in out.iter_mut().zip(version.bytes()) {
        *to = from;
    }
    out
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Greeting {
    fn bytes(options: &JoinOptions, port: u16) -> [u8; GREETING] {
        let mut out = [0; GREETING];
        out[..16].copy_from_slice(&options.token.0);
        out[16..20].copy_from_slice(&ORDER.to_ne_bytes());
        let words = [PROTOCOL, options.rank as u32, options.size as u32, port.into()];
        for (k, word) in words.into_iter().enumerate() {
            out[20 + 4 * k..24 + 4 * k].copy_from_slice(&word.to_le_bytes());
        }
        out[36..].copy_from_slice(&padded(options.version));
        out
    }

    /// Parses a greeting; None if the token is wrong.
    fn read(bytes: &[u8; GREETING], token: &Token) -> Option<Greeting> {
        let mut version = [0; VERSION];
        version.copy_from_slice(&bytes[36..]);
        let order = u32::from_ne_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        let (rank, size) = (word(bytes, 24) as usize, word(bytes, 28) as usize);
        let known = Greeting { order, protocol: word(bytes, 20), rank, size, port: word(bytes, 32) as u16, version };
        token.is(&bytes[..16]).then_some(known)
    }

    /// Why a process that knows the token cannot be a member; None if it can.
    fn refusal(&self, options: &JoinOptions, is_taken: impl Fn(usize) -> bool) -> Option<String> {
        let member = format!("member {}", self.rank.saturating_add(1));
        if self.protocol != PROTOCOL || self.version != padded(options.version) {
            let theirs = String::from_utf8_lossy(&self.version);
            let (theirs, own) = (theirs.trim_end_matches('\0'), options.version);
            return Some(format!(
                "{member} has version {theirs} of verdigris, and member {} has {own}",
                options.rank + 1
            ));
        }
        if self.order != ORDER {
            return Some(format!("{member} stores numbers in another order of bytes"));
        }
        if self.size != options.size {
            return Some(format!("{member} expects a team of {}, and not of {}", self.size, options.size));
        }
        (self.rank >= options.size || is_taken(self.rank)).then(|| format!("{member} was there already"))
    }
}

/// A wait with a time limit, which checks for interrupts.
struct Wait {
    until: Instant,
    watch: Watch,
}

impl Wait {
    fn new(timeout: Duration) -> Wait {
        let now = Instant::now();
        Wait { until: now.checked_add(timeout).unwrap_or(now + Duration::from_secs(86_400 * 365)), watch: Watch::new() }
    }

    fn rest(&mut self, what: impl Fn() -> String) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(Error::new(Kind::Member, format!("{} before the time was over", what()))
                .advise("A larger `timeout` waits longer."));
        }
        self.watch.rest()
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Writes all bytes.
fn write_all_to(link: &mut Link, mut bytes: &[u8], wait: &mut Wait, whom: usize) -> Result<()> {
    let gone = || Error::new(Kind::Member, format!("member {} has left while the team was made", whom + 1));
    while !bytes.is_empty() {
        match link.write(bytes) {
            Moved::Closed => return Err(gone()),
            Moved::Bytes(0) => wait.rest(|| format!("member {} took nothing", whom + 1))?,
            Moved::Bytes(n) => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// Reads until `into` is full.
fn read_exact_from(link: &mut Link, mut into: &mut [u8], wait: &mut Wait, gone: impl Fn() -> Error) -> Result<()> {
    while !into.is_empty() {
        match link.read(into) {
            Moved::Closed => return Err(gone()),
            Moved::Bytes(0) => wait.rest(|| "a member said nothing".to_string())?,
            Moved::Bytes(n) => into = &mut into[n..],
        }
    }
    Ok(())
}

fn connect(to: SocketAddr, wait: &mut Wait) -> Result<Link> {
    /// The time between two checks for an interrupt.
    const ATTEMPT: Duration = Duration::from_millis(500);
    loop {
        match TcpStream::connect_timeout(&to, ATTEMPT.min(wait.left().max(Duration::from_millis(1)))) {
            Ok(stream) => return Link::new(stream),
            Err(e) if e.kind() == ErrorKind::TimedOut => wait.rest(|| format!("{to} did not answer"))?,
            Err(e) => return Err(failed(&format!("cannot reach the member at {to}"), &e)),
        }
    }
}

/// Accepted connections that have not yet presented the token.
struct PendingConnections<'a> {
    listener: &'a Listener,
    waiting: Vec<(Link, [u8; GREETING], usize, Instant)>,
}

impl PendingConnections<'_> {
    /// The next connection that presents the token; None if there is none now.
    fn next(&mut self, token: &Token) -> Result<Option<(Link, Greeting)>> {
        while self.waiting.len() < MOST_WAITING {
            match self.listener.socket.accept() {
                Ok((stream, _)) => {
                    if let Ok(link) = Link::new(stream) {
                        fallible::push(&mut self.waiting, (link, [0; GREETING], 0, Instant::now()))?;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // a connection that was closed again
                Err(_) => break,
            }
        }
        let mut k = 0;
        while k < self.waiting.len() {
            let (link, bytes, have, since) = &mut self.waiting[k];
            let closed = match link.read(&mut bytes[*have..]) {
                Moved::Closed => true,
                Moved::Bytes(n) => {
                    *have += n;
                    // A connection that does not start with the token is closed at once.
                    since.elapsed() > PATIENCE || *have >= 16 && !token.is(&bytes[..16])
                }
            };
            if closed {
                self.waiting.swap_remove(k);
            } else if *have == GREETING {
                let (link, bytes, ..) = self.waiting.swap_remove(k);
                if let Some(greeting) = Greeting::read(&bytes, token) {
                    return Ok(Some((link, greeting)));
                }
            } else {
                k += 1;
            }
        }
        Ok(None)
    }
}

// ---- joining -----------------------------------------------------------------------------------------

/// The connections to the members, by rank; None to itself.
pub type Links = Vec<Option<Link>>;

/// Joins a team. Only the first member passes a listener. Returns when all pairs of members are connected.
///
/// # Errors
/// `Member` if members are refused, or do not join in time.
pub fn join(listener: Option<Listener>, options: &JoinOptions) -> Result<Links> {
    let mut wait = Wait::new(options.timeout);
    match listener {
        Some(listener) => gather(&listener, options, &mut wait),
        None => ask(options, &mut wait),
    }
}

fn missing(links: &Links, own: usize) -> String {
    let absent = links.iter().enumerate().filter(|(k, link)| *k != own && link.is_none()).map(|(k, _)| k + 1);
    let names =
        absent.take(8).fold(String::new(), |all, k| format!("{all}{}{k}", if all.is_empty() { "" } else { ", " }));
    format!("of {} members these did not join: {names}", links.len())
}

/// The first member: receives all greetings, and sends each member the addresses of all.
fn gather(listener: &Listener, options: &JoinOptions, wait: &mut Wait) -> Result<Links> {
    let mut links: Links = fallible::collected((0..options.size).map(|_| None))?;
    let mut ports = fallible::filled(0u16, options.size)?;
    let mut pending = PendingConnections { listener, waiting: Vec::new() };
    while links.iter().skip(1).any(Option::is_none) {
        match pending.next(&options.token)? {
            None => wait.rest(|| missing(&links, 0))?,
            Some((mut link, greeting)) => {
                if let Some(why) = greeting.refusal(options, |rank| rank == 0 || links[rank].is_some()) {
                    let mut told = [0; ANSWER + TEXT];
                    let n = why.len().min(TEXT);
                    told[0] = 1;
                    told[4..8].copy_from_slice(&(n as u32).to_le_bytes());
                    told[ANSWER..ANSWER + n].copy_from_slice(&why.as_bytes()[..n]);
                    let mut all = links.iter_mut().flatten();
                    // Errors are ignored: the member may have left.
                    _ = write_all_to(&mut link, &told[..ANSWER + n], wait, greeting.rank);
                    all.try_for_each(|link| write_all_to(link, &told[..ANSWER + n], wait, 0)).ok();
                    return Err(refused(&why));
                }
                ports[greeting.rank] = greeting.port;
                links[greeting.rank] = Some(link);
            }
        }
    }
    let mut answer = fallible::filled(0u8, ANSWER + ADDRESS * options.size)?;
    for (k, (link, port)) in links.iter().zip(&ports).enumerate() {
        let peer = link.as_ref().and_then(Link::stream).and_then(|stream| stream.peer_addr().ok());
        let at = ANSWER + ADDRESS * k;
        if let Some(peer) = peer {
            let ip = match peer.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            answer[at..at + 16].copy_from_slice(&ip.octets());
        }
        answer[at + 16..at + 18].copy_from_slice(&port.to_le_bytes());
    }
    for (k, link) in links.iter_mut().enumerate() {
        if let Some(link) = link {
            write_all_to(link, &answer, wait, k)?;
        }
    }
    Ok(links)
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Member, why)
        .advise("All members need the same version of verdigris and one team's size and token.")
}

/// Any other member: greets the first member, connects to those of lower rank, and accepts those of higher rank.
fn ask(options: &JoinOptions, wait: &mut Wait) -> Result<Links> {
    let name = || format!("{}:{}", options.address, options.port);
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(options.address, options.port));
    let to = found.map_err(|e| failed(&format!("there is no host {}", options.address), &e))?.next();
    let to = to.ok_or_else(|| Error::new(Kind::Member, format!("there is no host {}", options.address)))?;
    let mut first = connect(to, wait)?;
    // Listen on the address from which the first member was reached: the others can reach it too.
    let own = first.stream().and_then(|stream| stream.local_addr().ok()).map_or(to.ip(), |address| address.ip());
    let listener = Listener::new(&own.to_string(), 0)?;
    write_all_to(&mut first, &Greeting::bytes(options, listener.port()?), wait, 0)?;

    let closed = || {
        Error::new(Kind::Member, format!("{} has closed the connection", name()))
            .advise("Its team has another token, or it has given up.")
    };
    let mut head = [0; ANSWER];
    read_exact_from(&mut first, &mut head, wait, closed)?;
    if head[0] != 0 {
        let mut text = [0; TEXT];
        let n = (word(&head, 4) as usize).min(TEXT);
        read_exact_from(&mut first, &mut text[..n], wait, closed)?;
        return Err(refused(&String::from_utf8_lossy(&text[..n])));
    }
    let mut table = fallible::filled(0u8, ADDRESS * options.size)?;
    read_exact_from(&mut first, &mut table, wait, closed)?;
    let mut links: Links = fallible::collected((0..options.size).map(|_| None))?;
    links[0] = Some(first);
    for rank in 1..options.rank {
        let row = &table[ADDRESS * rank..ADDRESS * (rank + 1)];
        let mut ip = [0; 16];
        ip.copy_from_slice(&row[..16]);
        let to = SocketAddr::new(IpAddr::from(ip).to_canonical(), u16::from_le_bytes([row[16], row[17]]));
        let mut link = connect(to, wait)?;
        write_all_to(&mut link, &Greeting::bytes(options, 0), wait, rank)?;
        links[rank] = Some(link);
    }
    let mut pending = PendingConnections { listener: &listener, waiting: Vec::new() };
    while links.iter().skip(options.rank + 1).any(Option::is_none) {
        match pending.next(&options.token)? {
            None => wait.rest(|| missing(&links, options.rank))?,
            Some((link, greeting)) => {
                let is_taken = |rank: usize| rank <= options.rank || links[rank].is_some();
                if let Some(why) = greeting.refusal(options, is_taken) {
                    return Err(refused(&why));
                }
                links[greeting.rank] = Some(link);
            }
        }
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn options(rank: usize, size: usize, port: u16, token: Token) -> JoinOptions<'static> {
        let timeout = Duration::from_secs(10);
        JoinOptions { rank, size, address: "127.0.0.1", port, token, version: "1.2.3", timeout }
    }

    #[test]
    fn tokens_are_texts_and_differ() {
        let token = Token::new();
        assert!(Token::parse(&token.text()).unwrap() == token && Token::new() != token);
        for text in ["", "00", &"g".repeat(32), &"é".repeat(16)] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn members_meet_and_strangers_do_not() {
        let listener = Listener::new("127.0.0.1", 0).unwrap();
        let (port, token) = (listener.port().unwrap(), Token::new());
        // silent connections, one that sends other data, and one that guesses a token
        let mut strangers: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        strangers[0].write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let wrong = std::thread::spawn(move || join(None, &options(1, 3, port, Token::new())).err());
        let error = {
            let others: Vec<_> = (1..3)
                .map(|rank| std::thread::spawn(move || join(None, &options(rank, 3, port, token)).map(|l| l.len())))
                .collect();
            let links = join(Some(listener), &options(0, 3, port, token)).unwrap();
            assert!(links[0].is_none() && links[1].is_some() && links[2].is_some());
            for other in others {
                assert_eq!(other.join().unwrap().unwrap(), 3);
            }
            wrong.join().unwrap()
        };
        assert_eq!(error.unwrap().kind, Kind::Member);
    }

    #[test]
    fn another_version_or_size_is_refused_on_both_sides() {
        for (version, size, said) in [("9.9.9", 2, "version"), ("1.2.3", 3, "team of 3")] {
            let listener = Listener::new("127.0.0.1", 0).unwrap();
            let (port, token) = (listener.port().unwrap(), Token::new());
            let other = std::thread::spawn(move || {
                join(None, &JoinOptions { version, ..options(1, size, port, token) }).err().unwrap()
            });
            let error = join(Some(listener), &options(0, 2, port, token)).err().unwrap();
            for error in [error, other.join().unwrap()] {
                assert!(error.kind == Kind::Member && error.message.contains(said), "{error}");
            }
        }
    }

    #[test]
    fn who_does_not_come_is_named_when_the_time_is_over() {
        let listener = Listener::new("127.0.0.1", 0).unwrap();
        let timeout = Duration::from_millis(200);
        let options = JoinOptions { timeout, ..options(0, 3, listener.port().unwrap(), Token::new()) };
        let error = join(Some(listener), &options).err().unwrap();
        assert!(error.message.contains("did not join: 2, 3"), "{error}");
    }
}
