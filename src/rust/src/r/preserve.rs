//! R objects that own memory used by arrays or other libraries. They are preserved until the last user of the memory is
//! gone, which may be on any thread.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

use verdigris_ops::call_site::CallSite;

use crate::r::{self, call_site, finalizers, SEXP};

/// A preserved R object (or none). May be dropped on any thread; the next entry releases the object.
struct Kept(Option<CallSite>);

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.0.take());
        finalizers::wake();
    }
}

/// Preserves an R object until the result is dropped, on any thread.
pub fn keep(x: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(Kept(call_site::of(x)))
}

/// Preserves `owner` until the result is dropped; then the function `on_free` is called. Both may be NULL.
pub fn keep_and_tell(owner: SEXP, on_free: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(Owner { owner: ManuallyDrop::new(Kept(call_site::of(owner))), on_free: call_site::of(on_free) })
}

struct Owner {
    owner: ManuallyDrop<Kept>,
    on_free: Option<CallSite>,
}

/// Nonzero if `on_free` functions are to be called. C checks it at the end of every entry.
#[no_mangle]
pub static vg_freed: AtomicI32 = AtomicI32::new(0);
/// These functions, each with its owner, which is preserved until the call.
static FREED: Mutex<Vec<(Kept, CallSite)>> = Mutex::new(Vec::new());

fn freed() -> MutexGuard<'static, Vec<(Kept, CallSite)>> {
    FREED.lock().unwrap_or_else(|p| p.into_inner())
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: taken only here, once.
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
    /// The function that R is calling, with its owner: both are preserved until it has returned.
    static CALLING: RefCell<Option<(Kept, CallSite)>> = const { RefCell::new(None) };
}

/// The next `on_free` function to call; NULL if there is none. It is preserved until the next call of this function.
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
