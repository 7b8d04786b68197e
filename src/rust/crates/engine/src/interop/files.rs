//! Arrays in safetensors files: written and read in pieces, directly from and to a device.
//!
//! An element has the same index in R and in Python. Files are row-major and arrays column-major, so a matrix is
//! transposed on its device. A background thread writes (or reads) one piece while the next one is transferred.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::Mutex;
use std::time::Duration;

use crate::array::Array;
use crate::backend;
use crate::disk::{self, Part};
use crate::interop::any_na;
use crate::interop::safetensors::{dtype_of, malformed, Entry, Header, LONGEST};
use crate::memory::buffer::{Device, View};
use crate::memory::fallible;
use crate::memory::host_pool::Block;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::interrupt::Watch;
use verdigris_ops::layout::{Axis, Layout};
use verdigris_ops::reduction::Reduction;

/// Bytes of a piece: enough to split among the threads of the staging ring.
const PIECE: usize = 32 << 20;
/// Up to this size, an array is brought into the file's order as a whole. Beyond, on the cpu device, it is done piece
/// by piece, which takes less memory, but more time if rows are long.
const WHOLE: usize = 1 << 30;

/// An array to write.
pub struct Item {
    pub name: String,
    pub array: Array,
    pub dim: Vec<usize>,
}

/// How an array is stored, if the format or its readers do not have its dtype.
pub enum Stored {
    AsItIs,
    /// A logical with NA is stored as int8, which has an NA.
    Int8,
    /// complex128 is stored as float64 with a last dimension of 2 for the real and the imaginary part.
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
    failed_argument("path", what, path, error)
}

pub(super) fn failed_argument(argument: &str, what: &str, path: &Path, error: &io::Error) -> Error {
    let out = Error::new(Kind::File, format!("the file {} cannot be {what}: {error}", path.display()));
    // `disk` reports anything but a regular file as invalid input.
    if error.kind() == io::ErrorKind::InvalidInput {
        return out.advise(format!("`{argument}` must name a regular file, not a device, FIFO, socket or folder."));
    }
    out
}

/// The contents of a file that an R argument names.
///
/// # Errors
/// `File` where it cannot be read, or is no regular file.
pub fn bytes(path: &Path, argument: &str) -> Result<Vec<u8>> {
    disk::read(path).map_err(|error| failed_argument(argument, "read", path, &error))
}

// ---- out -----------------------------------------------------------------------------------------

/// The next bytes for the file, or its end.
enum Step {
    Piece(Block, usize),
    End,
}

/// A file that a background thread writes. If it is dropped before its end, the file is removed. The drop waits only
/// briefly for that, so that a disk that hangs does not block R.
pub(super) struct Writer {
    /// None during the drop, which closes the channel.
    steps: Option<SyncSender<Step>>,
    outcome: Receiver<io::Result<()>>,
}

/// A file that is being written: by a thread or, if no thread can be started, by the caller.
pub(super) enum Out {
    Thread(Writer),
    Here(Part),
}

impl Out {
    pub(super) fn new(part: Part) -> Out {
        let (steps, received) = sync_channel::<Step>(1);
        let (report, outcome) = sync_channel::<io::Result<()>>(1);
        // The part is sent once the thread has started, so that it is not lost if no thread can be started.
        let (hand_over, taken) = sync_channel::<Part>(1);
        let write = move || {
            let Ok(part) = taken.recv() else { return };
            let written = received.into_iter().try_for_each(|step| match step {
                Step::Piece(block, bytes) => write_block(&part, &block, bytes).map_err(Some),
                Step::End => Err(None),
            });
            let outcome = match written {
                Err(None) => part.put(),
                Err(Some(error)) => {
                    drop(part);
                    Err(error)
                }
                // The writer was dropped: nobody waits for the outcome.
                Ok(()) => return,
            };
            let _ = report.send(outcome);
        };
        match std::thread::Builder::new().name("verdigris-file".into()).spawn(write) {
            Ok(_) => {
                let _ = hand_over.send(part);
                Out::Thread(Writer { steps: Some(steps), outcome })
            }
            Err(_) => Out::Here(part),
        }
    }

