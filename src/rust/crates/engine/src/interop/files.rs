//! Arrays in safetensors files: written and read in pieces, straight from and to a device.
//!
//! The same element has the same index in R and in Python: files are row-major, arrays column-major, so a matrix is transposed on
//! its device on the way. A thread of the file's own writes (or reads) one piece while the next one is on the bus.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use crate::array::Array;
use crate::backend;
use crate::buffer::{Device, View};
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::host::Block;
use crate::interop::any_na;
use crate::interop::safetensors::{dtype_of, malformed, name_of, Entry, Header, LONGEST};
use crate::interrupt::Watch;
use crate::layout::{Axis, Layout};
use crate::reduction::Reduction;

/// Bytes that go at a time: enough for the ring's threads to share.
const PIECE: usize = 32 << 20;
/// Up to so many bytes are brought into the file's order as a whole; beyond, on the cpu, by pieces: that takes less memory, and
/// more time where rows are long.
const WHOLE: usize = 1 << 30;

/// An array to be written.
pub struct Item {
    pub name: String,
    pub array: Array,
    pub dim: Vec<usize>,
}

/// What an array is stored as where the format, or its readers, do not have what it is.
pub enum Stored {
    AsItIs,
    /// Logical with NA: int8, which has NA.
    Int8,
    /// complex128: float64 with a last dimension of 2, the real and the imaginary part.
    Pairs,
}

impl Item {
    pub fn stored(&self) -> Result<Stored> {
        Ok(match self.array.dtype() {
            DType::Complex128 => Stored::Pairs,
            DType::Bool8 if any_na(&self.array)? => Stored::Int8,
            _ => Stored::AsItIs,
        })
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(Kind::File, format!("the file {} cannot be {what}: {error}", path.display()))
}

// ---- out -----------------------------------------------------------------------------------------

/// A file beside the one that is to be, which takes its place when it is whole. Dropped before that it is removed.
struct Beside {
    file: File,
    path: PathBuf,
    done: bool,
}

impl Beside {
    fn new(target: &Path) -> Result<Beside> {
        let name = target.file_name().ok_or_else(|| {
            Error::new(Kind::File, format!("{} is no name of a file", target.display()))
                .advise("Give the path of a file.")
        })?;
        for k in 0.. {
            let mut beside = name.to_os_string();
            beside.push(format!(".{}-{k}.part", std::process::id()));
            let path = target.with_file_name(beside);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Beside { file, path, done: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && k < 100 => {}
                Err(error) => return Err(failed("written", target, &error)),
            }
        }
        unreachable!("the hundredth name that is taken is an error")
    }

    fn take_place(mut self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).map_err(|e| failed("written", target, &e))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes arrays and metadata to a file, which replaces one of that name when it is whole.
///
/// Arrays go to the host in pieces; what is not in the file's order is brought into it on the device.
///
/// # Errors
/// `File` where the file cannot be written; then no file is changed. `Argument` for a name that stands twice.
pub fn save(path: &Path, items: &[Item], metadata: &[(String, String)]) -> Result<()> {
    let mut names = std::collections::HashSet::new();
    if let Some(twice) = items.iter().find(|item| !names.insert(item.name.as_str()) || item.name == "__metadata__") {
        return Err(Error::new(
            Kind::Argument,
            format!("the name \"{}\" cannot stand in the file (again)", twice.name),
        )
        .advise("Give each array a name of its own; `__metadata__` is the format's."));
    }
    let mut entries = Vec::with_capacity(items.len());
    let mut arrays = Vec::with_capacity(items.len());
    for item in items {
        let mut shape = item.dim.clone();
        let (array, name) = match item.stored()? {
            Stored::AsItIs => (item.array.clone(), name_of(item.array.dtype())),
            Stored::Int8 => (item.array.cast(DType::Int8, None)?, name_of(DType::Int8)),
            Stored::Pairs => {
                shape.push(2);
                (item.array.clone(), name_of(DType::Float64))
            }
        };
        let dtype = name.unwrap_or_default().to_string();
        let bytes = (array.len() * array.dtype().size()) as u64;
        entries.push(Entry { name: item.name.clone(), dtype, shape, offset: 0, bytes });
        arrays.push(array);
    }
    // large elements first, so that each tensor begins where an element may
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&k| std::cmp::Reverse(arrays[k].dtype().size()));
    let mut offset = 0;
    for &k in &order {
        entries[k].offset = offset;
        offset += entries[k].bytes;
    }
    let header = Header::write(&entries, metadata);
    if header.len() as u64 - 8 > LONGEST {
        return Err(Error::new(Kind::File, "names and attributes take more than the 100 MB that a header may have")
            .advise("Save without them, such as by `unname(x)`."));
    }

