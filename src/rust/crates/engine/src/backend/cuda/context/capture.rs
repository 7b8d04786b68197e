//! CUDA graphs: work is captured from a stream and launched again as a whole.
//!
//! A graph is recorded on a stream of its own and owns that stream's counters, slots and workspaces. It also owns the
//! memory that is allocated while it is recorded (the arena), so each launch writes to the same addresses. It keeps
//! older buffers that it uses alive, and each launch is ordered after their last uses. Work for which the host would
//! have to wait cannot be recorded (`refuse`).

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::core::lock;
use super::device::{Cuda, PerDevice};
use super::stream_state::{StreamState, CAPTURING, SEVERAL};
use crate::backend::cuda::driver::api::{CUstreamCaptureMode, Graph, GraphExec};
use crate::backend::streams::Replay;
use crate::memory::buffer::Buffer;
use crate::memory::counters;
use crate::memory::{self, Held};
use verdigris_ops::error::{Error, Kind, Result};

/// The memory of a graph, and the buffers and objects that it keeps alive.
pub struct Arena {
    cuda: &'static Cuda,
    stream_state: &'static StreamState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the graph is still being recorded.
    open: bool,
    /// Addresses freed during recording, by size. They may be reused at once, since later nodes run later.
    free: HashMap<usize, Vec<u64>>,
    all: Vec<(u64, Held)>,
    slots: Vec<usize>,
    /// Buffers from before the recording that the graph uses, and whether it writes them.
    outside: Vec<(Arc<Buffer>, bool)>,
    held: Vec<Box<dyn Any + Send + Sync>>,
}

impl Arena {
    fn obtain(&self, bytes: usize) -> Result<u64> {
        let size = bytes.next_multiple_of(256);
        if let Some(address) = lock(&self.state).free.get_mut(&size).and_then(Vec::pop) {
            return Ok(address);
        }
        // not under the lock: R's gc may run here, and its finalizers free memory
        let address = self.cuda.outside(|| memory::obtain(self.cuda, size))?;
        let held = Held::new(self.cuda.device(), size as u64);
        lock(&self.state).all.push((address, held));
        Ok(address)
    }

    fn put_back(&self, address: u64, bytes: usize) {
        let mut state = lock(&self.state);
        if state.open {
            state.free.entry(bytes.next_multiple_of(256)).or_default().push(address);
        }
    }

    pub(crate) fn keep_slot(&self, slot: usize) {
        lock(&self.state).slots.push(slot);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *lock(&self.state));
        for (address, held) in state.all {
            self.cuda.give_back(address, held.bytes() as usize);
        }
        for slot in state.slots {
            self.stream_state.free_slot(slot);
        }
        self.cuda.retire(self.stream_state.index);
    }
}

/// An allocation in an arena.
struct Block {
    arena: Arc<Arena>,
    address: u64,
    bytes: usize,
    /// Counts this buffer. Its bytes are counted by the arena, so they are 0 here.
    _held: Held,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.put_back(self.address, self.bytes);
    }
}

/// The arena of the graph that is being recorded, per device.
static CAPTURED: PerDevice<Mutex<Option<Arc<Arena>>>> = PerDevice::new();

/// The arena of the graph that is being recorded; None while nothing is, or within `outside`.
pub(crate) fn arena(cuda: &Cuda) -> Option<Arc<Arena>> {
    if cuda.is_capturing() {
        lock(CAPTURED.of(cuda)).clone()
    } else {
        None
    }
}

/// See `Cuda::allocate`.
pub(crate) fn allocate(cuda: &Cuda, bytes: usize) -> Result<Arc<Buffer>> {
    let arena = current(cuda)?;
    let address = arena.obtain(bytes)?;
    let block = Block { arena, address, bytes, _held: Held::new(cuda.device(), 0) };
    let buffer = Buffer::new(cuda.device(), address, bytes, Box::new(block));
    buffer.pin_address();
    Ok(Arc::new(buffer))
}

fn current(cuda: &Cuda) -> Result<Arc<Arena>> {
    lock(CAPTURED.of(cuda))
        .clone()
        .ok_or_else(|| Error::new(Kind::Panic, "an internal error: no graph is being recorded"))
}

/// Records the older buffers that an operation touches: the graph keeps them alive and its launches are ordered by
/// them.
pub(crate) fn note(cuda: &Cuda, touched: &[(&Arc<Buffer>, bool)]) {
    let Ok(arena) = current(cuda) else { return };
    let mut state = lock(&arena.state);
    for &(buffer, writes) in touched {
        if buffer.address == 0 || state.all.iter().any(|(address, _)| *address == buffer.address) {
            continue;
        }
        match state.outside.iter_mut().find(|(known, _)| Arc::ptr_eq(known, buffer)) {
            Some((_, written)) => *written |= writes,
            None => state.outside.push((buffer.clone(), writes)),
        }
    }
}

/// Suspends recording while it lives.
struct Outside<'a> {
    cuda: &'a Cuda,
    stream_state: &'static StreamState,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.cuda.set_stream_state(self.stream_state);
        self.cuda.set_mode(CAPTURING, true);
    }
}

