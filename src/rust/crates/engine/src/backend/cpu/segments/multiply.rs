//! Products of two sparse matrices, column by column (Gustavson 1978). For a column of the second matrix, the columns
//! of the first matrix that it refers to are added in a dense vector of sums. A first pass counts the elements, a
//! second one fills them in.

use std::ops::Range;
use std::sync::Mutex;

use super::super::gather::{elements, made};
use super::path::{path, MergePath, Offset};
use super::{is_na, missing, Real};
use crate::backend::segments::{bad_positions, too_many_products, Sparse, SparseProduct};
use crate::backend::{position_dtype, Backend};
use crate::memory::buffer::View;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::{fail, parallel, parallel_if, should_continue};

/// The least number of element products in a task, and the greatest number of tasks.
const TASK: usize = 1 << 14;
const TASKS: usize = 1 << 10;
/// If more than one in this many rows of a column is occupied, its elements are sorted by walking over all rows.
const DENSE: usize = 16;

/// Multiplies two matrices, both by columns. `dtype` is that of the result's values.
pub fn multiply(cpu: &dyn Backend, a: &Sparse<'_>, b: &Sparse<'_>, dtype: DType) -> Result<SparseProduct> {
    match (a.segments.offsets.dtype, dtype) {
        (DType::Int64, DType::Float32) => product::<i64, f32>(cpu, a, b, dtype),
        (DType::Int64, _) => product::<i64, f64>(cpu, a, b, dtype),
        (_, DType::Float32) => product::<i32, f32>(cpu, a, b, dtype),
        _ => product::<i32, f64>(cpu, a, b, dtype),
    }
}

/// A factor of the product.
struct Factor<'a, I, T> {
    path: MergePath<'a, I>,
    at: &'a [i32],
    values: Option<&'a [T]>,
}

impl<'a, I: Offset, T: Real> Factor<'a, I, T> {
    fn new(x: &Sparse<'a>) -> Result<Factor<'a, I, T>> {
        Ok(Factor { path: path(&x.segments)?, at: elements(x.positions), values: x.values.map(elements) })
    }

    fn column(&self, k: usize) -> Range<usize> {
        self.path.offsets[k].at()..self.path.offsets[k + 1].at()
    }

    #[inline(always)]
    fn value(&self, e: usize) -> f64 {
        self.values.map_or(1.0, |values| values[e].wide())
    }
}

/// A task's workspace: for each row, a mark of the last column that occupied it, and its sum.
#[derive(Default)]
struct Space {
    seen: Vec<u32>,
    sums: Vec<f64>,
}

/// Workspaces that no task uses at the moment.
struct Spaces(Mutex<Vec<Space>>);

impl Spaces {
    /// Runs `body` in a workspace for `rows` rows, with sums if `sums`. If there is no memory, the call fails.
    fn with(&self, rows: usize, sums: bool, body: impl FnOnce(&mut Space)) {
        let taken = || self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut space = taken().pop().unwrap_or_default();
        if fallible::grow_task_buffer(&mut space.seen, rows, 0)
            && (!sums || fallible::grow_task_buffer(&mut space.sums, rows, 0.0))
        {
            body(&mut space);
        }
        taken().push(space);
    }
}

fn product<I: Offset, T: Real>(
    cpu: &dyn Backend,
    a: &Sparse<'_>,
    b: &Sparse<'_>,
    dtype: DType,
) -> Result<SparseProduct> {
    let (left, right) = (Factor::<I, T>::new(a)?, Factor::<I, T>::new(b)?);
    let (tasks, products) = tasks(&left, &right)?;
    added(cpu, &left, &right, &tasks, a.extent, dtype).map_err(|error| too_many_products(products as u64, error))
}

fn added<I: Offset, T: Real>(
    cpu: &dyn Backend,
    left: &Factor<'_, I, T>,
    right: &Factor<'_, I, T>,
    tasks: &[Range<usize>],
    rows: usize,
    dtype: DType,
) -> Result<SparseProduct> {
    let columns = right.path.count();
    let spaces = Spaces(Mutex::default());
    let mut counts = fallible::filled(0u32, columns)?;
    let counts_of = Shared(counts.as_mut_ptr().cast::<u8>());
    each_column(tasks, &spaces, rows, false, |space, column| {
        let (mark, mut count) = (column as u32 + 1, 0);
        for e in right.column(column) {
            for &row in &left.at[left.column(right.at[e] as usize)] {
                let Some(seen) = space.seen.get_mut(row as usize) else { return fail(bad_positions(rows)) };
                count += u32::from(*seen != mark);
                *seen = mark;
            }
        }
        // SAFETY: each column belongs to one task.
        unsafe { *counts_of.at(column * 4).cast::<u32>() = count };
    })?;
    let total: usize = counts.iter().map(|&count| count as usize).sum();
    let (positions, values) = (cpu.allocate(total * 4)?, cpu.allocate(total * size_of::<T>())?);
    let mut starts = fallible::filled(0usize, columns + 1)?;
    for (column, &count) in counts.iter().enumerate() {
        starts[column + 1] = starts[column] + count as usize;
    }
    let (positions_of, values_of) = (Shared(positions.address as *mut u8), Shared(values.address as *mut u8));
    each_column(tasks, &spaces, rows, true, |space, column| {
        let (from, n) = (starts[column], starts[column + 1] - starts[column]);
        // SAFETY: the range of this column, which belongs to one task.
        let (positions, values) = unsafe {
            (
                std::slice::from_raw_parts_mut(positions_of.at(from * 4).cast::<i32>(), n),
                std::slice::from_raw_parts_mut(values_of.at(from * size_of::<T>()).cast::<T>(), n),
            )
        };
        fill(left, right, column, space, positions, values);
    })?;
    let offsets_dtype = position_dtype(total);
    let offsets = match offsets_dtype {
        DType::Int32 => made::<i32>(cpu, offsets_dtype, columns + 1, |out| copy_to(&starts, out))?,
        _ => made::<i64>(cpu, offsets_dtype, columns + 1, |out| copy_to(&starts, out))?,
    };
    Ok(SparseProduct {
        offsets,
        positions: View::contiguous(positions, DType::Int32, total),
        values: View::contiguous(values, dtype, total),
    })
}

fn copy_to<I: Offset>(from: &[usize], to: &mut [I]) -> Result<()> {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = I::of(from));
    Ok(())
}

