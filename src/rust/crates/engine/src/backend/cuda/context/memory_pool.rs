//! A device's memory pool, and the size classes of the cache of small blocks.

use crate::backend::cuda::driver::api::{self, CUmemPool_attribute, Driver, MemoryPool};
use crate::backend::cuda::driver::devices::Properties;
use verdigris_ops::error::Result;

/// Freed blocks of up to this size are cached here, by powers of two from `LEAST` on: an allocation and free in the
/// driver's pool take 0.6 µs, a good part of the cost of a small operation.
pub(super) const SMALL: usize = 64 << 10;
pub(super) const LEAST: usize = 256;
const SIZES: usize = (SMALL / LEAST).ilog2() as usize + 1;
/// The most cached bytes of each size class: as many blocks as a loop of small operations drops between two of R's
/// garbage collections.
pub(super) const KEPT: usize = 16 << 20;

/// The size class that serves this many bytes; None where they are too many to be cached.
pub(super) fn small(bytes: usize) -> Option<usize> {
    (bytes <= SMALL).then(|| (bytes.max(LEAST).next_power_of_two() / LEAST).ilog2() as usize)
}

/// A device's pool. It keeps freed memory until it is trimmed.
pub struct Pool {
    /// Null where the device has no pools; memory is then allocated by `cuMemAlloc`.
    pub(super) handle: MemoryPool,
}

/// A stream's free small blocks, by size class. They may be reused by later work on that stream.
pub(crate) type Small = [Vec<u64>; SIZES];

impl Pool {
    /// The context must be current.
    pub(crate) fn new(driver: &'static Driver, properties: &Properties) -> Result<Pool> {
        let mut handle = MemoryPool::NULL;
        if properties.pools {
            let wanted = api::pool_properties(properties.ordinal);
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let mut threshold = u64::MAX;
            // an allocation must not make its stream wait for another stream that has freed memory
            let follows = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
            let mut never = 0i32;
            // SAFETY: the struct is as cuda.h declares it, the first attribute 64 bits wide and the second 32.
            unsafe {
                api::check(driver, (driver.pool_create)(&mut handle, &wanted), "cuMemPoolCreate")?;
                let status = (driver.pool_set)(handle, attribute, (&raw mut threshold).cast());
                api::check(driver, status, "cuMemPoolSetAttribute")?;
                let status = (driver.pool_set)(handle, follows, (&raw mut never).cast());
                api::check(driver, status, "cuMemPoolSetAttribute")?;
            }
        }
        Ok(Pool { handle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_are_kept_by_powers_of_two() {
        assert_eq!(
            [1, LEAST, LEAST + 1, SMALL, SMALL + 1].map(small),
            [Some(0), Some(0), Some(1), Some(SIZES - 1), None]
        );
        for bytes in [1, 255, 256, 257, 4096, 40_000, SMALL] {
            let size = small(bytes).unwrap();
            assert!(LEAST << size >= bytes && (size == 0 || LEAST << size < 2 * bytes));
        }
    }
}
