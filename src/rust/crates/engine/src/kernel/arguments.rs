//! The geometry of a kernel launch, and the bytes of its arguments.

use verdigris_ops::small_vec::SmallVec;

/// How to launch a kernel; the backend chooses what is None.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    pub grid: Option<[u32; 3]>,
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The number of threads needed; None: the length of the longest array.
    pub n: Option<usize>,
    /// Whether this is a cooperative launch, all of whose blocks must be resident, since they wait for each other.
    pub cooperative: bool,
    /// Blocks in each dimension of a cluster.
    pub cluster: Option<[u32; 3]>,
}

/// Most kernels have at most this many arguments; such a call allocates nothing.
pub const USUAL: usize = 16;

/// The bytes of all arguments, each at a multiple of 16.
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

    /// Replaces the bytes of argument `k` by an address.
    pub fn set_address(&mut self, k: usize, address: u64) {
        self.memory[self.ranges[k].0 as usize] = u128::from(address);
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The bytes of argument `k`.
    pub fn bytes(&self, k: usize) -> &[u8] {
        let (at, len) = self.ranges[k];
        // SAFETY: `push` wrote them.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at as usize).cast(), len as usize) }
    }

    /// The bytes of each argument.
    pub fn all(&self) -> SmallVec<&[u8], USUAL> {
        let mut all = SmallVec::default();
        (0..self.len()).for_each(|k| all.push(self.bytes(k)));
        all
    }
}
