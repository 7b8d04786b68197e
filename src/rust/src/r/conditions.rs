//! Errors, panics and warnings. They are left pending for C, which raises them when no Rust frame is alive
//! (`conditions.c`).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::os::raw::{c_char, c_int};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Mutex;

use verdigris_engine::plan::warning::{self, Class};
use verdigris_ops::call_site::CallSite;
use verdigris_ops::error::{Error, Kind, Result};

use crate::r::{self, call_site, Jump, SEXP};

/// Nonzero if C has a condition to raise, so that it has only this to check.
#[no_mangle]
pub static vg_pending: AtomicI32 = AtomicI32::new(0);

struct Warned {
    message: String,
    site: Option<CallSite>,
    class: Class,
}

#[derive(Default)]
struct Condition {
    error: Option<Error>,
    warnings: Vec<Warned>,
}

thread_local! {
    static CONDITION: RefCell<Condition> = RefCell::default();
    /// The nesting depth of running bodies.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// The location of the last panic.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs a body. On failure leaves a condition pending and returns `None`. Warnings are left to `collect_warnings`.
pub fn attempt<T>(body: impl FnOnce() -> Result<T>) -> Option<T> {
    match caught(body) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            set_pending(error);
            None
        }
        Err(panic) => {
            unwound(panic);
            None
        }
    }
}

/// As `attempt`, but errors are dropped, since the caller has a fallback. A jump of R is still resumed.
pub fn attempt_quietly<T>(body: impl FnOnce() -> Result<T>) -> Option<T> {
    match caught(body) {
        Ok(result) => result.ok(),
        Err(panic) => {
            if panic.is::<Jump>() {
                unwound(panic);
            }
            None
        }
    }
}

/// Whether this thread is running a body.
pub fn is_running() -> bool {
    RUNNING.get() > 0
}

/// Runs a body with R's interrupts suspended; where it waits it polls for them. Marks that no `r::protect` is running,
/// since R may have called this from inside one.
fn caught<T>(body: impl FnOnce() -> T) -> std::thread::Result<T> {
    // SAFETY: sets a variable of R, which is restored below.
    let held = unsafe { r::vg_hold_interrupts() };
    let inside = r::set_inside(false);
    RUNNING.set(RUNNING.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    RUNNING.set(RUNNING.get() - 1);
    r::set_inside(inside);
    // SAFETY: as above.
    unsafe { r::vg_release_interrupts(held) };
    result
}

/// The payload that unwinds Rust when a condition is pending already.
struct Failed;

#[cold]
fn unwound(panic: Box<dyn Any + Send>) {
    if panic.is::<Jump>() || panic.is::<Failed>() {
        vg_pending.store(1, Ordering::Relaxed);
        return;
    }
    match panic.downcast::<Error>() {
        Ok(error) => set_pending(*error),
        Err(panic) => set_pending(panicked(panic)),
    }
}

/// Ends the entry with an error, by unwinding. For callers that do not return a `Result`.
#[cold]
pub fn fail(error: Error) -> ! {
    resume_unwind(Box::new(error))
}

/// Ends the entry with the condition or jump that an inner body has left, or with this error if there is none.
#[cold]
pub fn fail_as_left(otherwise: impl FnOnce() -> Error) -> ! {
    // SAFETY: reads a variable of C.
    if CONDITION.with_borrow(|c| c.error.is_some()) || unsafe { r::vg_is_jumping() } != 0 {
        resume_unwind(Box::new(Failed))
    }
    fail(otherwise())
}

/// Leaves an error pending.
#[cold]
pub fn set_pending(mut error: Error) {
    // R's strings cannot contain NUL
    for text in std::iter::once(&mut error.message)
        .chain(error.advice.iter_mut())
        .chain(error.detail.iter_mut())
        .chain(error.source.iter_mut())
    {
        if text.contains('\0') {
            *text = text.replace('\0', "\\0");
        }
    }
    CONDITION.with_borrow_mut(|c| c.error = Some(error));
    vg_pending.store(1, Ordering::Relaxed);
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    std::mem::forget(panic); // a payload may panic again when dropped
    let location = PANIC.lock().unwrap_or_else(|p| p.into_inner()).take();
    let error = Error::new(Kind::Panic, format!("an internal error: {message}"))
        .advise("This is a bug in verdigris; please report it with what you ran.");
    match location {
        Some(location) => error.detail(location),
        None => error,
    }
}

/// Moves the warnings and errors that the engine has noted to the pending condition. Call before returning to C.
pub fn collect_warnings() {
    if warning::any() {
        for noted in warning::take() {
            if noted.class != Class::Error {
                if noted.site.as_ref().is_some_and(call_site::is_silent) {
                    continue;
                }
                push(noted.message.to_string(), noted.site, noted.class);
            } else if !CONDITION.with_borrow(|c| c.error.is_some()) {
                // the first error only; the result exists, with NA for the elements that failed
                set_pending(Error::new(Kind::Value, noted.message));
            }
        }
    }
}

/// Leaves a warning of the bridge pending.
pub fn warn(message: impl Into<String>, site: Option<CallSite>) {
    push(message.into(), site, Class::Base);
}

/// Leaves a warning about lost precision pending.
pub fn warn_lost(message: &str) {
    push(message.into(), None, Class::Precision);
}

#[cold]
fn push(message: String, site: Option<CallSite>, class: Class) {
    CONDITION.with_borrow_mut(|c| c.warnings.push(Warned { message, site, class }));
    vg_pending.store(1, Ordering::Relaxed);
}

/// Keeps panics off stderr: they become R errors.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let location = info.location().map(|l| format!("panicked at {}:{}", l.file(), l.line()));
        if let Ok(mut slot) = PANIC.try_lock() {
            *slot = location;
        }
    }));
}

