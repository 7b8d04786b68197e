//! Order statistics on the device without a full sort; the kernels are in `kernels/rank.cuh`.

use super::{gather, sort};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::Ranked;
use crate::memory::buffer::View;
use crate::memory::fallible;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

const THREADS: usize = 512;
/// `TOP_DIGITS` and `NO_SLOT` in rank.cuh.
const DIGITS: usize = 1 << 11;
const NO_SLOT: u8 = 255;
/// The most different first digits at the wanted ranks: a block counts the second digits of each in shared memory.
const MOST_SLOTS: usize = 24;
/// Shorter arrays are sorted instead.
const RADIX_SELECT_FROM: usize = 1 << 16;

pub(crate) fn source(dtype: DType) -> String {
    let key = sort::key_type(dtype);
    let head = format!("extern \"C\" __global__ void __launch_bounds__({THREADS})");
    format!(
        "#define THREADS {THREADS}\n#include \"rank.cuh\"\ntypedef {key} Key;\n\
         {head} rank_first(const Key::T* in, i64 n, u64* out) {{ first_digits<Key>(in, n, out); }}\n\
         {head} rank_second(const Key::T* in, i64 n, const u8* slots, u32 count, u64* out) {{\n  \
           extern __shared__ u32 shared[];\n  \
           second_digits<Key>(in, n, slots, count, out, shared);\n}}\n\
         {head} rank_take(const Key::T* in, i64 n, const u8* slots, u32 count, const u8* wanted, Key::T* out, u64* cursor) {{\n  \
           extern __shared__ u32 shared[];\n  \
           take_ranks<Key>(in, n, slots, count, wanted, out, cursor, (u8*)shared);\n}}\n"
    )
}

/// The bin that a rank falls into, and the rank within it.
fn locate(counts: &[u64], mut rank: u64) -> (usize, u64) {
    for (digit, &count) in counts.iter().enumerate() {
        if rank < count {
            return (digit, rank);
        }
        rank -= count;
    }
    unreachable!("a rank is less than the sum of the counts")
}

/// See `Backend::ranks`. Waits for counts of digits.
pub fn ranks(cuda: &Cuda, values: &View, ranks: &[usize]) -> Result<Option<Ranked>> {
    let (n, dtype) = (values.len(), values.dtype);
    if n < RADIX_SELECT_FROM || !matches!(dtype.size(), 4 | 8) || matches!(dtype, DType::Complex64) {
        return Ok(None);
    }
    let module = cuda.module(&format!("rank/{dtype}"), || source(dtype))?;
    let (from, n_i) = (values.address(), n as i64);
    let launch = |name: &str, shared: usize, args: &mut Args| -> Result<()> {
        let kernel = cuda.function(&module, name)?;
        let wave = cuda.wave(&kernel, THREADS as u32, shared as u32)?;
        let blocks = n.div_ceil(THREADS * 16).clamp(1, wave) as u32;
        cuda.launch(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], shared as u32, args)
    };
    let fetch = |buffer: &crate::memory::buffer::Buffer, count: usize| -> Result<Vec<u64>> {
        let mut raw = fallible::filled(0u8, count * 8)?;
        cuda.download(buffer, 0, &mut raw)?;
        fallible::collected(raw.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))))
    };

    let counts = cuda.allocate((DIGITS + 1) * 8)?;
    cuda.fill(counts.address, 0, counts.bytes)?;
    launch("rank_first", 0, Args::new().push(from).push(n_i).push(counts.address))?;
    let first = fetch(&counts, DIGITS + 1)?;
    let missing = first[DIGITS] as usize;
    let known = (n - missing) as u64;
    if ranks.iter().any(|&rank| rank as u64 >= known) {
        return Ok(Some(Ranked { values: None, missing }));
    }
    // each first digit at a wanted rank gets a slot
    let found: Vec<(usize, u64)> =
        fallible::collected(ranks.iter().map(|&rank| locate(&first[..DIGITS], rank as u64)))?;
    let mut digits: Vec<usize> = fallible::collected(found.iter().map(|p| p.0))?;
    digits.sort_unstable();
    digits.dedup();
    if digits.len() > MOST_SLOTS || digits.len() * DIGITS * 4 + (4 << 10) > cuda.properties.shared as usize {
        return Ok(None);
    }
    let mut slots = vec![NO_SLOT; DIGITS];
    digits.iter().enumerate().for_each(|(slot, &digit)| slots[digit] = slot as u8);
    let count = digits.len();
    let slot_memory = cuda.allocate(DIGITS)?;
    cuda.upload(&slots, &slot_memory, 0)?;
    let counts = cuda.allocate(count * DIGITS * 8)?;
    cuda.fill(counts.address, 0, counts.bytes)?;
    let mut args = Args::new();
    args.push(from).push(n_i).push(slot_memory.address).push(count as u32).push(counts.address);
    launch("rank_second", count * DIGITS * 4, &mut args)?;
    let second = fetch(&counts, count * DIGITS)?;
    let of = |slot: usize| &second[slot * DIGITS..(slot + 1) * DIGITS];
    let mut wanted = fallible::filled(0u8, count * DIGITS)?;
    let within: Vec<(usize, u64)> = fallible::collected(found.iter().map(|&(digit, rank)| {
        let slot = slots[digit] as usize;
        let (low, rest) = locate(of(slot), rank);
        wanted[slot * DIGITS + low] = 1;
        (slot * DIGITS + low, rest)
    }))?;
    // before[k]: the elements taken from bins before k, in the order of the keys
    let mut before = fallible::filled(0u64, count * DIGITS)?;
    let mut taken = 0;
    for (k, &take) in wanted.iter().enumerate() {
        before[k] = taken;
        taken += u64::from(take) * second[k];
    }
    if taken as usize > n / 2 {
        return Ok(None);
    }
    let wanted_memory = cuda.allocate(count * DIGITS)?;
    cuda.upload(&wanted, &wanted_memory, 0)?;
    let found = cuda.allocate(taken as usize * dtype.size())?;
    let cursor = cuda.allocate(8)?;
    cuda.fill(cursor.address, 0, 8)?;
    let mut args = Args::new();
    args.push(from).push(n_i).push(slot_memory.address).push(count as u32).push(wanted_memory.address);
    args.push(found.address).push(cursor.address);
    launch("rank_take", count * DIGITS, &mut args)?;
    let (sorted, _) = sort::sort(cuda, &View::contiguous(found, dtype, taken as usize), false, false)?;
    let at: Vec<u8> =
        fallible::collected(within.iter().flat_map(|&(slot, rest)| ((before[slot] + rest) as i64).to_ne_bytes()))?;
    let positions = cuda.allocate(at.len())?;
    cuda.upload(&at, &positions, 0)?;
    let out = cuda.allocate(ranks.len() * dtype.size())?;
    gather::gather(cuda, &sorted, &View::contiguous(positions, DType::Int64, ranks.len()), ranks.len(), out.address)?;
    Ok(Some(Ranked { values: Some(View::contiguous(out, dtype, ranks.len())), missing }))
}
