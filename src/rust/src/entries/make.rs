//! Entries: arrays of one value, and sequences.

use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::Class;
use verdigris_ops::error::{Error, Kind as ErrorKind};
use verdigris_ops::scalar::Scalar;

use crate::array::{convert, handle};
use crate::entry;
use crate::r::values;

entry! {
    /// `n` times a value of length one.
    fn full(value, n, dtype, device) {
        let n = values::size(n, "dim")?;
        let device = convert::device(device)?;
        let (scalar, kind) = values::scalar(value).ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("`value` must be one number, not {}", values::describe(value)))
        })?;
        let dtype = values::dtype(dtype)?.unwrap_or(kind.default_dtype());
        Ok(handle::wrap(Array::full(scalar, dtype, n, device)?))
    }

    /// `from + by * (0, 1, ...)`.
    fn sequence(from, by, n, dtype, device) {
        let n = values::size(n, "length.out")?;
        let device: Device = convert::device(device)?;
        let (from, kind) =
            values::scalar(from).ok_or_else(|| Error::new(ErrorKind::Argument, "`from` must be one number"))?;
        let (by, _) = values::scalar(by).ok_or_else(|| Error::new(ErrorKind::Argument, "`by` must be one number"))?;
        let dtype = values::dtype(dtype)?.unwrap_or(kind.default_dtype());
        let class = match from {
            Scalar::I32(_) => Class::I32,
            Scalar::I64(_) => Class::I64,
            _ => Class::F64,
        };
        Ok(handle::wrap(Array::source(
            verdigris_ops::id::SEQ,
            class,
            dtype,
            n,
            device,
            &[from.to(class), by.to(class)],
        )?))
    }
}
