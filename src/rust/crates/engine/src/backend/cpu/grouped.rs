//! Counts, reductions by code, and searches on the cpu device.

use std::ffi::c_void;
use std::sync::Arc;

use super::accumulators::Accumulators;
use super::gather::elements;
use crate::memory::buffer::{Buffer, View};
use crate::memory::fallible;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::loops::Folding;
use verdigris_ops::parallel::{parallel, parallel_if, parts_of_task, should_continue};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::scalar::{NA_I32, NA_I64};
use verdigris_ops::tree;
use verdigris_ops::with_real_type;

/// The most tasks into which the chunks of a column are split.
const SPANS: usize = 16;

/// The fewest elements of a piece that is counted, and the most pieces: each has a table of counts.
const PIECE: usize = 1 << 18;
const PIECES: usize = 16;

/// The number of pieces and their length, which depend only on the sizes.
fn pieces(n: usize, groups: usize) -> (usize, usize) {
    let count = (n / PIECE.max(4 * groups)).clamp(1, PIECES);
    (count, n.div_ceil(count))
}

trait Whole: Copy + Sync {
    /// The index of the bin, counted from `low`; `bins` if it is none of them.
    fn bin(self, low: i64, bins: usize) -> usize;
}
macro_rules! whole {
    ($($type:ty)*) => { $(impl Whole for $type {
        fn bin(self, low: i64, bins: usize) -> usize {
            ((self as i64).wrapping_sub(low) as u64).min(bins as u64) as usize
        }
    })* };
}
whole!(u8 u16 u32 i8 i16 i32 i64);
macro_rules! floats {
    ($($type:ty)*) => { $(impl Whole for $type {
        fn bin(self, low: i64, bins: usize) -> usize {
            let (x, low) = (f64::from(self), low as f64);
            let d = x - low;
            let bin = d as usize;
            // False for NaN. The addition is exact and detects an x that is not an integer, which the rounded
            // difference d may hide.
            if d >= 0.0 && d < bins as f64 && bin as f64 + low == x { bin } else { bins }
        }
    })* };
}
floats!(half::f16 half::bf16 f32 f64);

fn count_as<T: Whole>(values: &View, low: i64, bins: usize, out: &mut [i64]) -> Result<()> {
    let from: &[T] = elements(values);
    let (count, each) = pieces(from.len(), bins);
    let mut tables = fallible::filled(0i64, count * (bins + 1))?;
    let memory = Shared(tables.as_mut_ptr().cast::<u8>());
    parallel_if(count, 1, true, |piece, _| {
        // SAFETY: each piece has a table of its own.
        let table =
            unsafe { std::slice::from_raw_parts_mut(memory.at(piece * (bins + 1) * 8).cast::<i64>(), bins + 1) };
        let from = &from[(piece * each).min(from.len())..((piece + 1) * each).min(from.len())];
        for part in parts_of_task(from.len()) {
            for &x in &from[part] {
                table[x.bin(low, bins)] += 1;
            }
        }
    })?;
    for table in tables.chunks_exact(bins + 1) {
        out.iter_mut().zip(table).for_each(|(sum, count)| *sum += count);
    }
    Ok(())
}

pub fn count(values: &View, low: i64, bins: usize, out: &mut [i64]) -> Result<()> {
    out.fill(0);
    with_real_type!(values.dtype, T => count_as::<T>(values, low, bins, out)).expect("complex values are not counted")
}

/// Elements of columns in a task.
const COLUMNS: usize = 1 << 14;

/// Writes the reduction of each code from 1 to `groups` to `out`; with several columns, one column's results after the
/// other's.
pub fn reduce(
    values: &View,
    codes: &View,
    groups: usize,
    reduction: Reduction,
    na_rm: bool,
    out: &mut [u8],
) -> Result<()> {
    let class = values.dtype.class();
    let f = Folding::of(reduction, class);
    let codes: &[i32] = elements(codes);
    let size_of = class.size();
    // SAFETY: as `elements`, in bytes.
    let raw: &[u8] = unsafe { super::bytes(&values.buffer, values.layout.offset() * size_of, values.len() * size_of) };
    let (from, to) = (codes.len() * size_of, groups * reduction.result(class).size());
    let columns = values.len().checked_div(codes.len()).unwrap_or(1);
    if columns == 1 || codes.len() > tree::chunk(codes.len(), groups) {
        return (0..columns).try_for_each(|k| {
            column(f, &raw[k * from..][..from], size_of, codes, groups, na_rm, &mut out[k * to..][..to])
        });
    }
    let out = Shared(out.as_mut_ptr());
    parallel(columns, COLUMNS / codes.len(), |first, end| {
        for k in first..end {
            // SAFETY: `out` has space for each column, and tasks write different ones.
            let out = unsafe { std::slice::from_raw_parts_mut(out.at(k * to), to) };
            // A single chunk, which is not interrupted.
            let _ = column(f, &raw[k * from..][..from], size_of, codes, groups, na_rm, out);
        }
    })
}