    /// Writes the next bytes. Returns false if writing has failed before; `end` then returns the error.
    pub(super) fn piece(&mut self, block: Block, bytes: usize, watch: &mut Watch) -> Result<io::Result<bool>> {
        match self {
            Out::Here(part) => {
                watch.check()?;
                Ok(write_block(part, &block, bytes).map(|()| true))
            }
            Out::Thread(writer) => writer.send(Step::Piece(block, bytes), watch).map(Ok),
        }
    }

    /// Completes the file and moves it to its target.
    pub(super) fn end(self, watch: &mut Watch) -> Result<io::Result<()>> {
        let writer = match self {
            Out::Here(part) => return Ok(part.put()),
            Out::Thread(writer) => writer,
        };
        writer.send(Step::End, watch)?;
        loop {
            match writer.outcome.recv_timeout(PATIENCE) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) => watch.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(io::Error::other("the writing thread ended"))),
            }
        }
    }
}

impl Writer {
    /// Returns false if the thread has ended.
    fn send(&self, mut step: Step, watch: &mut Watch) -> Result<bool> {
        loop {
            watch.check()?;
            let Some(steps) = &self.steps else { return Ok(false) };
            match steps.try_send(step) {
                Ok(()) => return Ok(true),
                Err(TrySendError::Disconnected(_)) => return Ok(false),
                Err(TrySendError::Full(again)) => step = again,
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.steps = None;
        // The thread removes the file before it closes this channel.
        let _ = self.outcome.recv_timeout(PATIENCE);
    }
}

/// How long to wait between two checks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(50);

fn write_block(part: &Part, block: &Block, bytes: usize) -> io::Result<()> {
    // SAFETY: this many bytes of the block were written.
    part.file().write_all(unsafe { std::slice::from_raw_parts(block.start(), bytes) })
}

/// Removes temporary files that killed runs have left in the path's folder, once per process and folder.
pub(super) fn sweep_once(path: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(folder) = fs::canonicalize(folder) else { return };
    let new = SWEPT.lock().unwrap_or_else(|p| p.into_inner()).insert(folder.clone());
    if new {
        disk::sweep(&folder);
    }
}

/// Writes arrays and metadata to a file. An existing file is replaced only when the new one is complete.
///
/// Arrays are downloaded in pieces, after their elements are brought into the file's order on the device.
///
/// # Errors
/// `File` if the file cannot be written; no file is changed then. `Argument` for duplicate names.
pub fn save(path: &Path, items: &[Item], metadata: &[(String, String)]) -> Result<()> {
    let mut names = std::collections::HashSet::new();
    if let Some(twice) = items.iter().find(|item| !names.insert(item.name.as_str()) || item.name == "__metadata__") {
        return Err(Error::new(Kind::Argument, format!("the name \"{}\" is duplicated or reserved", twice.name))
            .advise("Give each array a unique name; `__metadata__` is reserved by the format."));
    }
    let mut entries = Vec::with_capacity(items.len());
    let mut arrays = Vec::with_capacity(items.len());
    for item in items {
        let mut shape = item.dim.clone();
        let (array, name) = match item.stored()? {
            Stored::AsItIs => (item.array.clone(), item.array.dtype().safetensors()),
            Stored::Int8 => (item.array.cast(DType::Int8, None)?, DType::Int8.safetensors()),
            Stored::Pairs => {
                shape.push(2);
                (item.array.clone(), DType::Float64.safetensors())
            }
        };
        let dtype = name.unwrap_or_default().to_string();
        let bytes = (array.len() * array.dtype().size()) as u64;
        entries.push(Entry { name: item.name.clone(), dtype, shape, offset: 0, bytes });
        arrays.push(array);
    }
    // Largest elements first, so that each tensor is aligned for its elements.
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

    let wrong = |e: io::Error| failed("written", path, &e);
    sweep_once(path);
    let part = Part::new(path, 0o666).map_err(wrong)?;
    let mut target = part.file();
    target.write_all(&header).map_err(wrong)?;
    let mut out = Out::new(part);
    let mut watch = Watch::new();
    let mut more = true;
    for &k in &order {
        bring(&arrays[k], &items[k].dim, &mut |block, bytes| {
            if more {
                more = out.piece(block, bytes, &mut watch)?.map_err(wrong)?;
            }
            Ok(more)
        })?;
    }
    out.end(&mut watch)?.map_err(wrong)
}

/// A view of the array in the file's order, row-major.
fn row_major(array: &Array, dim: &[usize]) -> Result<View> {
    let view = array.evaluate()?;
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

/// Passes an array's bytes, in the file's order, to `each` in blocks on the host, until `each` returns false.
pub(super) fn bring(array: &Array, dim: &[usize], each: &mut dyn FnMut(Block, usize) -> Result<bool>) -> Result<()> {
    let mut view = row_major(array, dim)?;
    let (n, size) = (view.len(), view.dtype.size());
    if n == 0 {
        return Ok(());
    }
    let device = view.buffer.device;
    if !view.layout.is_contiguous() && (device != Device::Cpu || n * size <= WHOLE) {
        match Array::from_view(view.clone()).contiguous() {
            Ok(whole) => view = whole,
            // too little memory: transpose piece by piece
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
        // SAFETY: the block has this many bytes, and nobody else uses it.
        let out = unsafe { std::slice::from_raw_parts_mut(block.start(), bytes) };
        backend::of(device)?.download(&piece.buffer, piece.layout.offset() * size, out)?;
        if !each(block, bytes)? {
            break;
        }
    }
    Ok(())
}

// ---- in ------------------------------------------------------------------------------------------

/// An open file whose header has been read and checked.
pub struct Source {
    file: File,
    path: PathBuf,
    /// The offset of the data in the file.
    start: u64,
    pub header: Header,
}

/// Opens a file.
///
/// # Errors
/// `File` where it cannot be read or is not in the format.
pub fn open(path: &Path) -> Result<Source> {
    let wrong = |e: io::Error| failed("read", path, &e);
    let (mut file, length) = disk::open_regular(path).map_err(wrong)?;
    let mut head = [0; 8];
    if length < 8 {
        return Err(malformed(format!("it has {length} bytes")));
    }
    file.read_exact(&mut head).map_err(wrong)?;
    let n = u64::from_le_bytes(head);
    if n > LONGEST || n > length - 8 {
        return Err(malformed(format!("its header should have {n} bytes, but the file has {length}")));
    }
    let mut text = fallible::filled(0, n as usize)?;
    file.read_exact(&mut text).map_err(wrong)?;
    let header = Header::parse(&text, length - 8 - n)?;
    Ok(Source { file, path: path.into(), start: 8 + n, header })
}

impl Source {
    /// Reads a tensor to a device. Returns an array in column-major order, and its dimensions. With `pairs`, the last
    /// dimension of a float64 tensor holds real and imaginary parts if its extent is 2.
    ///
    /// # Errors
    /// `DType` for a dtype that arrays do not have; `File` if the file has changed or a bool is neither 0 nor 1.
    pub fn load(&self, entry: &Entry, pairs: bool, device: Device) -> Result<(Array, Vec<usize>)> {
        let mut dtype = dtype_of(&entry.dtype).ok_or_else(|| {
            Error::new(
                Kind::DType,
                format!("tensor \"{}\" has dtype {}, which arrays do not have", entry.name, entry.dtype),
            )
            .advise("Save it as one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL or C64.")
            .advise("Or choose the tensors to read: `gpu_load(path, names = )`.")
        })?;
        let mut dim = entry.shape.clone();
        if pairs && dtype == DType::Float64 && dim.last() == Some(&2) {
            dim.pop();
            dtype = DType::Complex128;
        }
        let n = fallible::product(dim.iter().copied())?;
        let buffer = backend::of(device)?.allocate(entry.bytes as usize)?;
        self.fill(entry, device, &buffer)?;
        let bytes = View::contiguous(buffer.clone(), DType::UInt8, n);
        if dtype == DType::Bool8 && n > 0 {
            let (_, most) = Array::from_view(bytes).reduce(Reduction::Max, false)?;
            let most = i32::from_ne_bytes(most.value[..4].try_into().expect("four bytes"));
            if most > 1 {
                return Err(Error::new(
                    Kind::File,
                    format!(
                        "tensor \"{}\" has dtype BOOL, but contains the byte {most}; only 0 and 1 are valid",
                        entry.name
                    ),
                ));
            }
        }
        // A strided view of the row-major memory, which is then made contiguous in R's order.
        let mut strides = vec![1isize; dim.len()];
        for k in (1..dim.len()).rev() {
            strides[k - 1] = strides[k].saturating_mul(dim[k] as isize);
        }
        let layout = if dim.is_empty() { Layout::contiguous(1) } else { Layout::new(0, &dim, &strides) };
        let array = Array::from_view(View { buffer, dtype, layout });
        match array.contiguous() {
            // Without memory for that, the array remains a strided view.
            Err(error) if error.kind != Kind::Memory => Err(error),
            _ => Ok((array, dim)),
        }
    }

    /// Copies a tensor's bytes to a buffer on a device.
    fn fill(&self, entry: &Entry, device: Device, buffer: &crate::memory::buffer::Buffer) -> Result<()> {
        let wrong = |e: io::Error| failed("read", &self.path, &e);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start + entry.offset)).map_err(wrong)?;
        let backend = backend::of(device)?;
        let total = entry.bytes as usize;
        let mut watch = Watch::new();
        if device == Device::Cpu {
            for at in (0..total).step_by(PIECE) {
                watch.check()?;
                let bytes = PIECE.min(total - at);
                // SAFETY: the buffer is new, on the host, has this many bytes, and nobody reads it yet.
                let out = unsafe { std::slice::from_raw_parts_mut((buffer.address as *mut u8).add(at), bytes) };
                file.read_exact(out).map_err(wrong)?;
            }
            return Ok(());
        }
        let mut next = move |at: usize| -> Result<(Block, usize)> {
            let bytes = PIECE.min(total - at);
            let block = Block::new(bytes, device)?;
            // SAFETY: the block has this many bytes, and nobody else uses it.
            let out = unsafe { std::slice::from_raw_parts_mut(block.start(), bytes) };
            file.read_exact(out).map_err(wrong)?;
            Ok((block, bytes))
        };
        let mut upload = |(block, bytes): (Block, usize), at: usize| {
            watch.check()?;
            // SAFETY: this many bytes of the block were written.
            backend.upload(unsafe { std::slice::from_raw_parts(block.start(), bytes) }, buffer, at)
        };
        let (send, receive) = sync_channel::<Result<(Block, usize)>>(1);
        std::thread::scope(|scope| {
            let read = move || {
                for at in (0..total).step_by(PIECE) {
                    let piece = next(at);
                    let stop = piece.is_err();
                    if send.send(piece).is_err() || stop {
                        return;
                    }
                }
            };
            let reader = std::thread::Builder::new().name("verdigris-file".into()).spawn_scoped(scope, read);
            if reader.is_err() {
                // No thread can be started: read and upload in turn.
                return (0..total).step_by(PIECE).try_for_each(|at| upload(next(at)?, at));
            }
            for (piece, at) in receive.into_iter().zip((0..total).step_by(PIECE)) {
                upload(piece?, at)?;
            }
            Ok(())
        })
    }
}
