//! Entries: arrays on memory at raw addresses, and the addresses of arrays.

use std::ffi::c_void;

use verdigris_engine::array::strided;
use verdigris_engine::interop::array_interface;
use verdigris_engine::interop::pointer::{self as raw, Given};
use verdigris_engine::memory::buffer::{Device, ExternalBorrow};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::{attributes, handle};
use crate::entries::dlpack;
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{self, address, external_ptr, preserve, values, List, SEXP};

entries! {
    /// list(address, strides, owner) of an array's memory. `stream` as for `dlpack_export`.
    fn pointer(x: SEXP, writable: bool, stream: SEXP) -> Result<SEXP> {
        let handle = handle::of(x).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("`x` must be a GPU array, not {}", values::describe(x)))
                .advise("Use `as_gpu(x)` first.")
        })?;
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
        let lent = ExternalBorrow::new(view.buffer, writable);
        // SAFETY: each is protected while the next is made; the inner pointer owns the loan from here on.
        unsafe {
            let inner = r::Rf_protect(external_ptr::pointer(lent, r::null(), std::ptr::null_mut()));
            let owner = r::Rf_protect(r::R_MakeExternalPtr(address as *mut c_void, address::tag(), inner));
            let out = List::new(3)
                .add("address", address as f64)
                .add("strides", r::reals(strides.iter().map(|&s| s as f64)))
                .add("owner", owner)
                .finish();
            r::Rf_unprotect(2);
            Ok(out)
        }
    }

    /// An array on memory at an address. `owner` is kept alive until the memory is released; then `on_free` is called.
    fn from_pointer(
        address: SEXP,
        dim: Vec<usize>,
        dtype: DType,
        strides: Option<Vec<i64>>,
        device: Device,
        owner: SEXP,
        on_free: SEXP,
        read_only: bool,
    ) -> Result<SEXP> {
        address::check_owner(owner)?;
        let given = Given {
            address: address::of(address, "address")?,
            dim: dim.clone(),
            strides,
            dtype,
            device,
            read_only: read_only || address::is_for_reading(address) || address::is_for_reading(owner),
            within: if external_ptr::has_tag(address, address::tag()) {
                address::loan_of(address).map(|lent| (lent.buffer().address, lent.buffer().bytes))
            } else {
                None
            },
        };
        // SAFETY: the user is responsible for the memory; what can be checked is checked.
        let array = unsafe { raw::from_pointer(given, || preserve::keep_and_tell(owner, on_free))? };
        handle::shaped(array, &dim)
    }

    /// The type string of the array interface for a dtype's name; if `back`, the dtype's name for a type string.
    fn typestr(name: SEXP, back: bool) -> Result<String> {
        if back {
            return Ok(array_interface::dtype(FromR::from_r(name, "typestr")?)?.name().to_string());
        }
        array_interface::typestr(FromR::from_r(name, "dtype")?)
    }
}
