//! Uploads from host vectors, reads into host memory, and copies between devices.

use std::sync::Arc;

use crate::array::Array;
use crate::backend;
use crate::memory;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::host_pool;
use crate::memory::staging::{AsyncUpload, UploadSource};
use crate::plan::warning;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::OpId;

/// Bytes in R's representation that are converted or made contiguous at a time.
const PIECE: usize = 128 << 20;

/// Host elements in R's representation; logical is 32 bits wide there.
#[derive(Clone, Copy)]
pub enum Host<'a> {
    Logical(&'a [i32]),
    Integer(&'a [i32]),
    Integer64(&'a [i64]),
    Double(&'a [f64]),
    Complex(&'a [[f64; 2]]),
}

/// Host memory to receive elements in R's representation.
pub enum HostMut<'a> {
    Logical(&'a mut [i32]),
    Integer(&'a mut [i32]),
    Integer64(&'a mut [i64]),
    Double(&'a mut [f64]),
    Complex(&'a mut [[f64; 2]]),
}

fn bytes_of<T>(x: &[T]) -> &[u8] {
    // SAFETY: any initialised memory may be read as bytes; T is a plain number here.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), std::mem::size_of_val(x)) }
}

fn bytes_of_mut<T>(x: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every bit pattern is a value of these number types.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), std::mem::size_of_val(x)) }
}

impl Host<'_> {
    /// The dtype of the elements as stored, the natural dtype of an array of them, and the bytes.
    pub(crate) fn wire(&self) -> (DType, DType, &[u8]) {
        match self {
            Host::Logical(x) => (DType::Int32, DType::Bool8, bytes_of(x)),
            Host::Integer(x) => (DType::Int32, DType::Int32, bytes_of(x)),
            Host::Integer64(x) => (DType::Int64, DType::Int64, bytes_of(x)),
            Host::Double(x) => (DType::Float64, DType::Float64, bytes_of(x)),
            Host::Complex(x) => (DType::Complex128, DType::Complex128, bytes_of(x)),
        }
    }
}

impl<'a> HostMut<'a> {
    /// The dtype of the elements as stored, and the bytes.
    pub(crate) fn wire(self) -> (DType, &'a mut [u8]) {
        match self {
            HostMut::Logical(x) | HostMut::Integer(x) => (DType::Int32, bytes_of_mut(x)),
            HostMut::Integer64(x) => (DType::Int64, bytes_of_mut(x)),
            HostMut::Double(x) => (DType::Float64, bytes_of_mut(x)),
            HostMut::Complex(x) => (DType::Complex128, bytes_of_mut(x)),
        }
    }
}

/// An array whose upload is under way.
pub struct PendingUpload {
    ahead: Box<dyn AsyncUpload>,
    brought: DType,
    dtype: DType,
    site: Option<CallSite>,
}

impl PendingUpload {
    /// Waits for the upload, and casts to the requested dtype if the copy has not done so.
    pub fn take(self) -> Result<Array> {
        let (buffer, bits) = self.ahead.take()?;
        if bits != 0 && self.site.is_some() {
            warning::note(OpId::cast(self.dtype), bits, self.site.as_ref());
        }
        let n = buffer.bytes / self.brought.size();
        Array::from_view(View::contiguous(buffer, self.brought, n)).cast(self.dtype, self.site)
    }
}

impl Array {
    /// Copies host elements to a device. A `dtype` of None keeps R's type. Elements are converted before the transfer
    /// if that sends fewer bytes. Returns as soon as the host memory may change again. Values that do not fit the dtype
    /// are reported at the site.
    pub fn upload(data: Host<'_>, dtype: Option<DType>, device: Device, site: Option<CallSite>) -> Result<Array> {
        let (wire, natural, bytes) = data.wire();
        let dtype = dtype.unwrap_or(natural);
        let target = backend::of(device)?;
        let n = bytes.len() / wire.size();
        let allocate = |size: usize| memory::made_by(site.clone(), || target.allocate(n * size));
        if dtype != wire && dtype.size() <= wire.size() && n > 0 {
            let buffer = allocate(dtype.size())?;
            if let Some(bits) = target.upload_as(bytes, wire, &buffer, dtype)? {
                if bits != 0 && site.is_some() {
                    warning::note(OpId::cast(dtype), bits, site.as_ref());
                }
                return Ok(Array::from_view(View::contiguous(buffer, dtype, n)));
            }
        }
        let buffer = allocate(wire.size())?;
        if n > 0 {
            target.upload(bytes, &buffer, 0)?;
        }
        let array = Array::from_view(View::contiguous(buffer, wire, n));
        if dtype == wire {
            return Ok(array);
        }
        let narrows = site.is_some() && dtype != natural && dtype.kind() < Kind::Double;
        let out = array.cast(dtype, site)?;
        out.evaluate()?;
        if narrows {
            // Values that do not fit must be reported by this call, not by a later one.
            target.synchronize()?;
        }
        Ok(out)
    }

    /// As `upload`, but the copy overlaps with other work. With `rows` (rows of the matrix, first row, number of rows),
    /// copies only these rows.
    ///
    /// # Safety
    /// The elements must live, and not be written, until the result is taken or dropped.
    pub unsafe fn upload_ahead(
        data: Host<'_>,
        rows: Option<(usize, usize, usize)>,
        dtype: Option<DType>,
        device: Device,
        site: Option<CallSite>,
    ) -> Result<PendingUpload> {
        let (wire, natural, bytes) = data.wire();
        let dtype = dtype.unwrap_or(natural);
        let n = bytes.len() / wire.size();
        // SAFETY: the caller's promise.
        let source = unsafe {
            match rows {
                None => UploadSource::vector(bytes.as_ptr(), wire.size(), n),
                Some((stride, first, rows)) => {
                    if stride == 0 || n % stride != 0 || first + rows > stride {
                        return Err(Error::new(ErrorKind::Shape, "the rows are not within the matrix"));
                    }
                    UploadSource::rows(bytes.as_ptr(), wire.size(), stride, n / stride, first, rows)
                }
            }
        };
        // SAFETY: the caller's promise.
        unsafe { Array::filled_ahead(source, wire, dtype, device, site) }
    }

    /// As `upload_ahead`, for elements read from a file and stored as `wire`.
    ///
    /// # Errors
    /// Those of memory; errors of reading are returned when the result is taken.
    pub fn read_ahead(
        source: UploadSource,
        wire: DType,
        dtype: Option<DType>,
        device: Device,
    ) -> Result<PendingUpload> {
        debug_assert!(source.stop().is_some());
        // SAFETY: a stored source owns what it reads.
        unsafe { Array::filled_ahead(source, wire, dtype.unwrap_or(wire), device, None) }
    }

    /// # Safety
    /// As for `upload_ahead`.
    unsafe fn filled_ahead(
        source: UploadSource,
        wire: DType,
        dtype: DType,
        device: Device,
        site: Option<CallSite>,
    ) -> Result<PendingUpload> {
        let fits = dtype != wire && dtype.size() <= wire.size() && !dtype.is_half() && wire.is_natural();
        let convert = fits.then_some((wire, dtype));
        let brought = convert.map_or(wire, |_| dtype);
        // SAFETY: the caller's promise.
        let ahead = memory::made_by(site.clone(), || unsafe { backend::of(device)?.upload_ahead(source, convert) })?;
        Ok(PendingUpload { ahead, brought, dtype, site })
    }

    /// Copies elements from `from` on to the host until `out` is full, and waits. Computes all recorded values, unless
    /// few are asked for at the start: those are then computed alone, and the array stays recorded.
    pub fn read(&self, from: usize, out: HostMut<'_>) -> Result<()> {
        let (wire, bytes) = out.wire();
        let n = bytes.len() / wire.size();
        if n == 0 {
            return Ok(());
        }
        let mut view = match self.short_prefix(from + n)? {
            Some(prefix) => prefix.evaluate()?,
            None => self.evaluate()?,
        };
        if !view.layout.is_contiguous() && n < view.len() {
            view = self.contiguous()?;
        }
        let backend = backend::of(self.device())?;
        if view.layout.is_contiguous() && view.dtype == wire {
            return backend.download(&view.buffer, (view.layout.offset() + from) * wire.size(), bytes);
        }
        // In pieces, so that converting or making contiguous takes little device memory.
        let mut at = 0;
        for layout in view.layout.pieces(from, n, PIECE / wire.size()) {
            let out = &mut bytes[at..at + layout.len() * wire.size()];
            at += out.len();
            let piece = Array::from_view(View { layout, ..view.clone() }).cast(wire, None)?;
            if self.device() == Device::Cpu {
                piece.evaluate_into(wire, out)?;
            } else {
                let piece = piece.contiguous()?;
                backend.download(&piece.buffer, piece.layout.offset() * wire.size(), out)?;
            }
        }
        Ok(())
    }

    /// Copies all elements to the host as another dtype, and waits; values that do not fit are reported at the site.
    pub fn read_as(&self, dtype: DType, site: Option<CallSite>, out: HostMut<'_>) -> Result<()> {
        self.evaluate()?;
        let converted = self.cast(dtype, site)?;
        if self.device() != Device::Cpu || self.is_empty() || converted.is_ready() {
            return converted.read(0, out);
        }
        let (wire, bytes) = out.wire();
        converted.evaluate_into(wire, bytes)
    }

    /// Computes the values directly into `out`, for arrays on the cpu device.
    fn evaluate_into(&self, wire: DType, out: &mut [u8]) -> Result<()> {
        let out = Buffer::new(Device::Cpu, out.as_mut_ptr() as u64, out.len(), Box::new(()));
        let (plan, bound) = self.cast(wire, None)?.plan()?;
        backend::of(Device::Cpu)?.run(&plan, &bound, &[Arc::new(out)])
    }

    /// The same values on another device. A copy between GPUs with peer access is queued; one through the host is
    /// waited for.
    pub fn to_device(&self, device: Device) -> Result<Array> {
        if device == self.device() {
            return Ok(self.clone());
        }
        let view = self.contiguous()?;
        let bytes = view.len() * view.dtype.size();
        if device != Device::Cpu && self.device() != Device::Cpu {
            let target = backend::of(device)?.allocate(bytes)?;
            if backend::copy_across(&[backend::AcrossDevices { source: &view, target: &target, at: 0 }])? {
                return Ok(Array::from_view(View::contiguous(target, view.dtype, view.len())));
            }
        }
        let block = host_pool::Block::new(bytes, if device == Device::Cpu { self.device() } else { device })?;
        // SAFETY: the block has this many bytes, and no one else knows it.
        let between = unsafe { std::slice::from_raw_parts_mut(block.start(), bytes) };
        backend::of(self.device())?.download(&view.buffer, view.layout.offset() * view.dtype.size(), between)?;
        let target = backend::of(device)?;
        let buffer = target.allocate(bytes)?;
        if bytes > 0 {
            target.upload(between, &buffer, 0)?;
        }
        Ok(Array::from_view(View::contiguous(buffer, view.dtype, view.len())))
    }

    /// A copy of the elements for other processes of this host; None where `backend::export_copy()` makes none.
    pub fn export_copy(&self) -> Result<Option<backend::ExportedCopy>> {
        backend::export_copy(&self.contiguous()?)
    }

    /// A copy, on a GPU, of `n` elements that another process has exported; None where this process cannot open them.
    pub fn import_copy(handle: &[u8; 64], dtype: DType, n: usize, device: Device) -> Result<Option<Array>> {
        let buffer = backend::of(device)?.allocate(n * dtype.size())?;
        let view = View::contiguous(buffer, dtype, n);
        Ok(backend::import_copy(handle, &view.buffer)?.then(|| Array::from_view(view)))
    }
}
