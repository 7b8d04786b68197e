//! Gather and scatter on the device; the kernels are in `kernels/gather.cuh`.

use std::sync::Arc;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::{Args, Kernel};
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Access, Bound, Instruction, Plan};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

const THREADS: u32 = 256;

/// The C type that moves elements of a size.
fn mover(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "b16",
    }
}

/// A grid for `n` elements of at most 32 blocks a multiprocessor; the kernels have grid-stride loops.
fn grid(cuda: &Cuda, n: usize) -> [u32; 3] {
    let most = cuda.properties.multiprocessors as usize * 32;
    [n.div_ceil(THREADS as usize).clamp(1, most) as u32, 1, 1]
}

pub(crate) fn gather_source(size: usize) -> String {
    let t = mover(size);
    format!(
        "#include \"gather.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) gather_{size}(const {t}* source, i64 m, const i64* at, i64 n, {t} na, {t}* out) {{\n  \
           gather<{t}>(source, m, at, n, na, out);\n}}\n"
    )
}

/// Source and positions of a plan that is a gather alone, from memory and by positions in memory. The prebuilt kernel
/// for the elements' size serves such a plan.
pub(crate) fn gathers<'a>(plan: &Plan, bound: &'a Bound) -> Option<(&'a View, &'a View)> {
    let ([Instruction::Load(at), Instruction::Gather { input, at: 0 }], [(1, dtype)]) =
        (&plan.code[..], &plan.outputs[..])
    else {
        return None;
    };
    let (positions, source) = (&bound.inputs[*at as usize], &bound.inputs[*input as usize]);
    let is_linear = plan.inputs[*at as usize].access == Access::Linear;
    (is_linear && source.dtype == *dtype).then_some((source, positions))
}

/// Queues a gather by the first `n` positions; NA for positions out of bounds.
pub(crate) fn gather(cuda: &Cuda, source: &View, positions: &View, n: usize, output: u64) -> Result<()> {
    let size = source.dtype.size();
    if n == 0 {
        return Ok(());
    }
    let kernel = cuda.kernel(&format!("gather/{size}"), || gather_source(size), &format!("gather_{size}"))?;
    let mut args = Args::new();
    args.push(source.address()).push(source.len() as i64).push(positions.address()).push(n as i64);
    args.push_bytes(source.dtype.na_bytes()).push(output);
    cuda.launch(&kernel, grid(cuda, n.div_ceil(4)), [THREADS, 1, 1], 0, &mut args)
}

/// `wide`: whether there are more positions than 32 bits can number.
pub(crate) fn scatter_source(size: usize, wide: bool) -> String {
    let (t, w) = (mover(size), if wide { "u64" } else { "u32" });
    let head = format!("extern \"C\" __global__ void __launch_bounds__({THREADS})");
    format!(
        "#include \"gather.cuh\"\n\
         {head} check(const i64* at, i64 count, u32* equal) {{ scatter_check(at, count, equal); }}\n\
         {head} clear({w}* winner, i64 n, const u32* equal) {{ scatter_clear<{w}>(winner, n, equal); }}\n\
         {head} claim(const i64* at, i64 count, {w}* winner, i64 n, const u32* equal) {{ scatter_claim<{w}>(at, count, winner, n, equal); }}\n\
         {head} scatter_{size}({t}* target, i64 n, const i64* at, i64 count, const {t}* values, i64 length, const {w}* winner, const u32* equal) {{\n  \
           scatter_write<{t}, {w}>(target, n, at, count, values, length, winner, equal);\n}}\n"
    )
}

/// See `Backend::scatter`.
pub fn scatter(
    cuda: &Cuda,
    target: &Arc<Buffer>,
    dtype: DType,
    n: usize,
    positions: &View,
    values: &View,
) -> Result<()> {
    let (count, size, length) = (positions.len(), dtype.size(), values.len());
    if count == 0 || n == 0 || length == 0 {
        return Ok(());
    }
    let wide = count >= u32::MAX as usize;
    let module = cuda.module(&format!("scatter/{size}/{wide}"), || scatter_source(size, wide))?;
    let launch = |name: &str, n: usize, args: &mut Args| -> Result<()> {
        let kernel: Arc<Kernel> = cuda.function(&module, name)?;
        cuda.launch(&kernel, grid(cuda, n), [THREADS, 1, 1], 0, args)
    };
    let (at, count_i) = (positions.address(), count as i64);
    // dropped when this returns, but freed in stream order, after the kernels
    let mut scratch: Option<(Arc<Buffer>, Arc<Buffer>)> = None;
    if length > 1 && count > 1 {
        let equal = cuda.allocate(4)?;
        let winner = cuda.allocate(n * if wide { 8 } else { 4 })?;
        cuda.fill(equal.address, 0, 4)?;
        launch("check", count, Args::new().push(at).push(count_i).push(equal.address))?;
        launch("clear", n, Args::new().push(winner.address).push(n as i64).push(equal.address))?;
        launch(
            "claim",
            count,
            Args::new().push(at).push(count_i).push(winner.address).push(n as i64).push(equal.address),
        )?;
        scratch = Some((equal, winner));
    }
    let (equal, winner) = scratch.as_ref().map_or((0, 0), |(equal, winner)| (equal.address, winner.address));
    let mut args = Args::new();
    args.push(target.address).push(n as i64).push(at).push(count_i);
    args.push(values.address()).push(length as i64).push(winner).push(equal);
    launch(&format!("scatter_{size}"), count, &mut args)
}
