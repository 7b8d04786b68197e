//! Loaded kernels, launch configurations, and kernel arguments as bytes.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::api::{Function, Stream};
use crate::kernel::Arguments;

/// The most bytes of kernel parameters that every device supports.
pub const MOST_BYTES: usize = 4096;

/// A loaded kernel. Cached kernels are never unloaded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub function: Function,
    /// The name in messages: the function's name in the source, unless another is set.
    pub name: String,
    /// Registers, and bytes of local memory, of a thread.
    pub registers: u32,
    pub local_bytes: u32,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The latest launch that the driver accepted: threads of a block in the high word, bytes of dynamic shared memory
    /// in the low word.
    pub taken: Arc<AtomicU64>,
}

impl Kernel {
    /// Whether a launch of this shape cannot fail: the driver has accepted one at least as large, and the kernel needs
    /// no local memory, which the driver might fail to allocate.
    pub(crate) fn is_proven(&self, shape: Shape) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        self.local_bytes == 0
            && shape.threads() <= taken >> 32
            && u64::from(shape.shared) <= taken & u64::from(u32::MAX)
    }

    /// Records that the driver has accepted a launch of this shape.
    pub(crate) fn note_taken(&self, shape: Shape) {
        self.taken.store(shape.threads() << 32 | u64::from(shape.shared), Ordering::Relaxed);
    }
}

/// The shape of a launch: grid, block, and bytes of dynamic shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

impl Shape {
    fn threads(&self) -> u64 {
        self.block.iter().map(|&threads| u64::from(threads)).product()
    }
}

/// Everything that describes a launch except its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Configuration {
    pub function: Function,
    pub stream: Stream,
    pub shape: Shape,
}

/// A value that may be passed to a kernel by its bytes.
///
/// # Safety
/// Only for plain numbers and `repr(C)` structs of them, without uninitialised padding.
pub unsafe trait Argument: Copy {}
macro_rules! plain { ($($t:ty)*) => { $(
    // SAFETY: a plain number.
    unsafe impl Argument for $t {}
)* } }
plain!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

/// The arguments of one launch, in the order of the kernel's parameters.
#[derive(Default)]
pub struct Args(pub(crate) Arguments);

impl Args {
    pub fn new() -> Args {
        Args::default()
    }

    /// A number, or a device address as `u64`.
    pub fn push<T: Argument>(&mut self, value: T) -> &mut Args {
        // SAFETY: the bytes of a plain value.
        self.push_bytes(unsafe { std::slice::from_raw_parts((&raw const value).cast(), std::mem::size_of::<T>()) })
    }

    /// A struct, as its bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> &mut Args {
        self.0.push(bytes);
        self
    }
}

/// Bytes with the layout of a C struct of these fields. Stored inline, so that a launch does not allocate.
pub struct Packed {
    storage: [MaybeUninit<u64>; MOST_BYTES / 8],
    len: usize,
}

impl Default for Packed {
    fn default() -> Packed {
        Packed { storage: [const { MaybeUninit::uninit() }; MOST_BYTES / 8], len: 0 }
    }
}

impl Packed {
    /// Appends a field with this alignment. A field beyond the storage is counted but not stored: see `len`.
    pub fn field(&mut self, bytes: &[u8], align: usize) {
        let at = self.len.next_multiple_of(align);
        if at + bytes.len() <= MOST_BYTES {
            let storage = self.storage.as_mut_ptr().cast::<u8>();
            // SAFETY: within the storage, gap and field.
            unsafe {
                storage.add(self.len).write_bytes(0, at - self.len);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.add(at), bytes.len());
            }
        }
        self.len = at + bytes.len();
    }

    pub fn u64(&mut self, value: u64) {
        self.field(&value.to_ne_bytes(), 8);
    }

    pub fn u32(&mut self, value: u32) {
        self.field(&value.to_ne_bytes(), 4);
    }

    /// The struct's size so far; more than `MOST_BYTES` if no kernel can take it.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `field` has written all bytes up to the length that are within the storage.
        unsafe { std::slice::from_raw_parts(self.storage.as_ptr().cast(), self.len.min(MOST_BYTES)) }
    }
}

/// The number of blocks of `threads` that cover `n` elements; at least 1.
pub fn blocks(n: usize, threads: usize) -> u32 {
    n.div_ceil(threads).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_as_in_c() {
        let mut p = Packed::default();
        p.u32(1);
        p.u64(2);
        p.field(&[3], 1);
        p.u32(4);
        assert_eq!((p.len(), p.bytes().len()), (24, 24));
        assert_eq!(p.bytes()[4..8], [0; 4]);
        assert_eq!([8, 16, 20].map(|at| p.bytes()[at]), [2, 3, 4]);
    }

    #[test]
    fn what_no_kernel_takes_is_counted() {
        let mut p = Packed::default();
        (0..1000).for_each(|k| p.u64(k));
        assert_eq!((p.len(), p.bytes().len()), (8000, MOST_BYTES));
        assert_eq!(p.bytes()[8 * 511..], 511u64.to_ne_bytes());
    }

    #[test]
    fn arguments_keep_their_places() {
        let mut args = Args::new();
        args.push(7u32).push(-1i64).push_bytes(&[1, 2, 3]);
        assert_eq!(args.0.all()[..], [&7u32.to_ne_bytes()[..], &(-1i64).to_ne_bytes(), &[1, 2, 3]]);
        assert!(args.0.all().iter().all(|bytes| bytes.as_ptr().addr().is_multiple_of(16)));
    }
}
