//! Entries: strided views of memory, and uninitialised arrays.

use verdigris_engine::array::{strided, Array};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::{convert, handle};
use crate::entries::entry::entries;
use crate::r::SEXP;

entries! {
    /// An uninitialised array with these strides, in elements.
    fn empty(dim: Vec<usize>, strides: Vec<i64>, dtype: Option<DType>, device: Device) -> Result<Array> {
        strided::empty(&dim, &strides, dtype.unwrap_or(DType::Float64), device)
    }

    /// A view of an array's memory, with `dim` if it has two or more dimensions. Strides and offset are in elements.
    fn as_strided(x: SEXP, dim: Vec<usize>, strides: Vec<i64>, offset: Vec<i64>) -> Result<SEXP> {
        let [offset] = offset[..] else {
            return Err(Error::new(Kind::Argument, "`offset` must be one whole number"));
        };
        let array = match handle::of(x) {
            Some(handle) => {
                let array = handle.array_synced()?;
                if !array.is_volatile() {
                    array.contiguous()?; // before lend(), which may move the array to other memory anyway
                }
                drop(array);
                handle.lend()?
            }
            None => convert::array(x)?,
        };
        handle::shaped(array.as_strided(&dim, &strides, offset)?, &dim)
    }
}
