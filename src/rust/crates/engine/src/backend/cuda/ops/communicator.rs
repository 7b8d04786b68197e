//! NCCL: exchanges of elements between the GPUs of several processes, in stream order.
//!
//! NCCL's kernels wait for those of the other members, for ever if a member has died. So a watchdog thread aborts the
//! communicator when a member is reported dead and work queued here does not finish. The aborted kernels end without
//! values, and the device's next wait fails with the error.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, SendError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};

use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::context::exchange::order;
use crate::backend::cuda::context::hazards::Ordered;
use crate::backend::cuda::driver::api::{CUevent_flags, CUresult, CUstream_flags, Event, Stream};
use crate::backend::cuda::driver::functions::functions;
use crate::backend::cuda::driver::library::{self, Library};
use crate::memory::buffer::{Buffer, View};
use crate::memory::Source;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;

functions! {
    /// `libnccl`.
    Nccl of cudarc::nccl::sys {
        unique_id = ncclGetUniqueId(*mut ncclUniqueId);
        init = ncclCommInitRank(*mut ncclComm_t, c_int, ncclUniqueId, c_int);
        abort = ncclCommAbort(ncclComm_t);
        group_start = ncclGroupStart();
        group_end = ncclGroupEnd();
        send = ncclSend(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, Stream);
        all_reduce = ncclAllReduce(
            *const c_void, *mut c_void, usize, ncclDataType_t, ncclRedOp_t, ncclComm_t, Stream);
        receive = ncclRecv(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, Stream);
    }
}

/// `ncclGetLastError`: why the last call of this thread failed.
type LastError = unsafe extern "C" fn(ncclComm_t) -> *const c_char;

/// Exchanges on the side stream that can be waited for individually: the last ones.
const PIECES: usize = 2;

/// Bytes of an `ncclUniqueId`.
pub const ID: usize = 128;

/// Polling interval of the watchdog and of waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Exchanges that a member queued before its death finish within this time.
const GRACE_PERIOD: Duration = Duration::from_millis(300);

/// A call of NCCL that lasts longer than this after a member's death is blocked, waiting for that member.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

fn nccl() -> Result<Nccl> {
    // SAFETY: this is NCCL.
    unsafe { Nccl::find(library::load(Library::Nccl)?) }
}

/// Checks that NCCL can be loaded.
///
/// # Errors
/// `Library` if it cannot.
pub fn is_there() -> Result<()> {
    nccl().map(|_| ())
}

fn check(status: u32, function: &str) -> Result<()> {
    let name = match status {
        // 7 is ncclInProgress, which only non-blocking communicators return
        0 | 7 => return Ok(()),
        1 => "an unhandled error of CUDA",
        2 => "an unhandled error of the system",
        3 => "internal error",
        4 => "invalid argument",
        5 => "invalid usage",
        6 => "a member or the network has failed",
        _ => "unknown status",
    };
    // SAFETY: as the header declares it; the text is NCCL's own, and copied.
    let last = unsafe {
        let last = library::load(Library::Nccl).and_then(|library| library.symbol::<LastError>("ncclGetLastError"));
        last.ok().map(|last| last(std::ptr::null_mut())).filter(|text| !text.is_null()).map(|text| CStr::from_ptr(text))
    };
    let last = last.map(|text| text.to_string_lossy().trim().to_string()).filter(|text| !text.is_empty());
    let last = last.map_or_else(String::new, |text| format!(": {text}"));
    Err(Error::new(Kind::Member, format!("`{function}` failed: {name} ({status}){last}"))
        .advise("`NCCL_DEBUG=WARN` in the members' environment tells more; `transport = \"host\"` needs no NCCL."))
}

/// Waits for the device, and discards the error of an earlier communicator that was aborted: the values lost belong to
/// a team that no longer exists. Then frees memory that the pool caches, since NCCL allocates its own.
///
/// # Errors
/// Those of a wait.
pub fn forget_lost(ordinal: u32) -> Result<()> {
    let cuda = Cuda::of(ordinal)?;
    match cuda.wait_all() {
        Err(error) if error.kind == Kind::Member => Ok(()),
        done => done,
    }?;
    cuda.trim()
}

