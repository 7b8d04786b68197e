//! Cross products of separately stored columns (`kernels/gram.cuh`): one kernel passes over the rows, another adds the
//! sums of its blocks. They are not prebuilt: the kernels for a number of columns are compiled at their first use.

use std::sync::Arc;

use crate::backend::cuda::codegen::{self, parameters, Tiled, Variant, THREADS};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::{Args, Packed};
use crate::backend::cuda::tiers::choose;
use crate::backend::cuda::tiers::planned::KernelKind;
use crate::backend::gram::{Gram, PlannedGram, MOST_COLUMNS, MOST_SUMS};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::error::{Kind, Result};

const WARP: usize = 32;
/// Columns in a tile of the product, and rows that a warp should have at least.
const EIGHT: usize = 8;
const ROWS: usize = 32;
/// The most blocks, each of which writes partial sums.
const BLOCKS: usize = 264;
/// Entries of a tile of the product that a finishing block adds up: `PART` of gram.cuh.
const PART: usize = 8;
/// An upper bound of the bytes of shared memory that a kernel declares, besides the tiles.
const DECLARED: usize = 23 << 10;

/// The kernels for up to `8 * eights` columns, and `sums` columns to add up. `tiled`: whether warps
/// have tiles in shared memory.
pub(crate) fn source(eights: usize, sums: usize, tiled: bool) -> String {
    let kernel = format!("extern \"C\" __global__ void {}", codegen::gram::bounds(eights));
    format!(
        "#define THREADS {THREADS}\n#define EIGHTS {eights}\n#define SUMS {sums}\n#define TILED {tiled}\n\
         #include \"gram.cuh\"\n\
         {kernel} gram_rows(const __grid_constant__ Columns columns, Stored stored, u32 m, u32 scaled, i64 n, \
         f64* partial) {{\n  extern __shared__ f64 tiles[];\n  gram_sums(columns, stored, m, scaled, n, tiles, partial);\n}}\n\
         {kernel} gram_whole(const f64* partial, u32 blocks, u32 m, f64* out) {{\n  \
         gram_finish(partial, blocks, m, out);\n}}\n",
        tiled = u8::from(tiled)
    )
}

/// How the kernels share the work.
struct Work {
    eights: usize,
    /// Bytes of shared memory for the tiles of a block; 0 if there are none.
    shared: usize,
    /// Blocks that pass over the rows, and blocks that add up their sums.
    blocks: usize,
    finishing: usize,
    /// Bytes of the partial sums.
    scratch: usize,
}

impl Work {
    fn of(cuda: &Cuda, columns: usize, rows: usize, sums: usize) -> Work {
        let eights = columns.div_ceil(EIGHT).max(1);
        let pairs = eights * (eights + 1) / 2;
        let blocks = rows.div_ceil(ROWS * THREADS / WARP).clamp(1, BLOCKS);
        let scratch = blocks * (pairs * EIGHT * EIGHT + sums) * 8;
        // `TILE` of gram.cuh, for each warp
        let tiles = eights * EIGHT * WARP * 8 * (THREADS / WARP);
        let shared = if tiles + DECLARED <= cuda.properties.shared as usize { tiles } else { 0 };
        let finishing = pairs * (EIGHT * EIGHT / PART) + usize::from(sums > 0);
        Work { eights, shared, blocks, finishing, scratch }
    }
}

/// The addresses of columns, 0 for a column of ones: `struct Columns`.
fn addresses(columns: &[Option<View>]) -> [[u8; 8]; MOST_COLUMNS] {
    let mut addresses = [[0; 8]; MOST_COLUMNS];
    addresses.iter_mut().zip(columns).for_each(|(to, column)| {
        *to = column.as_ref().map_or(0, |view| view.address()).to_ne_bytes();
    });
    addresses
}

