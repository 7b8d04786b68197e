//! Batches of small matrices, each computed by a team of threads: some lanes of a warp, a warp, or a block. The kernels
//! are in `kernels/dense.cuh`.

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::dense::BatchedFactoring;
use verdigris_ops::dense::Factoring;
use verdigris_ops::dtype::Class;
use verdigris_ops::error::{Error, Kind, Result};

/// The most rows and the most columns of a matrix.
pub const MOST: usize = 64;
/// `DENSE_THREADS` in dense.cuh.
const THREADS: usize = 128;
/// Threads of a team, and the most rows and columns for which that team is used.
pub(crate) const TEAMS: [(usize, usize); 3] = [(8, 8), (32, 32), (THREADS, MOST)];
/// An upper bound of the bytes of shared memory that the kernels declare.
const DECLARED: usize = 1 << 10;
/// Bytes of global memory for teams whose matrices do not fit shared memory.
const WORK: usize = 256 << 20;

pub(crate) fn source(factoring: Factoring, class: Class, lanes: usize) -> String {
    let (name, t) = (factoring.name(), class.c_type());
    format!(
        "#include \"dense.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) dense_{t}(const __grid_constant__ DenseJob job) {{\n  \
           extern __shared__ u64 memory[];\n  \
           dense<{name}, {t}, {lanes}>(job, ({t}*)memory);\n}}\n"
    )
}

pub(crate) fn name(factoring: Factoring, class: Class, lanes: usize) -> String {
    format!("{factoring:?} {class:?} {lanes}").to_lowercase()
}

/// See `Backend::factor_batch`. Waits for the status.
pub fn factor_batch(cuda: &Cuda, batch: &BatchedFactoring<'_>) -> Result<Option<usize>> {
    let extent = batch.m.max(batch.n);
    if !batch.fits() || extent > MOST {
        return Err(Error::new(Kind::Shape, "many matrices were given memory of another size"));
    }
    let (class, size) = (batch.a.dtype.class(), batch.a.dtype.size());
    let most = (cuda.properties.shared as usize).saturating_sub(DECLARED);
    // right-hand sides are kept with the matrix if both fit shared memory, else in the result's memory
    let shapes = |columns: usize| {
        TEAMS.into_iter().filter(|&(_, served)| extent <= served).map(move |(lanes, _)| (lanes, columns))
    };
    let solves = batch.factoring == Factoring::Solve;
    let bytes = |&(lanes, columns): &(usize, usize)| {
        batch.factoring.workspace_len(batch.m, batch.n, columns, true) * size * (THREADS / lanes)
    };
    let columns = if solves { batch.columns } else { 0 };
    let within = |shape: &(usize, usize)| bytes(shape) <= most;
    let shape = shapes(columns).find(within).or_else(|| shapes(0).find(within));
    let (lanes, columns) = shape.unwrap_or((THREADS, 0));
    let workspace = batch.factoring.workspace_len(batch.m, batch.n, columns, true);
    let shared = if shape.is_some() { bytes(&(lanes, columns)) } else { 0 };
    let module = cuda
        .module(&format!("dense/{}", name(batch.factoring, class, lanes)), || source(batch.factoring, class, lanes))?;
    let kernel = cuda.function(&module, &format!("dense_{}", class.c_type()))?;
    cuda.allow_dynamic_shared(&kernel, shared as u32)?;
    let first = cuda.allocate(4)?;
    cuda.fill(first.address, 0, 4)?;
    let mut job = batch.job();
    job.first = first.address;
    job.room = workspace as i32;
    job.within = i32::from(solves && columns == batch.columns);
    let each = if shape.is_some() { batch.count } else { (WORK / (workspace * size)).clamp(1, batch.count) };
    let work = cuda.allocate(if shape.is_some() { 0 } else { each * workspace * size })?;
    job.work = if shape.is_some() { 0 } else { work.address };
    for from in (0..batch.count).step_by(each) {
        job.from = from as i64;
        job.to = (from + each).min(batch.count) as i64;
        let blocks = (job.to as usize - from).div_ceil(THREADS / lanes) as u32;
        let mut args = Args::new();
        args.push_bytes(job.bytes());
        cuda.launch(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], shared as u32, &mut args)?;
    }
    let mut bytes = [0u8; 4];
    cuda.download(&first, 0, &mut bytes)?;
    let before_end = u32::from_ne_bytes(bytes) as usize;
    Ok((before_end > 0).then(|| batch.count - before_end))
}
