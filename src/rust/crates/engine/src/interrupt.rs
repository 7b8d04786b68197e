//! Long waits ask now and then whether the user wants them to end.

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

/// A wait under way.
pub struct Watch {
    next: Instant,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { next: Instant::now() + PERIOD }
    }

    /// Asks, every 50 ms.
    ///
    /// # Errors
    /// `Interrupt`.
    pub fn look(&mut self) -> Result<()> {
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
