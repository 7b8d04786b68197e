//! Handles. A handle is the value of an R vector's external pointer: the engine's array and, once R has read it, the
//! host copy.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;

use verdigris_engine::array::Array;
use verdigris_engine::backend::Deferred;
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};

use crate::array::foreign_stream;
use crate::array::host_copy::{self, Block};
use crate::r::external_ptr::{Of, Owned};
use crate::r::{self, Holder, SEXP};

mod ordinary;
mod reading;
mod vector;
pub use ordinary::*;
use reading::Window;
pub use vector::*;

/// Number of handles that are alive.
pub static LIVE: AtomicI64 = AtomicI64::new(0);

/// The value of an ALTREP vector's external pointer. Main thread only. Kept small, since many are made.
pub struct Handle {
    len: usize,
    /// Whether R has asked for a writable pointer since the last upload.
    dirty: Cell<bool>,
    /// Whether `gpu_free()` has freed the elements.
    freed: Cell<bool>,
    /// Whether the host copy is out of date: the array was written or replaced since.
    stale: Cell<bool>,
    /// Whether R sees this as a plain vector without class (`ordinary.rs`) instead of an array.
    ordinary: bool,
    /// Whether the array is the one given to `import()`, and not a subset of it or a later value.
    import: Cell<bool>,
    array: RefCell<Array>,
    /// The cell that stands for these values in lazy cells (`lazy.rs`), kept alive by the vector; or null.
    cell: Cell<SEXP>,
    /// Whether the values have ever been replaced.
    rewritten: Cell<bool>,
    host: RefCell<Option<Rc<Block>>>,
    rare: RefCell<Option<Box<Rare>>>,
}

/// State that few arrays need.
#[derive(Default)]
struct Rare {
    /// The checksum of the host copy when it was read or uploaded. Only if the memory is shared or C code holds the
    /// copy.
    read: Option<u64>,
    /// The host copy of the array that this one was duplicated from, and its stamp at that time.
    sibling: Option<(Weak<Block>, u64)>,
    window: Window,
    /// A pending number, and whether `array` is already its buffer on the device.
    deferred: Option<(Rc<dyn Deferred>, bool)>,
    /// The diagonal of an ordinary matrix that has no array.
    diagonal: Option<Diagonal>,
    /// The number under which these values were lent to readers; 0: never lent.
    lends_as: u64,
    /// The number of the R function that was last warned about int64 read as NA; 0: none.
    warned: isize,
    /// C functions that may still write through a host address that they were given.
    holders: Vec<Holder>,
}

impl Handle {
    pub fn new(array: Array) -> Handle {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Handle {
            len: array.len(),
            dirty: Cell::new(false),
            freed: Cell::new(false),
            stale: Cell::new(false),
            ordinary: false,
            import: Cell::new(false),
            array: RefCell::new(array),
            cell: Cell::new(std::ptr::null_mut()),
            rewritten: Cell::new(false),
            host: RefCell::default(),
            rare: RefCell::default(),
        }
    }

    /// A handle on memory of another library, or on a strided view of an array's memory.
    pub fn import(array: Array) -> Handle {
        let handle = Handle::new(array);
        handle.import.set(true);
        handle
    }

    /// The handle as the value of an external pointer.
    pub fn owned(self) -> Box<Owned<Handle>> {
        let n = self.len;
        let owned = Owned::new(self, n, Of::Handle);
        if owned.value.ordinary {
            ordinary::register(&owned.value);
        }
        owned
    }

    /// The dtype. Int64 elements that R may have written to are uploaded first, since fractions make them float64.
    pub fn dtype(&self) -> Result<DType> {
        let dtype = self.array.borrow().dtype();
        if dtype != DType::Int64 || !self.dirty.get() || self.freed.get() {
            return Ok(dtype);
        }
        self.upload()?;
        let dtype = self.array.borrow().dtype();
        Ok(dtype)
    }

    /// Replaces the array. Lazy cells keep the values that they were recorded on.
    fn replace(&self, array: Array) {
        self.detach_cell();
        if !Arc::ptr_eq(self.array.borrow().node(), array.node()) {
            if let Some(rare) = self.rare.borrow_mut().as_mut() {
                rare.lends_as = 0;
            }
        }
        self.array.replace(array);
        self.import.set(false);
        self.rewritten.set(true);
    }

