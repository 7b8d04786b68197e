//! Sparse triangular systems stored by columns. Each core solves for one right-hand side at a time.

use std::sync::Arc;

use super::super::gather::elements;
use super::path::{path, Offset};
use super::{by_types, Real};
use crate::backend::segments::TriangularSystem;
use crate::memory::buffer::Buffer;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::{parallel_if, should_continue};

/// Columns between two checks for an interrupt.
const LOOK: usize = 1 << 12;

pub fn solve(job: &TriangularSystem<'_>, out: &Arc<Buffer>) -> Result<()> {
    by_types!(job.matrix.segments, job.b.dtype, run(job, out))
}

fn run<I: Offset, T: Real>(job: &TriangularSystem<'_>, out: &Arc<Buffer>) -> Result<()> {
    let path = path::<I>(&job.matrix.segments)?;
    let at: &[i32] = elements(job.matrix.positions);
    let values: Option<&[T]> = job.matrix.values.map(elements);
    let (n, b): (usize, &[T]) = (path.count(), elements(job.b));
    let out = Shared(out.address as *mut u8);
    parallel_if(job.columns, 1, true, |column, _| {
        let mut x = Vec::new();
        if !fallible::grow_task_buffer(&mut x, n, 0f64) {
            return;
        }
        x.iter_mut().zip(&b[column * n..]).for_each(|(x, b)| *x = b.wide());
        for step in 0..n {
            if step % LOOK == 0 && !should_continue() {
                return;
            }
            let j = if job.upper { n - 1 - step } else { step };
            let range = path.offsets[j].at()..path.offsets[j + 1].at();
            let value = |e: usize| values.map_or(1.0, |values| values[e].wide());
            if !job.unit {
                let diagonal = range.clone().find(|&e| at[e] as usize == j).map_or(0.0, value);
                x[j] /= diagonal;
            }
            let solved = x[j];
            for e in range {
                let i = at[e] as usize;
                if i < n && if job.upper { i < j } else { i > j } {
                    x[i] -= value(e) * solved;
                }
            }
        }
        // SAFETY: a column of the result, which belongs to one task.
        let out = unsafe { std::slice::from_raw_parts_mut(out.at(column * n * size_of::<T>()).cast::<T>(), n) };
        out.iter_mut().zip(&x).for_each(|(out, &x)| *out = T::of(x));
    })
}
