//! A worker thread, the launch thread, which makes launches while R's thread goes on.
//!
//! `cuLaunchKernel` takes 3 to 5 µs of the calling thread, more than all other work of a small operation. When
//! launches follow each other closely, R's thread writes each into a ring buffer and the worker makes it, as a graph
//! of one kernel where it recurs (`relaunch`). The order is unchanged: every other call of the driver first waits
//! until the ring is empty (`flush`). A lone launch, and one that the host is about to wait for, is made by the
//! caller: handing it over would take longer.
//!
//! The worker only gets launches that cannot fail by themselves (`Kernel::is_proven`). If the driver refuses one
//! nevertheless, results are missing that R believes to exist, so the device counts as failed.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::OnceLock;
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::relaunch::KernelGraphCache;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{Function, Stream};
use crate::backend::cuda::driver::devices::owns_cuda;
use crate::backend::cuda::driver::kernel::{Configuration, Shape};
use crate::backend::cuda::driver::submitted::{flush, CachePadded, LAUNCHED, SUBMITTED};

/// Launches that the ring holds.
const SLOTS: u64 = 1024;
/// The most arguments of a launch that a slot holds, and the most 16-byte units of them.
const MOST_ARGUMENTS: usize = 16;
const MOST_UNITS: usize = 32;
/// The worker is woken when this many launches in a row have come within `NEAR` of the launch before them. Waking it
/// costs as much as half a launch.
const CLOSE: u32 = 3;
const NEAR: Duration = Duration::from_micros(50);
/// How long the idle worker polls the ring before it sleeps.
const LINGER: Duration = Duration::from_micros(100);
/// With fewer processors the worker would compete with R's thread.
const PROCESSORS: usize = 4;

/// A launch in the ring. The fields that usual launches need fill three cache lines, each of which has to move from one
/// processor to the other.
#[repr(C, align(64))]
struct Slot {
    cuda: Option<&'static Cuda>,
    what: Configuration,
    count: u32,
    /// The first unit of each argument.
    at: [u8; MOST_ARGUMENTS],
    units: [u128; MOST_UNITS],
}

impl Slot {
    const EMPTY: Slot = Slot {
        cuda: None,
        what: Configuration {
            function: Function::NULL,
            stream: Stream::NULL,
            shape: Shape { grid: [0; 3], block: [0; 3], shared: 0 },
        },
        count: 0,
        at: [0; MOST_ARGUMENTS],
        units: [0; MOST_UNITS],
    };

    /// Copies the arguments into the slot; false if they do not fit.
    fn fill(&mut self, arguments: &[&[u8]]) -> bool {
        let mut used = 0;
        if arguments.len() > MOST_ARGUMENTS {
            return false;
        }
        for (k, bytes) in arguments.iter().enumerate() {
            let next = used + bytes.len().div_ceil(16).max(1);
            if next > MOST_UNITS {
                return false;
            }
            self.at[k] = used as u8;
            // SAFETY: within the units, by the line above.
            unsafe {
                let to = self.units.as_mut_ptr().add(used).cast();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            }
            used = next;
        }
        self.count = arguments.len() as u32;
        true
    }

    /// Makes the launch. The device's context must be current.
    fn launch(&mut self, graphs: &mut KernelGraphCache) {
        let Some(cuda) = self.cuda else { return };
        let mut pointers = [std::ptr::null_mut::<c_void>(); MOST_ARGUMENTS];
        for (pointer, &at) in pointers.iter_mut().zip(&self.at[..self.count as usize]) {
            // SAFETY: within the units.
            *pointer = unsafe { self.units.as_mut_ptr().add(at.into()) }.cast();
        }
        // SAFETY: the caller of `try_submit` promises the arguments; no module is ever unloaded.
        let status = unsafe { graphs.launch(cuda, &self.what, pointers.as_mut_ptr()) };
        cuda.check_submitted(status);
    }
}

/// The state of the worker.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Asleep,
    Woken,
    Awake,
    Ended,
}

struct Ring {
    /// Every launch that the worker can make is handed to it, however far apart they are.
    always: bool,
    /// Whether there are enough processors for the worker.
    threaded: bool,
    slots: Box<[UnsafeCell<Slot>]>,
    thread: OnceLock<Option<Thread>>,
    state: CachePadded<AtomicU8>,
    /// A lock: held by the thread that writes a launch, and by the worker when it goes to sleep. It is released by a
    /// plain store: a locked instruction would wait for the cache line of the slot that was just written.
    held: CachePadded<AtomicBool>,
    producer: UnsafeCell<Producer>,
    /// Owned by the worker while the ring is non-empty, otherwise by the lock holder.
    graphs: UnsafeCell<KernelGraphCache>,
}

