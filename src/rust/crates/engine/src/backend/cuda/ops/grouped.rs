//! Counts of integer values, and reductions by group, on the device. A code (from 1) gives the group of each element.
//! The kernels are in `kernels/grouped.cuh`.

use std::sync::Arc;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;
use verdigris_ops::tree;

/// Threads of a block that counts.
const THREADS: usize = 512;
/// A block keeps several copies of its counts, against contention, up to this many bytes.
const COPIES: usize = 16 << 10;
/// The most warps of a block that reduces.
const WARPS: usize = 8;

/// Whether `count` takes elements of this dtype.
pub(crate) fn counts(dtype: DType) -> bool {
    !dtype.is_half() && dtype.kind() != Kind::Complex
}

/// Whether `reduce` has kernels for this reduction and class.
pub(crate) fn serves(reduction: Reduction, class: Class) -> bool {
    reduction.serves(class) && !matches!(class, Class::C64 | Class::C128)
}

pub(crate) fn count_source(dtype: DType) -> String {
    let t = dtype.c_type();
    format!(
        "#include \"grouped.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) count_bins_{dtype}(const {t}* in, i64 n, i64 low, u32 bins, u32 copies, u64* out) {{\n  \
           extern __shared__ u32 shared[];\n  \
           count_bins<{t}>(in, n, low, bins, copies, out, shared);\n}}\n"
    )
}

/// See `Backend::count_bins`.
pub fn count(cuda: &Cuda, values: &View, low: i64, bins: usize) -> Result<Arc<Buffer>> {
    let (n, dtype) = (values.len(), values.dtype);
    let out = cuda.allocate((bins + 1) * 8)?;
    cuda.fill(out.address, 0, out.bytes)?;
    if n == 0 {
        return Ok(out);
    }
    let kernel = cuda.kernel(&format!("count/{dtype}"), || count_source(dtype), &format!("count_bins_{dtype}"))?;
    let one = (bins + 1) * 4;
    let copies = if one > cuda.properties.shared as usize {
        0
    } else {
        let most = (COPIES / one).clamp(1, 16);
        1usize << most.ilog2()
    };
    let shared = one * copies;
    let wave = cuda.wave(&kernel, THREADS as u32, shared as u32)?;
    let blocks = n.div_ceil(THREADS * 16).clamp(1, wave) as u32;
    let mut args = Args::new();
    args.push(values.address()).push(n as i64).push(low).push(bins as u32).push(copies as u32).push(out.address);
    cuda.launch(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], shared as u32, &mut args)?;
    Ok(out)
}

pub(crate) fn reduce_source(reduction: Reduction, class: Class, na_rm: bool) -> String {
    let t = class.c_type();
    let threads = WARPS * 32;
    format!(
        "#include \"grouped.cuh\"\ntypedef {}<{t}> A;\ntypedef A::value V;\n\
         extern \"C\" __global__ void __launch_bounds__({threads}) reduce_coded(const {t}* x, const i32* codes, i64 n, u32 blocks, u32 groups, u32 bits, i64 each, A* parts, A* far) {{\n  \
           extern __shared__ u64 shared[];\n  \
           A* const tables = far ? far + (u64)blockIdx.x * (blockDim.x / 32) * groups : (A*)shared;\n  \
           reduce_by_code<A, {t}, {na_rm}>(x, codes, n, blocks, groups, bits, each, parts, tables);\n}}\n\
         extern \"C\" __global__ void __launch_bounds__({threads}) finish_coded(const A* parts, u32 columns, u32 groups, u32 blocks, u32 each, V* out) {{\n  \
           finish_by_code<A>(parts, columns, groups, blocks, each, out);\n}}\n\
         static_assert(sizeof(A) == {}, \"the size that backend/cuda/ops/grouped.rs allocates for\");\n",
        reduction.accumulator(),
        accumulator_bytes(reduction, class)
    )
}