/// A new id. One member creates it; all members need it.
///
/// # Errors
/// `Library` if there is no NCCL, `Member` if it fails.
pub fn new_id() -> Result<[u8; ID]> {
    let mut id = ncclUniqueId { internal: [0; ID] };
    // SAFETY: writes an id.
    check(unsafe { (nccl()?.unique_id)(&mut id) }, "ncclGetUniqueId")?;
    Ok(id.internal.map(|c| c as u8))
}

/// A member's communicator on its GPU.
pub struct Communicator {
    shared: Arc<Shared>,
}

/// What a communicator shares with its watchdog.
struct Shared {
    functions: Nccl,
    handle: Mutex<Handle>,
    cuda: &'static Cuda,
    /// Recorded after the exchange queued last.
    event: Event,
    /// The side stream, whose exchanges overlap with the device's computations, and events recorded after the exchanges
    /// of an array's pieces.
    aside: Stream,
    behind: [Event; PIECES],
    /// True from the beginning of a call of NCCL until `event` is recorded after it.
    is_calling: AtomicBool,
    /// Ends the watchdog.
    is_over: AtomicBool,
    /// Whether the values of receive buffers may still be outstanding: see `Cuda::await_values`.
    receives: AtomicBool,
    /// Locked while the communicator is aborted, so that `abort` returns on any thread only when the kernels have
    /// ended.
    aborting: Mutex<()>,
}

/// NCCL's communicator; null after it was aborted.
#[derive(Clone, Copy)]
struct Handle(ncclComm_t);

// SAFETY: NCCL allows another thread to abort a communicator; R's thread makes all other calls.
unsafe impl Send for Handle {}

/// A guard: while it lives, exchanges run on the side stream. When it is dropped, the device's stream waits for them.
#[must_use]
pub struct SideStreamGuard<'a> {
    communicator: &'a Communicator,
    // dropped after `drop()` has queued the wait, so that the uses of buffers are noted after it
    _ordered: Option<Ordered<'a>>,
}

impl Drop for SideStreamGuard<'_> {
    fn drop(&mut self) {
        let shared = &self.communicator.shared;
        // a failure is reported by the next call
        _ = order(shared.cuda, shared.aside, shared.cuda.stream_state().stream_for_wait());
    }
}

/// Elements that are sent to, or received from, a member.
pub struct Transfer {
    pub member: usize,
    pub view: View,
}