/// The state of the producer side, owned by the holder of `held`.
struct Producer {
    /// The value of `LAUNCHED` when it was last read.
    made: u64,
    /// How many launches in a row came within `NEAR` of the one before, and when the last one came.
    close: u32,
    last: Option<Instant>,
}

// SAFETY: a slot is written by the holder of `held` while it is empty, and read by the worker afterwards. `producer`
// belongs to the holder of `held`. `graphs` belongs to the thread that its comment names, since no launch is written
// without `held`.
unsafe impl Sync for Ring {}

/// The values of the environment variable `VERDIGRIS_SUBMIT`, for messages.
pub const SUBMIT_MODES: &str = "\"auto\", \"never\" or \"always\"";

pub fn is_submit_mode(text: &str) -> bool {
    matches!(text, "auto" | "never" | "always")
}

static RING: OnceLock<Option<Ring>> = OnceLock::new();

/// Makes the ring. There is none if the environment variable `VERDIGRIS_SUBMIT` is "never", or under a profiler, which
/// attributes a launch to the named range (`nvtx`) of the thread that makes it. With too few processors the ring has no
/// worker, and only its graphs of single kernels are used. "always" is for tests: every possible launch goes to the
/// worker.
fn made() -> Option<Ring> {
    let mode = std::env::var("VERDIGRIS_SUBMIT").unwrap_or_default();
    let processors = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let profiled = || std::env::var_os("NVTX_INJECTION64_PATH").is_some();
    if mode == "never" || mode != "always" && profiled() {
        return None;
    }
    Some(Ring {
        always: mode == "always",
        threaded: mode == "always" || processors() >= PROCESSORS,
        slots: (0..SLOTS).map(|_| UnsafeCell::new(Slot::EMPTY)).collect(),
        thread: OnceLock::new(),
        state: CachePadded(AtomicU8::new(State::Asleep as u8)),
        held: CachePadded(AtomicBool::new(false)),
        producer: UnsafeCell::new(Producer { made: 0, close: 0, last: None }),
        graphs: UnsafeCell::default(),
    })
}

/// Hands a launch to the worker, on a stream of this device. False if the caller must make the launch.
///
/// # Safety
/// As for `Cuda::launch_at`.
pub(crate) unsafe fn try_submit(
    cuda: &'static Cuda,
    function: Function,
    shape: Shape,
    stream: impl Fn() -> Stream,
    arguments: &[&[u8]],
) -> bool {
    RING.get_or_init(made).as_ref().filter(|ring| ring.threaded).is_some_and(|ring| {
        ring.with_lock(|producer| {
            let awake = ring.state() == State::Awake;
            if !(awake || ring.always && ring.runs()) {
                ring.note_launch(producer);
                return false;
            }
            let submitted = SUBMITTED.0.load(Ordering::Relaxed);
            while submitted - producer.made >= SLOTS {
                std::hint::spin_loop();
                producer.made = LAUNCHED.0.load(Ordering::Acquire);
            }
            // SAFETY: the launch that was in the slot is made, and no other thread writes launches while `held` is
            // ours.
            let slot = unsafe { &mut *ring.slots[(submitted % SLOTS) as usize].get() };
            if !slot.fill(arguments) {
                return false;
            }
            (slot.cuda, slot.what) = (Some(cuda), Configuration { function, stream: stream(), shape });
            SUBMITTED.0.store(submitted + 1, Ordering::Release);
            if !awake {
                ring.wake();
            }
            true
        })
    })
}

/// Makes a launch on this thread. Returns the driver's status.
///
/// # Safety
/// As for `Cuda::call_launch`; the function is never unloaded.
pub(crate) unsafe fn launch(cuda: &Cuda, what: &Configuration, arguments: *mut *mut c_void) -> u32 {
    let Some(ring) = RING.get_or_init(made) else {
        // SAFETY: the caller's promise.
        return unsafe { cuda.call_launch(what, arguments) };
    };
    ring.with_lock(|_| {
        // other threads may have handed launches to the worker
        flush();
        // SAFETY: `held` is ours and no launch waits; the caller's promise.
        unsafe { (*ring.graphs.get()).launch(cuda, what, arguments) }
    })
}

