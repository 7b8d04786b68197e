//! The part of a device that all other modules need: its context, and error handling.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::backend::cuda::driver::api::{self, Context, Driver, SUCCESS};
use crate::backend::cuda::driver::devices::{check_not_forked, Properties};
use crate::backend::cuda::driver::kernel::Kernel;
use crate::backend::cuda::driver::submitted::flush;
use crate::memory::buffer::Device;
use crate::memory::counters;
use verdigris_ops::error::{Error, Kind, Result};

/// A device's context, and the errors that it is in.
pub struct Core {
    pub properties: Properties,
    pub driver: &'static Driver,
    /// The primary context, which other frameworks in the process share.
    pub context: Context,
    // kernels since the last wait, for error messages
    recent: Mutex<VecDeque<Arc<Kernel>>>,
    broken: OnceLock<Error>,
    /// Why work has ended without values, until a wait reports it. `ANY_LOST` tells whether any device has such an
    /// error.
    lost: Mutex<Option<Error>>,
}

static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// The most kernels that an error names.
const RECENT: usize = 8;

/// Whether each launch is followed by a wait, so that an error names the kernel that caused it.
static CHECKS: AtomicBool = AtomicBool::new(false);

pub fn check_launches(each: bool) {
    CHECKS.store(each, Ordering::Relaxed);
}

pub fn checks_launches() -> bool {
    CHECKS.load(Ordering::Relaxed)
}

/// Locks a mutex, also after a panic: no code here leaves the data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Guard of the current context; drop restores the previous one.
pub struct Entered {
    driver: &'static Driver,
    before: Option<Context>,
}

impl Entered {
    /// A guard that restores `before`.
    pub(super) fn after(driver: &'static Driver, before: Context) -> Entered {
        Entered { driver, before: Some(before) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the context that was current; a status cannot be used here.
            unsafe { (self.driver.context_set)(before) };
        }
    }
}

impl Core {
    pub(super) fn new(properties: Properties, driver: &'static Driver, context: Context) -> Core {
        Core { properties, driver, context, recent: Mutex::default(), broken: OnceLock::new(), lost: Mutex::default() }
    }

    pub fn device(&self) -> Device {
        Device::Cuda(self.properties.ordinal)
    }

    /// Makes the device's context current on this thread, and waits until the launch thread's ring is empty (`submit`).
    /// Required before every driver call.
    ///
    /// # Errors
    /// `Fork` in a forked child; `Launch` after an error that has corrupted the context.
    pub fn enter(&self) -> Result<Entered> {
        check_not_forked()?;
        flush();
        self.check_broken()?;
        let mut before = Context::NULL;
        // SAFETY: writes a handle; makes a live context current.
        unsafe {
            self.check((self.driver.context_get)(&mut before), "cuCtxGetCurrent")?;
            if before == self.context {
                return Ok(Entered { driver: self.driver, before: None });
            }
            self.check((self.driver.context_set)(self.context), "cuCtxSetCurrent")?;
        }
        // a thread without a context keeps this one, as after a CUDA runtime call, so the next call need not set it
        Ok(Entered { driver: self.driver, before: (before != Context::NULL).then_some(before) })
    }

    /// Turns a status into an error. A sticky error, which corrupts the context, is remembered and returned from then
    /// on.
    pub fn check(&self, status: u32, function: &str) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        if !api::is_sticky(status) {
            return api::check(self.driver, status, function);
        }
        let mut names: Vec<String> = lock(&self.recent).iter().map(|k| format!("`{}`", k.name)).collect();
        names.dedup();
        let culprit = match names.len() {
            0 => String::new(),
            1 => format!(" in kernel {}", names[0]),
            _ => format!(" in one of the kernels {}", names.join(", ")),
        };
        let error = Error::new(
            Kind::Launch,
            format!("device {} failed{culprit}: {}", self.device(), api::describe(self.driver, status)),
        )
        .advise("R must be restarted: after this failure CUDA refuses all work in this process.");
        Err(self.broken.get_or_init(|| error).clone())
    }

    /// Whether an error has made the device unusable in this process.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// # Errors
    /// As `enter`.
    pub(crate) fn check_broken(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes the next wait fail: queued work has ended without values.
    pub(crate) fn set_pending_error(&self, error: Error) {
        *lock(&self.lost) = Some(error);
        ANY_LOST.store(true, Ordering::Release);
    }

    /// # Errors
    /// The error given to `set_pending_error`, once.
    #[inline]
    pub(crate) fn take_pending_error(&self) -> Result<()> {
        if !ANY_LOST.load(Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.lost).take().map_or(Ok(()), Err)
    }

    /// Makes the context current for the thread's lifetime.
    pub(crate) fn bind(&self) {
        // SAFETY: a live context; what needs it fails where this does.
        unsafe { (self.driver.context_set)(self.context) };
    }

    /// Handles the status of a launch on the launch thread: R has already been told that it is queued.
    pub(crate) fn check_submitted(&self, status: u32) {
        if let Err(error) = self.check(status, "cuLaunchKernel") {
            // even where the context survives, the launch's results are missing
            _ = self
                .broken
                .set(error.advise("R must be restarted: values of arrays that depend on this launch are lost."));
        }
    }

    /// Records a queued kernel, for error messages.
    pub(crate) fn note_recent(&self, kernel: &Arc<Kernel>) {
        counters::LAUNCHES.add(1);
        let mut recent = lock(&self.recent);
        if recent.back().is_none_or(|last| !Arc::ptr_eq(last, kernel)) {
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(kernel.clone());
        }
    }

    /// Clears the record of queued kernels, which have completed.
    pub(crate) fn forget_recent(&self) {
        lock(&self.recent).clear();
    }
}
