//! Entries: copies that overlap with computing, for `gpu_chunked()`.

use verdigris_engine::array::transfer::{Coming, Host};
use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

use crate::entries::entry::entries;
use crate::r::{self, external_ptr, values, SEXP};

fn tag() -> SEXP {
    r::known_symbol!(c"verdigris_upload")
}

fn part<T>(values: &[T], from: usize, n: usize) -> Result<&[T]> {
    from.checked_add(n)
        .and_then(|end| values.get(from..end))
        .ok_or_else(|| Error::new(Kind::Shape, "the chunk is not within the vector"))
}

entries! {
    /// Starts a copy of `n` elements of a host vector from `from` (0 is the first) on; or, where `rows` is not NULL, of
    /// `n` rows from row `from` on of a matrix of `rows` rows. Returns what `upload_take` makes an array of.
    fn upload_ahead(
        x: SEXP,
        from: usize,
        n: usize,
        rows: Option<usize>,
        dtype: Option<DType>,
        device: Device,
    ) -> Result<SEXP> {
        let data = values::host(x).ok_or_else(|| {
            Error::new(Kind::DType, format!("an array cannot hold {}", values::describe(x)))
                .advise("Chunks hold doubles, integers, logicals, complex numbers or integer64.")
        })?;
        let data = match data {
            _ if rows.is_some() => data,
            Host::Logical(v) => Host::Logical(part(v, from, n)?),
            Host::Integer(v) => Host::Integer(part(v, from, n)?),
            Host::Integer64(v) => Host::Integer64(part(v, from, n)?),
            Host::Double(v) => Host::Double(part(v, from, n)?),
            Host::Complex(v) => Host::Complex(part(v, from, n)?),
        };
        let rows = rows.map(|rows| (rows, from, n));
        // SAFETY: the pointer keeps x, dropping the copy waits for it, and the caller does not write to x.
        let coming = unsafe { Array::upload_ahead(data, rows, dtype, device, None)? };
        Ok(external_ptr::pointer(coming, tag(), x))
    }

    /// The array of a copy under way; its use waits for the copy.
    fn upload_take(pointer: SEXP) -> Result<Array> {
        // SAFETY: the tag is checked.
        let coming = if external_ptr::has_tag(pointer, tag()) {
            unsafe { external_ptr::take_value::<Coming>(pointer) }
        } else {
            None
        };
        let array = coming.ok_or_else(|| Error::new(Kind::Consumed, "there is no copy under way"))?.take()?;
        // SAFETY: an external pointer; the copy has read what it kept alive.
        unsafe { r::vg_keep_with(pointer, r::null()) };
        Ok(array)
    }
}