/// Called before the process ends: waits until the ring is empty, and ends the worker. Later launches are made by their
/// callers.
pub(crate) fn end() {
    let Some(Some(ring)) = RING.get() else { return };
    if owns_cuda() {
        flush();
        ring.with_lock(|_| ring.set(State::Ended));
    }
}

impl Ring {
    fn state(&self) -> State {
        match self.state.0.load(Ordering::Acquire) {
            0 => State::Asleep,
            1 => State::Woken,
            2 => State::Awake,
            _ => State::Ended,
        }
    }

    /// Called by the holder of `held`.
    fn set(&self, state: State) {
        self.state.0.store(state as u8, Ordering::Release);
    }

    /// Runs `body` as the holder of `held`: meanwhile no other thread writes launches, and the worker does not go to
    /// sleep. The worker must not call this, since the holder may be waiting for the worker.
    fn with_lock<R>(&self, mut body: impl FnMut(&mut Producer) -> R) -> R {
        loop {
            match self.try_with_lock(&mut body) {
                Some(done) => return done,
                None => std::hint::spin_loop(),
            }
        }
    }

    /// As `with_lock`; `None` if another thread holds `held`.
    fn try_with_lock<R>(&self, body: impl FnOnce(&mut Producer) -> R) -> Option<R> {
        if self.held.0.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `held` is ours.
        let done = body(unsafe { &mut *self.producer.get() });
        self.held.0.store(false, Ordering::Release);
        Some(done)
    }

    /// Notes a launch that the caller makes, and wakes the worker if launches follow each other closely.
    fn note_launch(&'static self, producer: &mut Producer) {
        let now = Instant::now();
        let close = producer.last.is_some_and(|last| now - last < NEAR);
        producer.close = if close { producer.close + 1 } else { 0 };
        producer.last = Some(now);
        if producer.close >= CLOSE {
            self.wake();
        }
    }

    /// Wakes the worker if it sleeps. Called by the holder of `held`.
    fn wake(&'static self) {
        if self.runs() && self.state() == State::Asleep {
            self.set(State::Woken);
            if let Some(Some(thread)) = self.thread.get() {
                thread.unpark();
            }
        }
    }

    /// Starts the worker if needed. False if it cannot be started, or has ended: callers then launch themselves.
    fn runs(&'static self) -> bool {
        let thread = || std::thread::Builder::new().name("verdigris-submit".into()).spawn(|| self.run());
        self.thread.get_or_init(|| thread().ok().map(|made| made.thread().clone())).is_some()
            && self.state() != State::Ended
    }

    /// The main loop of the worker.
    fn run(&self) {
        loop {
            match self.state() {
                State::Asleep => std::thread::park(),
                State::Ended => return self.work(),
                State::Woken | State::Awake => {
                    let (woken, awake) = (State::Woken as u8, State::Awake as u8);
                    _ = self.state.0.compare_exchange(woken, awake, Ordering::AcqRel, Ordering::Relaxed);
                    self.work();
                }
            }
        }
    }

    /// Makes launches until none has come for `LINGER`, then sets the state to `Asleep`.
    fn work(&self) {
        let mut context = None;
        let mut idle: Option<Instant> = None;
        let mut next = LAUNCHED.0.load(Ordering::Relaxed);
        let more = |next| SUBMITTED.0.load(Ordering::Acquire) > next;
        loop {
            let came = more(next)
                || (0..64).any(|_| {
                    std::hint::spin_loop();
                    more(next)
                });
            if came {
                // SAFETY: the slot was handed to the worker, and is not written again before its launch is made.
                let slot = unsafe { &mut *self.slots[(next % SLOTS) as usize].get() };
                if let Some(cuda) = slot.cuda.filter(|&cuda| context != Some(cuda.properties.ordinal)) {
                    cuda.bind();
                    context = Some(cuda.properties.ordinal);
                }
                // SAFETY: the ring is not empty, so the worker owns `graphs`.
                slot.launch(unsafe { &mut *self.graphs.get() });
                next += 1;
                LAUNCHED.0.store(next, Ordering::Release);
                idle = None;
            } else if idle.get_or_insert_with(Instant::now).elapsed() > LINGER {
                let ends = self.try_with_lock(|_| {
                    let ends = !more(next);
                    if ends && self.state() == State::Awake {
                        self.set(State::Asleep);
                    }
                    ends
                });
                if ends == Some(true) {
                    return;
                }
            }
        }
    }
}