/// See `Backend::gram`. False if there is no NVRTC.
pub fn gram(cuda: &Cuda, job: &Gram<'_>, output: &Arc<Buffer>) -> Result<bool> {
    let (m, sums) = (job.columns.len(), job.sums.len());
    let work = Work::of(cuda, m, job.rows, sums);
    let (eights, tiled) = (work.eights, work.shared > 0);
    let kernel = |name| cuda.kernel(&format!("gram/{eights}/{sums}"), || source(eights, sums, tiled), name);
    let [rows, whole] = match [kernel("gram_rows"), kernel("gram_whole")] {
        [Err(error), _] | [_, Err(error)] if error.kind == Kind::Library => return Ok(false),
        [rows, whole] => [rows?, whole?],
    };
    cuda.allow_dynamic_shared(&rows, work.shared as u32)?;
    let scratch = cuda.allocate(work.scratch)?;
    // `struct Stored`
    let mut stored = [[0; 8]; 1 + MOST_SUMS];
    let views = std::iter::once(job.scale).chain(job.sums.iter().map(Some));
    stored.iter_mut().zip(views).for_each(|(to, view)| *to = view.map_or(0, |view| view.address()).to_ne_bytes());
    let mut args = Args::new();
    args.push_bytes(addresses(job.columns)[..eights * EIGHT].as_flattened())
        .push_bytes(stored[..1 + sums.max(1)].as_flattened());
    args.push(m as u32).push(if job.scale.is_some() { job.scaled as u32 } else { 0 });
    args.push(job.rows as i64).push(scratch.address);
    cuda.launch(&rows, [work.blocks as u32, 1, 1], [THREADS as u32, 1, 1], work.shared as u32, &mut args)?;
    let mut args = Args::new();
    args.push(scratch.address).push(work.blocks as u32).push(m as u32).push(output.address);
    cuda.launch(&whole, [work.finishing as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)?;
    Ok(true)
}

/// See `Backend::planned_gram`.
pub fn planned(cuda: &Cuda, job: &PlannedGram<'_>, stored: [&Arc<Buffer>; 2], output: &Arc<Buffer>) -> Result<bool> {
    if job.input as usize >= Tiled::MOST || job.rights > EIGHT {
        return Ok(false);
    }
    let (m, scaled) = (job.columns.len() + job.rights, job.columns.len());
    let work = Work::of(cuda, m, job.bound.n, job.plan.outputs.len() - 1 - job.rights);
    let (eights, rights) = (work.eights as u8, job.rights as u8);
    let how = KernelKind::Gram { eights, rights, input: job.input, shared: work.shared as u32 };
    // like a tiled input, the predictor is not loaded by `fetch`
    let tiled = Tiled { inputs: 1 << job.input, axis: 0 };
    let variant = Variant { tiled, ..parameters::fit(job.plan, job.bound, 1, &[]).0 };
    let Some(planned) = choose::kernel(cuda, job.plan, job.bound.n, how, variant)? else { return Ok(false) };
    let scratch = cuda.allocate(work.scratch)?;
    // `struct GramJob`
    let mut params = Packed::default();
    params.u64(job.bound.n as u64);
    params.u64(scratch.address);
    params.u64(output.address);
    params.u64(job.before.map_or(0, |view| view.address()));
    stored.iter().for_each(|buffer| params.u64(buffer.address));
    [m, scaled, job.by.len(), work.blocks].iter().for_each(|&count| params.u32(count as u32));
    params.field(addresses(job.columns)[..work.eights * EIGHT].as_flattened(), 8);
    let mut by = [[0; 8]; MOST_COLUMNS];
    by.iter_mut().zip(job.by).for_each(|(to, by)| *to = by.to_ne_bytes());
    params.field(by[..work.eights * EIGHT].as_flattened(), 8);
    let grids = [work.blocks as u32, work.finishing as u32];
    planned.launch_both(cuda, job.plan, job.bound, variant, &[], &params, grids)?;
    Ok(true)
}