    let beside = Beside::new(path)?;
    let mut target = &beside.file;
    let wrong = |e: io::Error| failed("written", path, &e);
    target.write_all(&header).map_err(wrong)?;
    let (send, receive) = sync_channel::<(Block, usize)>(1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> io::Result<()> {
            let mut target = target;
            for (block, bytes) in receive {
                // SAFETY: the block was filled with so many bytes.
                target.write_all(unsafe { std::slice::from_raw_parts(block.start(), bytes) })?;
            }
            Ok(())
        });
        let mut watch = Watch::new();
        let brought = order.iter().try_for_each(|&k| {
            bring(&arrays[k], &items[k].dim, &mut |block, bytes| {
                watch.look()?;
                // a writer that has failed says so below
                send.send((block, bytes)).map_err(|_| Error::new(Kind::File, "the file cannot be written"))
            })
        });
        drop(send);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread ended")));
        written.map_err(wrong).and(brought)
    })?;
    beside.take_place(path)
}

/// The view in the order of the file: the first axis slowest.
fn row_major(array: &Array, dim: &[usize]) -> Result<View> {
    let view = array.settle()?;
    if view.is_empty() || dim.len() < 2 {
        return Ok(view);
    }
    let axes: Vec<Axis> = (0..dim.len()).rev().map(|k| Axis::whole(k, dim[k])).collect();
    if let Some(layout) = view.layout.view(dim, &axes) {
        return Ok(View { layout, ..view });
    }
    let view = array.contiguous()?;
    let layout = view.layout.view(dim, &axes);
    let layout = layout.ok_or_else(|| Error::new(Kind::Shape, "the dimensions do not fit the array's length"))?;
    Ok(View { layout, ..view })
}

/// Hands an array's bytes over, in the order of the file, in blocks on the host.
fn bring(array: &Array, dim: &[usize], each: &mut dyn FnMut(Block, usize) -> Result<()>) -> Result<()> {
    let mut view = row_major(array, dim)?;
    let (n, size) = (view.len(), view.dtype.size());
    if n == 0 {
        return Ok(());
    }
    let device = view.buffer.device;
    if !view.layout.is_contiguous() && (device != Device::Cpu || n * size <= WHOLE) {
        match Array::from_view(view.clone()).contiguous() {
            Ok(whole) => view = whole,
            // then piece by piece
            Err(error) if error.kind == Kind::Memory => {}
            Err(error) => return Err(error),
        }
    }
    for layout in view.layout.pieces(0, n, PIECE / size) {
        let mut piece = View { layout, ..view.clone() };
        if !piece.layout.is_contiguous() {
            piece = Array::from_view(piece).contiguous()?;
        }
        let bytes = piece.len() * size;
        let block = Block::new(bytes, device)?;
        // SAFETY: the block has this much room, and no one else knows it.
        let room = unsafe { std::slice::from_raw_parts_mut(block.start(), bytes) };
        backend::of(device)?.download(&piece.buffer, piece.layout.offset() * size, room)?;
        each(block, bytes)?;
    }
    Ok(())
}

// ---- in ------------------------------------------------------------------------------------------

/// A file whose header has been read and checked.
pub struct Source {
    file: File,
    path: PathBuf,
    /// Where its data begin.
    start: u64,
    pub header: Header,
}

/// Opens a file.
///
/// # Errors
/// `File` where it cannot be read or is not what the format asks for.
pub fn open(path: &Path) -> Result<Source> {
    let wrong = |e: io::Error| failed("read", path, &e);
    let mut file = File::open(path).map_err(wrong)?;
    let information = file.metadata().map_err(wrong)?;
    if !information.is_file() {
        return Err(Error::new(Kind::File, format!("{} is no file", path.display())));
    }
    let length = information.len();
    let mut head = [0; 8];
    if length < 8 {
        return Err(malformed(format!("it has {length} bytes")));
    }
    file.read_exact(&mut head).map_err(wrong)?;
    let n = u64::from_le_bytes(head);
    if n > LONGEST || n > length - 8 {
        return Err(malformed(format!("its header is said to have {n} bytes, and the file has {length}")));
    }
    let mut text = vec![0; n as usize];
    file.read_exact(&mut text).map_err(wrong)?;
    let header = Header::parse(&text, length - 8 - n)?;
    Ok(Source { file, path: path.into(), start: 8 + n, header })
}

