//! The handle of an array, owned by its R vector: the engine's array and, once R has read it, its host copy.

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

/// Handles that are alive.
pub static LIVE: AtomicI64 = AtomicI64::new(0);

/// What an ALTREP vector's external pointer points to. On the main thread only. Small, since every recorded operation
/// makes one.
pub struct Handle {
    len: usize,
    /// Whether R asked for a pointer to write through since the last upload.
    dirty: Cell<bool>,
    /// `gpu_free()` took the elements.
    freed: Cell<bool>,
    /// Whether the device has written since the host copy was made.
    stale: Cell<bool>,
    /// Whether this is no array for R but an ordinary vector, which has no class (`ordinary.rs`).
    ordinary: bool,
    /// Whether the memory is what came from outside, and not a part of that.
    import: Cell<bool>,
    array: RefCell<Array>,
    /// The cell of these values (`lazy.rs`), kept by the vector; null where there is none.
    cell: Cell<SEXP>,
    /// Whether the values were others before.
    rewritten: Cell<bool>,
    host: RefCell<Option<Rc<Block>>>,
    rare: RefCell<Option<Box<Rare>>>,
}

/// What few arrays need.
#[derive(Default)]
struct Rare {
    /// The checksum of the host copy as it was read or uploaded, where others share the memory or C code holds the
    /// copy.
    read: Option<u64>,
    /// The host copy of the array that this one is a duplicate of, and its stamp then.
    sibling: Option<(Weak<Block>, u64)>,
    window: Window,
    /// A number on its way, and whether it was brought to the device, as an operand.
    deferred: Option<(Rc<dyn Deferred>, bool)>,
    /// What an ordinary matrix is made of, of which nothing has been computed.
    diagonal: Option<Diagonal>,
    /// The number by which these values were lent to readers; 0 where they were not.
    lends_as: u64,
    /// The number of the R function that was last warned of int64 that it read as NA; 0 for none.
    warned: isize,
    /// C functions that may still write through the address that they were given.
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

    /// An array on memory that came from outside, or a strided view of an array's memory.
    pub fn import(array: Array) -> Handle {
        let handle = Handle::new(array);
        handle.import.set(true);
        handle
    }

    /// For an external pointer.
    pub fn owned(self) -> Box<Owned<Handle>> {
        let n = self.len;
        let owned = Owned::new(self, n, Of::Handle);
        if owned.value.ordinary {
            ordinary::register(&owned.value);
        }
        owned
    }

    pub fn dtype(&self) -> DType {
        self.peek().dtype()
    }

    /// Gives the handle other values; lazy cells keep those that they were recorded on.
    fn replace(&self, array: Array) {
        self.part();
        if !Arc::ptr_eq(self.array.borrow().node(), array.node()) {
            if let Some(rare) = self.rare.borrow_mut().as_mut() {
                rare.lends_as = 0;
            }
        }
        self.array.replace(array);
        self.import.set(false);
        self.rewritten.set(true);
    }

    /// Before its memory is written: lazy cells that were recorded on it keep the values of now.
    pub fn part(&self) {
        let cell = self.cell.get();
        if !cell.is_null() {
            leave_values(cell, self.peek());
            self.cell.set(std::ptr::null_mut());
        }
    }

    /// Whether it was given other values: what is recorded on it holds them in a node, since it is likely to get others
    /// again.
    pub fn is_rewritten(&self) -> bool {
        self.rewritten.get()
    }

    pub fn cell(&self) -> SEXP {
        self.cell.get()
    }

    pub fn set_cell(&self, cell: SEXP) {
        self.cell.set(cell);
    }

    /// Looks at the rare part, made here where there is none.
    fn rare<R>(&self, change: impl FnOnce(&mut Rare) -> R) -> R {
        change(self.rare.borrow_mut().get_or_insert_default())
    }

    /// Forgets what was read before, in whatever way.
    fn forget(&self) {
        let old = self.rare.take().filter(|rare| !rare.holders.is_empty() || rare.lends_as > 0 || rare.warned > 0);
        if let Some(old) = old {
            self.rare(|rare| (rare.holders, rare.lends_as, rare.warned) = (old.holders, old.lends_as, old.warned));
        }
    }

    /// Notes that a C function was given the address of the host copy, to write.
    pub fn hold(&self, holder: &Holder) {
        self.rare(|rare| {
            if rare.holders.last() != Some(holder) {
                rare.holders.retain(|known| known.is_running() && known != holder);
                rare.holders.push(*holder);
            }
        });
    }

    /// Whether a C function that was given the address may still write: the host copy is then compared at each use on
    /// the device.
    fn is_held(&self) -> bool {
        self.rare.borrow_mut().as_mut().is_some_and(|rare| {
            rare.holders.retain(Holder::is_running);
            !rare.holders.is_empty()
        })
    }

    /// Notes the checksum of the host copy, which is what the device has.
    fn note_same(&self, block: &Block) {
        let sum = self.checksum(block);
        self.rare(|rare| rare.read = Some(sum));
    }

