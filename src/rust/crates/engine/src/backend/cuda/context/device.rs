//! A device: its context and stream, launching on it, waiting for it, and what its errors mean.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::capture::{self, Arena};
use super::hazards::Order;
use super::lane::{Lane, Lanes};
use super::pool::{self, Pool};
use super::profile::Profile;
use super::transfer::{Side, Staging};
use crate::backend::cuda::compile::Kernels;
use crate::backend::cuda::driver::api::{self, CUdevice_attribute, CUresult, Context, Driver, SUCCESS};
use crate::backend::cuda::launch::submit;
use crate::backend::cuda::launch::Kernel;
use crate::memory::buffer::Device;
use crate::memory::counters;
use crate::memory::host_pool::{self, PageLock};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::fork;
use verdigris_ops::interrupt::Watch;

/// What is known of a device without making a context on it.
#[derive(Clone, Debug)]
pub struct Properties {
    pub ordinal: u32,
    pub name: String,
    /// Bytes.
    pub memory: u64,
    /// Compute capability: major, minor.
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    /// Bytes of the second-level cache.
    pub cache: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
    /// Shares its memory with the host.
    pub integrated: bool,
    /// Has stream-ordered memory pools.
    pub pools: bool,
}

/// A device in use. There is one for each ordinal, made at first use and never destroyed.
pub struct Cuda {
    pub properties: Properties,
    pub driver: &'static Driver,
    /// The primary one, which other frameworks in the process share.
    pub context: Context,
    /// Its streams. Work is queued on the current one, so it runs in order; `order` keeps that of several.
    pub(crate) lanes: Lanes,
    pub(crate) order: Order,
    pub(crate) capture: Mutex<Option<Arc<Arena>>>,
    pub(crate) profile: Mutex<Option<Profile>>,
    pub(crate) pool: Pool,
    pub(crate) kernels: Kernels,
    pub(crate) staging: Mutex<Staging>,
    /// For copies that overlap with the work of the lanes, made when there is one.
    pub(crate) side: OnceLock<Side>,
    // what ran since the last wait, for messages
    recent: Mutex<VecDeque<Arc<Kernel>>>,
    broken: OnceLock<Error>,
}

/// Words of host memory in which a kernel tells a result: 32 bits of it each, of 16 bytes and a status, below a mark.
pub(crate) type Told = [AtomicU64; 5];
/// Where they are in a lane's slot: behind what `receive` gives.
const TOLD: usize = 64;

/// Counters that `Cuda::tickets` points to.
pub const TICKETS: usize = 1 << 14;
const RECENT: usize = 8;
const MOST_DEVICES: usize = 64;

/// `fork::depth()` of the process that has used CUDA. Asked for at every call of the driver.
static HOME: AtomicU32 = AtomicU32::new(UNUSED);
const UNUSED: u32 = u32::MAX;

/// Whether this process may call the driver: not a child forked from one that has used it.
pub(crate) fn at_home() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home == UNUSED || home == fork::depth()
}