impl Communicator {
    /// Joins the members with this id; returns when all have joined. The watchdog calls `others_live` to ask whether
    /// all other members are alive.
    ///
    /// # Errors
    /// `Library`; `Member` if NCCL fails or takes longer than `timeout`; `Interrupt`.
    pub fn new(
        ordinal: u32,
        id: [u8; ID],
        rank: usize,
        size: usize,
        timeout: Duration,
        others_live: impl Fn() -> bool + Send + 'static,
    ) -> Result<Communicator> {
        let (functions, cuda) = (nccl()?, Cuda::of(ordinal)?);
        let (tell, told) = channel();
        std::thread::spawn(move || {
            cuda.bind();
            let id = ncclUniqueId { internal: id.map(|byte| byte as c_char) };
            let mut handle = std::ptr::null_mut();
            // SAFETY: writes a handle; the thread's context is the device's.
            let status = unsafe { (functions.init)(&mut handle, size as c_int, id, rank as c_int) };
            let made = check(status, "ncclCommInitRank").map(|()| Handle(handle));
            if let Err(SendError(Ok(handle))) = tell.send(made) {
                // nobody waits for it any more
                // SAFETY: a live communicator that no other thread has.
                unsafe { (functions.abort)(handle.0) };
            }
        });
        let (began, mut watch) = (Instant::now(), Watch::new());
        let handle = loop {
            match told.recv_timeout(POLL_INTERVAL) {
                Ok(made) => break made?,
                Err(RecvTimeoutError::Timeout) => watch.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(Kind::Member, "the thread that makes a communicator has ended"));
                }
            }
            if began.elapsed() > timeout {
                let seconds = timeout.as_secs_f64();
                return Err(Error::new(Kind::Member, format!("NCCL has not connected the members within {seconds} s")));
            }
        };
        let _entered = cuda.enter()?;
        let mut event = [Event::NULL; PIECES + 1];
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        for event in &mut event {
            // SAFETY: writes a handle.
            cuda.check(unsafe { (cuda.driver.event_create)(event, flags) }, "cuEventCreate")?;
        }
        let [event, behind @ ..] = event;
        let mut aside = Stream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        let status = unsafe { (cuda.driver.stream_create)(&mut aside, flags, 0) };
        cuda.check(status, "cuStreamCreateWithPriority")?;
        let shared = Arc::new(Shared {
            functions,
            handle: Mutex::new(handle),
            cuda,
            event,
            aside,
            behind,
            is_calling: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            receives: AtomicBool::new(false),
            aborting: Mutex::default(),
        });
        let watched = shared.clone();
        // dropped on failure, it ends the connections
        let communicator = Communicator { shared };
        std::thread::Builder::new()
            .name("verdigris-nccl".into())
            .spawn(move || watched.watch(others_live))
            .map_err(|e| Error::new(Kind::Member, format!("no thread can be started: {e}")))?;
        Ok(communicator)
    }

    /// The device's ordinal.
    pub fn ordinal(&self) -> u32 {
        self.shared.cuda.properties.ordinal
    }

    /// Queues sends and receives on the device's current stream, as one NCCL group.
    ///
    /// # Errors
    /// `Member` if NCCL fails, or the communicator was aborted.
    pub fn exchange(&self, sends: &[Transfer], receives: &[Transfer]) -> Result<()> {
        let shared = &*self.shared;
        let cuda = shared.cuda;
        let _ordered = cuda.ordered(|t| {
            for moved in sends {
                t.read(&moved.view.buffer);
            }
            for moved in receives {
                t.write(&moved.view.buffer);
            }
        })?;
        self.queue(sends, receives, cuda.stream())
    }

    fn queue(&self, sends: &[Transfer], receives: &[Transfer], stream: Stream) -> Result<()> {
        let bytes = sends.iter().chain(receives).map(|moved| bytes_of(&moved.view)).sum();
        let received = receives.iter().map(|moved| &moved.view.buffer);
        self.enqueue(stream, bytes, received, |handle| self.group(handle, sends, receives, stream))
    }

    /// Runs `call`, which queues work of NCCL on `stream` that writes the buffers `received`, and updates what the
    /// watchdog reads.
    fn enqueue<'a>(
        &self,
        stream: Stream,
        bytes: usize,
        received: impl Iterator<Item = &'a Arc<Buffer>> + Clone,
        call: impl FnOnce(Handle) -> Result<()>,
    ) -> Result<()> {
        let shared = &*self.shared;
        let cuda = shared.cuda;
        let _entered = cuda.enter()?;
        let _timed = cuda.timed("library", stream, bytes, || "NCCL".into());
        let handle = {
            let handle = lock(&shared.handle);
            if handle.0.is_null() {
                return Err(Error::new(Kind::Member, "the connections of this team were aborted"));
            }
            // set under the lock, so that `forget_received` does not mistake this exchange's receives for finished ones
            shared.is_calling.store(true, Ordering::Release);
            let is_first = !shared.receives.load(Ordering::Acquire);
            if cuda.await_values(received, is_first) {
                shared.receives.store(true, Ordering::Release);
            }
            *handle
        };
        let done = call(handle);
        let recorded = if cuda.is_capturing() { Ok(()) } else { self.record(shared.event, stream) };
        shared.is_calling.store(false, Ordering::Release);
        done.and(recorded)
    }

    /// NCCL's all-reduce (sum or product) of float32 or float64 elements, on the side stream.
    pub fn reduce_on_side_stream(&self, from: &View, to: &View, product: bool) -> Result<()> {
        let dtype = match from.dtype {
            DType::Float32 => ncclDataType_t::ncclFloat32,
            DType::Float64 => ncclDataType_t::ncclFloat64,
            other => return Err(Error::new(Kind::DType, format!("NCCL does not add {other}"))),
        };
        let op = if product { ncclRedOp_t::ncclProd } else { ncclRedOp_t::ncclSum };
        let (source, target) = (from.address() as *const c_void, to.address() as *mut c_void);
        let (functions, aside) = (&self.shared.functions, self.shared.aside);
        self.enqueue(aside, bytes_of(from), std::iter::once(&to.buffer), |handle| {
            // SAFETY: as many elements in both, in live buffers that the caller keeps longer than its
            // `SideStreamGuard`.
            let status =
                unsafe { (functions.all_reduce)(source, target, from.len().min(to.len()), dtype, op, handle.0, aside) };
            check(status, "ncclAllReduce")
        })
    }

    fn record(&self, event: Event, stream: Stream) -> Result<()> {
        let cuda = self.shared.cuda;
        // SAFETY: a live event and a live stream of this context, which is current.
        cuda.check(unsafe { (cuda.driver.event_record)(event, stream) }, "cuEventRecord")
    }

    /// Whether a CUDA graph is being recorded, during which the side stream cannot be used.
    pub fn is_capturing(&self) -> bool {
        self.shared.cuda.is_capturing()
    }

    /// Begins exchanges on the side stream, until the returned guard is dropped. Buffers that they use must be dropped
    /// after the guard.
    pub fn aside<'a>(&'a self, reads: &'a View) -> Result<SideStreamGuard<'a>> {
        let ordered = self.shared.cuda.ordered(|t| _ = t.view(reads))?;
        self.order_side_stream()?;
        Ok(SideStreamGuard { communicator: self, _ordered: ordered })
    }

    /// Makes later work of the side stream wait for the work that the device's stream has now.
    pub fn order_side_stream(&self) -> Result<()> {
        let cuda = self.shared.cuda;
        order(cuda, cuda.stream_state().handle(), self.shared.aside)
    }

    /// As `exchange`, on the side stream.
    pub fn exchange_on_side_stream(&self, sends: &[Transfer], receives: &[Transfer]) -> Result<()> {
        self.queue(sends, receives, self.shared.aside)
    }

    /// Records an event after the exchange just queued on the side stream, under a number for `wait_for_side_event`.
    pub fn record_side_event(&self, number: usize) -> Result<()> {
        let _entered = self.shared.cuda.enter()?;
        self.record(self.shared.behind[number % PIECES], self.shared.aside)
    }

    /// Makes the device's stream wait for the exchange of this number, which must be one of the last two.
    pub fn wait_for_side_event(&self, number: usize) -> Result<()> {
        let cuda = self.shared.cuda;
        let _entered = cuda.enter()?;
        let (stream, event) = (cuda.stream_state().stream_for_wait(), self.shared.behind[number % PIECES]);
        // SAFETY: live handles.
        cuda.check(unsafe { (cuda.driver.stream_wait)(stream, event, 0) }, "cuStreamWaitEvent")
    }

    fn group(&self, handle: Handle, sends: &[Transfer], receives: &[Transfer], stream: Stream) -> Result<()> {
        let functions = &self.shared.functions;
        let byte = ncclDataType_t::ncclUint8;
        // SAFETY: live buffers with so many bytes, held until the work is queued and freed in the stream's order.
        unsafe {
            check((functions.group_start)(), "ncclGroupStart")?;
            let mut done = Ok(());
            for Transfer { member, view } in sends.iter().filter(|moved| !moved.view.is_empty()) {
                let (address, bytes) = (view.address() as *const c_void, bytes_of(view));
                done = done
                    .and(check((functions.send)(address, bytes, byte, *member as c_int, handle.0, stream), "ncclSend"));
            }
            for Transfer { member, view } in receives.iter().filter(|moved| !moved.view.is_empty()) {
                let (address, bytes) = (view.address() as *mut c_void, bytes_of(view));
                done = done.and(check(
                    (functions.receive)(address, bytes, byte, *member as c_int, handle.0, stream),
                    "ncclRecv",
                ));
            }
            done.and(check((functions.group_end)(), "ncclGroupEnd"))
        }
    }

    /// Aborts queued exchanges. Their receive buffers get no values.
    pub fn abort(&self, reason: &str) {
        self.shared.abort(reason);
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        let shared = self.shared.clone();
        // ending a communicator may wait for the other members; R's thread must not
        _ = std::thread::Builder::new().spawn(move || shared.give_up());
    }
}

