//! Entries: plain R vectors in page-locked memory, and asynchronous copies between them and arrays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::backend;
use verdigris_engine::device::async_copy;
use verdigris_engine::memory::buffer::Device;
use verdigris_engine::memory::host_pool::Block;
use verdigris_engine::memory::Held;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::{attributes, convert, handle, host_vector};
use crate::entries::entry::entries;
use crate::r::{self, gc, values, SEXP, SEXPTYPE};

/// References to the target's node during a copy: the handle's and the local one.
const HOLDERS: usize = 2;

/// The owner of a pinned vector's memory.
struct Owner {
    _block: Arc<Block>,
    _held: Held,
}

/// Pinned vectors by the address of their elements, so that they are recognised inside base R's wrappers too.
static PINNED: Mutex<Option<HashMap<usize, Weak<Block>>>> = Mutex::new(None);

fn pinned() -> MutexGuard<'static, Option<HashMap<usize, Weak<Block>>>> {
    PINNED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The size of an element of R's type in bytes.
fn size_of(kind: SEXPTYPE) -> Option<usize> {
    match kind {
        SEXPTYPE::LGLSXP | SEXPTYPE::INTSXP => Some(4),
        SEXPTYPE::REALSXP => Some(8),
        SEXPTYPE::CPLXSXP => Some(16),
        _ => None,
    }
}

fn start_of(data: &Host<'_>) -> usize {
    match data {
        Host::Logical(v) | Host::Integer(v) => v.as_ptr() as usize,
        Host::Integer64(v) => v.as_ptr() as usize,
        Host::Double(v) => v.as_ptr() as usize,
        Host::Complex(v) => v.as_ptr() as usize,
    }
}

/// The block of a pinned vector; `None` for other vectors.
fn block_of(data: &Host<'_>) -> Option<Arc<Block>> {
    pinned().as_ref()?.get(&start_of(data))?.upgrade()
}

/// Whether this is the address of a pinned vector's elements.
pub fn is_at(address: u64) -> bool {
    pinned().as_ref().and_then(|all| all.get(&(address as usize))).is_some_and(|block| block.strong_count() > 0)
}

/// The elements of a host vector; `None` for arrays.
fn elements<'a>(x: SEXP) -> Option<Host<'a>> {
    if handle::of(x).is_some() || r::inherits(x, "gpu_array") {
        return None;
    }
    values::host(x)
}

/// A vector of zeros in page-locked memory. Not protected.
fn new(kind: SEXPTYPE, n: usize, device: Device) -> Result<SEXP> {
    let size = size_of(kind)
        .ok_or_else(|| Error::new(Kind::Argument, "pinned vectors are logical, integer, double or complex"))?;
    let bytes = n
        .checked_mul(size)
        .filter(|&bytes| bytes < 1 << 52)
        .ok_or_else(|| Error::new(Kind::Memory, format!("no machine holds {n} elements")))?;
    async_copy::reap();
    gc::before_read(bytes);
    // start the device: its driver locks the pages
    backend::of(device)?;
    let block = Arc::new(Block::page_locked(bytes.max(1), device)?);
    let start = block.start();
    {
        let mut all = pinned();
        let all = all.get_or_insert_default();
        if all.len() >= 64 {
            all.retain(|_, block| block.strong_count() > 0);
        }
        all.insert(start as usize, Arc::downgrade(&block));
    }
    let owner = Owner { _block: block, _held: Held::on_host(bytes as u64) };
    Ok(host_vector::vector(kind, n, start, Box::new(owner)))
}

