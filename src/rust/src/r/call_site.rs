//! Call sites: R calls that recorded an operation, kept alive for later warnings and error messages.

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use verdigris_ops::call_site::CallSite;

use crate::r::{self, R_NilValue, SEXP, SEXPREC};

/// An R call (or any R object) that is protected from garbage collection while this lives, by its list cell. It may be
/// dropped on any thread, but R objects can only be released on the main thread. So dropping puts the cell on
/// a list, and `reap` releases it.
struct Call {
    cell: SEXP,
    /// Of the recorded operation.
    serial: Serial,
}

/// The number of a recorded operation, which may be computed again for another reader.
pub type Serial = u64;

pub fn next_serial() -> Serial {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

// SAFETY: other threads only move and drop it, and dropping uses no R.
unsafe impl Send for Call {}
unsafe impl Sync for Call {}

/// Whether `DROPPED` has elements.
static ANY: AtomicBool = AtomicBool::new(false);
static DROPPED: Mutex<Vec<Cell>> = Mutex::new(Vec::new());

/// A cell of the doubly linked list below: CAR is the previous cell, CDR the next, TAG the call.
struct Cell(SEXP);
// SAFETY: only the main thread dereferences it.
unsafe impl Send for Cell {}

impl Drop for Call {
    fn drop(&mut self) {
        DROPPED.lock().unwrap_or_else(|p| p.into_inner()).push(Cell(self.cell));
        ANY.store(true, Ordering::Release);
    }
}

/// The preserved head of the list of live calls. Removing a cell takes constant time, unlike R_ReleaseObject(), which
/// searches a list.
fn head() -> SEXP {
    static HEAD: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());
    let mut head = HEAD.load(Ordering::Relaxed);
    if head.is_null() {
        // SAFETY: on the main thread, as all of this file; the cell is preserved for good, while it is protected.
        unsafe {
            head = r::Rf_protect(r::Rf_cons(R_NilValue, R_NilValue));
            r::R_PreserveObject(head);
            r::Rf_unprotect(1);
        }
        HEAD.store(head, Ordering::Relaxed);
    }
    head
}

/// The cell whose TAG is to be the current R call, or null. C stores the call when the Rust frames have returned, since
/// R may jump when it is asked for it.
#[no_mangle]
pub static vg_call_site_wanted: AtomicPtr<SEXPREC> = AtomicPtr::new(std::ptr::null_mut());

/// Nonzero if the operation cannot warn. The call is then only wanted for the list of the largest arrays when a device
/// is full, so C stores it only if it holds no data that it would keep alive.
#[no_mangle]
pub static vg_call_site_light: AtomicI32 = AtomicI32::new(0);

/// Asks C to store the current R call in a cell: a lazy cell, or one of a call site.
pub fn want(cell: SEXP, warns: bool) {
    vg_call_site_light.store((!warns).into(), Ordering::Relaxed);
    vg_call_site_wanted.store(cell, Ordering::Relaxed);
}

/// The call site of a known call for an operation that may warn. C looks for a handler when the entry returns. `None`
/// for NULL.
pub fn recorded(call: SEXP) -> Option<CallSite> {
    if r::is_null(call) {
        return None;
    }
    let cell = linked(call);
    want(cell, true);
    Some(shared(cell, next_serial()))
}

/// A call site for the current R call, which C stores when the entry returns.
pub fn here(warns: bool) -> Option<CallSite> {
    let cell = linked(r::null());
    want(cell, warns);
    Some(shared(cell, next_serial()))
}

/// Makes C look for a handler for warnings of an operation that was recorded without a call site.
pub fn look() {
    drop(here(true));
}

/// The call site of a call that cannot warn; `None` for NULL.
pub fn of(call: SEXP) -> Option<CallSite> {
    of_recorded(call, next_serial())
}

/// As `of`, for a recorded operation whose call site is made again at each use.
pub fn of_recorded(call: SEXP, serial: Serial) -> Option<CallSite> {
    if r::is_null(call) {
        return None;
    }
    Some(shared(linked(call), serial))
}

fn shared(cell: SEXP, serial: Serial) -> CallSite {
    Arc::new(Call { cell, serial }) as Arc<dyn Any + Send + Sync>
}

/// A new cell for a call, inserted at the head of the list.
fn linked(call: SEXP) -> SEXP {
    // SAFETY: main thread; the cell is reachable from the preserved head as soon as it is linked.
    unsafe {
        let head = head();
        r::Rf_protect(call);
        let cell = r::Rf_cons(head, R_NilValue);
        // read after the allocation, which may run a finalizer that changes the list
        let next = r::CDR(head);
        r::SETCDR(cell, next);
        r::SET_TAG(cell, call);
        r::SETCDR(head, cell);
        if next != R_NilValue {
            r::SETCAR(next, cell);
        }
        r::Rf_unprotect(1);
        cell
    }
}

