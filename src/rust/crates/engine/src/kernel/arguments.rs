//! The launch of a user-written kernel: its geometry and the bytes of its arguments.

use verdigris_ops::small_vec::SmallVec;

/// How a kernel is to be run; what is None is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    pub grid: Option<[u32; 3]>,
    pub block: Option<[u32; 3]>,
    /// Bytes of shared memory beyond what the source declares.
    pub shared: u32,
    /// Threads that are needed; the length of the longest array.
    pub n: Option<usize>,
    /// Whether all blocks must run at once, since they wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
}

/// Most kernels have at most so many arguments; a call with these allocates nothing.
pub const USUAL: usize = 16;

/// The bytes of arguments, each at a multiple of 16.
#[derive(Default)]
pub struct Arguments {
    memory: SmallVec<u128, USUAL>,
    ranges: SmallVec<(u32, u32), USUAL>,
}

impl Arguments {
    pub fn push(&mut self, bytes: &[u8]) {
        self.ranges.push((self.memory.len() as u32, bytes.len() as u32));
        let mut rest = bytes;
        loop {
            let (now, later) = rest.split_at(rest.len().min(16));
            let mut unit = [0; 16];
            unit[..now.len()].copy_from_slice(now);
            self.memory.push(u128::from_ne_bytes(unit));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Puts an address in place of the bytes of one.
    pub fn set_address(&mut self, k: usize, address: u64) {
        self.memory[self.ranges[k].0 as usize] = u128::from(address);
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The bytes of one.
    pub fn bytes(&self, k: usize) -> &[u8] {
        let (at, len) = self.ranges[k];
        // SAFETY: `push` wrote them.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at as usize).cast(), len as usize) }
    }

    /// The bytes of all of them.
    pub fn all(&self) -> SmallVec<&[u8], USUAL> {
        let mut all = SmallVec::default();
        (0..self.len()).for_each(|k| all.push(self.bytes(k)));
        all
    }
}