    /// Detaches the handle from its cell, so that lazy cells recorded on it keep the present values. Call before the
    /// memory is written.
    pub fn detach_cell(&self) {
        let cell = self.cell.get();
        if !cell.is_null() {
            leave_values(cell, self.array_unsynced());
            self.cell.set(std::ptr::null_mut());
        }
    }

    /// Whether the values have ever been replaced. They are likely to be replaced again, so operations on them are
    /// recorded as nodes instead of lazy cells.
    pub fn is_rewritten(&self) -> bool {
        self.rewritten.get()
    }

    pub fn cell(&self) -> SEXP {
        self.cell.get()
    }

    pub fn set_cell(&self, cell: SEXP) {
        self.cell.set(cell);
    }

    /// Changes the rare state, which is allocated if there is none.
    fn rare<R>(&self, change: impl FnOnce(&mut Rare) -> R) -> R {
        change(self.rare.borrow_mut().get_or_insert_default())
    }

    /// Clears the state of earlier reads; keeps holders, the lending number and the warned function.
    fn forget(&self) {
        let old = self.rare.take().filter(|rare| !rare.holders.is_empty() || rare.lends_as > 0 || rare.warned > 0);
        if let Some(old) = old {
            self.rare(|rare| (rare.holders, rare.lends_as, rare.warned) = (old.holders, old.lends_as, old.warned));
        }
    }

    /// Notes that a C function was given a writable address of the host copy.
    pub fn hold(&self, holder: &Holder) {
        self.rare(|rare| {
            if rare.holders.last() != Some(holder) {
                rare.holders.retain(|known| known.is_running() && known != holder);
                rare.holders.push(*holder);
            }
        });
    }

    /// Whether such a C function may still be running, and so may write. If so, each use on the device checks whether
    /// the host copy has changed.
    fn is_held(&self) -> bool {
        self.rare.borrow_mut().as_mut().is_some_and(|rare| {
            rare.holders.retain(Holder::is_running);
            !rare.holders.is_empty()
        })
    }

    /// Notes the checksum of the host copy, which agrees with the device.
    fn note_same(&self, block: &Block) {
        let sum = self.checksum(block);
        self.rare(|rare| rare.read = Some(sum));
    }

    /// Notes the checksum of the host copy after a read of shared memory; clears it for other memory.
    fn note_read(&self, array: &Array, block: &Block) {
        let sum = array.is_shared().then(|| self.checksum(block));
        if sum.is_some() || self.rare.borrow().is_some() {
            self.rare(|rare| rare.read = sum);
        }
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Whether `gpu_free()` has freed the elements.
    pub fn is_freed(&self) -> bool {
        self.freed.get()
    }

    /// The size of a host copy in bytes, whether there is one or not.
    pub fn host_bytes(&self) -> usize {
        self.len * host_copy::r_size(self.array.borrow().dtype())
    }

    /// Whether there is a host copy that is up to date.
    pub fn has_host(&self) -> bool {
        self.host.borrow().as_ref().is_some_and(|block| self.is_current(block))
    }

    /// Whether the host copy is up to date. For shared memory that is so only if R has written to the copy: otherwise
    /// the next read must see what others may have written.
    fn is_current(&self, block: &Block) -> bool {
        !self.stale.get() && (!self.array.borrow().is_shared() || self.dirty.get() && !self.is_as_read(block))
    }

    /// Whether the host copy is unchanged since it was read or uploaded.
    fn is_as_read(&self, block: &Block) -> bool {
        let read = self.rare.borrow().as_ref().and_then(|rare| rare.read);
        read.is_some_and(|sum| sum == self.checksum(block))
    }

    /// Whether the handle allows its values to be written in place: R has no address to write to, the memory was not
    /// imported, and no recorded operation may still read them. The caller must check the node's references.
    pub fn is_writable(&self) -> bool {
        let plain = !self.ordinary && !self.freed.get() && !self.dirty.get() && !self.import.get();
        plain && !self.is_recorded_on() && !self.is_held()
    }

    /// Notes that the array's memory was written in place.
    pub fn written(&self) {
        self.detach_cell();
        self.forget();
        if let Some(block) = self.host.borrow().as_ref() {
            block.stamp.set(block.stamp.get() + 1);
            self.stale.set(true);
        }
    }

    /// Whether a lazy cell may still read the values.
    pub fn is_recorded_on(&self) -> bool {
        let cell = self.cell.get();
        // SAFETY: the vector keeps the cell.
        !cell.is_null() && unsafe { r::vg_is_shared(cell) } != 0
    }

    /// The array for a library that may write to its memory from now on. If a recorded operation or a view may still
    /// read the memory, the array is copied to new memory first. So is a subset of read-only memory, since R's
    /// semantics make it a copy.
    pub fn lend(&self) -> Result<Array> {
        let array = self.array_synced()?;
        if array.is_volatile() {
            return Ok(array);
        }
        let view = array.evaluate()?;
        // references to the node: the handle's and `array`; to the buffer: the node's, `view`, and the borrowers'
        let alone = Arc::strong_count(array.node()) <= 2 && Arc::strong_count(&view.buffer) <= 2 + view.buffer.lent();
        let as_it_lies = if view.buffer.is_read_only() {
            self.import.get() // the caller refuses to lend it to a writer
        } else {
            alone && self.is_lender() && !self.is_recorded_on()
        };
        if as_it_lies {
            return Ok(array);
        }
        let own = Array::duplicate(&view)?;
        self.replace(own.clone());
        Ok(own)
    }

    /// The array for another library that only reads its memory.
    pub fn lend_to_read(&self) -> Result<Array> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let array = self.array_synced()?;
        let number = self.rare(|rare| {
            if rare.lends_as == 0 {
                rare.lends_as = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            }
            rare.lends_as
        });
        array.evaluate()?.buffer.note_lender(number);
        Ok(array)
    }

