//! Ordinary vectors whose elements are not in R's memory yet: a number that a reduction has yet to give, what
//! `as.vector()` gives, and `diag(v, n)`. They have no class, so that R sees nothing of it. R's first look at them brings
//! all elements to the host; an operation on arrays takes them from the device, until R may have written.

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

/// On the cpu device fewer bytes are copied in less time than it takes to remember where they are.
const WORTH: usize = 1 << 16;

/// An array of no elements in place of `n`.
fn nothing(dtype: DType, n: usize, device: Device) -> Array {
    let nothing = Buffer::new(device, 0, 0, Box::new(()));
    Array::from_view(View::contiguous(Arc::new(nothing), dtype, n))
}

/// The dtype whose values R's type for these has, and no others.
fn dtype_in_r(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Logical => DType::Bool8,
        Kind::Integer => DType::Int32,
        Kind::Integer64 | Kind::Double => DType::Float64,
        Kind::Complex => DType::Complex128,
    }
}

/// The elements of an array as an ordinary vector of R's type for `dtype`, to be read later; None where they must be
/// read now: few of them, memory that others may write to, and what a conversion may lose.
pub fn later(array: &Array, dtype: DType, always: bool) -> Result<Option<Handle>> {
    let (from, to) = (array.dtype().kind(), dtype_in_r(dtype));
    let widens = from != Kind::Integer64 && from <= to.kind();
    let bytes = array.len() * host_copy::r_size(to);
    let few = array.len() < 2 || array.device() == Device::Cpu && bytes < WORTH && !always;
    if few || !widens || array.is_shared() || is_capturing(array.device())? {
        return Ok(None);
    }
    // what fails, fails here, and what warns: on a GPU that is known once it is computed
    let warns = array.device() != Device::Cpu && array.node().may_warn();
    array.compute()?;
    if warns {
        backend::of(array.device())?.synchronize()?;
    }
    // on a GPU a collection takes longer than many operations, and most of these vectors are never read
    if array.device() == Device::Cpu && bytes >= LARGE {
        gc::before_read(bytes);
    }
    Ok(Some(Handle::ordinary(array.cast(to, None)?)))
}

impl Handle {
    /// An ordinary vector of recorded or computed elements.
    pub fn ordinary(array: Array) -> Handle {
        let mut handle = Handle::new(array);
        handle.ordinary = true;
        handle
    }

    /// A number that is on its way.
    pub fn deferred(deferred: Rc<dyn Deferred>, dtype: DType, device: Device) -> Handle {
        let handle = Handle::ordinary(nothing(dtype, 1, device));
        handle.rare(|rare| rare.deferred = Some((deferred, false)));
        handle
    }

    pub fn diagonal(diagonal: Diagonal) -> Handle {
        let handle = Handle::ordinary(nothing(DType::Float64, diagonal.rows * diagonal.columns, Device::Cpu));
        handle.rare(|rare| rare.diagonal = Some(diagonal));
        handle
    }

    pub fn is_ordinary(&self) -> bool {
        self.ordinary
    }

    /// The elements on a device, without reading them; None where R has, or may have written, and where they are
    /// elsewhere.
    pub fn unread(&self, device: Device) -> Result<Option<Array>> {
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
            let dtype = self.peek().dtype();
            let view = View::contiguous(deferred.buffer(dtype.size())?, dtype, 1);
            self.array.replace(Array::from_view(view));
            self.rare(|rare| rare.deferred = Some((deferred, true)));
        }
        let array = self.peek();
        let is_gone = array.node().view().is_some_and(|view| view.buffer.bytes == 0);
        Ok((!is_gone).then_some(array))
    }

    /// Whether the elements are in no array: all of them come at once.
    pub(super) fn is_made(&self) -> bool {
        let rare = self.rare.borrow();
        self.ordinary && (self.len == 1 || rare.as_ref().is_some_and(|rare| rare.diagonal.is_some()))
    }

    /// The elements for a host copy that is made of no array; None of others.
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
                // place k * (rows + 1) is in row and column k, as long as there are as many of both
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

    /// Lets go of the elements on the device: R may have written to the host copy, which counts from now on.
    pub(super) fn let_go(&self) {
        if self.len > 1 {
            self.array.replace(nothing(self.dtype(), self.len, self.device()));
        }
    }
}

// ---- before a fork -------------------------------------------------------------------------------------

thread_local! {
    /// The ordinary vectors that are alive. On R's thread, as they are.
    static ALIVE: RefCell<HashSet<*const Handle>> = RefCell::default();
}

pub(super) fn register(handle: &Handle) {
    ALIVE.with_borrow_mut(|alive| alive.insert(std::ptr::from_ref(handle)));
}

pub(super) fn unregister(handle: &Handle) {
    // the thread may be ending
    _ = ALIVE.try_with(|alive| alive.borrow_mut().remove(&std::ptr::from_ref(handle)));
}

/// A child process has no device, and is to find in an ordinary vector what it would find in any other.
extern "C" fn before_fork() {
    // of an entry that starts another program locks may be held
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
