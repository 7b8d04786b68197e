//! Cross products of separately stored columns (`kernels/gram.cuh`): one kernel passes over the rows, another adds the
//! sums of its blocks. They are not prebuilt: the kernels for a number of columns are compiled at their first use.

use std::sync::Arc;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::gram::{Gram, MOST_COLUMNS};
use crate::memory::buffer::Buffer;
use verdigris_ops::error::{Kind, Result};

const THREADS: usize = 256;
const WARP: usize = 32;
/// Columns in a tile of the product, and rows that a warp should have at least.
const EIGHT: usize = 8;
const ROWS: usize = 16;
/// The most blocks, each of which writes partial sums.
const BLOCKS: usize = 528;

/// The kernels for up to `8 * eights` columns.
pub(crate) fn source(eights: usize) -> String {
    let kernel = "extern \"C\" __global__ void __launch_bounds__(THREADS)";
    format!(
        "#define THREADS {THREADS}\n#define EIGHTS {eights}\n#include \"gram.cuh\"\n\
         {kernel} gram_rows(Columns columns, const f64* scale, u32 m, u32 scaled, i64 n, f64* partial) {{\n  \
           gram_sums(columns, scale, m, scaled, n, partial);\n}}\n\
         {kernel} gram_whole(const f64* partial, u32 blocks, u32 m, f64* out) {{\n  \
           gram_finish(partial, blocks, m, out);\n}}\n"
    )
}

/// See `Backend::gram`. False if there is no NVRTC.
pub fn gram(cuda: &Cuda, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool> {
    let m = job.columns.len();
    let eights = m.div_ceil(EIGHT);
    let pairs = eights * (eights + 1) / 2;
    let kernel = |name| cuda.kernel(&format!("gram/{eights}/{name}"), || source(eights), name);
    let [rows, whole] = match [kernel("gram_rows"), kernel("gram_whole")] {
        [Err(error), _] | [_, Err(error)] if error.kind == Kind::Library => return Ok(false),
        [rows, whole] => [rows?, whole?],
    };
    let blocks = job.rows.div_ceil(ROWS * THREADS / WARP).clamp(1, BLOCKS);
    let scratch = cuda.allocate(blocks * pairs * EIGHT * EIGHT * 8)?;
    let mut addresses = [[0; 8]; MOST_COLUMNS];
    addresses.iter_mut().zip(job.columns).for_each(|(to, column)| {
        *to = column.as_ref().map_or(0, |view| view.address()).to_ne_bytes();
    });
    let mut args = Args::new();
    args.push_bytes(addresses[..eights * EIGHT].as_flattened()).push(job.scale.map_or(0, |view| view.address()));
    args.push(m as u32).push(if job.scale.is_some() { job.scaled as u32 } else { 0 });
    args.push(job.rows as i64).push(scratch.address);
    cuda.launch(&rows, [blocks as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)?;
    let mut args = Args::new();
    args.push(scratch.address).push(blocks as u32).push(m as u32).push(output.address);
    cuda.launch(&whole, [pairs as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)?;
    Ok(true)
}
