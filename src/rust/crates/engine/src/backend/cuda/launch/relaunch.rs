//! Recurring launches, as CUDA graphs of one kernel.
//!
//! `cuLaunchKernel` takes 3 µs. The same kernel launched as a graph starts 2 µs earlier on the GPU: setting the new
//! arguments and launching take 1.5 µs (H100, driver 580). Changing the number of blocks, or the kernel, of a graph
//! costs as much as a launch, so each configuration has a graph of its own. So has each stream, since a graph does not
//! run concurrently with itself.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::BuildHasherDefault;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::api::{Graph, GraphExec, GraphNode, KernelNode, SUCCESS};
use crate::backend::cuda::driver::kernel::{Configuration, Shape};
use crate::memory::counters::RELAUNCHES;
use crate::plan::Mix;

/// A configuration gets a graph after this many launches, since making one takes 20 to 120 µs.
const OFTEN: u32 = 16;
/// The most graphs: each takes 0.1 MB of the device's memory.
const MOST: usize = 64;
/// The most configurations that are counted.
const MOST_SEEN: usize = 1024;
/// At the limit a graph may be replaced if it was not used in this many launches.
const LONG: u64 = 4096;

/// What is known of a configuration.
enum State {
    /// How often it was launched, by `cuLaunchKernel`.
    Seen(u32),
    /// Its graph, and the number of its last launch.
    Ready(KernelGraph, u64),
    /// The driver has refused the graph or an update of it: `cuLaunchKernel` is used from then on.
    Plain,
}

/// A graph of one kernel. `graph` must live as long as `exec`: updates name the kernel by its `node`.
#[derive(Clone, Copy)]
struct KernelGraph {
    graph: Graph,
    node: GraphNode,
    exec: GraphExec,
}

/// The configurations seen, and their graphs. Used by one thread at a time.
#[derive(Default)]
pub(crate) struct KernelGraphCache {
    seen: HashMap<Configuration, State, BuildHasherDefault<Mix>>,
    graphs: usize,
    launches: u64,
}

impl KernelGraphCache {
    /// Launches a kernel, by its graph if it has one. Returns the driver's status.
    ///
    /// # Safety
    /// As for `Cuda::call_launch`; the function is never unloaded.
    pub unsafe fn launch(&mut self, cuda: &Cuda, what: &Configuration, arguments: *mut *mut c_void) -> u32 {
        if self.seen.len() >= MOST_SEEN {
            self.seen.retain(|_, state| matches!(state, State::Ready(..)));
        }
        self.launches += 1;
        let node = || node(what, arguments);
        match self.seen.entry(*what).or_insert(State::Seen(0)) {
            State::Seen(times) if *times < OFTEN => *times += 1,
            State::Seen(_) => {
                let state = if !self.make_slot(cuda) {
                    State::Seen(0)
                // SAFETY: the caller's promise.
                } else if let Some(single) = unsafe { KernelGraph::make(cuda, &node()) } {
                    self.graphs += 1;
                    State::Ready(single, self.launches)
                } else {
                    State::Plain
                };
                self.seen.insert(*what, state);
            }
            State::Ready(single, last) => {
                *last = self.launches;
                // SAFETY: the graph is ours alone; the caller's promise.
                let status = unsafe {
                    match (cuda.driver.graph_exec_set_kernel)(single.exec, single.node, &node()) {
                        SUCCESS => (cuda.driver.graph_launch)(single.exec, what.stream),
                        refused => refused,
                    }
                };
                if status == SUCCESS {
                    RELAUNCHES.add(1);
                    return SUCCESS;
                }
                // SAFETY: nobody has it after this.
                unsafe { single.destroy(cuda) };
                self.graphs -= 1;
                self.seen.insert(*what, State::Plain);
            }
            State::Plain => {}
        }
        // SAFETY: the caller's promise.
        unsafe { cuda.call_launch(what, arguments) }
    }

    /// Makes room for one more graph: at the limit it destroys the least recently launched one, if that is old enough.
    /// False if there is no room.
    fn make_slot(&mut self, cuda: &Cuda) -> bool {
        if self.graphs < MOST {
            return true;
        }
        let of = |(&what, state): (&Configuration, &State)| match *state {
            State::Ready(single, last) => Some((last, what, single)),
            _ => None,
        };
        let oldest = self.seen.iter().filter_map(of).min_by_key(|(last, ..)| *last);
        let Some((_, what, single)) = oldest.filter(|(last, ..)| self.launches - last > LONG) else { return false };
        self.seen.remove(&what);
        self.graphs -= 1;
        // SAFETY: nobody has it after this.
        unsafe { single.destroy(cuda) };
        true
    }
}

fn node(what: &Configuration, arguments: *mut *mut c_void) -> KernelNode {
    let Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared } = what.shape;
    KernelNode {
        func: what.function.as_raw(),
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: shared,
        kernelParams: arguments,
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    }
}

impl KernelGraph {
    /// # Safety
    /// The context is current; the node is of a loaded function and its arguments.
    unsafe fn make(cuda: &Cuda, node: &KernelNode) -> Option<KernelGraph> {
        let driver = cuda.driver;
        let mut single = KernelGraph { graph: Graph::NULL, node: GraphNode::NULL, exec: GraphExec::NULL };
        // SAFETY: writes handles, which are destroyed if a later call fails; the caller's promise.
        unsafe {
            if (driver.graph_create)(&mut single.graph, 0) != SUCCESS {
                return None;
            }
            let mut status = (driver.graph_add_kernel)(&mut single.node, single.graph, std::ptr::null(), 0, node);
            if status == SUCCESS {
                status = (driver.graph_instantiate)(&mut single.exec, single.graph, 0);
            }
            if status != SUCCESS {
                (driver.graph_destroy)(single.graph);
                return None;
            }
        }
        Some(single)
    }

    /// # Safety
    /// Called once; the handles are not used afterwards.
    unsafe fn destroy(self, cuda: &Cuda) {
        // SAFETY: the caller's promise.
        unsafe {
            (cuda.driver.graph_exec_destroy)(self.exec);
            (cuda.driver.graph_destroy)(self.graph);
        }
    }
}
