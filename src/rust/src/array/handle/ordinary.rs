//! Ordinary vectors: plain R vectors, without a class, whose elements are not in R's memory yet. They are results of
//! reductions that are still pending, of `as.vector()`, and of `diag(v, n)`. The first access by R copies all elements
//! to the host. Operations on arrays use the elements on the device, until R may have written to the host copy.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use verdigris_engine::array::Array;
use verdigris_engine::backend::{self, Deferred};
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_engine::memory::staging::Shared;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::fork;
use verdigris_ops::parallel::parallel;

use super::Handle;
use crate::array::device::is_capturing;
use crate::array::host_copy::{self, Block};
use crate::array::host_vector::LARGE;
use crate::r::{conditions, gc};

/// A matrix of zeros with a value along its diagonal.
#[derive(Clone, Copy)]
pub struct Diagonal {
    pub value: f64,
    pub rows: usize,
    pub columns: usize,
}

/// On the cpu device, copying fewer bytes than this is faster than making an ordinary vector.
const WORTH: usize = 1 << 16;

/// A placeholder: an array of length `n` on an empty buffer.
fn nothing(dtype: DType, n: usize, device: Device) -> Array {
    let nothing = Buffer::new(device, 0, 0, Box::new(()));
    Array::from_view(View::contiguous(Arc::new(nothing), dtype, n))
}

/// The dtype that has exactly the values of R's type for `dtype`.
fn dtype_in_r(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Logical => DType::Bool8,
        Kind::Integer => DType::Int32,
        Kind::Integer64 | Kind::Double => DType::Float64,
        Kind::Complex => DType::Complex128,
    }
}

/// An ordinary vector of R's type for `dtype`, whose elements are read from the array later. `None` if they must be
/// read now: there are few of them, others may write to the memory, or the conversion may lose values. `always` makes
/// ordinary vectors on the cpu device however small (for tests).
pub fn defer_vector(array: &Array, dtype: DType, always: bool) -> Result<Option<Handle>> {
    let (from, to) = (array.dtype().kind(), dtype_in_r(dtype));
    let widens = from != Kind::Integer64 && from <= to.kind();
    let bytes = array.len() * host_copy::r_size(to);
    let few = array.len() < 2 || array.device() == Device::Cpu && bytes < WORTH && !always;
    if few || !widens || array.is_shared() || is_capturing(array.device())? {
        return Ok(None);
    }
    // compute now, so that errors and warnings belong to this call; on a GPU warnings are known after it has run
    let warns = array.device() != Device::Cpu && array.node().may_warn();
    array.compute()?;
    if warns {
        backend::of(array.device())?.synchronize()?;
    }
    // only on the cpu device: on a GPU a collection takes longer than many operations, and most of these vectors are
    // never read
    if array.device() == Device::Cpu && bytes >= LARGE {
        gc::before_read(bytes);
    }
    Ok(Some(Handle::ordinary(array.cast(to, None)?)))
}

impl Handle {
    /// An ordinary vector on a recorded or computed array.
    pub fn ordinary(array: Array) -> Handle {
        let mut handle = Handle::new(array);
        handle.ordinary = true;
        handle
    }

    /// An ordinary vector of one number, a reduction's result that is not there yet.
    pub fn deferred(deferred: Rc<dyn Deferred>, dtype: DType, device: Device) -> Handle {
        let handle = Handle::ordinary(nothing(dtype, 1, device));
        handle.rare(|rare| rare.deferred = Some((deferred, false)));
        handle
    }

    /// An ordinary matrix that is stored as its diagonal.
    pub fn diagonal(diagonal: Diagonal) -> Handle {
        let handle = Handle::ordinary(nothing(DType::Float64, diagonal.rows * diagonal.columns, Device::Cpu));
        handle.rare(|rare| rare.diagonal = Some(diagonal));
        handle
    }

    pub fn is_ordinary(&self) -> bool {
        self.ordinary
    }

