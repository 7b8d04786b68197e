//! First positions of distinct elements on the device, by a hash table; the kernels are in `kernels/unique.cuh`.

use super::sort;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Kind, Result};

/// `THREADS` in unique.cuh.
const THREADS: usize = 256;
/// Slots of the hash table that is tried first, which stays in the L2 cache, and of the largest.
const FIRST: usize = 1 << 21;
const LARGEST: usize = 1 << 26;
/// The largest range of integers for which a table indexed by value is used.
const NEAR: usize = 1 << 24;

fn whole(dtype: DType) -> bool {
    matches!(dtype, DType::Int32 | DType::Int64)
}

pub(crate) fn source(dtype: DType) -> String {
    let key = sort::key_type(dtype);
    let head = format!("extern \"C\" __global__ void __launch_bounds__({THREADS})");
    let mut text = format!(
        "#include \"unique.cuh\"\ntypedef {key} Key;\n\
         {head} unique_insert(const Key::T* in, i64 n, Slot<Key::K>* slots, u32 mask, u32* full) {{ insert_all<Key>(in, n, slots, mask, full); }}\n\
         {head} unique_collect(const Slot<Key::K>* slots, u32 size, u32* cursor, i32* out) {{ collect_positions(slots, size, cursor, out); }}\n"
    );
    if whole(dtype) {
        let t = dtype.c_type();
        text += &format!(
            "{head} near_insert(const {t}* in, i64 n, i64 low, u32 bins, u32* first) {{ first_of_each(in, n, low, bins, first); }}\n\
             {head} near_collect(const u32* first, u32 size, u32* cursor, i32* out) {{ collect_positions(first, size, cursor, out); }}\n"
        );
    }
    text
}

/// See `Backend::firsts`. Waits for the number of positions.
pub fn firsts(cuda: &Cuda, values: &View, between: Option<(i64, i64)>) -> Result<Option<View>> {
    let (n, dtype) = (values.len(), values.dtype);
    if n == 0 || n > i32::MAX as usize {
        return Ok(None);
    }
    let module = cuda.module(&format!("unique/{dtype}"), || source(dtype))?;
    let blocks = |kernel, n: usize| -> Result<[u32; 3]> {
        let wave = cuda.wave(kernel, THREADS as u32, 0)?;
        Ok([n.div_ceil(THREADS * 4).clamp(1, wave) as u32, 1, 1])
    };
    let threads = [THREADS as u32, 1, 1];
    // two words: whether the table is full, and the number of positions
    let state = cuda.allocate(8)?;
    let counted = |collect, table: &Buffer, size: usize, out: u64| -> Result<()> {
        let mut args = Args::new();
        args.push(table.address).push(size as u32).push(state.address + 4).push(out);
        cuda.launch(collect, blocks(collect, size)?, threads, 0, &mut args)
    };
    let collected = |collect, table: &Buffer, size: usize| -> Result<Option<View>> {
        counted(collect, table, size, 0)?;
        let mut found = [0u8; 8];
        cuda.download(&state, 0, &mut found)?;
        let [full, count] = [0, 4].map(|at| u32::from_ne_bytes(found[at..at + 4].try_into().expect("four bytes")));
        if full != 0 {
            return Ok(None);
        }
        let positions = cuda.allocate(count as usize * 4)?;
        cuda.fill(state.address, 0, 8)?;
        counted(collect, table, size, positions.address)?;
        let positions = View::contiguous(positions, DType::Int32, count as usize);
        sort::sort(cuda, &positions, false, false).map(|(positions, _)| Some(positions))
    };
    let span = between
        .filter(|_| whole(dtype))
        .and_then(|(low, high)| Some((low, usize::try_from(high.checked_sub(low)?).ok()? + 1)));
    if let Some((low, bins)) = span.filter(|&(_, bins)| bins <= NEAR.min(4 * n + 4096)) {
        let (insert, collect) = (cuda.function(&module, "near_insert")?, cuda.function(&module, "near_collect")?);
        let first = cuda.allocate(bins * 4)?;
        cuda.fill(first.address, 0xFF, first.bytes)?;
        cuda.fill(state.address, 0, 8)?;
        let mut args = Args::new();
        args.push(values.address()).push(n as i64).push(low).push(bins as u32).push(first.address);
        cuda.launch(&insert, blocks(&insert, n)?, threads, 0, &mut args)?;
        return collected(&collect, &first, bins);
    }
    let (insert, collect) = (cuda.function(&module, "unique_insert")?, cuda.function(&module, "unique_collect")?);
    // at most half full even if all elements are distinct, unless that needs more than the largest table
    let enough = (2 * n).next_power_of_two().min(LARGEST);
    let mut size = FIRST.min(enough);
    loop {
        let slots = match cuda.allocate(size * 2 * dtype.size()) {
            Err(error) if error.kind == Kind::Memory => return Ok(None),
            slots => slots?,
        };
        cuda.fill(slots.address, 0xFF, slots.bytes)?;
        cuda.fill(state.address, 0, 8)?;
        let mut args = Args::new();
        args.push(values.address()).push(n as i64).push(slots.address).push(size as u32 - 1).push(state.address);
        cuda.launch(&insert, blocks(&insert, n)?, threads, 0, &mut args)?;
        let positions = collected(&collect, &slots, size)?;
        if positions.is_some() || size == enough {
            return Ok(positions);
        }
        size = (size * 8).min(enough);
    }
}
