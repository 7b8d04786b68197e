//! Entries: arrays over raw addresses, and the addresses of arrays.

use std::ffi::c_void;

use verdigris_engine::array::strided;
use verdigris_engine::interop::array_interface;
use verdigris_engine::interop::pointer::{self as raw, Given};
use verdigris_engine::memory::buffer::Lent;
use verdigris_ops::error::{Error, Kind as ErrorKind};

use crate::array::{attributes, convert, handle};
use crate::entries::dlpack;
use crate::entry;
use crate::r::{self, address, external_ptr, preserve, values, List};

entry! {
    /// list(address, strides, owner, typestr): where an array's elements lie. `stream` as for `dlpack_export`.
    fn pointer(x, writable, stream) {
        let handle = handle::of(x).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("`x` must be a GPU array, not {}", values::describe(x)))
                .advise("Use `as_gpu(x)` first.")
        })?;
        let writable = values::flag(writable, "writable")?;
        let array = if writable { handle.lend()? } else { handle.lend_to_read()? };
        let dim = attributes::extents(x)?;
        let mut view = array.evaluate()?;
        let strides = match strided::strides_of(&view.layout, &dim) {
            Some(strides) => strides,
            None => {
                view = array.contiguous()?;
                strided::column_major(&dim)
            }
        };
        if writable && view.buffer.is_read_only() {
            return Err(Error::new(ErrorKind::Argument, "`x` lies in memory that its owner has shared as read-only")
                .advise("`x + 0` has memory of its own, and `writable = FALSE` promises not to write."));
        }
        dlpack::order(stream, x)?.arrange(array.device())?;
        let address = if view.is_empty() { 0 } else { view.address() };
        let lent = Lent::new(view.buffer, writable);
        // SAFETY: each is protected while the next is made; the loan is the inner pointer's from here on.
        unsafe {
            let inner = r::Rf_protect(external_ptr::pointer(lent, r::null(), std::ptr::null_mut()));
            let owner = r::Rf_protect(r::R_MakeExternalPtr(address as *mut c_void, address::tag(), inner));
            let out = List::new(3)
                .add("address", r::real(address as f64))
                .add("strides", r::reals(strides.iter().map(|&s| s as f64)))
                .add("owner", owner)
                .finish();
            r::Rf_unprotect(2);
            Ok(out)
        }
    }

    /// An array over memory at an address. `owner` is kept, and `on_free` called, until or when the memory is let go
    /// of.
    fn from_pointer(address, dim, dtype, strides, device, owner, on_free, read_only) {
        address::check_owner(owner)?;
        let given = Given {
            address: address::of(address, "address")?,
            dim: values::sizes(dim)?,
            strides: if r::is_null(strides) { None } else { Some(values::wholes(strides, "strides")?) },
            dtype: values::dtype(dtype)?.ok_or_else(|| Error::new(ErrorKind::Argument, "`dtype` must be named"))?,
            device: convert::device(device)?,
            read_only: values::flag(read_only, "read_only")?
                || address::is_for_reading(address)
                || address::is_for_reading(owner),
            within: if external_ptr::has_tag(address, address::tag()) {
                address::loan_of(address).map(|lent| (lent.buffer().address, lent.buffer().bytes))
            } else {
                None
            },
        };
        let dim = given.dim.clone();
        // SAFETY: what the user says of his memory, as far as it can be checked.
        let array = unsafe { raw::from_pointer(given, || preserve::keep_and_tell(owner, on_free))? };
        handle::shaped(array, &dim)
    }

    /// The type string of an array interface for a dtype's name; or, where `back`, the dtype's name for a type string.
    fn typestr(name, back) {
        if values::flag(back, "back")? {
            return Ok(r::string(array_interface::dtype(values::string(name, "typestr")?)?.name()));
        }
        let dtype = values::dtype(name)?.ok_or_else(|| Error::new(ErrorKind::Argument, "`dtype` must be named"))?;
        Ok(r::string(&array_interface::typestr(dtype)?))
    }
}
