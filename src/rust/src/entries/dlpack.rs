//! Entries: export and import of DLPack capsules, for R, for Python and for C code of other packages.

use std::ffi::{c_void, CStr};
use std::os::raw::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use verdigris_engine::array::Array;
use verdigris_engine::interop::dlpack::{self, Copying, Order, Raw, Terms};
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::Scalar;

use crate::array::{attributes, convert, handle};
use crate::entries::entry::{self, entries, for_c};
use crate::entries::pinned;
use crate::entries::streams::Stream;
use crate::r::typed::FromR;
use crate::r::{self, address, capsule, external_ptr, preserve, values, List, SEXP, SEXPTYPE};

// ---- export --------------------------------------------------------------------------------------

/// The tensor of an array, or of a plain vector whose representation is that of a dtype; `None` for other objects.
fn leaving(x: SEXP, terms: Terms) -> Result<Option<Raw>> {
    if let Some(handle) = handle::of(x) {
        let array = if terms.writable { handle.lend()? } else { handle.lend_to_read()? };
        return dlpack::export_as(&array, &attributes::extents(x)?, terms).map(Some);
    }
    if r::inherits(x, "gpu_array") {
        return dlpack::export_as(&convert::adopt(x)?, &attributes::extents(x)?, terms).map(Some);
    }
    let Some((address, dtype)) = values::address_and_dtype(x) else { return Ok(None) };
    if terms.writable {
        return Err(Error::new(ErrorKind::Argument, "an ordinary R vector cannot be given out to be written to")
            .advise("R's values do not change: give out `as_gpu(x, device = \"cpu\")`."));
    }
    let (n, order) = (r::len(x), Order::Nobody);
    let mut buffer = Buffer::new(Device::Cpu, if n == 0 { 0 } else { address }, n * dtype.size(), preserve::keep(x));
    if pinned::is_at(address) {
        buffer.share(); // gpu_copy() writes to it
    } else {
        buffer.set_read_only(); // R code copies it before writing, since it is referenced twice
    }
    let array = Array::from_view(View::contiguous(Arc::new(buffer), dtype, n));
    dlpack::export_as(&array, &attributes::extents(x)?, Terms { order, ..terms }).map(Some)
}

// ---- import --------------------------------------------------------------------------------------

/// An array on a tensor's memory, and its extents. Takes ownership of the tensor, but on failure the caller still owns
/// it.
fn arriving(raw: Raw, copying: Copying) -> Result<(Array, Vec<usize>)> {
    raw.probe()?;
    // SAFETY: the tag promises such a tensor that was not used; `probe` has seen that it can be read.
    unsafe { dlpack::import(raw, copying) }
}

/// The order for argument `stream`: NULL waits here; otherwise a stream of `gpu_stream()`, a stream's address, or -1 if
/// nobody has to wait.
///
/// # Errors
/// `Device` for a stream of another device than x's.
pub fn order(stream: SEXP, x: SEXP) -> Result<Order> {
    if r::is_null(stream) {
        return Ok(Order::Wait);
    }
    if external_ptr::is(stream) {
        let stream = <&Stream>::from_r(stream, "stream")?;
        let device = handle::of(x).map_or(Device::Cpu, |handle| handle.device());
        if stream.device() != device {
            return Err(Error::new(
                ErrorKind::Device,
                format!("`stream` is of {}, and `x` on {device}", stream.device()),
            ));
        }
        return Ok(stream.address()?.map_or(Order::Nobody, Order::Stream));
    }
    if values::scalar(stream).is_some_and(|(value, _)| value.to(Class::F64) == Scalar::F64(-1.0)) {
        return Ok(Order::Nobody);
    }
    address::of(stream, "stream").map(Order::Stream)
}

// ---- Python's capsules, for inst/python/verdigris_dlpack.py ------------------------------------------

/// Addresses of `PyCapsule_GetName` and `PyCapsule_GetPointer`.
static PYTHON: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The destructor of a Python capsule: frees the tensor unless it was taken. Python calls it with the GIL held, and
/// possibly with an exception pending. That is safe: the two functions only read the capsule, and the deleter runs no
/// Python code.
extern "C" fn destroy(capsule: *mut c_void) {
    type GetName = unsafe extern "C" fn(*mut c_void) -> *const c_char;
    type GetPointer = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let [get_name, get_pointer] = [0, 1].map(|k| PYTHON[k].load(Ordering::Relaxed));
    // SAFETY: the addresses are those of the two functions, which Python has passed before it made a capsule with this
    // destructor; capsule names are constants of the module. The capsule owns its tensor unless its name is `used_...`.
    unsafe {
        let name = std::mem::transmute::<usize, GetName>(get_name)(capsule);
        if name.is_null() {
            return;
        }
        let pointer = std::mem::transmute::<usize, GetPointer>(get_pointer)(capsule, name);
        if let Some(raw) = Raw::from_capsule(CStr::from_ptr(name), pointer) {
            raw.delete();
        }
    }
}

