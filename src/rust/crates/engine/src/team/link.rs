//! A non-blocking socket connection to another member. A forked child closes its copies of the sockets, so that the
//! others notice the end of a member even if its child lives on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::fork;

#[cfg(unix)]
mod copies {
    //! The descriptors that a forked child closes.
    use std::os::fd::RawFd;
    use std::sync::atomic::{AtomicI32, Ordering::AcqRel};
    use std::sync::Once;

    use verdigris_ops::fork;

    /// 1024: the default limit of descriptors for a process.
    static OPEN: [AtomicI32; 1024] = [const { AtomicI32::new(-1) }; 1024];

    unsafe extern "C" {
        fn close(descriptor: i32) -> i32;
    }

    extern "C" fn close_all() {
        for slot in &OPEN {
            let descriptor = slot.swap(-1, AcqRel);
            if descriptor >= 0 {
                // SAFETY: the child's copy of a socket, which nothing in a child uses (`Link::check`).
                unsafe { close(descriptor) };
            }
        }
    }

    pub fn add(descriptor: RawFd) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| fork::in_child(close_all));
        let free =
            |slot: &&AtomicI32| slot.compare_exchange(-1, descriptor, AcqRel, std::sync::atomic::Ordering::Relaxed);
        _ = OPEN.iter().find(|slot| free(slot).is_ok());
    }

    pub fn remove(descriptor: RawFd) {
        let own =
            |slot: &&AtomicI32| slot.compare_exchange(descriptor, -1, AcqRel, std::sync::atomic::Ordering::Relaxed);
        _ = OPEN.iter().find(|slot| own(slot).is_ok());
    }
}

/// A connection to wait for, to become readable or writable.
#[derive(Clone, Copy)]
pub struct Awaited<'a> {
    pub link: &'a Link,
    pub writes: bool,
}

/// The system's `poll()`.
#[cfg(unix)]
mod system {
    use std::time::Duration;

    #[repr(C)]
    pub struct Poll {
        pub descriptor: i32,
        pub events: i16,
        pub happened: i16,
    }
    #[cfg(target_os = "macos")]
    type Count = std::os::raw::c_uint;
    #[cfg(not(target_os = "macos"))]
    type Count = std::os::raw::c_ulong;
    unsafe extern "C" {
        fn poll(all: *mut Poll, count: Count, milliseconds: i32) -> i32;
    }
    pub const READ: i16 = 1;
    pub const WRITE: i16 = 4;

    /// Waits until an event occurs, at most for the given time.
    pub fn wait(all: &mut [Poll], most: Duration) {
        // SAFETY: an array of this many structs, laid out as the system's `pollfd`.
        unsafe { poll(all.as_mut_ptr(), all.len() as Count, most.as_millis() as i32) };
    }
}

/// Sleeps until one of the connections is ready, at most for the given time. A thread that yields instead would queue
/// behind all other threads that want the processor.
#[cfg(unix)]
pub fn sleep<'a>(awaited: impl Iterator<Item = Awaited<'a>> + Clone, most: Duration) {
    use system::{wait, Poll, READ, WRITE};
    /// If there are more connections, only the first are polled, and the timeout is short.
    const MOST: usize = 64;
    let mut all = [const { Poll { descriptor: -1, events: 0, happened: 0 } }; MOST];
    let mut count = 0;
    for (slot, Awaited { link, writes }) in all.iter_mut().zip(awaited.clone()) {
        let Some(stream) = link.stream() else { continue };
        slot.descriptor = std::os::fd::AsRawFd::as_raw_fd(stream);
        slot.events = if writes { WRITE } else { READ };
        count += 1;
    }
    let most = if awaited.count() > MOST { Duration::from_millis(1) } else { most };
    wait(&mut all[..count], most);
}

/// Returns a function that says whether the other ends are still open. It may be called on any thread, but only while
/// the connections live.
#[cfg(all(unix, not(target_os = "macos")))]
pub fn are_open<'a>(links: impl Iterator<Item = &'a Link>) -> Box<dyn Fn() -> bool + Send> {
    use system::{wait, Poll};
    /// `POLLRDHUP`: the other end has closed. Does not consume received data.
    const ENDED: i16 = 0x2000;
    let descriptors: Vec<i32> = links.filter_map(Link::stream).map(std::os::fd::AsRawFd::as_raw_fd).collect();
    Box::new(move || {
        let mut all: Vec<Poll> =
            descriptors.iter().map(|&descriptor| Poll { descriptor, events: ENDED, happened: 0 }).collect();
        wait(&mut all, Duration::ZERO);
        all.iter().all(|poll| poll.happened == 0)
    })
}

#[cfg(not(unix))]
pub fn sleep<'a>(_: impl Iterator<Item = Awaited<'a>> + Clone, _: Duration) {
    std::thread::yield_now();
}

/// The result of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The number of bytes moved; 0 if the socket is not ready.
    Bytes(usize),
    /// The other end is closed.
    Closed,
}

/// A connection to another member.
pub struct Link {
    stream: Option<TcpStream>,
    /// `fork::depth()` of the process that owns the connection.
    home: u32,
}

impl Link {
    /// Makes a connected socket non-blocking.
    ///
    /// # Errors
    /// `Member` if the socket is closed already.
    pub fn new(stream: TcpStream) -> Result<Link> {
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        ready.map_err(|e| Error::new(Kind::Member, format!("a connection failed: {e}")))?;
        #[cfg(unix)]
        copies::add(std::os::fd::AsRawFd::as_raw_fd(&stream));
        Ok(Link { stream: Some(stream), home: fork::watch() })
    }

    /// Checks that this process owns the connection.
    ///
    /// # Errors
    /// `Fork` in a forked child of the member.
    pub fn check(&self) -> Result<()> {
        if self.home == fork::depth() {
            return Ok(());
        }
        Err(Error::new(Kind::Fork, "this process was forked from a member of a team and is none itself")
            .advise("Call collectives in the process that joined the team."))
    }

    fn moved(result: std::io::Result<usize>) -> Moved {
        match result {
            Ok(0) => Moved::Closed,
            Ok(n) => Moved::Bytes(n),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Moved::Bytes(0),
            Err(_) => Moved::Closed,
        }
    }

    /// Reads received bytes, at most as many as fit `into`, which must not be empty.
    pub fn read(&mut self, into: &mut [u8]) -> Moved {
        self.stream.as_mut().map_or(Moved::Closed, |stream| Link::moved(stream.read(into)))
    }

    /// As `read`, but leaves the bytes in the socket.
    pub fn peek(&self, into: &mut [u8]) -> Moved {
        self.stream.as_ref().map_or(Moved::Closed, |stream| Link::moved(stream.peek(into)))
    }

    /// Writes as many of the bytes as is possible without blocking.
    pub fn write(&mut self, bytes: &[u8]) -> Moved {
        self.stream.as_mut().map_or(Moved::Closed, |stream| Link::moved(stream.write(bytes)))
    }

    /// Tells the other end that nothing more will be sent.
    pub fn end(&mut self) {
        if let Some(stream) = &self.stream {
            _ = stream.shutdown(Shutdown::Write);
        }
    }

    pub fn stream(&self) -> Option<&TcpStream> {
        self.stream.as_ref()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        if self.home != fork::depth() {
            // The child closed it when it began; the descriptor may be another file's by now.
            std::mem::forget(stream);
            return;
        }
        #[cfg(unix)]
        copies::remove(std::os::fd::AsRawFd::as_raw_fd(&stream));
    }
}
