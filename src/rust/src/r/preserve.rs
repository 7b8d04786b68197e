//! R objects that own memory used by arrays or other libraries: preserved until the last user is gone, on any thread.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

use verdigris_ops::call_site::CallSite;

use crate::r::{self, call_site, finalizers, SEXP};

/// An R object that is kept from being collected. Dropped on any thread; the next entry releases it.
struct Kept(Option<CallSite>);

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.0.take());
        finalizers::wake();
    }
}

/// Keeps an R object from being collected. Dropped on any thread.
pub fn keep(x: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(Kept(call_site::of(x)))
}

/// Keeps `owner`, and has `on_free` called, both of which may be NULL, when the memory is released.
pub fn keep_and_tell(owner: SEXP, on_free: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(Owner { owner: ManuallyDrop::new(Kept(call_site::of(owner))), on_free: call_site::of(on_free) })
}

struct Owner {
    owner: ManuallyDrop<Kept>,
    on_free: Option<CallSite>,
}

/// Nonzero where functions wait to be called: C looks at the end of an entry.
#[no_mangle]
pub static vg_freed: AtomicI32 = AtomicI32::new(0);
/// They, with the objects that are kept until then.
static FREED: Mutex<Vec<(Kept, CallSite)>> = Mutex::new(Vec::new());

fn freed() -> MutexGuard<'static, Vec<(Kept, CallSite)>> {
    FREED.lock().unwrap_or_else(|p| p.into_inner())
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let owner = unsafe { ManuallyDrop::take(&mut self.owner) };
        let Some(on_free) = self.on_free.take() else { return };
        if finalizers::forked() {
            return; // the parent process calls it
        }
        freed().push((owner, on_free));
        vg_freed.store(1, Ordering::Release);
    }
}

thread_local! {
    /// The function that R is calling, and its owner: both live until it has returned.
    static CALLING: RefCell<Option<(Kept, CallSite)>> = const { RefCell::new(None) };
}

/// The next function to be called; NULL where there is none. It is kept until the next one is asked for.
#[no_mangle]
extern "C" fn vg_next_freed() -> SEXP {
    let next = freed().pop();
    let function = next.as_ref().map_or_else(r::null, |(_, on_free)| call_site::call(on_free));
    if next.is_none() {
        vg_freed.store(0, Ordering::Relaxed);
    }
    let last = CALLING.replace(next);
    drop(last);
    function
}