impl Source {
    /// Reads a tensor to a device: an array in column-major order, and its dimensions. `pairs` says that the last dimension
    /// holds real and imaginary parts.
    ///
    /// # Errors
    /// `DType` for a type that arrays do not have; `File` where the file has changed or a bool is neither 0 nor 1.
    pub fn load(&self, entry: &Entry, pairs: bool, device: Device) -> Result<(Array, Vec<usize>)> {
        let mut dtype = dtype_of(&entry.dtype).ok_or_else(|| {
            Error::new(Kind::DType, format!("tensor \"{}\" has dtype {}, which arrays do not", entry.name, entry.dtype))
                .advise("Save it as one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL or C64.")
                .advise("Or name the tensors that are to be read: `gpu_load(path, names = )`.")
        })?;
        let mut dim = entry.shape.clone();
        if pairs && dtype == DType::Float64 && dim.last() == Some(&2) {
            dim.pop();
            dtype = DType::Complex128;
        }
        let n = dim.iter().product::<usize>();
        let buffer = backend::of(device)?.allocate(entry.bytes as usize)?;
        self.fill(entry, device, &buffer)?;
        let bytes = View::contiguous(buffer.clone(), DType::UInt8, n);
        if dtype == DType::Bool8 && n > 0 {
            let (_, most) = Array::from_view(bytes).reduce(Reduction::Max, false)?;
            let most = i32::from_ne_bytes(most.value[..4].try_into().expect("four bytes"));
            if most > 1 {
                return Err(Error::new(
                    Kind::File,
                    format!("tensor \"{}\" is of bools, and holds the byte {most}; only 0 and 1 are bools", entry.name),
                ));
            }
        }
        // row-major memory, as a view that is then brought into R's order
        let mut strides = vec![1isize; dim.len()];
        for k in (1..dim.len()).rev() {
            strides[k - 1] = strides[k].saturating_mul(dim[k] as isize);
        }
        let layout = if dim.is_empty() { Layout::contiguous(1) } else { Layout::new(0, &dim, &strides) };
        let array = Array::from_view(View { buffer, dtype, layout });
        match array.contiguous() {
            // where there is no room it stays a view
            Err(error) if error.kind != Kind::Memory => Err(error),
            _ => Ok((array, dim)),
        }
    }

    /// Copies a tensor's bytes to a buffer on a device.
    fn fill(&self, entry: &Entry, device: Device, buffer: &crate::buffer::Buffer) -> Result<()> {
        let wrong = |e: io::Error| failed("read", &self.path, &e);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start + entry.offset)).map_err(wrong)?;
        let backend = backend::of(device)?;
        let total = entry.bytes as usize;
        let mut watch = Watch::new();
        if device == Device::Cpu {
            for at in (0..total).step_by(PIECE) {
                watch.look()?;
                let bytes = PIECE.min(total - at);
                // SAFETY: host memory of our own, of at least so many bytes, that no one reads yet.
                let room = unsafe { std::slice::from_raw_parts_mut((buffer.address as *mut u8).add(at), bytes) };
                file.read_exact(room).map_err(wrong)?;
            }
            return Ok(());
        }
        let (send, receive) = sync_channel::<Result<(Block, usize)>>(1);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for at in (0..total).step_by(PIECE) {
                    let bytes = PIECE.min(total - at);
                    let piece = Block::new(bytes, device).and_then(|block| {
                        // SAFETY: the block has this much room, and no one else knows it.
                        let room = unsafe { std::slice::from_raw_parts_mut(block.start(), bytes) };
                        file.read_exact(room).map_err(wrong)?;
                        Ok((block, bytes))
                    });
                    let stop = piece.is_err();
                    if send.send(piece).is_err() || stop {
                        return;
                    }
                }
            });
            let mut at = 0;
            for piece in receive {
                watch.look()?;
                let (block, bytes) = piece?;
                // SAFETY: the block was filled with so many bytes.
                backend.upload(unsafe { std::slice::from_raw_parts(block.start(), bytes) }, buffer, at)?;
                at += bytes;
            }
            Ok(())
        })
    }
}
