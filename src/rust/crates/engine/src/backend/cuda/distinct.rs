//! First places of distinct elements on the device, by a hash table; the kernels are in `kernels/distinct.cuh`.

use super::{sort, Args, Cuda};
use crate::buffer::View;
use crate::dtype::DType;
use crate::error::{Kind, Result};

/// `THREADS` in distinct.cuh.
const THREADS: usize = 256;
/// Slots of the table that is tried first, which stays in the second-level cache, and of the largest.
const FIRST: usize = 1 << 21;
const LARGEST: usize = 1 << 26;

pub(super) fn source(dtype: DType) -> String {
    let head = format!("extern \"C\" __global__ void __launch_bounds__({THREADS})");
    format!(
        "#include \"distinct.cuh\"\ntypedef Key_{dtype} Key;\n\
         {head} distinct_insert(const Key::T* in, i64 n, Slot<Key::K>* slots, u32 mask, u32 by_digits, u32* full) {{ insert_all<Key>(in, n, slots, mask, by_digits, full); }}\n\
         {head} distinct_collect(const Slot<Key::K>* slots, u32 size, u32* cursor, i32* out) {{ collect_places<Key::K>(slots, size, cursor, out); }}\n"
    )
}

/// The places (int32, from 0, in order) where each known value stands first; None where a sort serves better.
pub fn firsts(cuda: &Cuda, values: &View) -> Result<Option<View>> {
    let (n, dtype) = (values.len(), values.dtype);
    if n == 0 || n > i32::MAX as usize {
        return Ok(None);
    }
    let module = cuda.module(&format!("distinct/{dtype}"), || source(dtype))?;
    let (insert, collect) = (cuda.function(&module, "distinct_insert")?, cuda.function(&module, "distinct_collect")?);
    let wave = cuda.wave(&insert, THREADS as u32, 0)?;
    let blocks = |n: usize| [n.div_ceil(THREADS * 4).clamp(1, wave) as u32, 1, 1];
    // a table half full at most, or large enough for the distinct elements that there may well be
    let enough = (2 * n).next_power_of_two().min(LARGEST);
    let mut size = FIRST.min(enough);
    // whole numbers are often near each other; where they are not, the table seems full soon
    let mut by_digits = matches!(dtype, DType::Int32 | DType::Int64);
    loop {
        let slots = match cuda.allocate(size * 2 * dtype.size()) {
            Err(error) if error.kind == Kind::Memory => return Ok(None),
            slots => slots?,
        };
        cuda.fill(slots.address, 0xFF, slots.bytes)?;
        // whether the table is full, and how many keys it has
        let state = cuda.allocate(8)?;
        cuda.fill(state.address, 0, 8)?;
        let mut args = Args::new();
        args.push(values.address())
            .push(n as i64)
            .push(slots.address)
            .push(size as u32 - 1)
            .push(by_digits as u32)
            .push(state.address);
        cuda.launch(&insert, blocks(n), [THREADS as u32, 1, 1], 0, &mut args)?;
        let mut args = Args::new();
        args.push(slots.address).push(size as u32).push(state.address + 4).push(0u64);
        cuda.launch(&collect, blocks(size), [THREADS as u32, 1, 1], 0, &mut args)?;
        let mut found = [0u8; 8];
        cuda.download(&state, 0, &mut found)?;
        let [full, count] = [0, 4].map(|at| u32::from_ne_bytes(found[at..at + 4].try_into().expect("four bytes")));
        if full == 0 {
            let places = cuda.allocate(count as usize * 4)?;
            cuda.fill(state.address, 0, 8)?;
            let mut args = Args::new();
            args.push(slots.address).push(size as u32).push(state.address + 4).push(places.address);
            cuda.launch(&collect, blocks(size), [THREADS as u32, 1, 1], 0, &mut args)?;
            let places = View::contiguous(places, DType::Int32, count as usize);
            return sort::sort(cuda, &places, false, false).map(|(places, _)| Some(places));
        }
        if std::mem::take(&mut by_digits) {
            continue;
        }
        if size == enough {
            return Ok(None);
        }
        size = (size * 8).min(enough);
    }
}