/// The size of an accumulator of `reduce.h`, in bytes; the source asserts it.
const fn accumulator_bytes(reduction: Reduction, class: Class) -> usize {
    match (reduction, class) {
        (Reduction::Sum, Class::F64 | Class::I64) => 24,
        (Reduction::Sum, Class::F32) => 8,
        (Reduction::Sum, _) => 16,
        (Reduction::Mean, Class::F64) => 32,
        (Reduction::Mean, _) => 16,
        (Reduction::Min | Reduction::Max, Class::I32 | Class::F32) => 12,
        (Reduction::Min | Reduction::Max, _) => 16,
        (Reduction::Var, Class::F32) => 32,
        (Reduction::Var, _) => 56,
        _ => 32,
    }
}

/// The most bytes of a launch's tables, one for each of its blocks: more columns are reduced by several launches.
const PARTS: usize = 256 << 20;

/// See `Backend::reduce_coded`. `None` also if there are no groups or no elements.
pub fn reduce(
    cuda: &Cuda,
    values: &View,
    codes: &View,
    groups: usize,
    reduction: Reduction,
    na_rm: bool,
) -> Result<Option<Arc<Buffer>>> {
    let (n, class) = (codes.len(), values.dtype.class());
    let columns = values.len().checked_div(n).unwrap_or(0);
    debug_assert_eq!(values.dtype, natural_dtype(class));
    let size = accumulator_bytes(reduction, class);
    let table = groups * size;
    let most = cuda.properties.shared as usize;
    if table > tree::MOST_CODED || groups == 0 || columns == 0 {
        return Ok(None);
    }
    // each warp has a table in shared memory: as many warps as have tables that fit, a power of two; if not even one
    // fits, tables are in global memory
    let (warps, shared) = match most / table {
        0 => (WARPS, 0),
        few if few < 2 * WARPS => (1 << few.min(WARPS).ilog2(), 1),
        _ => (WARPS, 1),
    };
    let shared = shared * warps * table;
    let source = || reduce_source(reduction, class, na_rm);
    let module = cuda.module(&format!("coded/{}/{class:?}/{na_rm}", reduction.accumulator()), source)?;
    let kernel = cuda.function(&module, "reduce_coded")?;
    let threads = (warps * 32) as u32;
    cuda.allow_dynamic_shared(&kernel, shared as u32)?;
    let each = tree::chunk(n, groups);
    let blocks = n.div_ceil(each).div_ceil(warps);
    let at_once = (PARTS / (blocks * table)).clamp(1, columns);
    let parts = cuda.allocate(at_once * blocks * table)?;
    // only on cards with less shared memory than an H100
    let far = if shared == 0 { Some(cuda.allocate(at_once * blocks * warps * table)?) } else { None };
    let bits = usize::BITS - groups.leading_zeros();
    let size = reduction.result(class).size();
    let out = cuda.allocate(columns * groups * size)?;
    let finish = cuda.function(&module, "finish_coded")?;
    let parts_of_lane = blocks.div_ceil(32).next_power_of_two() as u32;
    for first in (0..columns).step_by(at_once) {
        let count = at_once.min(columns - first);
        let from = values.address() + (first * n * values.dtype.size()) as u64;
        let mut args = Args::new();
        args.push(from).push(codes.address()).push(n as i64).push(blocks as u32).push(groups as u32).push(bits);
        args.push(each as i64).push(parts.address).push(far.as_ref().map_or(0, |far| far.address));
        cuda.launch(&kernel, [(count * blocks) as u32, 1, 1], [threads, 1, 1], shared as u32, &mut args)?;
        let mut args = Args::new();
        args.push(parts.address).push(count as u32).push(groups as u32).push(blocks as u32).push(parts_of_lane);
        args.push(out.address + (first * groups * size) as u64);
        let grid = [(count * groups).div_ceil(WARPS) as u32, 1, 1];
        cuda.launch(&finish, grid, [(WARPS * 32) as u32, 1, 1], 0, &mut args)?;
    }
    Ok(Some(out))
}
