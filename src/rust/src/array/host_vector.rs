//! Plain R vectors in memory of the host pool (`altrep-host.c`): a large array is transferred to them without a second
//! copy.

use std::any::Any;
use std::os::raw::{c_int, c_void};

use verdigris_engine::array::transfer::HostMut;
use verdigris_engine::array::Array;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::raw_slice;

use crate::array::host_copy::{self, Block};
use crate::r::external_ptr::{Of, Owned};
use crate::r::{self, gc, SEXP, SEXPTYPE};

/// Reads of at least this many bytes return a vector in the host pool's memory. Below, R's allocation is cheaper than
/// an ALTREP object.
pub const LARGE: usize = 1 << 20;

/// The value of the vector's external pointer. C reads the first field (`altrep-host.c`).
#[repr(C)]
pub struct Vector {
    start: *mut c_void,
    _owner: Box<dyn Any>,
}

/// The address of the elements of a logical, integer, double or complex vector.
///
/// # Safety
/// A vector of one of these types, protected as long as the address is used.
pub unsafe fn start(x: SEXP) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        match r::kind_of(x) {
            SEXPTYPE::LGLSXP => r::LOGICAL(x).cast(),
            SEXPTYPE::INTSXP => r::INTEGER(x).cast(),
            SEXPTYPE::CPLXSXP => r::COMPLEX(x).cast(),
            _ => r::REAL(x).cast(),
        }
    }
}

/// A vector of `n` elements of R's type for the dtype, without attributes. `fill` writes the elements at the address
/// that it is given. Not protected.
///
/// # Safety
/// `fill` writes at most `n` elements.
pub unsafe fn filled(dtype: DType, n: usize, array: &Array, fill: impl FnOnce(*mut u8) -> Result<()>) -> Result<SEXP> {
    let kind = host_copy::r_type(dtype);
    let bytes = n * host_copy::r_size(dtype);
    if bytes < LARGE {
        // SAFETY: allocated with room for the elements; R does not run between, and the vector is returned at once.
        unsafe {
            let out = r::Rf_protect(r::Rf_allocVector(kind, n as isize));
            let done = fill(start(out));
            r::Rf_unprotect(1);
            return done.map(|()| out);
        }
    }
    // evaluate before the block is allocated: recorded operations may keep memory alive that the collection can free
    array.evaluate()?;
    gc::before_read(bytes);
    let block = Block::new(bytes, array.device())?;
    fill(block.start())?;
    Ok(vector(kind, n, block.start(), Box::new(block)))
}

/// A vector of `n` elements at an address that is valid as long as `owner` lives. Not protected.
pub fn vector(kind: SEXPTYPE, n: usize, start: *mut u8, owner: Box<dyn Any>) -> SEXP {
    let vector = Owned::new(Vector { start: start.cast(), _owner: owner }, n, Of::Other);
    // SAFETY: a new vector, whose first part is the pointer; it owns the memory from here on.
    unsafe {
        let x = r::vg_new_vector(kind as c_int);
        vector.give(r::R_altrep_data1(x));
        x
    }
}

/// Reads `n` elements from `from` on. Not protected.
pub fn read(array: &Array, from: usize, n: usize) -> Result<SEXP> {
    // SAFETY: reads n elements.
    unsafe { filled(array.dtype(), n, array, |start| host_copy::read(array, from, n, start)) }
}

/// Reads all elements as another dtype, which must not be int64. Not protected.
pub fn read_as(array: &Array, dtype: DType, site: Option<CallSite>) -> Result<SEXP> {
    // SAFETY: writes as many elements as there are.
    unsafe { filled(dtype, array.len(), array, |start| host_copy::read_as(array, dtype, site, start)) }
}

/// Reads all int64 elements as package bit64 stores them, with their bits in doubles. Not protected.
pub fn read_integer64(array: &Array) -> Result<SEXP> {
    let n = array.len();
    host_copy::FETCHED.fetch_add(8 * n as u64, std::sync::atomic::Ordering::Relaxed);
    // SAFETY: there is room for n elements, 8 bytes wide in both.
    unsafe {
        filled(DType::Int64, n, array, |start| array.read(0, HostMut::Integer64(raw_slice::slice_mut(start.cast(), n))))
    }
}