    /// Whether the memory has no outside reader, or only readers that borrowed it from this array. Those may see later
    /// writes.
    pub fn is_lender(&self) -> bool {
        let number = self.rare.borrow().as_ref().map_or(0, |rare| rare.lends_as);
        let array = self.array.borrow();
        !array.is_shared() || array.node().view().is_some_and(|view| number > 0 && view.buffer.is_lent_by(number))
    }

    /// As `lend`, for a library that works in the order of CUDA's default stream. Other writers of the memory do so
    /// too, and are ordered before it. This package's stream has to wait for them only if it has work to do on the
    /// memory.
    pub fn lend_in_order(&self) -> Result<Array> {
        if !self.freed.get() && !self.dirty.get() {
            let array = self.array_unsynced();
            array.check()?;
            // checking bools and making the elements contiguous is such work
            if array.is_volatile() && array.dtype() != DType::Bool8 && array.evaluate()?.layout.is_contiguous() {
                return Ok(array);
            }
        }
        self.lend()
    }

    /// Replaces the values of the R object, under all its names, by those of an array of the same length and dtype. The
    /// host copy keeps its address; it is updated at the next read, or at once if C code holds it.
    pub fn rewrite(&self, array: Array) -> Result<()> {
        self.replace(array);
        self.forget();
        self.dirty.set(false);
        if let Some(block) = self.host.borrow().as_ref() {
            block.stamp.set(block.stamp.get() + 1);
            self.stale.set(true);
        }
        if self.stale.get() && self.is_held() {
            self.fetch()?;
            if let Some(block) = self.host.borrow().as_ref() {
                self.note_same(block);
            }
            self.dirty.set(true);
        }
        Ok(())
    }

    /// The array without an upload of what R may have written since. For its dtype, length and device.
    pub fn array_unsynced(&self) -> Array {
        self.array.borrow().clone()
    }

    pub fn device(&self) -> Device {
        self.array.borrow().device()
    }

    /// The current array. If R may have written to the host copy, that is uploaded first.
    pub fn array_synced(&self) -> Result<Array> {
        self.with_array(Array::clone)
    }

    /// As `array_synced`, by reference.
    pub fn with_array<R>(&self, read: impl FnOnce(&Array) -> R) -> Result<R> {
        self.check()?;
        if self.dirty.get() {
            self.upload()?;
        }
        foreign_stream::touch(&self.array.borrow())?;
        Ok(read(&self.array.borrow()))
    }