    /// The elements as an array on this device, without copying them to the host. `None` if R may have written to the
    /// host copy, has read a single number, or if the elements are on another device.
    pub fn device_array_if_unread(&self, device: Device) -> Result<Option<Array>> {
        if self.dirty.get() || self.len == 1 && self.host.borrow().is_some() {
            return Ok(None);
        }
        let diagonal = self.rare.borrow().as_ref().and_then(|rare| rare.diagonal);
        if let Some(Diagonal { value, rows, columns }) = diagonal {
            return Array::diagonal(value, rows, columns, device).map(Some);
        }
        if self.device() != device {
            return Ok(None);
        }
        let deferred = self.rare.borrow().as_ref().and_then(|rare| rare.deferred.clone());
        if let Some((deferred, false)) = deferred {
            let dtype = self.array_unsynced().dtype();
            let view = View::contiguous(deferred.buffer(dtype.size())?, dtype, 1);
            self.array.replace(Array::from_view(view));
            self.rare(|rare| rare.deferred = Some((deferred, true)));
        }
        let array = self.array_unsynced();
        let is_gone = array.node().view().is_some_and(|view| view.buffer.bytes == 0);
        Ok((!is_gone).then_some(array))
    }

    /// Whether the elements are not those of an array, so that they are always fetched together.
    pub(super) fn is_made(&self) -> bool {
        let rare = self.rare.borrow();
        self.ordinary && (self.len == 1 || rare.as_ref().is_some_and(|rare| rare.diagonal.is_some()))
    }

    /// The host copy of a diagonal or a deferred number; `None` for other vectors.
    pub(super) fn made(&self) -> Result<Option<Block>> {
        let rare = self.rare.borrow();
        let Some(rare) = rare.as_ref() else { return Ok(None) };
        if let Some(Diagonal { value, rows, columns }) = rare.diagonal {
            let block = Block::new(self.host_bytes(), Device::Cpu)?;
            let start = Shared(block.start());
            parallel(self.len, 1 << 16, |from, to| {
                // SAFETY: the block has room for the elements, no one else knows it yet, and tasks do not overlap.
                let part: &mut [f64] = unsafe { std::slice::from_raw_parts_mut(start.at(8 * from).cast(), to - from) };
                part.fill(0.0);
                // element k * (rows + 1) is in row and column k
                let end = to.min(rows.min(columns) * (rows + 1));
                (from.next_multiple_of(rows + 1)..end).step_by(rows + 1).for_each(|k| part[k - from] = value);
            })?;
            return Ok(Some(block));
        }
        let Some((deferred, _)) = &rare.deferred else { return Ok(None) };
        let block = Block::new(self.host_bytes(), self.device())?;
        let value = deferred.outcome()?.value;
        // SAFETY: the block has room for one element of R's type.
        unsafe { host_copy::write_value(&value, self.array.borrow().dtype(), block.start()) };
        Ok(Some(block))
    }

    /// Drops the elements on the device, since R may have written to the host copy, which holds the values from now on.
    pub(super) fn let_go(&self) {
        if self.len > 1 {
            self.array.replace(nothing(self.array_unsynced().dtype(), self.len, self.device()));
        }
    }
}

// ---- before a fork -------------------------------------------------------------------------------------

thread_local! {
    /// The ordinary vectors that are alive. Thread-local, since they exist on R's thread only.
    static ALIVE: RefCell<HashSet<*const Handle>> = RefCell::default();
}

pub(super) fn register(handle: &Handle) {
    ALIVE.with_borrow_mut(|alive| alive.insert(std::ptr::from_ref(handle)));
}

pub(super) fn unregister(handle: &Handle) {
    // the thread may be ending
    _ = ALIVE.try_with(|alive| alive.borrow_mut().remove(&std::ptr::from_ref(handle)));
}

/// Makes the host copies of all ordinary vectors: a child process has no device, and must be able to read them.
extern "C" fn before_fork() {
    // if an entry is running (it starts another program), it may hold locks
    if fork::depth() > 0 || conditions::is_running() {
        return;
    }
    let alive = ALIVE.try_with(|alive| alive.borrow().iter().copied().collect::<Vec<_>>()).unwrap_or_default();
    for handle in alive {
        // SAFETY: it is removed before it is dropped, by this thread.
        let handle = unsafe { &*handle };
        let is_made = handle.rare.borrow().as_ref().is_some_and(|rare| rare.diagonal.is_some());
        if !is_made && !handle.has_host() {
            conditions::attempt_quietly(|| handle.fetch());
        }
    }
}

pub fn watch_forks() {
    fork::before(before_fork);
}
