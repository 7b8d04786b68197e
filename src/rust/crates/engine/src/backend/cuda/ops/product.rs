//! Products of small matrices by a kernel of this package (`kernels/product.cuh`), so that they do not wait until
//! cuBLAS is loaded.

use super::blas::fits_as;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::dense::{Matrix, Precision, Product};
use crate::memory::buffer::Buffer;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;

/// `TILE` and `MOST_INNER` in product.cuh.
const TILE: usize = 16;
const MOST: usize = 64;

/// The classes with a prebuilt kernel. For others, loading cuBLAS takes less time than compiling a kernel.
pub(crate) const CLASSES: [Class; 2] = [Class::F32, Class::F64];

pub(crate) fn source(class: Class) -> String {
    let t = class.c_type();
    format!(
        "#include \"product.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({}) product_{t}(const {t}* a, const {t}* b, {t}* out, i32 m, \
         i32 n, i32 k, i64 a_down, i64 a_across, i64 b_down, i64 b_across) {{\n  \
           small_product<{t}>(a, b, out, m, n, k, a_down, a_across, b_down, b_across);\n}}\n",
        TILE * TILE
    )
}

pub(crate) fn name(class: Class) -> String {
    format!("product {class:?}").to_lowercase()
}

/// Elements from one row to the next, and from one column to the next.
fn strides(matrix: &Matrix) -> [i64; 2] {
    let leading = matrix.leading as i64;
    if matrix.transposed {
        [leading, 1]
    } else {
        [1, leading]
    }
}

/// Queues the product if no extent is above 64. False if it is not served, with nothing done.
pub fn multiply(cuda: &Cuda, product: &Product<'_>, output: &Buffer) -> Result<bool> {
    let &Product { a, b, m, n, k, batch, upper, precision, .. } = product;
    let dtype = a.view.dtype;
    let served = matches!(dtype, DType::Float32 | DType::Float64);
    let rounded = precision != Precision::Float32;
    if !served || rounded || upper || batch.count != 1 || m.max(n).max(k) > MOST || m.min(n).min(k) == 0 {
        return Ok(false);
    }
    // `blas::multiply` reports wrong extents and dtypes
    let whole = fits_as(a, m, k, 1, 0) && fits_as(b, k, n, 1, 0) && output.bytes == m * n * dtype.size();
    if b.view.dtype != dtype || !whole {
        return Ok(false);
    }
    let class = dtype.class();
    let kernel =
        cuda.kernel(&format!("dense/{}", name(class)), || source(class), &format!("product_{}", class.c_type()))?;
    let mut args = Args::new();
    args.push(a.view.address()).push(b.view.address()).push(output.address);
    args.push(m as i32).push(n as i32).push(k as i32);
    let ([a_down, a_across], [b_down, b_across]) = (strides(a), strides(b));
    args.push(a_down).push(a_across).push(b_down).push(b_across);
    let grid = [m.div_ceil(TILE) as u32, n.div_ceil(TILE) as u32, 1];
    cuda.launch(&kernel, grid, [(TILE * TILE) as u32, 1, 1], 0, &mut args)?;
    Ok(true)
}
