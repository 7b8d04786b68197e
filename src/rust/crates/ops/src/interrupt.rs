//! Long waits check regularly for a user interrupt.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that tells whether an interrupt is pending. It is called on any thread, and must return false
/// where it cannot know.
pub fn set_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// How long a wait may spin (CUDA's own waits spin without end): a sleeping thread wakes up to 100 µs late.
const LIVELY: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_micros(50);

/// A wait in progress.
pub struct Watch {
    began: Instant,
    next: Instant,
}

impl Watch {
    pub fn new() -> Watch {
        let began = Instant::now();
        Watch { began, next: began + PERIOD }
    }

    /// To be called between two polls of a condition: checks for an interrupt and yields the processor; after a while
    /// it sleeps.
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

/// Elements between two checks of the clock: well under a millisecond.
const PART: usize = 1 << 16;

/// The ranges of `0 .. n` between which a loop checks for interrupts.
pub fn ranges(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(PART).map(move |from| from..n.min(from + PART))
}

/// The ranges of `0 .. n` for a loop on the calling thread, which the user may interrupt before each.
///
/// An item is `Err(Interrupt)` then.
pub fn parts(n: usize) -> impl Iterator<Item = Result<Range<usize>>> {
    let mut watch = (n > PART).then(Watch::new);
    ranges(n).map(move |range| watch.as_mut().map_or(Ok(()), Watch::check).map(|()| range))
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}