    /// Frees the elements on the device and on the host. The vector keeps its length.
    pub fn free(&self) {
        let old = self.array_unsynced();
        let nothing = Buffer::new(old.device(), 0, 0, Box::new(()));
        self.replace(Array::from_view(View::contiguous(Arc::new(nothing), old.dtype(), 0)));
        self.freed.set(true);
        self.dirty.set(false);
        self.stale.set(true);
        if !self.is_held() {
            self.host.take();
        }
        self.forget();
    }

    fn check(&self) -> Result<()> {
        if !self.freed.get() {
            return self.array.borrow().check();
        }
        Err(Error::new(ErrorKind::Consumed, "this array was freed by `gpu_free()`")
            .advise("Make it again with `as_gpu()`, or free it later."))
    }

    #[cold]
    fn upload(&self) -> Result<()> {
        let held = self.is_held();
        if let Some(block) = self.host.borrow().as_ref() {
            let old = self.array_unsynced();
            // R asks for a writable pointer even if it only reads: shared memory stays shared if nothing was written
            if self.is_as_read(block) {
                self.stale.set(old.is_shared());
                self.dirty.set(held);
                return Ok(());
            }
            if let Some(rare) = self.rare.borrow_mut().as_mut() {
                rare.read = None;
            }
            // SAFETY: the block was made for this handle's length; R is not running meanwhile.
            let new = unsafe { host_copy::write(block, &old)? };
            self.replace(new);
            if held {
                self.note_same(block);
            }
        }
        self.dirty.set(held);
        Ok(())
    }

    fn checksum(&self, block: &Block) -> u64 {
        // SAFETY: the block has this many bytes, and all were written when it was read.
        host_copy::checksum(unsafe { std::slice::from_raw_parts(block.start(), self.host_bytes()) })
    }

    /// The handle for R's duplicate of the vector. It shares the array, not the host copy.
    pub fn duplicate(&self) -> Result<Handle> {
        let mut copy = Handle::new(self.array_unsynced());
        copy.ordinary = self.ordinary;
        copy.import.set(self.import.get());
        if self.freed.get() {
            // must not fail: R and rlang duplicate the call of the error that reports the freed array
            copy.len = self.len;
            copy.freed.set(true);
            return Ok(copy);
        }
        let host = self.host.borrow();
        let shared = self.array.borrow().is_shared();
        match host
            .as_ref()
            .filter(|block| !self.stale.get() && !(shared && (!self.dirty.get() || self.is_as_read(block))))
        {
            Some(block) if self.dirty.get() || self.ordinary => {
                // C code may write to the old host copy through a pointer that it holds, so the duplicate gets its own
                // copy now, and uploads it when the device needs it
                let own = Block::new(self.host_bytes(), self.array.borrow().device())?;
                // SAFETY: both hold this handle's elements.
                unsafe { std::ptr::copy_nonoverlapping(block.start(), own.start(), self.host_bytes()) };
                own.lossy.set(block.lossy.get());
                copy.host.replace(Some(Rc::new(own)));
                copy.dirty.set(true);
                if copy.ordinary {
                    copy.let_go();
                }
            }
            Some(block) => {
                copy.rare(|rare| rare.sibling = Some((Rc::downgrade(block), block.stamp.get())));
            }
            None if shared => {}
            None => {
                if let Some(rare) = self.rare.borrow().as_ref() {
                    copy.rare(|copied| {
                        copied.sibling = rare.sibling.clone();
                        copied.deferred = rare.deferred.clone();
                        copied.diagonal = rare.diagonal;
                    });
                }
            }
        }
        Ok(copy)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        if self.ordinary {
            ordinary::unregister(self);
        }
    }
}

/// Gives a cell a handle of its own with the old values, if another lazy cell refers to it: the vector's handle is
/// about to get other values.
fn leave_values(cell: SEXP, old: Array) {
    // SAFETY: the cell is kept by the vector of the calling handle. That vector's reference to it is counted, so any
    // other makes it shared.
    unsafe {
        if r::vg_is_shared(cell) != 0 {
            let handle = Handle::new(old).owned();
            let pointer = r::vg_new_pointer(r::null(), std::ptr::null_mut());
            handle.give(pointer);
            r::SETCAR(cell, pointer);
        }
    }
}
