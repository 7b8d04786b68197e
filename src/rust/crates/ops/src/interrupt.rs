//! Long waits check regularly for a user interrupt.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};

/// Between two questions.
const PERIOD: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// What tells whether an interrupt has come. It is asked on any thread, and must say no where it cannot know.
pub fn set_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// A wait may spin for so long, as CUDA's own waits do without end: a sleeping thread wakes up to 100 µs late.
const LIVELY: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_micros(50);

/// A wait under way.
pub struct Watch {
    began: Instant,
    next: Instant,
}

impl Watch {
    pub fn new() -> Watch {
        let began = Instant::now();
        Watch { began, next: began + PERIOD }
    }

    /// Called between two polls of what is awaited: checks for an interrupt and yields the processor; after a while it
    /// sleeps.
    ///
    /// # Errors
    /// `Interrupt`.
    pub fn rest(&mut self) -> Result<()> {
        self.check()?;
        if self.began.elapsed() < LIVELY {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Checks for an interrupt, at most every 50 ms.
    ///
    /// # Errors
    /// `Interrupt`.
    pub fn check(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + PERIOD;
        match CHECK.get() {
            Some(check) if check() => Err(Error::new(Kind::Interrupt, "interrupted")),
            _ => Ok(()),
        }
    }
}

/// Elements between two looks at the clock: well under a millisecond.
const PART: usize = 1 << 16;

/// The parts of `0 .. n`, with a look between two of them.
pub fn ranges(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(PART).map(move |from| from..n.min(from + PART))
}

/// The parts of `0 .. n` for a loop on the calling thread, which the user may end before each.
///
/// Each is `Err(Interrupt)` then.
pub fn parts(n: usize) -> impl Iterator<Item = Result<Range<usize>>> {
    let mut watch = (n > PART).then(Watch::new);
    ranges(n).map(move |range| watch.as_mut().map_or(Ok(()), Watch::check).map(|()| range))
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}
