//! Entries: arrays of one value, and sequences.

use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::scalar::Scalar;

use crate::entries::entry::entries;

entries! {
    /// `n` elements of one value.
    fn full(value: (Scalar, Kind), n as "dim": usize, dtype: Option<DType>, device: Device) -> Result<Array> {
        let (scalar, kind) = value;
        Array::full(scalar, dtype.unwrap_or(kind.default_dtype()), n, device)
    }

    /// `from + by * (0, 1, ...)`.
    fn sequence(
        from: (Scalar, Kind),
        by: (Scalar, Kind),
        n as "length.out": usize,
        dtype: Option<DType>,
        device: Device,
    ) -> Result<Array> {
        let ((from, kind), (by, _)) = (from, by);
        let class = match from {
            Scalar::I32(_) => Class::I32,
            Scalar::I64(_) => Class::I64,
            _ => Class::F64,
        };
        let dtype = dtype.unwrap_or(kind.default_dtype());
        Array::source(verdigris_ops::id::SEQ, class, dtype, n, device, &[from.to(class), by.to(class)])
    }
}
