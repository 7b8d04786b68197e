//! Orthonormal bases that grow by a column (`kernels/basis.cuh`). A new column takes three launches, or two in a
//! recurrence. The kernels are not prebuilt: NVRTC compiles them at their first use.

use crate::backend::basis::BasisStep;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use verdigris_ops::dtype::Class;
use verdigris_ops::error::Result;

const THREADS: usize = 256;
/// The fewest rows of a block, and the most blocks. Each block writes a partial sum for each column.
const ROWS: usize = 512;
const BLOCKS: usize = 512;

pub(crate) fn source(class: Class) -> String {
    let t = class.c_type();
    let kernel = "extern \"C\" __global__ void __launch_bounds__(THREADS)";
    format!(
        "#define THREADS {THREADS}\n#include \"basis.cuh\"\n\
         {kernel} project({t}* basis, i64 rows, i64 count, const {t}* vector, i64 near, i64 known, u32 subtract, i64 first, i64 last, const f64* products, f64* numbers, f64* partial, f64* out) {{\n  \
           basis_project<{t}>(basis, rows, count, vector, near, known, subtract, first, last, products, numbers, partial, out);\n}}\n\
         {kernel} finish({t}* basis, i64 rows, i64 count, i64 near, i64 from, const f64* products, const f64* again, f64* numbers, i64 at) {{\n  \
           basis_finish<{t}>(basis, rows, count, near, from, products, again, numbers, at);\n}}\n"
    )
}

/// See `Backend::extend_basis`.
pub fn extend(cuda: &Cuda, job: &BasisStep<'_>) -> Result<()> {
    let class = job.basis.dtype.class();
    let kernel = |name| cuda.kernel(&format!("basis/{class:?}/{name}"), || source(class), name);
    let project = kernel("project")?;
    let grid = job.rows.div_ceil(ROWS).clamp(1, BLOCKS);
    let (near, from, count) = (job.first_pass_from, job.second_pass_from, job.count);
    // the partial sums of blocks, then the products of the first pass, then those of the second
    let most = (count - near).max(count - from + 1);
    let scratch = cuda.allocate((most * grid + (count - near) + (count - from + 1)) * 8)?;
    let products = scratch.address + (most * grid * 8) as u64;
    let again = products + ((count - near) * 8) as u64;
    let shape = |kernel, args: &mut Args| cuda.launch(kernel, [grid as u32, 1, 1], [THREADS as u32, 1, 1], 0, args);
    let projected = |subtract: bool, columns: [usize; 2], out: u64| {
        let mut args = Args::new();
        args.push(job.basis.address()).push(job.rows as i64).push(count as i64).push(job.vector.address());
        args.push(near as i64).push(job.known_product.unwrap_or(0) as i64).push(u32::from(subtract));
        args.push(columns[0] as i64).push(columns[1] as i64).push(products).push(job.coefficients.address());
        args.push(scratch.address).push(out);
        shape(&project, &mut args)
    };
    if near < count {
        projected(false, [near, count], products)?;
    }
    projected(true, [from, count + 1], again)?;
    let mut args = Args::new();
    args.push(job.basis.address()).push(job.rows as i64).push(count as i64).push(near as i64).push(from as i64);
    args.push(products).push(again).push(job.coefficients.address()).push(job.out_offset as i64);
    shape(&kernel("finish")?, &mut args)
}
