//! What R has collected. Finalizers run wherever gc does, maybe in the middle of our own work: they only queue. The next entry frees it.

use std::any::Any;
use std::collections::HashMap;
use std::os::raw::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use verdigris_engine::buffer::{Device, Lent};
use verdigris_engine::expr::Node;

use crate::handle::Handle;
use crate::site;
use crate::vectors::Vector;

/// What a finalizer has queued.
enum Dead {
    Handle(Box<Handle>),
    Vector(#[allow(dead_code)] Box<Vector>),
    Other(#[allow(dead_code)] Box<dyn Any>),
    Loan(#[allow(dead_code)] Box<Lent>),
}
// SAFETY: only the main thread takes it from the queue.
unsafe impl Send for Dead {}

static ANY_DEAD: AtomicBool = AtomicBool::new(false);
static DEAD: Mutex<Vec<Dead>> = Mutex::new(Vec::new());

fn dead() -> MutexGuard<'static, Vec<Dead>> {
    DEAD.lock().unwrap_or_else(|p| p.into_inner())
}

/// Queues the handle of a vector that R no longer has.
#[no_mangle]
extern "C" fn vg_handle_finalize(handle: *mut c_void) {
    if crate::altrep::forked() {
        return; // what the parent made is the parent's to free
    }
    // SAFETY: made by Box::into_raw, and finalized once: the finalizer clears the external pointer.
    dead().push(Dead::Handle(unsafe { Box::from_raw(handle.cast()) }));
    wake();
}

/// Queues a vector that R no longer has.
pub fn bury(vector: Box<Vector>) {
    dead().push(Dead::Vector(vector));
    wake();
}

/// Queues anything else that R no longer has.
pub fn bury_other(what: Box<dyn Any>) {
    dead().push(Dead::Other(what));
    wake();
}

/// Queues the end of a loan.
pub fn bury_loan(loan: Box<Lent>) {
    dead().push(Dead::Loan(loan));
    wake();
}

/// Has the next entry free what is queued, here or elsewhere.
pub fn wake() {
    ANY_DEAD.store(true, Ordering::Release);
}

/// Bytes on a device that go when the queue is freed: computed values that only handles in it hold.
pub fn pending_bytes(device: Device) -> u64 {
    let queue = dead();
    let mut nodes: HashMap<*const Node, (Arc<Node>, usize)> = HashMap::new();
    for dead in queue.iter() {
        if let Dead::Handle(handle) = dead {
            let node = handle.peek().node().clone();
            nodes.entry(Arc::as_ptr(&node)).or_insert((node, 0)).1 += 1;
        }
    }
    let held = nodes.values().filter(|(node, handles)| node.device == device && Arc::strong_count(node) == handles + 1);
    held.filter_map(|(node, _)| node.view())
        // the node's own and this one
        .filter(|view| Arc::strong_count(&view.buffer) == 2)
        .map(|view| view.buffer.bytes as u64)
        .sum()
}

/// Frees what the finalizers have queued. On the main thread.
pub fn reap() {
    if ANY_DEAD.load(Ordering::Acquire) {
        reap_now();
    }
}

#[cold]
fn reap_now() {
    ANY_DEAD.store(false, Ordering::Release);
    let queue = std::mem::take(&mut *dead());
    drop(queue);
    site::reap();
}
