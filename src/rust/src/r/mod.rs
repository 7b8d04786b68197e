//! R's API, and the functions of this package's C files.
//!
//! Most functions of R may jump (longjmp): on an error, such as lack of memory or a string that cannot be translated,
//! or on an interrupt during a garbage collection. No jump may cross a Rust frame that owns something. So R is called
//! in `protect`, which catches the jump and unwinds Rust; C resumes the jump when Rust has returned (`unwind.c`). The
//! functions defined here under R's names do that, and may be called like any other. `raw` has R's own functions. Those
//! that may jump are called in this file only; the others are listed in `NEVER_JUMP` of `tools/test/lint-bridge.R`,
//! which a test runs.
#![allow(improper_ctypes)] // SEXPREC is opaque
#![allow(non_snake_case)] // R's names

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int, c_void};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

pub use raw::{
    cetype_t, R_CFinalizer_t, R_CallMethodDef, R_ClassSymbol, R_ClearExternalPtr, R_DimNamesSymbol, R_DimSymbol,
    R_ExternalPtrAddr, R_ExternalPtrProtected, R_ExternalPtrTag, R_MissingArg, R_NaReal, R_NaString, R_NamesSymbol,
    R_NilValue, R_SetExternalPtrAddr, R_SetExternalPtrTag, R_TspSymbol, R_altrep_data1, R_altrep_data2,
    R_set_altrep_data1, R_set_altrep_data2, R_xlen_t, Rboolean, Rcomplex, Rf_GetOption1, Rf_getCharCE, Rf_isObject,
    Rf_protect, Rf_unprotect, Rf_xlength, ALTREP, CAR, CDR, MARK_NOT_MUTABLE, PRINTNAME, R_CHAR, SETCAR, SETCDR,
    SET_STRING_ELT, SET_TAG, SET_VECTOR_ELT, SEXP, SEXPREC, SEXPTYPE, TAG, TYPEOF,
};
// C functions of this package that catch jumps themselves
pub use raw::{
    vg_call_text, vg_collect_garbage, vg_data_of, vg_dead_after, vg_handle_of, vg_hold_interrupts, vg_in_finalizer,
    vg_interrupted, vg_is_held, vg_is_jumping, vg_is_ours, vg_is_shared, vg_keep_with, vg_length_of, vg_next_dead,
    vg_processor_seconds, vg_release_interrupts, vg_saved_dtype, vg_torch_give, vg_torch_is_there, vg_torch_take,
    vg_torch_trim, vg_value_of,
};

pub mod address;
pub mod call_site;
pub mod capsule;
pub mod conditions;
pub mod external_ptr;
pub mod finalizers;
pub mod gc;
pub mod options;
pub mod preserve;
pub mod typed;
pub mod values;

mod raw {
    pub use extendr_ffi::*;
    use std::os::raw::{c_char, c_int, c_void};