/// Fills in a column of the product, whose elements have been counted.
fn fill<I: Offset, T: Real>(
    left: &Factor<'_, I, T>,
    right: &Factor<'_, I, T>,
    column: usize,
    space: &mut Space,
    positions: &mut [i32],
    values: &mut [T],
) {
    // A mark that differs from those of the counting pass.
    let (mark, rows) = (column as u32 + 1 + (1 << 31), space.seen.len());
    let mut count = 0;
    for e in right.column(column) {
        let (by, taken) = (right.value(e), left.column(right.at[e] as usize));
        for f in taken {
            let (row, value) = (left.at[f] as usize, left.value(f));
            // A sum starts with 0, so that it is never -0.
            let mut sum = 0.0;
            if space.seen[row] == mark {
                sum = space.sums[row];
            } else {
                space.seen[row] = mark;
                positions[count] = row as i32;
                count += 1;
            }
            let next = sum + value * by;
            space.sums[row] = if next.is_nan() { missing(is_na(sum) || is_na(value) || is_na(by)) } else { next };
        }
    }
    if count > rows / DENSE {
        let taken = (0..rows).filter(|&row| space.seen[row] == mark);
        positions.iter_mut().zip(taken).for_each(|(position, row)| *position = row as i32);
    } else {
        positions.sort_unstable();
    }
    for (value, &row) in values.iter_mut().zip(positions.iter()) {
        *value = T::of(space.sums[row as usize]);
    }
}

/// Splits the columns into tasks of about the same work. Also returns the total work: the number of element products
/// plus the number of columns.
fn tasks<I: Offset, T: Real>(left: &Factor<'_, I, T>, right: &Factor<'_, I, T>) -> Result<(Vec<Range<usize>>, usize)> {
    let columns = right.path.count();
    let mut work = fallible::filled(0usize, columns)?;
    let work_of = Shared(work.as_mut_ptr().cast::<u8>());
    let inner = left.path.count();
    parallel(columns, 1 << 10, |first, end| {
        for column in first..end {
            let mut products = 1;
            for &k in &right.at[right.column(column)] {
                if k as usize >= inner {
                    return fail(bad_positions(inner));
                }
                products += left.column(k as usize).len();
            }
            // SAFETY: each column belongs to one task.
            unsafe { *work_of.at(column * size_of::<usize>()).cast::<usize>() = products };
        }
    })?;
    let all = work.iter().sum::<usize>();
    let each = (all / TASKS).max(TASK);
    let mut tasks = Vec::new();
    let (mut from, mut sum) = (0, 0);
    for (column, &products) in work.iter().enumerate() {
        sum += products;
        if sum >= each || column + 1 == columns {
            fallible::push(&mut tasks, from..column + 1)?;
            (from, sum) = (column + 1, 0);
        }
    }
    Ok((tasks, all))
}

fn each_column(
    tasks: &[Range<usize>],
    spaces: &Spaces,
    rows: usize,
    sums: bool,
    body: impl Fn(&mut Space, usize) + Sync,
) -> Result<()> {
    parallel_if(tasks.len(), 1, true, |task, _| {
        spaces.with(rows, sums, |space| {
            for column in tasks[task].clone().take_while(|column| column % 64 > 0 || should_continue()) {
                body(space, column);
            }
        });
    })
}
