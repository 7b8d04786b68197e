//! Batches of small matrices on the cpu device; each task handles a few.

use std::sync::atomic::{AtomicBool, Ordering};

use super::gather::elements;
use crate::backend::dense::{BatchedFactoring, LARGEST};
use crate::memory::buffer::View;
use crate::memory::fallible;
use verdigris_ops::dense::{Factoring, Job};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::loops::FACTORINGS;
use verdigris_ops::parallel::parallel;

/// Beyond these sizes R's LAPACK is as fast on one core: its loops are blocked, and Jacobi rotations are not the
/// fastest way to singular values on a processor. R's QR, however, moves columns, so all sizes of QR are taken.
pub const fn takes(factoring: Factoring, m: usize, n: usize) -> bool {
    match factoring {
        Factoring::Qr => m <= LARGEST && n <= LARGEST,
        Factoring::Singular => m <= 64 && n <= 24,
        _ => n <= 64,
    }
}

/// The approximate number of multiplications of a task.
const TASK: usize = 1 << 16;

/// Runs the factoring of each matrix. Returns the index of the first one that failed.
///
/// # Errors
/// `Interrupt`, `Memory`.
pub fn factor_batch(batch: &BatchedFactoring<'_>) -> Result<Option<usize>> {
    if !batch.fits() {
        return Err(Error::new(Kind::Shape, "many matrices were given memory of another size"));
    }
    let dtype = batch.a.dtype;
    let run = FACTORINGS[batch.factoring as usize][dtype.class() as usize].expect("`fits` asks whether it is served");
    let workspace = batch.factoring.workspace_len(batch.m, batch.n, 0, false);
    let all = Job { room: workspace as i32, ..batch.job() };
    let size = TASK / (batch.m * batch.n * batch.n.max(batch.columns)) + 1;
    let full = AtomicBool::new(false);
    parallel(batch.count, size, |from, to| {
        // `u128` aligns the memory for any element.
        let Ok(mut memory) = fallible::filled(0u128, (workspace * dtype.size()).div_ceil(16)) else {
            full.store(true, Ordering::Relaxed);
            return;
        };
        let job = Job { from: from as i64, to: to as i64, ..all };
        // SAFETY: `fits` has compared all memory with the extents, the scratch memory is as large as they need, and no
        // other task writes results of these matrices.
        unsafe { run(&job, memory.as_mut_ptr().cast()) };
    })?;
    if full.into_inner() {
        return Err(Error::new(Kind::Memory, "there is no memory for a matrix a thread"));
    }
    let status = View::contiguous(batch.status.clone(), DType::Int32, batch.count);
    Ok(elements::<i32>(&status).iter().position(|&info| info != 0))
}
