//! Long waits check regularly for a user interrupt.

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

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}