impl Cuda {
    /// Runs `body` on the device's main stream, not as part of the graph that is being recorded.
    pub(crate) fn outside<T>(&self, body: impl FnOnce() -> T) -> T {
        if !self.is_capturing() {
            return body();
        }
        let _outside = Outside { cuda: self, stream_state: self.stream_state() };
        self.set_mode(CAPTURING, false);
        self.set_stream_state(self.main());
        body()
    }

    /// Keeps a value alive as long as the graph that is being recorded.
    pub(crate) fn hold(&self, what: Box<dyn Any + Send + Sync>) {
        if let Ok(arena) = current(self) {
            lock(&arena.state).held.push(what);
        }
    }

    /// Starts recording. Returns the number of the stream that was current.
    pub(crate) fn begin_capture(&'static self) -> Result<u32> {
        if self.is_capturing() {
            return Err(
                Error::new(Kind::Capture, "a graph is already being recorded").advise("Graphs cannot be nested.")
            );
        }
        let _entered = self.enter()?;
        let before = self.stream_state().index;
        let stream_state = self.new_stream_state(0)?;
        // a mark before the capture: other streams can wait for it meanwhile
        stream_state.mark(self)?;
        // SAFETY: a stream of ours, which nothing else uses. Relaxed: other threads load kernels meanwhile.
        let status = unsafe {
            (self.driver.capture_begin)(stream_state.handle(), CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        };
        if let Err(error) = self.check(status, "cuStreamBeginCapture") {
            self.retire(stream_state.index);
            return Err(error);
        }
        let state = State { open: true, ..State::default() };
        *lock(CAPTURED.of(self)) = Some(Arc::new(Arena { cuda: self, stream_state, state: Mutex::new(state) }));
        self.set_captured(Some(stream_state.index));
        self.set_stream_state(stream_state);
        self.set_mode(CAPTURING, true);
        Ok(before)
    }

    /// Ends recording, and launches the graph once on the stream that was current before, so that results of the
    /// recorded calls have values.
    pub(crate) fn end_capture(&'static self, before: u32) -> Result<Box<dyn Replay>> {
        let arena = current(self)?;
        let _entered = self.enter()?;
        let mut graph = Graph::NULL;
        // SAFETY: writes a handle.
        let status = unsafe { (self.driver.capture_end)(arena.stream_state.handle(), &mut graph) };
        self.set_mode(CAPTURING, false);
        self.set_stream_state(self.stream_state_at(before).unwrap_or_else(|| self.main()));
        *lock(CAPTURED.of(self)) = None;
        self.set_captured(None);
        {
            let mut state = lock(&arena.state);
            state.open = false;
            state.free.clear();
        }
        self.check(status, "cuStreamEndCapture")?;
        let mut exec = GraphExec::NULL;
        let mut nodes = 0;
        // SAFETY: writes a number, and a handle; the graph is destroyed once.
        let made = unsafe {
            (self.driver.graph_nodes)(graph, std::ptr::null_mut(), &mut nodes);
            let status = (self.driver.graph_instantiate)(&mut exec, graph, 0);
            (self.driver.graph_destroy)(graph);
            self.check(status, "cuGraphInstantiate")
        };
        made?;
        let recorded = Recorded { exec, nodes, arena, begun: AtomicBool::new(false) };
        recorded.launch()?;
        Ok(Box::new(recorded))
    }
}

/// A recorded graph.
struct Recorded {
    exec: GraphExec,
    nodes: usize,
    arena: Arc<Arena>,
    begun: AtomicBool,
}

impl Replay for Recorded {
    fn launch(&self) -> Result<()> {
        let cuda = self.arena.cuda;
        if cuda.is_capturing() {
            return Err(Error::new(Kind::Capture, "a graph cannot be run while another is recorded"));
        }
        let _entered = cuda.enter()?;
        let state = lock(&self.arena.state);
        state.outside.iter().try_for_each(|(buffer, _)| buffer.check())?;
        let _ordered = cuda.ordered(|t| {
            for (buffer, writes) in &state.outside {
                t.address(buffer.address, *writes);
            }
            for (address, _) in &state.all {
                t.address(*address, true);
            }
        })?;
        if !self.begun.swap(true, Ordering::Relaxed) && cuda.mode() & SEVERAL != 0 {
            // the first launch waits for the main stream, on which the arena's memory was allocated
            let main = cuda.main();
            cuda.stream_state().wait_for(cuda, main, main.next_mark())?;
        }
        counters::LAUNCHES.add(1);
        let _timed = cuda.timed("graph", cuda.stream(), 0, || format!("graph of {}", self.nodes));
        // SAFETY: a live graph and stream.
        cuda.check(unsafe { (cuda.driver.graph_launch)(self.exec, cuda.stream()) }, "cuGraphLaunch")
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn bytes(&self) -> u64 {
        lock(&self.arena.state).all.iter().map(|(_, held)| held.bytes()).sum()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let cuda = self.arena.cuda;
        // wait for running launches; in a forked child or a broken context there is nothing to destroy
        let Ok(_entered) = cuda.enter() else { return };
        for stream_state in cuda.running_streams() {
            // SAFETY: a stream of ours.
            unsafe { (cuda.driver.stream_synchronize)(stream_state.handle()) };
        }
        // SAFETY: destroyed once.
        unsafe { (cuda.driver.graph_exec_destroy)(self.exec) };
    }
}
