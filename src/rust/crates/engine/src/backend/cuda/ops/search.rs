//! Binary search in a sorted table, on the device; the kernel is in `kernels/search.cuh`.

use std::sync::Arc;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::Class;
use verdigris_ops::error::Result;

const THREADS: u32 = 256;
/// `PIECES` in search.cuh.
const PIECES: usize = 2048;

pub(crate) fn source(class: Class, strictly: bool) -> String {
    let t = class.c_type();
    format!(
        "#include \"search.cuh\"\n\
         extern \"C\" __global__ void __launch_bounds__({THREADS}) search_{t}(const {t}* x, i64 n, const {t}* table, i64 m, i64 piece, i32* out) {{\n  \
           search<{t}, {strictly}>(x, n, table, m, piece, out);\n}}\n"
    )
}

/// See `Backend::search`.
pub fn search(cuda: &Cuda, values: &View, table: &View, strictly: bool) -> Result<Arc<Buffer>> {
    let (n, m, class) = (values.len(), table.len(), values.dtype.class());
    let out = cuda.allocate(n * 4)?;
    if n > 0 {
        let t = class.c_type();
        let kernel =
            cuda.kernel(&format!("search/{t}/{strictly}"), || source(class, strictly), &format!("search_{t}"))?;
        let wave = cuda.wave(&kernel, THREADS, 0)?;
        let blocks = n.div_ceil(THREADS as usize * 4).clamp(1, wave) as u32;
        let mut args = Args::new();
        args.push(values.address()).push(n as i64).push(table.address()).push(m as i64);
        args.push(m.div_ceil(PIECES).max(1) as i64).push(out.address);
        cuda.launch(&kernel, [blocks, 1, 1], [THREADS, 1, 1], 0, &mut args)?;
    }
    Ok(out)
}