fn bytes_of(view: &View) -> usize {
    view.len() * view.dtype.size()
}

impl Shared {
    /// Whether no call of NCCL is in progress and all queued exchanges have finished.
    fn is_idle(&self) -> bool {
        const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
        // SAFETY: a live event; the thread's context is the device's.
        !self.is_calling.load(Ordering::Acquire) && unsafe { (self.cuda.driver.event_query)(self.event) } != NOT_READY
    }

    /// Notes that receive buffers have their values, once all exchanges have finished.
    fn forget_received(&self) {
        let _no_call = lock(&self.handle);
        if self.receives.load(Ordering::Acquire) && self.is_idle() {
            self.receives.store(false, Ordering::Release);
            self.cuda.values_came();
        }
    }

    /// The main loop of the watchdog.
    fn watch(&self, others_live: impl Fn() -> bool) {
        self.cuda.bind();
        let mut gone: Option<Instant> = None;
        while !self.is_over.load(Ordering::Acquire) {
            std::thread::sleep(POLL_INTERVAL);
            self.forget_received();
            if gone.is_none() && !others_live() {
                gone = Some(Instant::now());
            }
            let Some(since) = gone else { continue };
            if self.is_idle() {
                // no exchange waits for the dead member, and later ones will find its connections closed
                gone = Some(Instant::now());
            } else if since.elapsed()
                > if self.is_calling.load(Ordering::Acquire) { CALL_TIMEOUT } else { GRACE_PERIOD }
            {
                return self.abort("a member of the team has ended in a collective");
            }
        }
    }

