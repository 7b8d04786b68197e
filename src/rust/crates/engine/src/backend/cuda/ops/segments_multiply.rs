//! Products of two sparse matrices; the kernels are in `kernels/segments_multiply.cuh`, which describes the method, and
//! `segments_bins.cuh`. None is prebuilt: NVRTC compiles them at their first use.
//!
//! The host waits twice: for the sizes of the bins, and for the number of elements.

use std::ops::Range;
use std::sync::Arc;

use crate::backend::cuda::compile::Module;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::position_dtype;
use crate::backend::segments::{bad_offsets, bad_positions, too_many_products, Sparse, SparseProduct};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;

/// Threads of a block, and columns of each in a chunk: `THREADS` and `ITEMS` of the kernels.
const THREADS: usize = 128;
const ITEMS: usize = 8;
const CHUNK: usize = THREADS * ITEMS;
/// Threads of a block that computes one column.
const BLOCK: usize = 256;
/// `BINS` and the numbers of bins in segments_bins.cuh.
const BINS: usize = 10;
const COPY: usize = 1;
const THREAD: Range<usize> = 2..4;
const WARP: Range<usize> = 4..8;
const WIDE: usize = 9;
/// `Progress` in segments_bins.cuh, in words of 8 bytes.
const PROGRESS: usize = 4 + 4 * BINS;
/// Bytes of all blocks' bits in global memory, if there is more than one block.
const BITS: usize = 1 << 28;

const KERNEL: &str = "extern \"C\" __global__ void __launch_bounds__";

pub(crate) fn source(offsets: DType, class: Class) -> String {
    let (i, t) = (offsets.c_type(), class.c_type());
    let mut text = format!(
        "#define THREADS {THREADS}\n#define ITEMS {ITEMS}\n#include \"segments_multiply.cuh\"\n\
         typedef {i} I;\ntypedef {t} T;\ntypedef Factors<T, I> M;\n\
         static_assert(sizeof(Progress) == 8 * {PROGRESS}, \"the words that backend/cuda/ops/segments_multiply.rs reads\");\n\
         {KERNEL}(THREADS) check(const i32* ia, i64 n, i64 rows, Progress* progress) {{ check_rows(ia, n, rows, progress); }}\n\
         {KERNEL}(THREADS) products(const M m, i64 inner, i64 la, i64 columns, i64 lb, i64 rows, u32* work, u32* counts, u8* bins, Progress* progress) {{\n  \
           count_products<I>(m.pa, inner, la, m.pb, m.ib, columns, lb, rows, work, counts, bins, progress);\n}}\n\
         {KERNEL}(THREADS) bins(const u32* work, const u32* counts, i64 columns, u8* bins, Progress* progress) {{ bins_by_count(work, counts, columns, bins, progress); }}\n\
         {KERNEL}(THREADS) lists(const u8* bins, i64 columns, u32 pass, Progress* progress, i32* list) {{ list_columns(bins, columns, pass, progress, list); }}\n\
         {KERNEL}(THREADS) sums(const u32* counts, i64 columns, u64* sums) {{ sum_counts(counts, columns, sums); }}\n\
         {KERNEL}(THREADS) scan(u64* sums, i64 n, Progress* progress) {{ scan_sums(sums, n, progress); }}\n\
         {KERNEL}(THREADS) copy(const M m, const i32* list, i64 n, u32 lanes, const void* p, u32 wide, i32* rows, T* values) {{\n  \
           copy_columns(m, list, n, lanes, Offsets{{p, wide}}, rows, values);\n}}\n\
         {KERNEL}(THREADS) count_thread(const M m, const i32* list, i64 n, u32 stride, u32* counts) {{\n  \
           extern __shared__ f64 shared[];\n  count_by_thread(m, list, n, stride, (i32*)shared, counts);\n}}\n\
         {KERNEL}(THREADS) multiply_thread(const M m, const i32* list, i64 n, u32 slots, u32 stride, const void* p, u32 wide, i32* rows, T* values) {{\n  \
           extern __shared__ f64 shared[];\n  multiply_by_thread(m, list, n, slots, stride, shared, Offsets{{p, wide}}, rows, values);\n}}\n"
    );
    for dtype in [DType::Int32, DType::Int64] {
        let o = dtype.c_type();
        text += &format!("{KERNEL}(THREADS) offsets_{dtype}(const u32* counts, i64 columns, const u64* sums, const Progress* progress, {o}* out) {{ write_offsets<{o}>(counts, columns, sums, progress, out); }}\n");
    }
    for (name, team, threads) in [("warp", "WARP", THREADS), ("block", "BLOCK", BLOCK)] {
        text += &format!(
            "{KERNEL}({threads}) count_{name}(const M m, const i32* list, i64 n, u32 slots, u32 shift, u32 lanes, u32* counts) {{\n  \
               extern __shared__ f64 shared[];\n  count_by_hash<{team}>(m, list, n, slots, shift, lanes, (u32*)shared, counts);\n}}\n\
             {KERNEL}({threads}) multiply_{name}(const M m, const i32* list, i64 n, u32 slots, u32 shift, u32 lanes, const void* p, u32 wide, i32* rows, T* values) {{\n  \
               extern __shared__ f64 shared[];\n  multiply_by_hash<{team}>(m, list, n, slots, shift, lanes, shared, Offsets{{p, wide}}, rows, values);\n}}\n"
        )
        .replace("BLOCK", &BLOCK.to_string());
    }
    text + &format!(
        "{KERNEL}({BLOCK}) count_bits(const M m, const i32* list, i64 n, u64 words, u32 lanes, u32* bits, u32* counts) {{ count_by_bits<{BLOCK}>(m, list, n, words, lanes, bits, counts); }}\n\
         {KERNEL}({BLOCK}) multiply_bits(const M m, const i32* list, i64 n, u64 words, u32 lanes, u32* bits, u32* before, f64* far, u64 widest, const void* p, u32 wide, i32* rows, T* values) {{\n  \
           multiply_by_bits<{BLOCK}>(m, list, n, words, lanes, bits, before, far, widest, Offsets{{p, wide}}, rows, values);\n}}\n"
    )
}

