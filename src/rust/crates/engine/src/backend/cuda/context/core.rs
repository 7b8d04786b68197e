//! The parts of a device that all others need: its context, and the translation of its errors.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::backend::cuda::driver::api::{self, Context, Driver, SUCCESS};
use crate::backend::cuda::driver::devices::{check_home, Properties};
use crate::backend::cuda::driver::kernel::Kernel;
use crate::backend::cuda::driver::submitted::flush;
use crate::memory::buffer::Device;
use crate::memory::counters;
use verdigris_ops::error::{Error, Kind, Result};

/// A device's context, and the state of its failures.
pub struct Core {
    pub properties: Properties,
    pub driver: &'static Driver,
    /// The primary one, which other frameworks in the process share.
    pub context: Context,
    // what ran since the last wait, for messages
    recent: Mutex<VecDeque<Arc<Kernel>>>,
    broken: OnceLock<Error>,
    /// Why values of work that has ended are lost, until a wait tells; `ANY_LOST` says whether to look.
    lost: Mutex<Option<Error>>,
}

static ANY_LOST: AtomicBool = AtomicBool::new(false);

/// Kernels that an error names.
const RECENT: usize = 8;

/// Whether each launch is waited for, so that an error names the kernel that made it.
static CHECKS: AtomicBool = AtomicBool::new(false);

pub fn check_launches(each: bool) {
    CHECKS.store(each, Ordering::Relaxed);
}

pub fn checks_launches() -> bool {
    CHECKS.load(Ordering::Relaxed)
}

/// A lock whose data a panic cannot leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The context is current while this is alive; what was current before comes back.
pub struct Entered {
    driver: &'static Driver,
    before: Option<Context>,
}

impl Entered {
    /// The context that was current comes back.
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
    /// Every call of the driver needs it.
    ///
    /// # Errors
    /// `Fork` in a forked child; `Launch` after a failure that the context does not survive.
    pub fn enter(&self) -> Result<Entered> {
        check_home()?;
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
        // a thread that had none keeps ours, as after any call of the CUDA runtime: the next call finds it
        Ok(Entered { driver: self.driver, before: (before != Context::NULL).then_some(before) })
    }

    /// Turns a status into an error; remembers one that the context does not survive.
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

    /// Whether nothing can be done with the device any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// # Errors
    /// As `enter`.
    pub(crate) fn check_broken(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Lets the next wait fail: what was queued has ended without values.
    pub(crate) fn note_lost(&self, error: Error) {
        *lock(&self.lost) = Some(error);
        ANY_LOST.store(true, Ordering::Release);
    }

    /// # Errors
    /// What `note_lost` was told, once.
    #[inline]
    pub(crate) fn check_lost(&self) -> Result<()> {
        if !ANY_LOST.load(Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.lost).take().map_or(Ok(()), Err)
    }

    /// Makes the context current for as long as the thread lives.
    pub(crate) fn bind(&self) {
        // SAFETY: a live context; what needs it fails where this does.
        unsafe { (self.driver.context_set)(self.context) };
    }

    /// Takes note of the status of a launch that R believes to be queued.
    pub(crate) fn check_submitted(&self, status: u32) {
        if let Err(error) = self.check(status, "cuLaunchKernel") {
            // where the context survives, values are missing all the same
            _ = self
                .broken
                .set(error.advise("R must be restarted: values of arrays that depend on this launch are lost."));
        }
    }

    /// Remembers a kernel that is queued, for messages.
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

    /// Forgets which kernels were queued: they have ended.
    pub(crate) fn forget_recent(&self) {
        lock(&self.recent).clear();
    }
}