// ---- entries ----------------------------------------------------------------------------------------

entries! {
    /// A capsule with the memory of an array or a plain vector; NULL for other objects. `stream` as in `order()`.
    fn dlpack_export(x: SEXP, versioned: bool, stream: SEXP, writable: bool) -> Result<SEXP> {
        let terms = Terms { versioned, order: order(stream, x)?, writable };
        // SAFETY: protected while the tensor is made; an empty capsule frees nothing.
        unsafe {
            let capsule = r::Rf_protect(capsule::empty(versioned));
            let raw = leaving(x, terms);
            r::Rf_unprotect(1);
            let Some(raw) = raw? else { return Ok(r::null()) };
            r::R_SetExternalPtrAddr(capsule, raw.pointer());
            Ok(capsule)
        }
    }

    /// An array on a capsule's memory; NULL if `capsule` is no external pointer. `copy`: NULL copies only if needed.
    fn dlpack_import(capsule: SEXP, copy: Option<bool>) -> Result<SEXP> {
        let copying = match copy {
            None => Copying::IfNeeded,
            Some(true) => Copying::Always,
            Some(false) => Copying::Never,
        };
        if r::kind_of(capsule) != SEXPTYPE::EXTPTRSXP {
            return Ok(r::null());
        }
        let raw = capsule::tensor(capsule)?;
        let (array, dim) = arriving(raw, copying)?;
        capsule::mark_used(capsule, raw);
        handle::shaped(array, &dim)
    }

    /// list(tag, device, dtype, shape, strides, address, version, read_only); for a used capsule only the tag.
    fn dlpack_describe(capsule: SEXP) -> Result<SEXP> {
        let raw = match capsule::tensor(capsule) {
            Ok(raw) => raw,
            Err(error) if error.kind == ErrorKind::Consumed => {
                return Ok(r::string(&capsule::tag(capsule).to_string_lossy()))
            }
            Err(error) => return Err(error),
        };
        raw.probe()?;
        // SAFETY: the capsule owns a whole tensor.
        let d = unsafe { raw.describe()? };
        let out = List::new(8)
            .add("tag", &*capsule::tag(capsule).to_string_lossy())
            .add("device", d.device)
            .add("dtype", d.dtype)
            .add("shape", r::reals(d.shape.iter().map(|&n| n as f64)))
            .add("strides", r::reals(d.strides.iter().map(|&n| n as f64)))
            .add("address", d.address as f64)
            .add("version", d.version.map(|(major, minor)| format!("{major}.{minor}")))
            .add("read_only", d.read_only);
        Ok(out.finish())
    }

    /// A capsule that owns the tensor at an address, which Python has given up.
    fn dlpack_capsule(address: SEXP, versioned: bool) -> Result<SEXP> {
        let address = address::of(address, "address")?;
        let taken = Taken(raw_of(address as *mut c_void, versioned.into())?);
        let capsule = capsule::empty(versioned);
        // SAFETY: an external pointer.
        unsafe { r::R_SetExternalPtrAddr(capsule, taken.give().pointer()) };
        Ok(capsule)
    }

    /// The address of a capsule's tensor, which the caller owns from here on.
    fn dlpack_take(capsule: SEXP) -> Result<SEXP> {
        let raw = capsule::tensor(capsule)?;
        // allocated before the capsule gives up its tensor: this may fail
        let address = r::real(raw.pointer() as usize as f64);
        capsule::mark_used(capsule, raw);
        Ok(address)
    }

    /// Sets the addresses of Python's two functions, and returns the address of the destructor as a string.
    fn python_destructor(get_name: SEXP, get_pointer: SEXP) -> Result<String> {
        for (slot, x) in PYTHON.iter().zip([get_name, get_pointer]) {
            slot.store(address::of(x, "address")? as usize, Ordering::Relaxed);
        }
        Ok((destroy as *const () as usize).to_string())
    }
}