/// `is_light` for C.
#[no_mangle]
extern "C" fn vg_call_is_light(call: SEXP) -> c_int {
    is_light(call).into()
}

/// Whether the call consists of symbols and single values only, like calls in source code. Others (from `do.call`)
/// would keep their arguments alive.
pub fn is_light(call: SEXP) -> bool {
    fn light(x: SEXP, depth: u32) -> bool {
        // SAFETY: a call is a list of cells that ends in NULL.
        unsafe {
            match r::kind_of(x) {
                r::SEXPTYPE::SYMSXP | r::SEXPTYPE::NILSXP => true,
                r::SEXPTYPE::LANGSXP if depth < 8 => {
                    let mut cell = x;
                    while !r::is_null(cell) {
                        if !light(r::CAR(cell), depth + 1) {
                            return false;
                        }
                        cell = r::CDR(cell);
                    }
                    true
                }
                r::SEXPTYPE::LGLSXP
                | r::SEXPTYPE::INTSXP
                | r::SEXPTYPE::REALSXP
                | r::SEXPTYPE::CPLXSXP
                | r::SEXPTYPE::STRSXP => r::len(x) == 1,
                _ => false,
            }
        }
    }
    r::kind_of(call) == r::SEXPTYPE::LANGSXP && light(call, 0)
}

/// Whether warnings of this call site are suppressed: C has then replaced the call by `.verdigris_silent(call)`.
pub fn is_silent(site: &CallSite) -> bool {
    is_marked(call(site))
}

/// The operation and the message of a warning; `None` for sites without a call.
pub type WarningKey = (Serial, u64);

pub fn warning_key(site: &CallSite, message: &str) -> Option<WarningKey> {
    let call = site.downcast_ref::<Call>()?;
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    Some((call.serial, hasher.finish()))
}

/// The latest warnings that have been raised, each once.
static RAISED: Mutex<VecDeque<WarningKey>> = Mutex::new(VecDeque::new());

pub fn is_raised(key: WarningKey) -> bool {
    RAISED.lock().unwrap_or_else(|p| p.into_inner()).contains(&key)
}

/// For a key that is not raised yet.
pub fn note_raised(key: WarningKey) {
    /// Enough for the operations that are recorded at one time.
    const KEPT: usize = 4096;
    let mut raised = RAISED.lock().unwrap_or_else(|p| p.into_inner());
    if raised.len() == KEPT {
        raised.pop_front();
    }
    raised.push_back(key);
}

/// Compares the function's name instead of a symbol: this runs at the end of an entry, where nothing may jump, and
/// installing a symbol may.
fn is_marked(call: SEXP) -> bool {
    // SAFETY: a call is a list of cells, and a symbol has a name.
    unsafe {
        r::kind_of(call) == r::SEXPTYPE::LANGSXP
            && r::kind_of(r::CAR(call)) == r::SEXPTYPE::SYMSXP
            && r::chars(r::PRINTNAME(r::CAR(call))) == b".verdigris_silent"
    }
}

/// A call site's call as R code, truncated to a line; empty if it cannot be deparsed.
pub fn text(site: &CallSite) -> String {
    let written = call(site);
    // SAFETY: a marked call has one argument.
    let written = if is_marked(written) { unsafe { r::CAR(r::CDR(written)) } } else { written };
    let mut text = [0u8; 120];
    // SAFETY: main thread; C writes at most as many bytes as the buffer has, NUL included.
    unsafe { r::vg_call_text(written, text.as_mut_ptr().cast(), text.len() as i32) };
    let end = text.iter().position(|&b| b == 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// The call of a call site; NULL if it has none.
pub fn call(site: &CallSite) -> SEXP {
    match site.downcast_ref::<Call>() {
        // SAFETY: the cell is in the list while the call site lives.
        Some(call) => unsafe { r::TAG(call.cell) },
        None => r::null(),
    }
}

/// Releases the calls of dropped call sites. Main thread only.
pub fn reap() {
    if !ANY.load(Ordering::Acquire) {
        return;
    }
    ANY.store(false, Ordering::Release);
    let dropped = std::mem::take(&mut *DROPPED.lock().unwrap_or_else(|p| p.into_inner()));
    for Cell(cell) in dropped {
        // SAFETY: the cell is in the list; its neighbours are too.
        unsafe {
            let (before, next) = (r::CAR(cell), r::CDR(cell));
            r::SETCDR(before, next);
            if next != R_NilValue {
                r::SETCAR(next, before);
            }
        }
    }
}