/// The device's counters: `Progress` in segments_bins.cuh.
struct Counted([u64; PROGRESS]);

impl Counted {
    fn read(cuda: &Cuda, progress: &Buffer) -> Result<Counted> {
        let mut bytes = [0u8; PROGRESS * 8];
        cuda.download(progress, 0, &mut bytes)?;
        let word = |k: usize| u64::from_ne_bytes(bytes[k * 8..k * 8 + 8].try_into().expect("eight bytes"));
        Ok(Counted(std::array::from_fn(word)))
    }

    fn faults(&self) -> u64 {
        self.0[0]
    }

    fn products(&self) -> u64 {
        self.0[1]
    }

    fn count(&self) -> usize {
        self.0[2] as usize
    }

    fn widest(&self) -> usize {
        self.0[3] as usize
    }

    /// The bins that have columns, with the range of these in the list.
    fn bins(&self, pass: usize) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let sizes = &self.0[4 + pass * BINS..][..BINS];
        let mut at = 0;
        sizes.iter().enumerate().skip(1).filter_map(move |(bin, &size)| {
            let range = at..at + size as usize;
            at = range.end;
            (size > 0).then_some((bin, range))
        })
    }
}

/// A product under way.
struct Work<'a> {
    cuda: &'a Cuda,
    module: Arc<Module>,
    /// The addresses of both factors' offsets, positions and values.
    factors: [u64; 6],
    rows: usize,
    columns: usize,
    /// Threads that take a column of the first matrix together.
    lanes: u32,
    /// The columns by bin.
    list: Arc<Buffer>,
}