    /// Takes the handle out; `None` if that was done before.
    fn take(&self) -> Option<Handle> {
        let mut handle = lock(&self.handle);
        let taken = std::mem::replace(&mut *handle, Handle(std::ptr::null_mut()));
        (!taken.0.is_null()).then_some(taken)
    }

    fn abort(&self, reason: &str) {
        let _aborting = lock(&self.aborting);
        let is_idle = self.is_idle();
        let Some(handle) = self.take() else { return };
        if is_idle {
            if self.receives.swap(false, Ordering::AcqRel) {
                self.cuda.values_came();
            }
        } else {
            let error = Error::new(Kind::Member, format!("values were lost: {reason}"))
                .advise("`gpu_repair(team)` continues with the members that are left.");
            self.cuda.lose_awaited(error);
        }
        self.cuda.bind();
        // SAFETY: the handle was taken out, so no later call uses it. A call of NCCL that blocks another thread
        // returns.
        unsafe { (self.functions.abort)(handle.0) };
    }

    /// Waits up to 10 s for queued exchanges, then ends the communicator.
    fn give_up(&self) {
        self.cuda.bind();
        let began = Instant::now();
        while !self.is_idle() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(POLL_INTERVAL);
        }
        self.abort("the team has ended");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn declarations_are_cudarcs() {
        assert_eq!(super::Nccl::differences(), [""; 0]);
    }
}
