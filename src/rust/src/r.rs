//! R's API: extendr-ffi's, what it lacks, and the functions of our own C files.
#![allow(improper_ctypes)] // SEXPREC is opaque

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

    // ours: altrep.c and conditions.c
    pub fn vg_new(kind: c_int, handle: *mut c_void) -> SEXP;
    pub fn vg_handle_of(x: SEXP) -> *mut c_void;
    pub fn vg_data_of(x: SEXP) -> SEXP;
    pub fn vg_is_shared(x: SEXP) -> c_int;
    pub fn vg_new_pointer(handle: *mut c_void) -> SEXP;
    pub fn vg_new_recorded(kind: c_int, cell: SEXP) -> SEXP;
    pub fn vg_set_class(x: SEXP, shape: c_int) -> SEXP;
    pub fn vg_learn_wrapper(x: SEXP);
    pub fn vg_written_dtype(x: SEXP) -> SEXP;
    pub fn vg_set_namespace(env: SEXP);
    pub fn vg_new_vector(kind: c_int, vector: *mut c_void) -> SEXP;
    pub fn vg_interrupted() -> c_int;
    pub fn vg_collect_garbage(all: c_int);
    pub fn vg_processor_seconds() -> f64;
    pub fn vg_call_text(call: SEXP, out: *mut c_char, room: c_int);

    // holders.c
    pub fn vg_is_held(holder: *const Holder) -> c_int;

    // torch_bridge.cpp
    pub fn vg_torch_give(x: SEXP, status: *mut c_int, message: *mut c_char, room: c_int) -> *mut c_void;
    pub fn vg_torch_trim();
    pub fn vg_torch_take(managed: *mut c_void, status: *mut c_int, message: *mut c_char, room: c_int) -> SEXP;
}

/// A C function that was given an address: `vg_holding` in `bridge.h`.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Holder {
    end: usize,
    count: usize,
    returns: [[usize; 2]; 8],
}

impl Holder {
    pub fn is_running(&self) -> bool {
        // SAFETY: reads words of this thread's stack, above the frame that asks.
        unsafe { vg_is_held(self) != 0 }
    }
}

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
    unsafe {
        let chars = Rf_protect(Rf_mkCharLenCE(text.as_ptr().cast(), text.len() as c_int, cetype_t::CE_UTF8));
        let out = Rf_ScalarString(chars);
        Rf_unprotect(1);
        out
    }
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
    // SAFETY: x is a value that R gave us.
    unsafe { Rf_xlength(x) as usize }
}

pub fn kind_of(x: SEXP) -> SEXPTYPE {
    // SAFETY: x is a value that R gave us.
    unsafe { TYPEOF(x) }
}

/// A symbol, by a name that ends in NUL.
pub fn symbol(name: &'static std::ffi::CStr) -> SEXP {
    // SAFETY: the name ends in NUL; symbols are never freed.
    unsafe { Rf_install(name.as_ptr()) }
}

/// A symbol that is looked up once.
macro_rules! known_symbol {
    ($name:literal) => {{
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

/// Whether the class attribute has this name.
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

/// A CHARSXP. Not protected.
pub fn chars_of(text: &str) -> SEXP {
    // SAFETY: the bytes are UTF-8 and copied.
    unsafe { Rf_mkCharLenCE(text.as_ptr().cast(), text.len() as c_int, cetype_t::CE_UTF8) }
}

/// A double vector. Not protected.
pub fn reals(values: impl ExactSizeIterator<Item = f64>) -> SEXP {
    // SAFETY: allocated with room for the values, as zip makes sure; REAL runs nothing of R's.
    unsafe {
        let n = values.len();
        let out = Rf_allocVector(SEXPTYPE::REALSXP, n as R_xlen_t);
        for (k, value) in (0..n).zip(values) {
            *REAL(out).add(k) = value;
        }
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

/// A list under way. It and what is in it are protected until `finish`.
///
/// Not extendr-api's: see `Cargo.toml`. A plain value with nothing to drop, so R may jump over it; where it is
/// left unfinished, by an error or a panic, the condition that C then raises resets the stack of protected values.
#[must_use]
pub struct List {
    list: SEXP,
    names: SEXP,
    next: R_xlen_t,
}

impl List {
    /// Room for `n` elements, NULL at first.
    pub fn new(n: usize) -> List {
        // SAFETY: plain allocations.
        unsafe {
            let list = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, n as R_xlen_t));
            let names = Rf_protect(Rf_allocVector(SEXPTYPE::STRSXP, n as R_xlen_t));
            List { list, names, next: 0 }
        }
    }

    /// The next element. `value` may be unprotected: it is in the list before R allocates again.
    pub fn add(mut self, name: &str, value: SEXP) -> List {
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
        // SAFETY: the names are the list's length. Lists under way end in the opposite order of their
        // beginning, so the two on top are this one's.
        unsafe {
            Rf_setAttrib(self.list, R_NamesSymbol, self.names);
            Rf_unprotect(2);
        }
        self.list
    }
}