    extern "C" {
        pub fn REAL_RO(x: SEXP) -> *const f64;
        pub fn INTEGER_RO(x: SEXP) -> *const c_int;
        pub fn LOGICAL_RO(x: SEXP) -> *const c_int;
        pub fn COMPLEX_RO(x: SEXP) -> *const Rcomplex;
        pub fn RAW_RO(x: SEXP) -> *const u8;
        pub fn SETCAR(x: SEXP, y: SEXP) -> SEXP;
        pub fn Rf_GetOption1(tag: SEXP) -> SEXP;
        pub fn Rf_ScalarReal(x: f64) -> SEXP;
        pub fn Rf_ScalarLogical(x: c_int) -> SEXP;
        pub fn Rf_ScalarString(x: SEXP) -> SEXP;
        pub fn Rf_copyMostAttrib(from: SEXP, to: SEXP);
        pub fn Rf_translateCharUTF8(x: SEXP) -> *const c_char;
        pub fn Rf_getCharCE(x: SEXP) -> c_int;
        pub fn R_ExpandFileName(path: *const c_char) -> *const c_char;

        // unwind.c
        pub fn vg_unwind_protect(run: unsafe extern "C-unwind" fn(*mut c_void), data: *mut c_void) -> c_int;
        pub fn vg_is_jumping() -> c_int;
        pub fn vg_hold_interrupts() -> c_int;
        pub fn vg_release_interrupts(held: c_int);

        // finalizers.c
        pub fn vg_new_pointer(tag: SEXP, kept: SEXP) -> SEXP;
        pub fn vg_register(pointer: SEXP);
        pub fn vg_keep_with(pointer: SEXP, kept: SEXP);
        pub fn vg_value_of(pointer: SEXP) -> *mut c_void;
        pub fn vg_length_of(pointer: SEXP) -> isize;
        pub fn vg_next_dead() -> SEXP;
        pub fn vg_dead_after(pointer: SEXP) -> SEXP;
        pub fn vg_in_finalizer() -> c_int;

        // altrep-array.c, altrep-host.c, attributes.c, helpers.c, toplevel.c
        pub fn vg_new(kind: c_int) -> SEXP;
        pub fn vg_new_classed(kind: c_int) -> SEXP;
        pub fn vg_handle_of(x: SEXP) -> *mut c_void;
        pub fn vg_data_of(x: SEXP) -> SEXP;
        pub fn vg_is_ours(x: SEXP) -> c_int;
        pub fn vg_is_shared(x: SEXP) -> c_int;
        pub fn vg_new_recorded(kind: c_int, cell: SEXP) -> SEXP;
        pub fn vg_set_class(x: SEXP, shape: c_int) -> SEXP;
        pub fn vg_learn_wrapper(x: SEXP);
        pub fn vg_saved_dtype(x: SEXP) -> SEXP;
        pub fn vg_set_namespace(env: SEXP);
        pub fn vg_new_vector(kind: c_int) -> SEXP;
        pub fn vg_interrupted() -> c_int;
        pub fn vg_collect_garbage(all: c_int);
        pub fn vg_processor_seconds() -> f64;
        pub fn vg_call_text(call: SEXP, out: *mut c_char, size: c_int);

        // holders.c
        pub fn vg_is_held(holder: *const super::Holder) -> c_int;

        // torch_bridge.cpp
        pub fn vg_torch_give(x: SEXP, status: *mut c_int, message: *mut c_char, size: c_int) -> *mut c_void;
        pub fn vg_torch_is_there(managed: *const c_void) -> c_int;
        pub fn vg_torch_trim();
        pub fn vg_torch_take(managed: *mut c_void, status: *mut c_int, message: *mut c_char, size: c_int) -> SEXP;
    }

    extern "C-unwind" {
        // entry.c
        pub fn vg_entry_returned(result: SEXP) -> SEXP;
    }
}

/// A running C function that was given a host address: `vg_holding` in `holders.h`.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Holder {
    end: usize,
    count: usize,
    returns: [[usize; 2]; 8],
}

impl Holder {
    pub fn is_running(&self) -> bool {
        // SAFETY: reads words of this thread's stack, outside the calling frame.
        unsafe { vg_is_held(self) != 0 }
    }
}

// ---- calls that may jump ---------------------------------------------------------------------------

/// The payload that unwinds Rust after R has jumped; C resumes the jump.
pub struct Jump;

/// Whether a body of `protect` is running, so that jumps are caught already. Main thread only, like all of this file.
static INSIDE: AtomicBool = AtomicBool::new(false);

/// Sets that mark and returns the old one. Entries clear it, since R may have called them from inside a body, and
/// restore it at their end: see `conditions::attempt`.
pub fn set_inside(inside: bool) -> bool {
    // no atomic `swap`: there is only one thread
    let before = INSIDE.load(Ordering::Relaxed);
    INSIDE.store(inside, Ordering::Relaxed);
    before
}

/// Calls R. If R jumps out of the body, Rust unwinds up to `conditions::attempt`, in which every entry runs.
///
/// The jump skips the body's frames. So the body must have nothing to drop, which `Copy` on its captures and result
/// ensures, and must not panic.
pub fn protect<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    struct Call<F, T> {
        body: F,
        out: MaybeUninit<T>,
    }
    unsafe extern "C-unwind" fn run<T: Copy, F: FnOnce() -> T + Copy>(call: *mut c_void) {
        // SAFETY: the address of the call below.
        let call = unsafe { &mut *call.cast::<Call<F, T>>() };
        call.out.write((call.body)());
    }
    fn start<T: Copy, F: FnOnce() -> T + Copy>(call: &mut Call<F, T>) -> c_int {
        // SAFETY: the call outlives this; `run` is of its type.
        unsafe { raw::vg_unwind_protect(run::<T, F>, std::ptr::from_mut(call).cast()) }
    }
    if INSIDE.load(Ordering::Relaxed) {
        return body();
    }
    let mut call = Call { body, out: MaybeUninit::uninit() };
    INSIDE.store(true, Ordering::Relaxed);
    let done = start(&mut call);
    INSIDE.store(false, Ordering::Relaxed);
    if done == 0 {
        jumped();
    }
    // SAFETY: written, since the body has run to its end.
    unsafe { call.out.assume_init() }
}

