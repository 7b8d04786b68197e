//! Bases that grow by a column, on the cpu device. Rows are split into parts of fixed size, whose sums are added in
//! order, so that results do not depend on the number of threads.

use super::gather::elements;
use super::segments::Real;
use crate::backend::basis::BasisStep;
use crate::memory::buffer::View;
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::parallel::parallel;

/// Rows of a part: a few columns of this many rows stay in a core's cache.
const ROWS: usize = 1024;
/// Independent partial sums of a dot product.
const LANES: usize = 8;

/// Writes the next column; see `BasisStep`.
pub fn extend(job: &BasisStep<'_>) -> Result<()> {
    match job.basis.dtype {
        DType::Float32 => run::<f32>(job),
        _ => run::<f64>(job),
    }
}

/// The columns of a basis and, at index `count`, the new column.
struct Columns<T> {
    memory: Shared<T>,
    rows: usize,
    count: usize,
}

impl<T: Real> Columns<T> {
    /// Rows `from .. to` of a column.
    ///
    /// # Safety
    /// These rows of the new column must belong to the calling task alone.
    unsafe fn part(&self, column: usize, from: usize, to: usize) -> &[T] {
        // SAFETY: within the memory; by the caller's promise not written meanwhile.
        unsafe { std::slice::from_raw_parts(self.memory.at(column * self.rows + from), to - from) }
    }

    /// Calls `body` with each part of the rows, and with these rows of the new column.
    fn each(&self, body: impl Fn(usize, usize, &mut [T]) + Sync) -> Result<()> {
        parallel(self.rows, ROWS, |from, to| {
            // SAFETY: tasks have different rows of the new column, which is not read otherwise.
            let own =
                unsafe { std::slice::from_raw_parts_mut(self.memory.at(self.count * self.rows + from), to - from) };
            body(from, to, own);
        })
    }
}

/// The elements of a view, to be written.
fn address<T>(view: &View) -> *mut T {
    view.address() as *mut T
}

fn run<T: Real>(job: &BasisStep<'_>) -> Result<()> {
    let (count, near, from) = (job.count, job.first_pass_from, job.second_pass_from);
    let columns = Columns::<T> { memory: Shared(address(job.basis)), rows: job.rows, count };
    let vector: &[T] = elements(job.vector);
    // SAFETY: this call alone uses the numbers.
    let numbers = unsafe { std::slice::from_raw_parts_mut(address::<f64>(job.coefficients), job.coefficients.len()) };
    let mut products = fallible::filled(0f64, count - near)?;
    if near < count {
        sums(&columns, near..count, &mut products, |start, end, out| out.copy_from_slice(&vector[start..end]))?;
    }
    // Subtract the components along the columns from `near` on, then compute the products again.
    let mut taken: Vec<(usize, f64)> = (near..count).zip(products.iter().copied()).collect();
    taken.extend(job.known_product.map(|place| (near - 1, numbers[place])));
    let mut again = fallible::filled(0f64, count - from + 1)?;
    columns.each(|start, end, own| {
        let mut x: Vec<f64> = vector[start..end].iter().map(|x| x.wide()).collect();
        subtract(&columns, &taken, start, &mut x);
        own.iter_mut().zip(&x).for_each(|(own, &x)| *own = T::of(x));
    })?;
    // SAFETY: nothing writes the column meanwhile.
    let own = unsafe { columns.part(count, 0, job.rows) };
    sums(&columns, from..count + 1, &mut again, |start, end, out| out.copy_from_slice(&own[start..end]))?;
    let (whole, parts) = (again[count - from], &again[..count - from]);
    let square = whole - parts.iter().map(|x| x * x).sum::<f64>();
    // `square.max(0.0)` would turn a NaN into 0.
    let norm = if square <= 0.0 { 0.0 } else { square.sqrt() };
    let scale = if norm == 0.0 { 0.0 } else { 1.0 / norm };
    let noted = &mut numbers[job.out_offset..job.out_offset + job.coefficient_count()];
    for (k, product) in products.iter().enumerate() {
        noted[k] = product + (near + k).checked_sub(from).map_or(0.0, |c| parts[c]);
    }
    noted[count - near] = norm;
    noted[count - near + 1] = if whole == 0.0 { 0.0 } else { norm / whole.sqrt() };
    let taken: Vec<(usize, f64)> = (from..count).zip(parts.iter().copied()).collect();
    columns.each(|start, _, own| {
        let mut x: Vec<f64> = own.iter().map(|x| x.wide()).collect();
        subtract(&columns, &taken, start, &mut x);
        own.iter_mut().zip(&x).for_each(|(own, &x)| *own = T::of(x * scale));
    })
}

/// Subtracts multiples of columns from the rows of a vector that begin at `start`.
fn subtract<T: Real>(columns: &Columns<T>, taken: &[(usize, f64)], start: usize, x: &mut [f64]) {
    for &(c, by) in taken {
        // SAFETY: these columns are before the new one; nothing writes them.
        let column = unsafe { columns.part(c, start, start + x.len()) };
        x.iter_mut().zip(column).for_each(|(x, v)| *x -= by * v.wide());
    }
}

/// The dot products of a vector with some columns. `load` writes a part of the vector to its last argument.
fn sums<T: Real>(
    columns: &Columns<T>,
    which: std::ops::Range<usize>,
    out: &mut [f64],
    load: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Result<()> {
    let width = which.len();
    let mut parts = fallible::filled(0f64, fallible::product([columns.rows.div_ceil(ROWS), width])?)?;
    let shared = Shared(parts.as_mut_ptr());
    parallel(columns.rows, ROWS, |start, end| {
        let mut x = [T::default(); ROWS];
        let x = &mut x[..end - start];
        load(start, end, x);
        for (k, c) in which.clone().enumerate() {
            // SAFETY: nothing writes the columns meanwhile; each part has sums of its own.
            unsafe { *shared.at(start / ROWS * width + k) = dot(x, columns.part(c, start, end)) };
        }
    })?;
    for part in parts.chunks_exact(width) {
        out.iter_mut().zip(part).for_each(|(out, part)| *out += part);
    }
    Ok(())
}

fn dot<T: Real>(x: &[T], y: &[T]) -> f64 {
    let mut lanes = [0f64; LANES];
    let (mut xs, mut ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    for (x, y) in xs.by_ref().zip(ys.by_ref()) {
        for l in 0..LANES {
            lanes[l] += x[l].wide() * y[l].wide();
        }
    }
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x.wide() * y.wide()).sum();
    lanes.iter().sum::<f64>() + rest
}