/// Notes that this process uses CUDA.
fn settle_home() {
    // another's note stays
    _ = HOME.compare_exchange(UNUSED, fork::watch(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether each launch is waited for, so that an error names the kernel that made it.
static CHECKS: AtomicBool = AtomicBool::new(false);

pub fn check_launches(each: bool) {
    CHECKS.store(each, Ordering::Relaxed);
}

pub fn checks_launches() -> bool {
    CHECKS.load(Ordering::Relaxed)
}

fn check_home() -> Result<()> {
    if at_home() {
        return Ok(());
    }
    Err(Error::new(Kind::Fork, "CUDA cannot be used in a process forked from one that has used it")
        .advise("Use a PSOCK cluster, future::plan(multisession) or mirai instead of mclapply().")
        .advise("Or move the data first: `as_gpu(x, device = \"cpu\")` arrays work in forked processes."))
}

/// A lock whose data a panic cannot leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// How many CUDA devices there are.
///
/// # Errors
/// `Library` where there is no driver, `Fork` in a forked child.
pub fn count() -> Result<u32> {
    check_home()?;
    let driver = api::driver()?;
    settle_home();
    let mut count = 0;
    // SAFETY: writes a number.
    let status = unsafe { (driver.device_count)(&mut count) };
    // an answer, too
    if api::code(status) == Some(CUresult::CUDA_ERROR_NO_DEVICE) {
        return Ok(0);
    }
    api::check(driver, status, "cuDeviceGetCount")?;
    Ok(count.max(0) as u32)
}

/// The newest CUDA version that the driver serves, as major and minor.
pub fn driver_version() -> Result<(u32, u32)> {
    check_home()?;
    let driver = api::driver()?;
    let mut version = 0;
    // SAFETY: writes a number.
    api::check(driver, unsafe { (driver.driver_version)(&mut version) }, "cuDriverGetVersion")?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// A device's properties; makes no context.
///
/// # Errors
/// `Device` where there is no such device.
pub fn describe(ordinal: u32) -> Result<Properties> {
    let n = count()?;
    if ordinal >= n {
        return Err(no_device(ordinal, n));
    }
    let driver = api::driver()?;
    let mut device = 0;
    let mut name = [0 as c_char; 256];
    let mut memory = 0usize;
    // SAFETY: each writes to memory of the size it is told.
    unsafe {
        api::check(driver, (driver.device_get)(&mut device, ordinal as i32), "cuDeviceGet")?;
        api::check(driver, (driver.device_name)(name.as_mut_ptr(), 255, device), "cuDeviceGetName")?;
        api::check(driver, (driver.device_memory)(&mut memory, device), "cuDeviceTotalMem")?;
    }
    let get = |attribute: CUdevice_attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: writes a number.
        let status = unsafe { (driver.device_attribute)(&mut value, attribute, device) };
        api::check(driver, status, "cuDeviceGetAttribute")?;
        Ok(value.max(0) as u32)
    };
    Ok(Properties {
        ordinal,
        name: name.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect(),
        memory: memory as u64,
        capability: (
            get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1),
        cache: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        shared: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        integrated: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
        pools: get(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
    })
}

fn no_device(ordinal: u32, count: u32) -> Error {
    let message = match count {
        0 => "there is no CUDA device".to_string(),
        1 => format!("there is no device cuda:{ordinal}: the only one is cuda:0"),
        _ => format!("there is no device cuda:{ordinal}: they are cuda:0 to cuda:{}", count - 1),
    };
    Error::new(Kind::Device, message).advise("`gpu_sitrep()` shows what was found.")
}

/// The context is current while this is alive; what was current before comes back.
pub struct Entered {
    driver: &'static Driver,
    before: Option<Context>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the context that was current; a status cannot be used here.
            unsafe { (self.driver.context_set)(before) };
        }
    }
}

impl Cuda {
    /// The device of an ordinal, made at first use.
    ///
    /// # Errors
    /// `Device`, `Library` or `Fork`, where it cannot be used.
    pub fn of(ordinal: u32) -> Result<&'static Cuda> {
        static DEVICES: [OnceLock<&'static Cuda>; MOST_DEVICES] = [const { OnceLock::new() }; MOST_DEVICES];
        static MAKING: Mutex<()> = Mutex::new(());
        check_home()?;
        let Some(place) = DEVICES.get(ordinal as usize) else {
            return Err(no_device(ordinal, count()?));
        };
        if let Some(cuda) = place.get() {
            return Ok(cuda);
        }
        let _making = lock(&MAKING);
        if let Some(cuda) = place.get() {
            return Ok(cuda);
        }
        let cuda: &'static Cuda = Box::leak(Box::new(Cuda::new(ordinal)?));
        Ok(place.get_or_init(|| cuda))
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
        let _entered = Entered { driver, before: Some(before) };
        host_pool::set_page_lock(PageLock { pin: pool::pin, unpin: pool::unpin });
        Ok(Cuda {
            pool: Pool::new(driver, &properties)?,
            lanes: Lanes::new(Lane::new(driver, 0, 0)?),
            order: Order::default(),
            capture: Mutex::default(),
            profile: Mutex::default(),
            kernels: Kernels::default(),
            staging: Mutex::default(),
            side: OnceLock::new(),
            recent: Mutex::default(),
            broken: OnceLock::new(),
            properties,
            driver,
            context,
        })
    }

    pub fn device(&self) -> Device {
        Device::Cuda(self.properties.ordinal)
    }

    /// Makes the device's context current on this thread, and has launches that a thread makes (`submit`) behind it. Every call of the
    /// driver needs it.
    ///
    /// # Errors
    /// `Fork` in a forked child; `Launch` after a failure that the context does not survive.
    pub fn enter(&self) -> Result<Entered> {
        check_home()?;
        submit::settle();
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
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

    /// The device, where this process may use it.
    ///
    /// # Errors
    /// As `enter`.
    pub(crate) fn usable(&self) -> Result<&'static Cuda> {
        match self.broken.get() {
            Some(error) => Err(error.clone()),
            None => Cuda::of(self.properties.ordinal),
        }
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

    /// Waits until a lane's stream is empty. Asks the driver again and again, since a wait inside the driver could not be
    /// interrupted; it is not faster either (a sum of 10 elements: 25 and 26 µs from R).
    ///
    /// # Errors
    /// `Interrupt`: the work goes on, and nothing that it uses is freed before it has ended.
    /// `Capture` while a graph is recorded on the lane.
    pub(crate) fn drain(&self, lane: &Lane) -> Result<()> {
        if self.is_capturing() && lane.index == self.lane().index {
            return Err(capture::refuse("a wait for the device"));
        }
        const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
        let mut watch = None;
        let so_far = lane.so_far();
        for turn in 0u32.. {
            // SAFETY: our stream.
            let status = unsafe { (self.driver.stream_query)(lane.handle()) };
            if status != NOT_READY {
                self.check(status, "cuStreamQuery")?;
                lane.note_done(so_far);
                return Ok(());
            }
            if turn < 64 {
                std::hint::spin_loop();
                continue;
            }
            watch.get_or_insert_with(Watch::new).rest()?;
        }
        Ok(())
    }

    /// Waits for all work queued on the current stream, and hands on the warnings that it raised.
    pub fn wait(&self) -> Result<()> {
        self.wait_lane(self.lane())
    }

    pub(crate) fn wait_lane(&self, lane: &Lane) -> Result<()> {
        let _entered = self.enter()?;
        lane.flags.wait(self, lane)?;
        if self.mode() == 0 {
            lock(&self.recent).clear();
        }
        Ok(())
    }

    /// As `wait`, for all streams.
    pub fn wait_all(&self) -> Result<()> {
        self.running_lanes().into_iter().try_for_each(|lane| self.wait_lane(lane))?;
        lock(&self.recent).clear();
        Ok(())
    }

    /// Runs `queue` with the address of 64 bytes of host memory that kernels can write, waits, and
    /// returns what they wrote: the fastest way for a scalar.
    pub fn receive(&self, queue: impl FnOnce(u64) -> Result<()>) -> Result<[u8; 64]> {
        if self.is_capturing() {
            return Err(capture::refuse("a length, or a status, that depends on values"));
        }
        let slot = lock(&self.lane().slot);
        queue(slot.device)?;
        self.wait()?;
        let mut out = [0; 64];
        // SAFETY: the slot is larger, and the device has finished writing.
        unsafe { std::ptr::copy_nonoverlapping(slot.host, out.as_mut_ptr(), 64) };
        Ok(out)
    }

    /// As `receive`, for one kernel that at its end tells a result with the mark that `queue` gets, in words at the second address.
    pub fn receive_told(&self, queue: impl FnOnce(u64, u64, u32) -> Result<()>) -> Result<[u32; 5]> {
        if self.is_capturing() {
            return Err(capture::refuse("a number that the host reads at once"));
        }
        let lane = self.lane();
        let slot = lock(&lane.slot);
        // SAFETY: the slot has 256 bytes, aligned to 64.
        let words = unsafe { &*slot.host.add(TOLD).cast::<Told>() };
        let mark = ((words[0].load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        queue(slot.device, slot.device + TOLD as u64, mark)?;
        self.await_told(lane, words, mark)
    }

    /// Waits until a kernel has told a result with this mark, which is the last thing that it does. Looking there
    /// is some microseconds faster than asking the driver whether the stream is done.
    pub(crate) fn await_told(&self, lane: &Lane, words: &Told, mark: u32) -> Result<[u32; 5]> {
        // beyond this the few microseconds do not matter, and the processor may do something else
        const LONGEST: std::time::Duration = std::time::Duration::from_millis(2);
        let look = || words.each_ref().map(|word| word.load(Ordering::Acquire));
        let began = std::time::Instant::now();
        let mut seen = false;
        while !seen && !lane.flags.any_pending() && began.elapsed() < LONGEST {
            seen = (0..64).any(|_| {
                std::hint::spin_loop();
                look().iter().all(|word| (word >> 32) as u32 == mark)
            });
        }
        if !seen {
            self.wait_lane(lane)?;
        }
        Ok(look().map(|word| word as u32))
    }

    /// Copies up to 64 bytes to the host; waits.
    pub fn read(&self, address: u64, bytes: usize) -> Result<[u8; 64]> {
        assert!(bytes <= 64, "a scalar has at most 64 bytes");
        self.receive(|slot| {
            let _entered = self.enter()?;
            // SAFETY: both addresses are of live memory that the device reaches.
            let status = unsafe { (self.driver.copy_async)(slot, address, bytes, self.stream()) };
            self.check(status, "cuMemcpyDtoDAsync")
        })
    }

    /// The address of `TICKETS` words that are zero whenever no kernel runs: a kernel that counts its
    /// blocks with them must leave them at zero.
    pub fn tickets(&self) -> u64 {
        self.lane().tickets
    }

    /// Fills memory with a byte, in the stream's order.
    pub fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<()> {
        let _entered = self.enter()?;
        let _timed = self.timed("fill", self.stream(), bytes, || "fill".into());
        // SAFETY: the caller's memory is live.
        let status = unsafe { (self.driver.set_async)(address, byte, bytes, self.stream()) };
        self.check(status, "cuMemsetD8Async")
    }
}