    /// Notes the checksum of what was read of memory that another library shares.
    fn note_read(&self, array: &Array, block: &Block) {
        let sum = array.is_shared().then(|| self.checksum(block));
        if sum.is_some() || self.rare.borrow().is_some() {
            self.rare(|rare| rare.read = sum);
        }
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Whether `gpu_free()` took the elements.
    pub fn is_freed(&self) -> bool {
        self.freed.get()
    }

    /// Bytes of the host copy, whether there is one or not.
    pub fn host_bytes(&self) -> usize {
        self.len * host_copy::r_size(self.array.borrow().dtype())
    }

    /// Whether there is a host copy that is up to date.
    pub fn has_host(&self) -> bool {
        self.host.borrow().as_ref().is_some_and(|block| self.is_current(block))
    }

    /// Whether the host copy holds the values. Of memory that someone outside sees it does so only where R has written
    /// to the copy: the next read is to see his writes.
    fn is_current(&self, block: &Block) -> bool {
        !self.stale.get() && (!self.array.borrow().is_shared() || self.dirty.get() && !self.is_as_read(block))
    }

    /// Whether the host copy is as it was read.
    fn is_as_read(&self, block: &Block) -> bool {
        let read = self.rare.borrow().as_ref().and_then(|rare| rare.read);
        read.is_some_and(|sum| sum == self.checksum(block))
    }

    /// Whether the values may be written in place, as far as that is known here: R has no address of them, they came
    /// from nobody else, and nothing that was recorded reads them.
    pub fn is_writable(&self) -> bool {
        let plain = !self.ordinary && !self.freed.get() && !self.dirty.get() && !self.import.get();
        plain && !self.is_recorded_on() && !self.is_held()
    }

    /// The array's memory was written in place.
    pub fn written(&self) {
        self.part();
        self.forget();
        if let Some(block) = self.host.borrow().as_ref() {
            block.stamp.set(block.stamp.get() + 1);
            self.stale.set(true);
        }
    }

    /// Whether something that was recorded may still read the values.
    pub fn is_recorded_on(&self) -> bool {
        let cell = self.cell.get();
        // SAFETY: the vector keeps the cell.
        !cell.is_null() && unsafe { r::vg_is_shared(cell) } != 0
    }

    /// The array for a library that may write to its memory from now on. Where something else may still read that
    /// memory (a recorded operation or a view), the array moves to memory of its own before. So does a part of
    /// read-only memory, which is a copy to R.
    pub fn lend(&self) -> Result<Array> {
        let array = self.current()?;
        if array.is_volatile() {
            return Ok(array);
        }
        let view = array.evaluate()?;
        // the handle's and ours; the node's, ours, and those of readers
        let alone = Arc::strong_count(array.node()) <= 2 && Arc::strong_count(&view.buffer) <= 2 + view.buffer.lent();
        let as_it_lies = if view.buffer.is_read_only() {
            self.import.get() // which the caller refuses to lend to a writer
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
        let array = self.current()?;
        let number = self.rare(|rare| {
            if rare.lends_as == 0 {
                rare.lends_as = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            }
            rare.lends_as
        });
        array.evaluate()?.buffer.note_lender(number);
        Ok(array)
    }

    /// Whether this array lent its memory to every outside reader, or there is none. Such readers may see later writes.
    pub fn is_lender(&self) -> bool {
        let number = self.rare.borrow().as_ref().map_or(0, |rare| rare.lends_as);
        let array = self.array.borrow();
        !array.is_shared() || array.node().view().is_some_and(|view| number > 0 && view.buffer.is_lent_by(number))
    }

    /// As `lend`, for a library that works in the order of CUDA's default stream, as the writers of the memory already
    /// do: their queued work comes first anyway. Our stream waits for it only where there is work of ours to be done.
    pub fn lend_in_order(&self) -> Result<Array> {
        if !self.freed.get() && !self.dirty.get() {
            let array = self.peek();
            array.check()?;
            // a look at bools is work, and so is bringing elements together
            if array.is_volatile() && array.dtype() != DType::Bool8 && array.evaluate()?.layout.is_contiguous() {
                return Ok(array);
            }
        }
        self.lend()
    }

    /// Gives the object other values of the same length and dtype, under all its names: a kernel has written.
    /// The host copy keeps its address, and is filled again at the next read; at once where C code holds it.
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

    /// The array as R last saw it, even where R has written since: for its dtype and device.
    pub fn peek(&self) -> Array {
        self.array.borrow().clone()
    }

    pub fn device(&self) -> Device {
        self.array.borrow().device()
    }

    /// The current array; uploads the host copy first where R may have written to it.
    pub fn current(&self) -> Result<Array> {
        self.with_array(Array::clone)
    }

    /// As `current`, by reference.
    pub fn with_array<R>(&self, read: impl FnOnce(&Array) -> R) -> Result<R> {
        self.check()?;
        if self.dirty.get() {
            self.upload()?;
        }
        foreign_stream::touch(&self.array.borrow())?;
        Ok(read(&self.array.borrow()))
    }

    /// Lets go of the elements, on the device and on the host; the length stays.
    pub fn free(&self) {
        let old = self.peek();
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
            let old = self.peek();
            // R asks for a pointer to write whenever it reads: memory that is shared stays shared where nothing was
            // written
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

    /// A handle of its own for a copy that R makes.
    pub fn duplicate(&self) -> Result<Handle> {
        let mut copy = Handle::new(self.peek());
        copy.ordinary = self.ordinary;
        copy.import.set(self.import.get());
        if self.freed.get() {
            // R and rlang copy what they show, such as a call that failed because of this
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
                // someone may write to the old one through a pointer that he holds: the copy gets its own
                // memory now, and uploads it when the device needs it
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

/// Leaves a cell its old values, where another lazy cell may need them: the handle is about to get others.
fn leave_values(cell: SEXP, old: Array) {
    // SAFETY: the cell is kept by the vector whose handle is in our hands, and that vector's is the one reference that
    // counts.
    unsafe {
        if r::vg_is_shared(cell) != 0 {
            let handle = Handle::new(old).owned();
            let pointer = r::vg_new_pointer(r::null(), std::ptr::null_mut());
            handle.give(pointer);
            r::SETCAR(cell, pointer);
        }
    }
}
