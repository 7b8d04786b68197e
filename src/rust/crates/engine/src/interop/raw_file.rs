//! Files of raw elements: matrices that are read block by block, and written one block after the other.
//!
//! Blocks are read with `pread`, not mapped. Reading directly into page-locked memory takes no page faults, threads do
//! not wait for each other, and a file that is truncated meanwhile gives an error, where access to mapped memory would
//! end the process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::array::transfer::PendingUpload;
use crate::array::Array;
use crate::disk::direct::Direct;
use crate::disk::{self, Part};
use crate::interop::files::{bring, failed_argument, sweep_once, Out};
use crate::memory;
use crate::memory::buffer::{Device, View};
use crate::memory::staging::{Elements, UploadSource};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;
use verdigris_ops::layout::Layout;

/// How the elements are stored.
#[derive(Clone, Copy)]
pub struct Stored {
    /// The dtype to which they are read.
    pub dtype: DType,
    /// Bytes of an element in the file.
    size: usize,
    widen: Option<Widen>,
    swap: bool,
}

/// Unsigned dtypes, which arrays do not have. They are read as a wider signed integer, or as double.
#[derive(Clone, Copy)]
enum Widen {
    U16,
    U32,
}

impl Stored {
    /// From the dtype's name in R; `swap` if the file has the other byte order.
    pub fn new(name: &str, swap: bool) -> Option<Stored> {
        let (dtype, size, widen) = match name {
            "uint16" => (DType::Int32, 2, Some(Widen::U16)),
            "uint32" => (DType::Float64, 4, Some(Widen::U32)),
            _ => {
                let dtype = DType::from_name(name)?;
                (dtype, dtype.size(), None)
            }
        };
        Some(Stored { dtype, size, widen, swap })
    }

    /// Bytes of the units whose byte order is swapped; a complex number consists of two.
    fn unit(&self) -> usize {
        match self.dtype {
            DType::Complex64 | DType::Complex128 => self.size / 2,
            _ => self.size,
        }
    }
}

/// A matrix in a file: `columns` columns of `stride` elements. For a file in row-major order these are its rows.
pub struct RawFile {
    file: File,
    /// The same file, where it is read without the page cache.
    direct: Option<Direct>,
    path: PathBuf,
    offset: u64,
    stored: Stored,
    stride: usize,
    columns: usize,
}

impl RawFile {
    /// Opens a file that consists of these elements from byte `offset` on. `direct` says whether it is read
    /// without the page cache; by default where the file is larger than the machine's memory, so that the cache would
    /// hold no block until it is read again.
    ///
    /// # Errors
    /// `File` where it cannot be read, has another size, or cannot be read directly.
    pub fn open(
        path: &Path,
        stored: Stored,
        offset: u64,
        (stride, columns): (usize, usize),
        direct: Option<bool>,
    ) -> Result<RawFile> {
        let (file, length) = disk::open_regular(path).map_err(|error| failed_argument("x", "read", path, &error))?;
        let wanted = (stride as u64)
            .checked_mul(columns as u64)
            .and_then(|n| n.checked_mul(stored.size as u64))
            .and_then(|bytes| bytes.checked_add(offset));
        if wanted != Some(length) {
            let wanted = wanted.map_or_else(|| "more bytes than there are".to_string(), |n| format!("{n} bytes"));
            return Err(Error::new(
                Kind::File,
                format!("the file {} has {length} bytes, but `dim`, `dtype` and `offset` say {wanted}", path.display()),
            )
            .advise("`dim` says how many rows and columns there are, `dtype` how an element is stored.")
            .advise("`offset` is the number of bytes before the first element."));
        }
        let direct = match direct {
            Some(false) => None,
            None => (length > memory::machine()).then(|| Direct::open(path).ok()).flatten(),
            Some(true) => Some(Direct::open(path).map_err(|error| {
                Error::new(Kind::File, format!("the file {} cannot be read directly: {error}", path.display()))
                    .advise("`direct = FALSE` reads it through the page cache.")
            })?),
        };
        Ok(RawFile { file, direct, path: path.into(), offset, stored, stride, columns })
    }

    /// Whether it is read without the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Starts to read `rows` rows from row `first` on, of `columns` columns from column `from` on.
    ///
    /// # Errors
    /// `Argument` for rows and columns out of bounds; those of memory.
    pub fn ahead(
        self: &Arc<RawFile>,
        (first, rows): (usize, usize),
        (from, columns): (usize, usize),
        dtype: Option<DType>,
        device: Device,
    ) -> Result<PendingUpload> {
        let within = |from: usize, n: usize, all: usize| from.checked_add(n).is_some_and(|end| end <= all);
        if !within(first, rows, self.stride) || !within(from, columns, self.columns) {
            return Err(Error::new(Kind::Argument, "the block is not within the file's matrix"));
        }
        let source = Arc::new(From { file: self.clone(), element: from * self.stride });
        let size = self.stored.dtype.size();
        let filling = if rows == self.stride {
            UploadSource::stored(source, size, rows * columns, 1, 0, rows * columns)
        } else {
            UploadSource::stored(source, size, self.stride, columns, first, rows)
        };
        Array::read_ahead(filling, self.stored.dtype, dtype, device)
    }

