//! A connection to another member: a socket that never blocks. A forked child closes its copies, so that the end of a
//! member is seen by the others although its child lives on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::fork;

#[cfg(unix)]
mod copies {
    //! Descriptors that a child closes.
    use std::os::fd::RawFd;
    use std::sync::atomic::{AtomicI32, Ordering::AcqRel};
    use std::sync::Once;

    use verdigris_ops::fork;

    /// As many as a process has descriptors by default.
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

/// What is awaited of a connection.
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

    /// Waits until something has happened, and no longer than asked.
    pub fn wait(all: &mut [Poll], most: Duration) {
        // SAFETY: an array of so many, as the system knows them.
        unsafe { poll(all.as_mut_ptr(), all.len() as Count, most.as_millis() as i32) };
    }
}

/// Sleeps until one of some connections can go on, and no longer than asked. A thread that yields instead waits for a
/// turn behind all others that want the processor.
#[cfg(unix)]
pub fn sleep<'a>(awaited: impl Iterator<Item = Awaited<'a>> + Clone, most: Duration) {
    use system::{wait, Poll, READ, WRITE};
    /// Of more the first count, and the others are looked at soon.
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

/// Says, on any thread and as long as the connections live, whether the other ends have them open too.
#[cfg(all(unix, not(target_os = "macos")))]
pub fn are_open<'a>(links: impl Iterator<Item = &'a Link>) -> Box<dyn Fn() -> bool + Send> {
    use system::{wait, Poll};
    /// `POLLRDHUP`: nothing will come any more. What has come is not read.
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

/// What a read or write has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// So many bytes; 0 where none can be moved now.
    Bytes(usize),
    /// The other end is closed.
    Closed,
}

pub struct Link {
    stream: Option<TcpStream>,
    /// `fork::depth()` of the process that has the connection.
    home: u32,
}

impl Link {
    /// # Errors
    /// `Member` where the socket is closed already.
    pub fn new(stream: TcpStream) -> Result<Link> {
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        ready.map_err(|e| Error::new(Kind::Member, format!("a connection failed: {e}")))?;
        #[cfg(unix)]
        copies::add(std::os::fd::AsRawFd::as_raw_fd(&stream));
        Ok(Link { stream: Some(stream), home: fork::watch() })
    }

    /// # Errors
    /// `Fork` in a child of the member.
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

    /// Reads what has come, at most as much as there is room for, which must be some.
    pub fn read(&mut self, into: &mut [u8]) -> Moved {
        self.stream.as_mut().map_or(Moved::Closed, |stream| Link::moved(stream.read(into)))
    }

    /// As `read`, and leaves it there.
    pub fn peek(&self, into: &mut [u8]) -> Moved {
        self.stream.as_ref().map_or(Moved::Closed, |stream| Link::moved(stream.peek(into)))
    }

    /// Writes what can be written now of some bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Moved {
        self.stream.as_mut().map_or(Moved::Closed, |stream| Link::moved(stream.write(bytes)))
    }

    /// Tells the other end that nothing will come any more.
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
            // closed when the child began; the number may be another file's by now
            std::mem::forget(stream);
            return;
        }
        #[cfg(unix)]
        copies::remove(std::os::fd::AsRawFd::as_raw_fd(&stream));
    }
}
