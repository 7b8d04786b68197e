//! Entries: uploads that overlap with computing, for `gpu_chunked()`, and files that are read and written in blocks.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use verdigris_engine::array::transfer::{Host, PendingUpload};
use verdigris_engine::array::Array;
use verdigris_engine::interop::raw_file::{self, RawFile, RawWriter, Stored};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

use crate::array::convert;
use crate::entries::entry::entries;
use crate::r::typed::{External, Taken};
use crate::r::{self, external_ptr, values, SEXP};

fn tag() -> SEXP {
    r::known_symbol!(c"verdigris_upload")
}

fn part<T>(values: &[T], from: usize, n: usize) -> Result<&[T]> {
    from.checked_add(n)
        .and_then(|end| values.get(from..end))
        .ok_or_else(|| Error::new(Kind::Shape, "the chunk is not within the vector"))
}

struct Reader(Arc<RawFile>);

impl External for Reader {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "this reader's file is not open in this session")
    }
}

struct Writer(RefCell<RawWriter>);

impl External for Writer {
    fn refused(_: SEXP, _: &str) -> Error {
        Error::new(Kind::Consumed, "this file has been written already")
    }
}

/// Takes the array of a pending copy out of its external pointer.
fn array_under_way(pointer: SEXP) -> Result<Array> {
    // SAFETY: the tag is checked.
    let coming = if external_ptr::has_tag(pointer, tag()) {
        unsafe { external_ptr::take_value::<PendingUpload>(pointer) }
    } else {
        None
    };
    let array = coming.ok_or_else(|| Error::new(Kind::Consumed, "there is no copy under way"))?.take()?;
    // SAFETY: an external pointer; the copy has read the vector that the pointer kept alive.
    unsafe { r::vg_keep_with(pointer, r::null()) };
    Ok(array)
}

entries! {
    /// Starts an upload of `n` elements of a host vector from `from` (0-based) on; or, unless `rows` is NULL, of `n`
    /// rows from row `from` on of a matrix with `rows` rows. Returns a pointer for `upload_take`.
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

    /// The array of a pending copy. Work on it is ordered after the copy.
    fn upload_take(pointer: SEXP) -> Result<Array> {
        array_under_way(pointer)
    }

    /// The same for a block in row-major order, `fast` elements for each of `slow` rows, which is transposed to R's
    /// order.
    fn upload_take_turned(pointer: SEXP, fast: usize, slow: usize) -> Result<Array> {
        raw_file::turned(&array_under_way(pointer)?, fast, slow)
    }

    /// Opens a file of `fast` elements for each of `slow` columns (or rows, if it is in row-major order). `direct`:
    /// whether it is read without the page cache; NULL decides by its size. Returns NULL for an unknown element type.
    fn raw_open(
        path: &str,
        stored as "type": &str,
        swap: bool,
        offset: usize,
        fast: usize,
        slow: usize,
        direct: Option<bool>,
    ) -> Result<Option<Reader>> {
        let Some(stored) = Stored::new(stored, swap) else { return Ok(None) };
        let file = RawFile::open(Path::new(path), stored, offset as u64, (fast, slow), direct)?;
        Ok(Some(Reader(Arc::new(file))))
    }

    /// Whether a file is read without the page cache.
    fn raw_is_direct(reader: &Reader) -> bool {
        reader.0.is_direct()
    }

    /// Starts to read a block. `fast` and `slow`: first (0-based) and count along the two extents. Returns a pointer
    /// for `upload_take`.
    fn raw_ahead(
        reader: &Reader,
        fast: [usize; 2],
        slow: [usize; 2],
        dtype: Option<DType>,
        device: Device,
    ) -> Result<SEXP> {
        let coming = reader.0.ahead((fast[0], fast[1]), (slow[0], slow[1]), dtype, device)?;
        Ok(external_ptr::pointer(coming, tag(), r::null()))
    }

    /// Creates a file that blocks are appended to.
    fn raw_create(path: &str) -> Result<Writer> {
        Ok(Writer(RefCell::new(RawWriter::create(Path::new(path))?)))
    }

    /// Appends an array; a matrix with extents `dim` is written by rows. False if writing the file has failed.
    fn raw_append(writer: &Writer, x: SEXP, dim: Vec<usize>) -> Result<bool> {
        let array = match convert::array_or_none(x)? {
            Some(array) => array,
            None => convert::upload(x, None, Device::Cpu, None)?,
        };
        match writer.0.try_borrow_mut() {
            Ok(mut writer) => writer.append(&array, &dim),
            Err(_) => Err(Error::new(Kind::Consumed, "this file is being written")),
        }
    }

    /// Abandons the file and removes what was written.
    fn raw_drop(writer: Taken<Writer>) {
        drop(writer);
    }

    /// Finishes the file and moves it to its path.
    fn raw_end(writer: Taken<Writer>) -> Result<()> {
        let Taken(Writer(writer)) = writer;
        writer.into_inner().end()
    }
}
