//! A device in use: its core, its streams and its memory pool. Higher layers keep their per-device state in `PerDevice`
//! values of their own.

use std::ops::Deref;
use std::sync::{Mutex, OnceLock};

use super::core::{lock, Core, Entered};
use super::memory_pool::Pool;
use super::stream_state::{StreamState, StreamStates};
use crate::backend::cuda::driver::api::{self, Context, SUCCESS};
use crate::backend::cuda::driver::devices::{check_not_forked, count, describe, no_device};
use crate::memory::host_pool::{self, PageLock};
use verdigris_ops::error::Result;

/// More devices than a machine has.
pub(crate) const MOST_DEVICES: usize = 64;

/// A device in use. There is one for each ordinal, created at first use and never destroyed.
pub struct Cuda {
    core: Core,
    /// Work is queued on the current stream, so it runs in order; `hazards` orders work on several streams.
    pub(super) stream_states: StreamStates,
    pub(super) pool: Pool,
}

impl Deref for Cuda {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

/// A value for each device, created at its first use.
pub(crate) struct PerDevice<T>([OnceLock<T>; MOST_DEVICES]);

impl<T> PerDevice<T> {
    pub const fn new() -> PerDevice<T> {
        PerDevice([const { OnceLock::new() }; MOST_DEVICES])
    }

    /// The device's value, if it has been created.
    pub fn get(&self, core: &Core) -> Option<&T> {
        self.0[core.properties.ordinal as usize].get()
    }

    /// The device's value, created by `make` if it is new.
    pub fn get_or(&self, core: &Core, make: impl FnOnce() -> T) -> &T {
        self.0[core.properties.ordinal as usize].get_or_init(make)
    }
}

impl<T: Default> PerDevice<T> {
    /// The device's value, created by default if it is new.
    pub fn of(&self, core: &Core) -> &T {
        self.get_or(core, T::default)
    }
}

static DEVICES: [OnceLock<&'static Cuda>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];

impl Cuda {
    /// The devices that this process has used so far.
    pub(crate) fn in_use() -> impl Iterator<Item = &'static Cuda> {
        DEVICES.iter().filter_map(|slot| slot.get().copied())
    }

    /// The device with an ordinal, initialised at first use.
    ///
    /// # Errors
    /// `Device`, `Library` or `Fork`, where it cannot be used.
    pub fn of(ordinal: u32) -> Result<&'static Cuda> {
        static MAKING: Mutex<()> = Mutex::new(());
        check_not_forked()?;
        let Some(slot) = DEVICES.get(ordinal as usize) else {
            return Err(no_device(ordinal, count()?));
        };
        if let Some(cuda) = slot.get() {
            return Ok(cuda);
        }
        let _making = lock(&MAKING);
        if let Some(cuda) = slot.get() {
            return Ok(cuda);
        }
        let cuda: &'static Cuda = Box::leak(Box::new(Cuda::new(ordinal)?));
        Ok(slot.get_or_init(|| cuda))
    }

    fn new(ordinal: u32) -> Result<Cuda> {
        let properties = describe(ordinal)?;
        let driver = api::driver()?;
        let (mut device, mut context, mut before) = (0, Context::NULL, Context::NULL);
        // SAFETY: each writes a handle.
        unsafe {
            api::check(driver, (driver.device_get)(&mut device, ordinal as i32), "cuDeviceGet")?;
            api::check(driver, (driver.context_retain)(&mut context, device), "cuDevicePrimaryCtxRetain")?;
            api::check(driver, (driver.context_get)(&mut before), "cuCtxGetCurrent")?;
            api::check(driver, (driver.context_set)(context), "cuCtxSetCurrent")?;
        }
        let _entered = Entered::after(driver, before);
        host_pool::set_page_lock(PageLock { pin, unpin });
        let check = |status, function: &str| api::check(driver, status, function);
        Ok(Cuda {
            pool: Pool::new(driver, &properties)?,
            stream_states: StreamStates::new(StreamState::new(driver, &check, 0, 0)?),
            core: Core::new(properties, driver, context),
        })
    }

    /// The device with a static lifetime, if this process may use it.
    ///
    /// # Errors
    /// As `enter`.
    pub(crate) fn usable(&self) -> Result<&'static Cuda> {
        self.check_broken()?;
        Cuda::of(self.properties.ordinal)
    }
}

/// Page-locks host memory, so that copies to and from it need no staging. Returns false where the driver refuses. The
/// caller must call `unpin` before it frees the memory.
pub fn pin(ordinal: u32, address: *mut u8, bytes: usize) -> bool {
    let Ok(cuda) = Cuda::of(ordinal) else { return false };
    let Ok(_entered) = cuda.enter() else { return false };
    // SAFETY: the caller owns the memory, and calls `unpin` before it is freed.
    unsafe { (cuda.driver.host_register)(address.cast(), bytes, api::CU_MEMHOSTREGISTER_PORTABLE) == SUCCESS }
}

/// Undoes `pin`.
pub fn unpin(ordinal: u32, address: *mut u8) {
    let Ok(cuda) = Cuda::of(ordinal) else { return };
    let Ok(_entered) = cuda.enter() else { return };
    // SAFETY: locked by `pin`; a status cannot be used here.
    unsafe { (cuda.driver.host_unregister)(address.cast()) };
}
