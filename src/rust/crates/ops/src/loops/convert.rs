//! Converts elements from R's storage to another dtype, or back, by the casts of the operation table: for transfers to
//! and from a device.

use std::ffi::c_void;

use super::BLOCK;
use super::{Loop, Store, LOOPS, STORES};
use crate::dtype::DType;
use crate::OpId;

/// Elements that are converted at once, while the next ones are prefetched.
const ROUND: usize = BLOCK / 4;

/// Prefetches memory that will be read soon: hardware prefetchers do not go beyond a page. float64 was converted to
/// float32 at 8.8 GB/s without this and at 10.9 with it, int32 at 5.6 and 8.0.
fn expect(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: a prefetch is a hint, valid for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// A conversion from one dtype to another.
#[derive(Clone, Copy)]
pub struct Converter {
    body: Loop,
    /// None if the loop's result is stored as it is.
    store: Option<Store>,
    pub op: OpId,
    pub from: usize,
    pub to: usize,
}

impl Converter {
    /// None unless `from` is stored as it computes, as all of R's types are.
    pub fn new(from: DType, to: DType) -> Option<Converter> {
        let op = OpId::cast(to);
        let body = LOOPS[op.0 as usize][from.class() as usize].filter(|_| from.is_natural())?;
        let store = (!to.is_natural()).then(|| STORES[to as usize]);
        Some(Converter { body, store, op, from: from.size(), to: to.size() })
    }

    /// Converts `n` elements. Returns the flag bits of values that did not fit.
    ///
    /// # Safety
    /// Both addresses are good for `n` elements of their dtypes, aligned, and do not overlap.
    pub unsafe fn run(&self, source: *const u8, target: *mut u8, n: usize) -> u32 {
        let mut bits = 0u32;
        let mut registers = [[0u64; 2]; ROUND];
        for i in (0..n).step_by(ROUND) {
            let count = ROUND.min(n - i);
            expect(source.wrapping_add((i + ROUND) * self.from), count * self.from);
            // SAFETY: the caller's promise; there are registers for a round's elements of any class.
            unsafe {
                let none = std::ptr::null::<c_void>();
                let from = source.add(i * self.from).cast::<c_void>();
                let out = target.add(i * self.to).cast::<c_void>();
                match self.store {
                    None => (self.body)(out, from, none, none, none, 0, count as i32, &mut bits),
                    Some(store) => {
                        let registers_at = registers.as_mut_ptr().cast::<c_void>();
                        (self.body)(registers_at, from, none, none, none, 0, count as i32, &mut bits);
                        store(out, registers_at, 0, count as i32);
                    }
                }
            }
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_are_the_tables() {
        let source: Vec<f64> = (0..3000).map(|k| k as f64 - 1500.25).collect();
        let mut narrow = vec![0i8; source.len()];
        let converter = Converter::new(DType::Float64, DType::Int8).unwrap();
        // SAFETY: both have as many elements as the call says.
        let bits = unsafe { converter.run(source.as_ptr().cast(), narrow.as_mut_ptr().cast(), source.len()) };
        assert_eq!(bits, 1);
        assert_eq!((narrow[0], narrow[1500], narrow[1600]), (i8::MIN, 0, 99));
        let mut single = vec![0f32; source.len()];
        let converter = Converter::new(DType::Float64, DType::Float32).unwrap();
        // SAFETY: as above.
        let bits = unsafe { converter.run(source.as_ptr().cast(), single.as_mut_ptr().cast(), source.len()) };
        assert_eq!(bits, 0);
        assert!(single.iter().zip(&source).all(|(a, b)| *a == *b as f32));
        assert!(Converter::new(DType::Float16, DType::Float32).is_none());
    }

    /// Measures the speed of casts: `cargo test --release -- --ignored --nocapture converts`.
    #[test]
    #[ignore = "a measurement"]
    fn converts_so_fast() {
        let n = 1 << 24;
        let source: Vec<f64> = (0..n).map(|k| (k % 100) as f64).collect();
        // a chunk that stays in the cache, as in a transfer
        const CHUNK: usize = 1 << 18;
        let mut out = vec![0u8; 8 * CHUNK];
        for dtype in DType::ALL {
            let Some(converter) = Converter::new(DType::Float64, dtype).filter(|c| c.to <= 8) else { continue };
            let mut best = f64::MAX;
            for _ in 0..5 {
                let start = std::time::Instant::now();
                for chunk in source.chunks(CHUNK) {
                    // SAFETY: `out` has room for 8 bytes an element.
                    unsafe { converter.run(chunk.as_ptr().cast(), out.as_mut_ptr(), chunk.len()) };
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("float64 to {dtype}: {:.2} GB/s of doubles a thread", n as f64 * 8e-9 / best);
        }
    }
}