/// Reduces one column, whose elements have `size_of` bytes. Each chunk has an accumulator table, and the tables are
/// merged in pairs (see `tree::chunk`).
fn column(
    f: &Folding,
    raw: &[u8],
    size_of: usize,
    codes: &[i32],
    groups: usize,
    na_rm: bool,
    out: &mut [u8],
) -> Result<()> {
    let each = tree::chunk(codes.len(), groups);
    let chunks = codes.len().div_ceil(each).max(1);
    // Chunks of a task. It needs one table for each level of merging: the table of level l has 2^l chunks.
    let span = chunks.div_ceil(SPANS).next_power_of_two();
    let (spans, levels) = (chunks.div_ceil(span), span.ilog2() as usize + 1);
    let mut tables = Accumulators::new(f, spans * levels * groups)?;
    let mut stamps = fallible::filled(0i64, spans * groups)?;
    let (size, memory) = (tables.size(), tables.shared());
    let seen = Shared(stamps.as_mut_ptr().cast::<u8>());
    parallel_if(spans, 1, true, |first, end| {
        for task in first..end {
            // SAFETY: each task has tables and stamps of its own.
            let (own, stamps) =
                unsafe { (memory.at(task * levels * groups * size), seen.at(task * groups * 8).cast()) };
            let add = |chunk: usize, table: *mut c_void| {
                let (from, to) = (chunk * each, ((chunk + 1) * each).min(codes.len()));
                // SAFETY: elements of the class and their codes, and an empty table.
                unsafe {
                    let x = raw.as_ptr().add(from * size_of).cast();
                    (f.coded)(
                        table,
                        stamps,
                        x,
                        codes[from..].as_ptr(),
                        (to - from) as i32,
                        groups as i32,
                        na_rm.into(),
                    );
                }
            };
            let tables = Tables { f, groups, start: own.cast(), bytes: groups * size, last: chunks };
            tables.reduce(task * span, span, 0, &add);
        }
    })?;
    tables.merge_pairwise(f, 0, spans, levels * groups, groups);
    // SAFETY: a table of `groups` accumulators, and space for their values.
    unsafe { (f.finish)(out.as_mut_ptr().cast(), tables.at(0), groups as i32) };
    Ok(())
}

/// The tables of a task, one for each level.
struct Tables<'a> {
    f: &'a Folding,
    groups: usize,
    start: *mut c_void,
    /// Bytes of a table.
    bytes: usize,
    /// The total number of chunks.
    last: usize,
}

impl Tables<'_> {
    /// Reduces up to `count` chunks (a power of two) from chunk `from` on into the table of a level.
    fn reduce(&self, from: usize, count: usize, level: usize, add: &impl Fn(usize, *mut c_void)) {
        // SAFETY: there is a table for each halving of a span, and one more.
        let table = |level: usize| unsafe { self.start.cast::<u8>().add(level * self.bytes).cast::<c_void>() };
        if count == 1 {
            // SAFETY: `groups` accumulators.
            unsafe { (self.f.start)(table(level), self.groups as i32) };
            if should_continue() {
                add(from, table(level));
            }
            return;
        }
        let half = count / 2;
        self.reduce(from, half, level, add);
        if from + half < self.last {
            self.reduce(from + half, half, level + 1, add);
            // SAFETY: both tables have `groups` accumulators.
            unsafe { (self.f.merge)(table(level), table(level + 1), self.groups as i32) };
        }
    }
}

trait Ordered: Copy + PartialOrd + Sync {
    fn missing(self) -> bool;
}
macro_rules! ordered {
    ($($type:ty, |$x:ident| $missing:expr;)*) => { $(impl Ordered for $type {
        fn missing(self) -> bool {
            let $x = self;
            $missing
        }
    })* };
}
ordered! {
    i32, |x| x == NA_I32;
    i64, |x| x == NA_I64;
    f32, |x| x.is_nan();
    f64, |x| x.is_nan();
}

fn search_as<T: Ordered>(values: &View, table: &View, strictly: bool, out: &Arc<Buffer>) -> Result<()> {
    let (from, table): (&[T], &[T]) = (elements(values), elements(table));
    let out = Shared(out.address as *mut u8);
    parallel(from.len(), 1 << 14, |first, end| {
        // SAFETY: the output has an element for each value, and tasks write different ones.
        let out = unsafe { std::slice::from_raw_parts_mut(out.at(first * 4).cast::<i32>(), end - first) };
        for (slot, &x) in out.iter_mut().zip(&from[first..end]) {
            let below = if strictly { table.partition_point(|&y| y < x) } else { table.partition_point(|&y| y <= x) };
            *slot = if x.missing() { NA_I32 } else { below as i32 };
        }
    })
}

/// For each element, how many elements of the sorted table are less than or equal to it (less than it, if `strictly`).
pub fn search(values: &View, table: &View, strictly: bool, out: &Arc<Buffer>) -> Result<()> {
    match values.dtype {
        DType::Int32 => search_as::<i32>(values, table, strictly, out),
        DType::Int64 => search_as::<i64>(values, table, strictly, out),
        DType::Float32 => search_as::<f32>(values, table, strictly, out),
        DType::Float64 => search_as::<f64>(values, table, strictly, out),
        other => unreachable!("{other} is not searched"),
    }
}