// ---- C reads the condition through these ---------------------------------------------------------

#[no_mangle]
extern "C" fn vg_error_present() -> c_int {
    CONDITION.with_borrow(|c| c.error.is_some() as c_int)
}

fn give(text: Option<&str>, bytes: *mut c_int) -> *const c_char {
    match text {
        None => ptr::null(),
        Some(text) => {
            // SAFETY: C passes the address of an int.
            unsafe { *bytes = text.len().min(c_int::MAX as usize) as c_int };
            text.as_ptr().cast()
        }
    }
}

/// The text is valid until `vg_condition_clear`.
#[no_mangle]
extern "C" fn vg_error_text(field: c_int, index: c_int, bytes: *mut c_int) -> *const c_char {
    CONDITION.with_borrow(|c| {
        let text = c.error.as_ref().and_then(|e| match field {
            0 => Some(e.kind.name()),
            1 => Some(e.message.as_str()),
            2 => e.detail.as_deref(),
            3 => e.source.as_deref(),
            _ => e.advice.get(index as usize).map(String::as_str),
        });
        give(text, bytes)
    })
}

#[no_mangle]
extern "C" fn vg_warning_count() -> c_int {
    CONDITION.with_borrow(|c| c.warnings.len() as c_int)
}

#[no_mangle]
extern "C" fn vg_warning_text(index: c_int, bytes: *mut c_int) -> *const c_char {
    CONDITION.with_borrow(|c| give(c.warnings.get(index as usize).map(|w| w.message.as_str()), bytes))
}

/// Drops the warnings that have been raised before, of operations that another reader has computed: base R warns once,
/// when the operation is called. The others count as raised, unless `suppressed`.
#[no_mangle]
extern "C" fn vg_warnings_settle(suppressed: c_int) {
    CONDITION.with_borrow_mut(|c| {
        let mut keys = Vec::new();
        c.warnings.retain(|warned| {
            let Some(key) = warned.site.as_ref().and_then(|site| call_site::warning_key(site, &warned.message)) else {
                return true;
            };
            let is_new = !keys.contains(&key) && !call_site::is_raised(key);
            if is_new {
                keys.push(key);
            }
            is_new
        });
        if suppressed == 0 {
            keys.into_iter().for_each(call_site::note_raised);
        }
    })
}

/// The class of a warning in front of R's own; null for most, which are warnings of base R too.
#[no_mangle]
extern "C" fn vg_warning_class(index: c_int) -> *const c_char {
    CONDITION.with_borrow(|c| match c.warnings.get(index as usize) {
        Some(w) if w.class == Class::Precision => c"verdigris_warning_precision".as_ptr(),
        _ => ptr::null(),
    })
}

#[no_mangle]
extern "C" fn vg_warning_call(index: c_int) -> SEXP {
    CONDITION.with_borrow(|c| match c.warnings.get(index as usize).and_then(|w| w.site.as_ref()) {
        Some(site) => call_site::call(site),
        None => r::null(),
    })
}

#[no_mangle]
extern "C" fn vg_condition_clear() {
    vg_pending.store(0, Ordering::Relaxed);
    let old = CONDITION.with_borrow_mut(std::mem::take);
    drop(old);
}

// ---- for C callables: other packages fetch the error when they want it ---------------------------

thread_local! {
    static KEPT: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Leaves an error pending in place of a jump that was discarded.
#[no_mangle]
extern "C" fn vg_leave_jump() {
    set_pending(Error::new(Kind::Memory, "R raised an error, or was interrupted, while it was asked for memory"));
}

/// Sets the pending error aside, so that the next entry does not raise it. Nonzero if there was one.
#[no_mangle]
extern "C" fn vg_error_keep() -> c_int {
    let (error, warned) = CONDITION.with_borrow_mut(|c| (c.error.take(), !c.warnings.is_empty()));
    vg_pending.store(warned.into(), Ordering::Relaxed);
    let failed = error.is_some();
    KEPT.set(error);
    failed.into()
}

/// Makes the error that was set aside pending again. Nonzero if there was one.
#[no_mangle]
extern "C" fn vg_error_recall() -> c_int {
    match KEPT.take() {
        Some(error) => {
            set_pending(error);
            1
        }
        None => 0,
    }
}

/// The message of the error that was set aside, NUL-terminated and truncated to `size` bytes; empty if there is none.
#[no_mangle]
extern "C" fn vg_error_kept(out: *mut c_char, size: c_int) {
    let text = KEPT.with_borrow(|kept| kept.as_ref().map_or_else(String::new, |e| e.message.replace('\0', "\\0")));
    let size = size.max(1) as usize;
    let n = (0..=text.len().min(size - 1)).rev().find(|&n| text.is_char_boundary(n)).unwrap_or(0);
    // SAFETY: C's buffer has `size` bytes.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), out, n);
        *out.add(n) = 0;
    }
}
