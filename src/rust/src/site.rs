//! The R call that records an operation, kept for the warning that it may give much later.
//!
//! Calls are parts of the program's own code, the same object each time a line runs, so each is
//! preserved once and remembered by its address; past a bound nothing more is preserved.

use std::collections::HashMap;
use std::sync::Arc;

use extendr_ffi::*;
use verdigris_engine::expr::Site;

/// Calls that are kept at the most.
const MOST: usize = 4096;

/// A preserved call.
pub struct Call(pub SEXP);

// SAFETY: the address is only given back to R on its own thread; other threads merely carry it.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

thread_local! {
    static KEPT: std::cell::RefCell<HashMap<usize, Site>> = std::cell::RefCell::new(HashMap::new());
}

unsafe extern "C" {
    /// The innermost call of an R function (`entrypoint.c`), or NULL.
    fn vg_current_call() -> SEXP;
}

/// The call of the R function that is running.
pub fn current() -> Option<Site> {
    // SAFETY: on R's thread, from an entry point; what it returns is on R's call stack.
    let call = unsafe { vg_current_call() };
    // SAFETY: R is running.
    if call == unsafe { R_NilValue } {
        return None;
    }
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        if let Some(site) = kept.get(&(call as usize)) {
            return Some(site.clone());
        }
        if kept.len() >= MOST {
            return None;
        }
        // SAFETY: R is running; the call stays alive for the process.
        unsafe { R_PreserveObject(call) };
        let site: Site = Arc::new(Call(call));
        kept.insert(call as usize, site.clone());
        Some(site)
    })
}