#[cold]
fn jumped() -> ! {
    resume_unwind(Box::new(Jump))
}

/// The end of an entry: raises the pending condition. R then jumps over the caller's frame, which must own nothing.
pub fn returned(result: SEXP) -> SEXP {
    // SAFETY: called by the functions that `entries!` makes, when their bodies have ended.
    unsafe { raw::vg_entry_returned(result) }
}

/// The registration of a function with this number of arguments. The name must end in NUL.
pub const fn routine(name: &'static str, function: *const (), arguments: usize) -> R_CallMethodDef {
    // SAFETY: R casts the address back, by the number of arguments.
    let fun = unsafe { std::mem::transmute::<*const (), raw::DL_FUNC>(function) };
    R_CallMethodDef { name: name.as_ptr().cast(), fun, numArgs: arguments as c_int }
}

macro_rules! protected {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $out:ty;)+) => {
        $(
            /// An R function, or a C function of this package, in `protect`.
            ///
            /// # Safety
            /// As for the function.
            pub unsafe fn $name($($argument: $type),*) -> $out {
                // SAFETY: the caller's promise.
                protect(move || unsafe { raw::$name($($argument),*) })
            }
        )+
    };
}

protected! {
    fn Rf_allocVector(kind: SEXPTYPE, n: R_xlen_t) -> SEXP;
    fn Rf_ScalarReal(x: f64) -> SEXP;
    fn Rf_ScalarInteger(x: c_int) -> SEXP;
    fn Rf_ScalarLogical(x: c_int) -> SEXP;
    fn Rf_setAttrib(x: SEXP, name: SEXP, value: SEXP) -> SEXP;
    fn Rf_copyMostAttrib(from: SEXP, to: SEXP) -> ();
    fn Rf_coerceVector(x: SEXP, kind: SEXPTYPE) -> SEXP;
    fn Rf_cons(car: SEXP, cdr: SEXP) -> SEXP;
    fn Rf_translateCharUTF8(x: SEXP) -> *const c_char;
    fn R_PreserveObject(x: SEXP) -> ();
    fn R_MakeExternalPtr(address: *mut c_void, tag: SEXP, kept: SEXP) -> SEXP;
    fn R_RegisterCFinalizerEx(x: SEXP, run: R_CFinalizer_t, at_exit: Rboolean) -> ();
    fn vg_new_pointer(tag: SEXP, kept: SEXP) -> SEXP;
    fn vg_register(pointer: SEXP) -> ();
    fn vg_new(kind: c_int) -> SEXP;
    fn vg_new_classed(kind: c_int) -> SEXP;
    fn vg_new_recorded(kind: c_int, cell: SEXP) -> SEXP;
    fn vg_new_vector(kind: c_int) -> SEXP;
    fn vg_set_class(x: SEXP, shape: c_int) -> SEXP;
    fn vg_learn_wrapper(x: SEXP) -> ();
    fn vg_set_namespace(env: SEXP) -> ();
}

/// Accessors of vectors. They can jump only in an ALTREP method, or if the vector has another type, so plain vectors
/// are accessed without `protect`.
macro_rules! of_vectors {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $out:ty: $kind:ident;)+) => {
        $(
            /// An R function, in `protect` unless the argument is a vector of the type and not ALTREP.
            ///
            /// # Safety
            /// As for the function.
            #[inline]
            pub unsafe fn $name(x: SEXP $(, $argument: $type)*) -> $out {
                // SAFETY: the caller's promise.
                unsafe {
                    if ALTREP(x) == 0 && TYPEOF(x) == SEXPTYPE::$kind {
                        return raw::$name(x $(, $argument)*);
                    }
                    protect(move || raw::$name(x $(, $argument)*))
                }
            }
        )+
    };
}

