//! Time spans of kernels and copies in a profile. This file records those of the cpu device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// A kernel or a copy.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    /// `kernel`, `library`, `graph`, `upload`, `download`, `copy` or `fill`.
    pub kind: &'static str,
    pub stream: u32,
    /// Bytes that a copy moves.
    pub bytes: u64,
    /// Seconds since the profile began.
    pub start: f64,
    pub end: f64,
}

static ON: AtomicBool = AtomicBool::new(false);
static HOST: Mutex<Option<(Instant, Vec<Span>)>> = Mutex::new(None);

fn host() -> std::sync::MutexGuard<'static, Option<(Instant, Vec<Span>)>> {
    HOST.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Begins to record spans of the cpu device.
pub(crate) fn begin_on_host() {
    *host() = Some((Instant::now(), Vec::new()));
    ON.store(true, Ordering::Relaxed);
}

/// Ends the recording, and returns the spans.
pub(crate) fn end_on_host() -> Vec<Span> {
    ON.store(false, Ordering::Relaxed);
    host().take().map_or_else(Vec::new, |(_, spans)| spans)
}

/// A guard that records a span of the cpu device, from its creation until it is dropped.
pub(crate) struct OnHost {
    name: String,
    began: Instant,
}

impl Drop for OnHost {
    fn drop(&mut self) {
        if let Some((base, spans)) = host().as_mut() {
            let since = |at: Instant| at.saturating_duration_since(*base).as_secs_f64();
            let name = std::mem::take(&mut self.name);
            let (start, end) = (since(self.began), since(Instant::now()));
            spans.push(Span { name, kind: "kernel", stream: 0, bytes: 0, start, end });
        }
    }
}

/// Begins a span of the cpu device, if a profile is being recorded.
pub(crate) fn on_host(name: impl FnOnce() -> String) -> Option<OnHost> {
    ON.load(Ordering::Relaxed).then(|| OnHost { name: name(), began: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_follow_each_other() {
        begin_on_host();
        drop(on_host(|| "first".into()));
        drop(on_host(|| "second".into()));
        let spans = end_on_host();
        // other tests may run meanwhile
        let at = |name| spans.iter().find(|span| span.name == name).expect("noted");
        assert!(at("first").end <= at("second").start && at("second").start <= at("second").end);
    }
}