impl Work<'_> {
    fn factors(&self) -> Args {
        let mut bytes = [0u8; 48];
        bytes.chunks_exact_mut(8).zip(self.factors).for_each(|(to, from)| to.copy_from_slice(&from.to_ne_bytes()));
        let mut args = Args::new();
        args.push_bytes(&bytes);
        args
    }

    /// The first arguments of a kernel that computes a bin's columns.
    fn listed(&self, columns: &Range<usize>) -> Args {
        let mut args = self.factors();
        args.push(self.list.address + columns.start as u64 * 4).push(columns.len() as i64);
        args
    }

    fn launch(&self, name: &str, grid: usize, threads: usize, shared: usize, args: &mut Args) -> Result<()> {
        let kernel = self.cuda.function(&self.module, name)?;
        self.cuda.allow_dynamic_shared(&kernel, shared as u32)?;
        self.cuda.launch(&kernel, [grid as u32, 1, 1], [threads as u32, 1, 1], shared as u32, args)
    }

    /// Launches blocks that loop over `n` items.
    fn launch_loop(&self, name: &str, n: usize, args: &mut Args) -> Result<()> {
        let wave = self.cuda.wave(&*self.cuda.function(&self.module, name)?, THREADS as u32, 0)?;
        self.launch(name, n.div_ceil(THREADS).clamp(1, wave * 2), THREADS, 0, args)
    }

    /// The bits of a slot's number in a bin's hash tables, the threads of a block, and its teams.
    fn tables(bin: usize) -> (usize, usize, usize) {
        if !WARP.contains(&bin) {
            return (12, BLOCK, 1);
        }
        // more blocks of fewer threads fill a multiprocessor's shared memory better
        let (bits, threads) = (7 + bin - WARP.start, if bin - WARP.start < 2 { THREADS } else { THREADS / 2 });
        (bits, threads, threads / 32)
    }

    /// Zeroed bits of each block that takes wide columns, and the number of blocks. `more`: other bytes of a block.
    fn bits(&self, kernel: &str, n: usize, more: usize) -> Result<(Arc<Buffer>, usize)> {
        let words = self.words();
        let wave = self.cuda.wave(&*self.cuda.function(&self.module, kernel)?, BLOCK as u32, 0)?;
        let count = (BITS / (words * 4 + more)).clamp(1, wave.min(n));
        let bits = self.cuda.allocate(count * words * 4)?;
        self.cuda.fill(bits.address, 0, bits.bytes)?;
        Ok((bits, count))
    }

    fn words(&self) -> usize {
        self.rows.div_ceil(32)
    }

    /// Counts the rows of a bin's columns.
    fn count(&self, bin: usize, columns: &Range<usize>, counts: &Buffer) -> Result<()> {
        let (n, mut args) = (columns.len(), self.listed(columns));
        if THREAD.contains(&bin) {
            args.push(THREADS as u32).push(counts.address);
            let shared = slots_of_thread(bin) * THREADS * 4;
            return self.launch("count_thread", n.div_ceil(THREADS), THREADS, shared, &mut args);
        }
        if bin == WIDE {
            let (bits, count) = self.bits("count_bits", n, 0)?;
            args.push(self.words() as u64).push(self.lanes).push(bits.address).push(counts.address);
            return self.launch("count_bits", count, BLOCK, 0, &mut args);
        }
        let (bits, threads, teams) = Work::tables(bin);
        args.push(1u32 << bits).push(32 - bits as u32).push(self.lanes).push(counts.address);
        let name = if teams > 1 { "count_warp" } else { "count_block" };
        self.launch(name, n.div_ceil(teams), threads, (teams * 4) << bits, &mut args)
    }

    /// Computes the elements of a bin's columns.
    fn multiply(&self, bin: usize, columns: &Range<usize>, out: &SparseProduct, widest: usize) -> Result<()> {
        let (n, mut args) = (columns.len(), self.listed(columns));
        let output = |args: &mut Args| {
            args.push(out.offsets.address()).push(u32::from(out.offsets.dtype == DType::Int64));
            args.push(out.positions.address()).push(out.values.address());
        };
        if bin == COPY {
            args.push(self.lanes);
            output(&mut args);
            return self.launch_loop("copy", n * self.lanes as usize, &mut args);
        }
        if THREAD.contains(&bin) {
            let (slots, stride) = (slots_of_thread(bin), THREADS + 1);
            args.push(slots as u32).push(stride as u32);
            output(&mut args);
            return self.launch("multiply_thread", n.div_ceil(THREADS), THREADS, slots * stride * 12, &mut args);
        }
        if bin == WIDE {
            let words = self.words();
            // sums of narrower values are kept as doubles
            let far = if out.values.dtype == DType::Float64 { 0 } else { widest * 8 };
            let (bits, count) = self.bits("multiply_bits", n, words * 4 + far)?;
            let (before, far) = (self.cuda.allocate(count * words * 4)?, self.cuda.allocate(count * far)?);
            args.push(words as u64).push(self.lanes).push(bits.address).push(before.address).push(far.address);
            args.push(widest as u64);
            output(&mut args);
            return self.launch("multiply_bits", count, BLOCK, 0, &mut args);
        }
        let (bits, threads, teams) = Work::tables(bin);
        args.push(1u32 << bits).push(32 - bits as u32).push(self.lanes);
        output(&mut args);
        // of a slot 12 bytes, and room for the keys that are found: see `multiply_by_hash`
        let (name, bytes) = if teams > 1 { ("multiply_warp", 16) } else { ("multiply_block", 14) };
        self.launch(name, n.div_ceil(teams), threads, (teams * bytes) << bits, &mut args)
    }

    fn list(&self, pass: u32, bins: &Buffer, progress: &Buffer) -> Result<()> {
        let mut args = Args::new();
        args.push(bins.address).push(self.columns as i64).push(pass).push(progress.address).push(self.list.address);
        self.launch("lists", self.columns.div_ceil(CHUNK), THREADS, 0, &mut args)
    }
}

/// The most rows of a column that one thread computes.
fn slots_of_thread(bin: usize) -> usize {
    16 << (bin - THREAD.start)
}