entries! {
    /// A pinned vector of zeros.
    fn pinned_new(n: usize, kind as "type": &str, device: Device) -> Result<SEXP> {
        let kind = match kind {
            "double" | "numeric" => SEXPTYPE::REALSXP,
            "integer" => SEXPTYPE::INTSXP,
            "logical" => SEXPTYPE::LGLSXP,
            "complex" => SEXPTYPE::CPLXSXP,
            other => {
                return Err(Error::new(Kind::Argument, format!("there is no type \"{other}\" of pinned vectors"))
                    .advise("Types are \"double\", \"integer\", \"logical\" and \"complex\"."));
            }
        };
        new(kind, n, device)
    }

    /// A pinned copy of a vector, with its attributes.
    fn pinned_copy(x: SEXP, device: Device) -> Result<SEXP> {
        let Some(data) = elements(x) else {
            return Err(Error::new(Kind::DType, format!("a pinned vector cannot hold {}", values::describe(x)))
                .advise("Pinned vectors are logical, integer, double or complex."));
        };
        let kind = r::kind_of(x);
        let n = r::len(x);
        let out = new(kind, n, device)?;
        // SAFETY: the new vector has room for as many elements of the type; it is protected while attributes are set.
        unsafe {
            let out = r::Rf_protect(out);
            let bytes = n * size_of(kind).unwrap_or(0);
            if bytes > 0 {
                std::ptr::copy_nonoverlapping(start_of(&data) as *const u8, host_vector::start(out), bytes);
            }
            r::Rf_copyMostAttrib(x, out);
            attributes::copy_shape(x, out);
            r::Rf_unprotect(1);
            Ok(out)
        }
    }

    /// Whether x is a pinned vector.
    fn pinned_is(x: SEXP) -> bool {
        elements(x).is_some_and(|data| block_of(&data).is_some())
    }

    /// Unlocks the memory of a pinned vector, which can still be used as a plain vector. FALSE if x is not pinned.
    fn pinned_unlock(x: SEXP) -> Result<bool> {
        let Some(block) = elements(x).and_then(|data| block_of(&data)) else { return Ok(false) };
        async_copy::wait(&block)?;
        block.unlock();
        if let Some(all) = pinned().as_mut() {
            all.remove(&(block.start() as usize));
        }
        Ok(true)
    }

    /// Overwrites the elements of `to`, an array or a pinned vector, with those of `from`. Returns `to`.
    fn copy(from: SEXP, to: SEXP) -> Result<SEXP> {
        if let Some(target) = handle::of(to) {
            target.detach_cell();
            let old = target.array_synced()?;
            let new = match elements(from) {
                Some(data) => async_copy::host_to_array(data, block_of(&data).as_ref(), &old, HOLDERS)?,
                None => async_copy::array_to_array(&convert::array(from)?, &old, HOLDERS)?,
            };
            drop(old);
            target.rewrite(new)?;
            return Ok(to);
        }
        let target = elements(to).and_then(|data| Some((data, block_of(&data)?)));
        let Some((data, block)) = target else {
            return Err(Error::new(
                Kind::Argument,
                format!("`to` must be an array or a pinned vector, not {}", values::describe(to)),
            )
            .advise("`as.vector(x)` gives a new vector; `gpu_pinned(n)` makes one that can be copied to."));
        };
        let from = convert::array(from)?;
        // SAFETY: writing a pinned vector changes it under all its names, as its help page says. R is not running
        // meanwhile, and the copy keeps the block alive until the device has written it.
        unsafe {
            let out = match data {
                Host::Logical(v) => HostMut::Logical(std::slice::from_raw_parts_mut(v.as_ptr().cast_mut(), v.len())),
                Host::Integer(v) => HostMut::Integer(std::slice::from_raw_parts_mut(v.as_ptr().cast_mut(), v.len())),
                Host::Integer64(v) => {
                    HostMut::Integer64(std::slice::from_raw_parts_mut(v.as_ptr().cast_mut(), v.len()))
                }
                Host::Double(v) => HostMut::Double(std::slice::from_raw_parts_mut(v.as_ptr().cast_mut(), v.len())),
                Host::Complex(v) => HostMut::Complex(std::slice::from_raw_parts_mut(v.as_ptr().cast_mut(), v.len())),
            };
            async_copy::array_to_host(&from, out, &block)?;
        }
        Ok(to)
    }
}