    #[cfg(unix)]
    fn read_at(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, at)
    }

    #[cfg(windows)]
    fn read_at(&self, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, out, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    out = &mut out[n..];
                    at += n as u64;
                }
            }
        }
        Ok(())
    }

    fn read(&self, from: usize, out: &mut [u8]) -> Result<()> {
        let Stored { dtype, size, widen, swap } = self.stored;
        let n = out.len() / dtype.size();
        let at = self.offset + from as u64 * size as u64;
        // Elements to widen are read to the end of `out`, and widened towards its front.
        let start = out.len() - n * size;
        let room = &mut out[start..];
        let read = match &self.direct {
            Some(direct) => direct.read_exact_at(room, at),
            None => self.read_at(room, at),
        };
        read.map_err(|error| self.failed(&error))?;
        if swap {
            out[start..].chunks_exact_mut(self.stored.unit()).for_each(<[u8]>::reverse);
        }
        match widen {
            None => {}
            Some(Widen::U16) => {
                for k in 0..n {
                    let [a, b] = [out[start + 2 * k], out[start + 2 * k + 1]];
                    out[4 * k..4 * k + 4].copy_from_slice(&i32::from(u16::from_ne_bytes([a, b])).to_ne_bytes());
                }
            }
            Some(Widen::U32) => {
                for k in 0..n {
                    let s = start + 4 * k;
                    let x = u32::from_ne_bytes([out[s], out[s + 1], out[s + 2], out[s + 3]]);
                    out[8 * k..8 * k + 8].copy_from_slice(&f64::from(x).to_ne_bytes());
                }
            }
        }
        if dtype == DType::Bool8 {
            if let Some(odd) = out.iter().find(|&&byte| byte > 2) {
                return Err(Error::new(
                    Kind::File,
                    format!("the file {} has the byte {odd}, which is no logical value", self.path.display()),
                )
                .advise("0 is FALSE, 1 is TRUE, 2 is NA. `type = \"uint8\"` reads any bytes."));
            }
        }
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let length = self.file.metadata().map_or(0, |facts| facts.len());
            return Error::new(
                Kind::File,
                format!(
                    "the file {} has become shorter since `gpu_reader()` opened it: {length} bytes are left",
                    self.path.display()
                ),
            )
            .advise("Write it anew, and make a new reader of it.");
        }
        failed_argument("x", "read", &self.path, error)
    }
}

/// The elements of a file from one of them on.
struct From {
    file: Arc<RawFile>,
    element: usize,
}

impl Elements for From {
    fn read(&self, from: usize, out: &mut [u8]) -> Result<()> {
        self.file.read(self.element + from, out)
    }
}

/// An array of `slow` rows of `fast` elements each, as a column-major matrix with these rows.
///
/// # Errors
/// `Memory`.
pub fn turned(array: &Array, fast: usize, slow: usize) -> Result<Array> {
    if fast <= 1 || slow <= 1 {
        return Ok(array.clone());
    }
    let view = array.contiguous()?;
    let layout = Layout::new(view.layout.offset(), &[slow, fast], &[fast as isize, 1]);
    let out = Array::from_view(View { layout, ..view });
    out.contiguous()?;
    Ok(out)
}

/// A file that is written one block after the other. It has a temporary name until `end`; dropping it before removes
/// it.
pub struct RawWriter {
    out: Out,
    path: PathBuf,
    watch: Watch,
}

impl RawWriter {
    /// # Errors
    /// `File` if the file cannot be created.
    pub fn create(path: &Path) -> Result<RawWriter> {
        sweep_once(path);
        let part = Part::new(path, 0o666).map_err(|error| failed_argument("to", "written", path, &error))?;
        Ok(RawWriter { out: Out::new(part), path: path.into(), watch: Watch::new() })
    }

    /// Appends an array's elements; those of a matrix of shape `dim` by rows. A background thread writes while the next
    /// piece is downloaded. Returns false if writing has failed; `end` then returns the error.
    ///
    /// # Errors
    /// `File` and those of the array's computation.
    pub fn append(&mut self, array: &Array, dim: &[usize]) -> Result<bool> {
        let mut more = true;
        let RawWriter { out, path, watch } = self;
        bring(array, dim, &mut |block, bytes| {
            let done = out.piece(block, bytes, watch)?;
            more = done.map_err(|error| failed_argument("to", "written", path, &error))?;
            Ok(more)
        })?;
        Ok(more)
    }

    /// Completes the file and moves it to its target.
    ///
    /// # Errors
    /// `File`; the target is unchanged then.
    pub fn end(mut self) -> Result<()> {
        let done = self.out.end(&mut self.watch)?;
        done.map_err(|error| failed_argument("to", "written", &self.path, &error))
    }
}