/// See `Backend::segment_multiply`.
pub fn multiply(cuda: &Cuda, a: &Sparse<'_>, b: &Sparse<'_>, dtype: DType) -> Result<SparseProduct> {
    let (offsets, class) = (a.segments.offsets.dtype, dtype.class());
    let (inner, columns) = (a.segments.count(), b.segments.count());
    if columns == 0 || a.segments.len == 0 || b.segments.len == 0 {
        return empty(cuda, columns, dtype);
    }
    let module = cuda.module(&format!("segments/{offsets}/{class:?}/multiply"), || source(offsets, class))?;
    let values = |x: &Sparse<'_>| x.values.map_or(0, View::address);
    let work = Work {
        cuda,
        module,
        factors: [
            a.segments.offsets.address(),
            a.positions.address(),
            values(a),
            b.segments.offsets.address(),
            b.positions.address(),
            values(b),
        ],
        rows: a.extent,
        columns,
        lanes: a.segments.len.div_ceil(inner).next_power_of_two().clamp(2, 32) as u32,
        list: cuda.allocate(columns * 4)?,
    };
    let progress = cuda.allocate(PROGRESS * 8)?;
    cuda.fill(progress.address, 0, progress.bytes)?;
    let (products, counts, bins) = (cuda.allocate(columns * 4)?, cuda.allocate(columns * 4)?, cuda.allocate(columns)?);
    let mut args = Args::new();
    args.push(a.positions.address()).push(a.segments.len as i64).push(a.extent as i64).push(progress.address);
    work.launch_loop("check", a.segments.len.div_ceil(8), &mut args)?;
    let mut args = work.factors();
    args.push(inner as i64).push(a.segments.len as i64).push(columns as i64).push(b.segments.len as i64);
    args.push(a.extent as i64).push(products.address).push(counts.address).push(bins.address).push(progress.address);
    work.launch_loop("products", columns, &mut args)?;
    let counted = Counted::read(cuda, &progress)?;
    match counted.faults() {
        0 => {}
        faults if faults & 1 > 0 => return Err(bad_offsets()),
        faults if faults & 2 > 0 => return Err(bad_positions(inner)),
        _ => return Err(bad_positions(a.extent)),
    }
    let total = counted.products();
    added(&work, counted, &progress, [&products, &counts, &bins], dtype)
        .map_err(|error| too_many_products(total, error))
}

/// Adds up the products, which have been counted: `products` and `counts` of each column, and its bin.
fn added(
    work: &Work<'_>,
    counted: Counted,
    progress: &Buffer,
    [products, counts, bins]: [&Buffer; 3],
    dtype: DType,
) -> Result<SparseProduct> {
    let (cuda, columns) = (work.cuda, work.columns);
    work.list(0, bins, progress)?;
    for (bin, listed) in counted.bins(0).filter(|&(bin, _)| bin > COPY) {
        work.count(bin, &listed, counts)?;
    }
    let mut args = Args::new();
    args.push(products.address).push(counts.address).push(columns as i64).push(bins.address).push(progress.address);
    work.launch_loop("bins", columns, &mut args)?;
    let chunks = columns.div_ceil(CHUNK);
    let sums = cuda.allocate(chunks * 8)?;
    let mut args = Args::new();
    args.push(counts.address).push(columns as i64).push(sums.address);
    work.launch("sums", chunks, THREADS, 0, &mut args)?;
    let mut args = Args::new();
    args.push(sums.address).push(chunks as i64).push(progress.address);
    work.launch("scan", 1, THREADS, 0, &mut args)?;
    let counted = Counted::read(cuda, progress)?;
    let count = counted.count();
    let offsets = position_dtype(count);
    let out = SparseProduct {
        offsets: View::contiguous(cuda.allocate((columns + 1) * offsets.size())?, offsets, columns + 1),
        positions: View::contiguous(cuda.allocate(count * 4)?, DType::Int32, count),
        values: View::contiguous(cuda.allocate(count * dtype.size())?, dtype, count),
    };
    let mut args = Args::new();
    args.push(counts.address).push(columns as i64).push(sums.address).push(progress.address);
    args.push(out.offsets.address());
    work.launch(&format!("offsets_{offsets}"), chunks, THREADS, 0, &mut args)?;
    work.list(1, bins, progress)?;
    for (bin, listed) in counted.bins(1) {
        work.multiply(bin, &listed, &out, counted.widest())?;
    }
    Ok(out)
}

/// A product without elements.
fn empty(cuda: &Cuda, columns: usize, dtype: DType) -> Result<SparseProduct> {
    let offsets = cuda.allocate((columns + 1) * 4)?;
    cuda.fill(offsets.address, 0, offsets.bytes)?;
    Ok(SparseProduct {
        offsets: View::contiguous(offsets, DType::Int32, columns + 1),
        positions: View::contiguous(cuda.allocate(0)?, DType::Int32, 0),
        values: View::contiguous(cuda.allocate(0)?, dtype, 0),
    })
}