of_vectors! {
    fn LOGICAL() -> *mut c_int: LGLSXP;
    fn INTEGER() -> *mut c_int: INTSXP;
    fn REAL() -> *mut f64: REALSXP;
    fn COMPLEX() -> *mut Rcomplex: CPLXSXP;
    fn RAW() -> *mut u8: RAWSXP;
    fn LOGICAL_RO() -> *const c_int: LGLSXP;
    fn INTEGER_RO() -> *const c_int: INTSXP;
    fn REAL_RO() -> *const f64: REALSXP;
    fn COMPLEX_RO() -> *const Rcomplex: CPLXSXP;
    fn RAW_RO() -> *const u8: RAWSXP;
    fn LOGICAL_ELT(k: R_xlen_t) -> c_int: LGLSXP;
    fn INTEGER_ELT(k: R_xlen_t) -> c_int: INTSXP;
    fn REAL_ELT(k: R_xlen_t) -> f64: REALSXP;
    fn COMPLEX_ELT(k: R_xlen_t) -> Rcomplex: CPLXSXP;
    fn STRING_ELT(k: R_xlen_t) -> SEXP: STRSXP;
    fn VECTOR_ELT(k: R_xlen_t) -> SEXP: VECSXP;
}

/// An attribute. `protect` is needed for `names` only, which R may have to allocate.
///
/// # Safety
/// As for R's function.
pub unsafe fn Rf_getAttrib(x: SEXP, name: SEXP) -> SEXP {
    // SAFETY: the caller's promise.
    unsafe {
        if name == R_NamesSymbol {
            return protect(move || raw::Rf_getAttrib(x, name));
        }
        raw::Rf_getAttrib(x, name)
    }
}

// ---- values ------------------------------------------------------------------------------------------

/// `NULL`.
pub fn null() -> SEXP {
    // SAFETY: R sets it before any package is loaded.
    unsafe { R_NilValue }
}

pub fn is_null(x: SEXP) -> bool {
    x == null()
}

/// A character vector of one string.
pub fn string(text: &str) -> SEXP {
    // SAFETY: the bytes are UTF-8 and copied; the CHARSXP is reachable from the argument while the vector is made.
    protect(|| unsafe {
        let chars = Rf_protect(raw::Rf_mkCharLenCE(text.as_ptr().cast(), text.len() as c_int, cetype_t::CE_UTF8));
        let out = raw::Rf_ScalarString(chars);
        Rf_unprotect(1);
        out
    })
}

pub fn logical(value: bool) -> SEXP {
    // SAFETY: allocates a scalar.
    unsafe { Rf_ScalarLogical(value as c_int) }
}

pub fn real(value: f64) -> SEXP {
    // SAFETY: allocates a scalar.
    unsafe { Rf_ScalarReal(value) }
}

pub fn len(x: SEXP) -> usize {
    // SAFETY: x is a valid R object.
    unsafe { Rf_xlength(x) as usize }
}

pub fn kind_of(x: SEXP) -> SEXPTYPE {
    // SAFETY: x is a valid R object.
    unsafe { TYPEOF(x) }
}

/// The symbol of this name.
pub fn symbol(name: &'static CStr) -> SEXP {
    // SAFETY: the name ends in NUL; symbols are never freed.
    protect(|| unsafe { raw::Rf_install(name.as_ptr()) })
}

/// A symbol that is looked up once. Not a `OnceLock`: the lookup may run finalizers, which may call this again.
macro_rules! known_symbol {
    ($name:expr) => {{
        static KNOWN: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut known = KNOWN.load(std::sync::atomic::Ordering::Relaxed);
        if known.is_null() {
            known = $crate::r::symbol($name).cast();
            KNOWN.store(known, std::sync::atomic::Ordering::Relaxed);
        }
        known.cast()
    }};
}
pub(crate) use known_symbol;

/// Whether the class attribute contains this class.
pub fn inherits(x: SEXP, class: &str) -> bool {
    // SAFETY: reads a character vector within its length.
    unsafe {
        let classes = Rf_getAttrib(x, R_ClassSymbol);
        if TYPEOF(classes) != SEXPTYPE::STRSXP {
            return false;
        }
        (0..Rf_xlength(classes)).any(|k| chars(STRING_ELT(classes, k)) == class.as_bytes())
    }
}

/// The bytes of a CHARSXP.
///
/// # Safety
/// `x` is a CHARSXP, and outlives the result.
pub unsafe fn chars<'a>(x: SEXP) -> &'a [u8] {
    // SAFETY: R ends its strings in NUL.
    unsafe { std::ffi::CStr::from_ptr(R_CHAR(x)) }.to_bytes()
}

