//! Entries: strided views of memory, and empty arrays.

use verdigris_engine::array::strided;
use verdigris_ops::dtype::DType;

use crate::array::{convert, handle};
use crate::entry;
use crate::r::values;

entry! {
    /// Room that nothing is written to, with neighbours `strides` elements apart.
    fn empty(dim, strides, dtype, device) {
        let (dim, strides) = (values::sizes(dim)?, values::wholes(strides, "strides")?);
        let dtype = values::dtype(dtype)?.unwrap_or(DType::Float64);
        Ok(handle::wrap(strided::empty(&dim, &strides, dtype, convert::device(device)?)?))
    }

    /// A view of an array's memory, with `dim` where it has two dimensions or more.
    fn as_strided(x, dim, strides, offset) {
        let (dim, strides) = (values::sizes(dim)?, values::wholes(strides, "strides")?);
        let offset = values::wholes(offset, "offset")?[0];
        let array = match handle::of(x) {
            Some(handle) => {
                let array = handle.current()?;
                if !array.is_volatile() {
                    array.contiguous()?; // before it may have to move: where it lies then does not matter
                }
                drop(array);
                handle.lend()?
            }
            None => convert::array(x)?,
        };
        let view = array.as_strided(&dim, &strides, offset)?;
        handle::shaped(view, &dim)
    }
}
