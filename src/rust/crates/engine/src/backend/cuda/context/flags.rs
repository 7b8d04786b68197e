//! Carries warnings from kernels to the host.
//!
//! A kernel that may warn gets some words of device memory and sets bits in them; the first thread to set a bit also
//! sets a word in host memory. At the next wait that word tells whether the device words must be downloaded, so kernels
//! that do not warn cost nothing.

use std::sync::{Mutex, MutexGuard};

use super::core::{lock, Core};
use crate::backend::cuda::codegen::notes::{FlagBits, Noted};
use crate::backend::cuda::driver::api::{Check, Driver, Stream};
use crate::backend::cuda::driver::host_memory::Host;
use crate::plan::warning;
use verdigris_compile::Failed;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::error::Result;

/// Flag words of a stream. They run out only after thousands of launches without a wait.
const WORDS: usize = 1 << 14;

/// A warning that a launch since the last wait may have raised.
struct Pending {
    bits: FlagBits,
    /// Index of the first flag word of the launch.
    first: usize,
    site: Option<CallSite>,
}

#[derive(Default)]
struct State {
    used: usize,
    pending: Vec<Pending>,
}

/// The flag words of a stream.
pub struct Flags {
    words: u64,
    any: Host,
    state: Mutex<State>,
}

impl Flags {
    /// The context must be current.
    pub(crate) fn new(driver: &'static Driver, check: Check<'_>, stream: Stream) -> Result<Flags> {
        let mut words = 0;
        // SAFETY: writes an address; then clears the memory that it points to.
        unsafe {
            check((driver.allocate)(&mut words, WORDS * 4), "cuMemAlloc")?;
            check((driver.set_async)(words, 0, WORDS * 4, stream), "cuMemsetD8Async")?;
        }
        Ok(Flags { words, any: Host::new(driver, check, 64)?, state: Mutex::default() })
    }

    /// Reserves flag words for one launch, whose warning instructions were recorded at `sites`. Returns the addresses
    /// of the words and of the host's word. The guard must live until the kernel is queued: a collection before that
    /// would miss its warnings. If the words run out, `drain` waits for the stream and the pending warnings are raised
    /// first.
    pub(crate) fn take(
        &self,
        core: &Core,
        words: usize,
        sites: &[(FlagBits, Option<CallSite>)],
        drain: impl Fn() -> Result<Stream>,
    ) -> Result<((u64, u64), Queueing<'_>)> {
        let mut state = lock(&self.state);
        while state.used + words > WORDS {
            drop(state);
            let _entered = core.enter()?;
            self.collect(core, &drain)?;
            state = lock(&self.state);
        }
        let first = state.used;
        // failure records consist of 64-bit words
        state.used += words.next_multiple_of(2);
        state.pending.extend(sites.iter().map(|(bits, site)| Pending { bits: *bits, first, site: site.clone() }));
        Ok(((self.words + 4 * first as u64, self.any.device), Queueing(state)))
    }

    /// Whether some kernel since the last wait may have warned.
    pub(crate) fn any_pending(&self) -> bool {
        lock(&self.state).used > 0
    }

    /// Raises the warnings of all queued kernels, after `drain` has waited for them. The context must be current.
    pub(crate) fn collect(&self, core: &Core, drain: impl Fn() -> Result<Stream>) -> Result<()> {
        // The lock is not held during the wait, which may run R code that launches kernels itself: a finalizer, or a
        // handler of events. Those kernels are waited for too.
        loop {
            let used = lock(&self.state).used;
            let stream = drain()?;
            let mut state = lock(&self.state);
            if state.used == used {
                return self.hand_on(core, stream, &mut state);
            }
        }
    }

    fn hand_on(&self, core: &Core, stream: Stream, state: &mut State) -> Result<()> {
        if state.used == 0 {
            return Ok(());
        }
        let used = std::mem::take(&mut state.used);
        let pending = std::mem::take(&mut state.pending);
        // SAFETY: the word is ours, and no kernel is running that could write it.
        let any = unsafe { std::ptr::replace(self.any.host.cast::<u32>(), 0) };
        if any == 0 {
            return Ok(());
        }
        let mut bits = vec![0u32; used];
        // SAFETY: the words are live; the copy is complete before `bits` is read.
        unsafe {
            let status = (core.driver.download_async)(bits.as_mut_ptr().cast(), self.words, used * 4, stream);
            core.check(status, "cuMemcpyDtoHAsync")?;
            core.check((core.driver.set_async)(self.words, 0, used * 4, stream), "cuMemsetD8Async")?;
            core.check((core.driver.stream_synchronize)(stream), "cuStreamSynchronize")?;
        }
        for p in pending {
            let FlagBits { word, shift, noted } = p.bits;
            let words = &bits[p.first + word as usize..];
            match noted {
                Noted::Row(op) => {
                    let found = words[0] >> shift & (u32::MAX >> (32 - op.row().flag.width()));
                    if found != 0 {
                        warning::note(op, found, p.site.as_ref());
                    }
                }
                Noted::Failures(routine) => {
                    let long = std::array::from_fn(|k| u64::from(words[2 * k]) | u64::from(words[2 * k + 1]) << 32);
                    if let Some(failed) = Failed::read(long) {
                        warning::fail(routine.0, failed, p.site.as_ref());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Holds the lock on the flag words, so that nobody collects warnings meanwhile.
pub(crate) struct Queueing<'a>(#[allow(dead_code)] MutexGuard<'a, State>);