/// The text of a CHARSXP in UTF-8, which is valid during this .Call. The error says why there is none. R would raise an
/// error for the encoding "bytes", and does not validate strings that are marked as UTF-8.
pub fn translated<'a>(x: SEXP) -> Result<&'a str, &'static str> {
    const CE_BYTES: c_int = 3;
    // SAFETY: a CHARSXP; R ends its strings in NUL.
    unsafe {
        if Rf_getCharCE(x) == CE_BYTES {
            return Err("has the encoding \"bytes\", so it is not text");
        }
        CStr::from_ptr(Rf_translateCharUTF8(x)).to_str().map_err(|_| "is not valid text in its encoding")
    }
}

/// A path with `~` expanded, as by `path.expand()`.
pub fn expanded(path: &str) -> String {
    let Ok(text) = std::ffi::CString::new(path) else { return path.into() };
    let start = text.as_ptr();
    // SAFETY: the argument ends in NUL.
    let expanded = protect(move || unsafe { raw::R_ExpandFileName(start) });
    // SAFETY: R's buffer ends in NUL, and is copied before R is called again.
    unsafe { CStr::from_ptr(expanded) }.to_string_lossy().into_owned()
}

/// A CHARSXP. Not protected.
pub fn chars_of(text: &str) -> SEXP {
    // SAFETY: the bytes are UTF-8 and copied.
    protect(|| unsafe { raw::Rf_mkCharLenCE(text.as_ptr().cast(), text.len() as c_int, cetype_t::CE_UTF8) })
}

/// A double vector. Not protected.
pub fn reals(values: impl ExactSizeIterator<Item = f64>) -> SEXP {
    // SAFETY: allocated with room for the values, which zip limits; REAL() of a plain vector runs no R code.
    unsafe {
        let n = values.len();
        let out = Rf_allocVector(SEXPTYPE::REALSXP, n as R_xlen_t);
        for (k, value) in (0..n).zip(values) {
            *REAL(out).add(k) = value;
        }
        out
    }
}

/// A raw vector. Not protected.
pub fn bytes(values: &[u8]) -> SEXP {
    // SAFETY: allocated with room for the bytes.
    unsafe {
        let out = Rf_allocVector(SEXPTYPE::RAWSXP, values.len() as R_xlen_t);
        std::ptr::copy_nonoverlapping(values.as_ptr(), RAW(out), values.len());
        out
    }
}

/// A character vector. Not protected.
pub fn strings<S: AsRef<str>>(texts: impl ExactSizeIterator<Item = S>) -> SEXP {
    // SAFETY: protected while the strings are made; SET_STRING_ELT checks the index.
    unsafe {
        let out = Rf_protect(Rf_allocVector(SEXPTYPE::STRSXP, texts.len() as R_xlen_t));
        for (k, text) in texts.enumerate() {
            SET_STRING_ELT(out, k as R_xlen_t, chars_of(text.as_ref()));
        }
        Rf_unprotect(1);
        out
    }
}

/// A list under construction. It and its elements are protected until `finish`.
///
/// If an error or panic leaves the list unfinished, the condition that C then raises resets R's protection stack.
#[must_use]
pub struct List {
    list: SEXP,
    names: SEXP,
    next: R_xlen_t,
}

impl List {
    /// A list of `n` elements, all NULL.
    pub fn new(n: usize) -> List {
        // SAFETY: plain allocations.
        let [list, names] = protect(|| unsafe {
            let list = Rf_protect(raw::Rf_allocVector(SEXPTYPE::VECSXP, n as R_xlen_t));
            [list, Rf_protect(raw::Rf_allocVector(SEXPTYPE::STRSXP, n as R_xlen_t))]
        });
        List { list, names, next: 0 }
    }

    /// Sets the next element.
    pub fn add(mut self, name: &str, value: impl typed::IntoR) -> List {
        // not protected, but stored in the list before R allocates again
        let value = value.into_r();
        // SAFETY: both check the index, and raise R's error past the end.
        unsafe {
            SET_VECTOR_ELT(self.list, self.next, value);
            SET_STRING_ELT(self.names, self.next, chars_of(name));
        }
        self.next += 1;
        self
    }

    /// The list with its names. Not protected.
    pub fn finish(self) -> SEXP {
        // SAFETY: as many names as elements. Nested lists are finished before their parents, so the top two of the
        // protection stack are this list's.
        unsafe {
            Rf_setAttrib(self.list, R_NamesSymbol, self.names);
            Rf_unprotect(2);
        }
        self.list
    }
}