for_c! {
    dlpack_export(x, versioned, stream, writable);
    dlpack_import(capsule, copy);
}

// ---- for C code of other packages, through callables.c; documented in inst/include/verdigris.h ----

fn raw_of(tensor: *mut c_void, versioned: c_int) -> Result<Raw> {
    let name = if versioned != 0 { Raw::VERSIONED } else { Raw::LEGACY };
    Raw::from_capsule(name, tensor).ok_or_else(|| Error::new(ErrorKind::Argument, "the tensor's address is null"))
}

/// A tensor that is owned here; deleted on drop unless `give` passes it on.
struct Taken(Raw);

impl Taken {
    fn give(self) -> Raw {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: nobody else owns it.
        unsafe { self.0.delete() };
    }
}

/// Runs an entry body that returns an address; null on failure.
fn run_for_address(body: impl FnOnce() -> Result<*mut c_void>) -> *mut c_void {
    let mut out = std::ptr::null_mut();
    entry::run(|| {
        out = body()?;
        Ok(r::null())
    });
    out
}

#[no_mangle]
extern "C" fn vg_foreign_export(x: SEXP, versioned: c_int, writable: c_int, stream: i64) -> *mut c_void {
    run_for_address(|| {
        let order = match stream {
            -1 => Order::Nobody,
            0 => Order::Wait,
            stream => Order::Stream(stream as u64),
        };
        let terms = Terms { versioned: versioned != 0, order, writable: writable != 0 };
        leaving(x, terms)?
            .map(Raw::pointer)
            .ok_or_else(|| Error::new(ErrorKind::Argument, format!("expected an array, got {}", values::describe(x))))
    })
}

#[no_mangle]
extern "C" fn vg_foreign_import(tensor: *mut c_void, versioned: c_int, copy: c_int) -> SEXP {
    entry::run(|| {
        let copying = match copy {
            0 => Copying::Never,
            1 => Copying::Always,
            _ => Copying::IfNeeded,
        };
        let raw = raw_of(tensor, versioned)?;
        raw.probe()?;
        // make the vector before taking the tensor: a failure after that would delete it, but the caller still owns it
        // SAFETY: the caller's promise.
        let d = unsafe { raw.describe()? };
        let dim: Vec<usize> = d.shape.iter().map(|&extent| extent as usize).collect();
        let len = dim.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let dtype = DType::from_name(if d.dtype == "bool" { "bool8" } else { &d.dtype });
        let (out, dtype) = match (dtype, len) {
            // SAFETY: protected until it is returned.
            (Some(dtype), Some(len)) => unsafe { (r::Rf_protect(handle::empty(dtype, len, &dim)?), Some(dtype)) },
            // `arriving` refuses such a tensor
            _ => (r::null(), None),
        };
        let (array, dim) = arriving(raw, copying)?;
        if dtype != Some(array.dtype()) {
            if dtype.is_some() {
                // SAFETY: protected above.
                unsafe { r::Rf_unprotect(1) };
            }
            return handle::shaped(array, &dim);
        }
        handle::fill(out, handle::Handle::import(array));
        // SAFETY: protected above.
        unsafe { r::Rf_unprotect(1) };
        Ok(out)
    })
}

#[no_mangle]
extern "C" fn vg_foreign_capsule(tensor: *mut c_void, versioned: c_int) -> SEXP {
    entry::run(|| {
        let raw = raw_of(tensor, versioned)?;
        let capsule = capsule::empty(versioned != 0);
        // SAFETY: an external pointer.
        unsafe { r::R_SetExternalPtrAddr(capsule, raw.pointer()) };
        Ok(capsule)
    })
}

#[no_mangle]
extern "C" fn vg_foreign_take(capsule: SEXP, versioned: c_int) -> *mut c_void {
    run_for_address(|| {
        let raw = capsule::tensor(capsule)?;
        if matches!(raw, Raw::Versioned(_)) != (versioned != 0) {
            let readable = if versioned != 0 { "TRUE" } else { "FALSE" };
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "the capsule is tagged \"{}\", which is the other form",
                    capsule::tag(capsule).to_string_lossy()
                ),
            )
            .advise(format!("The caller reads capsules that were made with `versioned = {readable}`.")));
        }
        capsule::mark_used(capsule, raw);
        Ok(raw.pointer())
    })
}

#[no_mangle]
extern "C" fn vg_foreign_is_array(x: SEXP) -> c_int {
    handle::is_array(x).into()
}
