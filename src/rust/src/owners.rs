//! R objects that own memory which arrays, or other libraries, use: kept until the last user is gone, on whatever thread that is.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use verdigris_engine::expr::Site;

use crate::r::{self, SEXP};
use crate::site;

/// Keeps an R object from being collected. Dropped on any thread.
pub fn keep(x: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(site::of(x))
}

/// Keeps `owner`, and has `on_free` called, both of which may be NULL, when the memory is let go of.
pub fn keep_and_tell(owner: SEXP, on_free: SEXP) -> Box<dyn Any + Send + Sync> {
    Box::new(Owner { owner: ManuallyDrop::new(site::of(owner)), on_free: site::of(on_free) })
}

struct Owner {
    owner: ManuallyDrop<Option<Site>>,
    on_free: Option<Site>,
}

static ANY: AtomicBool = AtomicBool::new(false);
/// Functions to be called, with the objects that are kept until then.
static FREED: Mutex<Vec<(Option<Site>, Site)>> = Mutex::new(Vec::new());

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let owner = unsafe { ManuallyDrop::take(&mut self.owner) };
        let Some(on_free) = self.on_free.take() else { return };
        if crate::altrep::forked() {
            return; // the parent's to be told
        }
        FREED.lock().unwrap_or_else(|p| p.into_inner()).push((owner, on_free));
        ANY.store(true, Ordering::Release);
    }
}

/// Calls what waits to be called: on the way into an entry, where R code may run. An error in it becomes a warning.
pub fn tell() {
    if ANY.load(Ordering::Acquire) {
        tell_now();
    }
}

#[cold]
fn tell_now() {
    ANY.store(false, Ordering::Release);
    let freed = std::mem::take(&mut *FREED.lock().unwrap_or_else(|p| p.into_inner()));
    for (_owner, on_free) in freed {
        // SAFETY: on R's thread; what jumps in the function ends in C.
        unsafe { r::vg_call_quietly(site::call(&on_free)) };
    }
    site::reap();
}
