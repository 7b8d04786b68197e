//! Operations on segments, which are the columns or rows of sparse matrices. The kernels are in `kernels/segments.cuh`,
//! `segments_dense.cuh` and `segments_solve.cuh`. None is prebuilt: NVRTC compiles them at their first use.
//!
//! If a library's products were used, such as cuSPARSE's, `products` would try them first, with functions declared as
//! `ops/fourier.rs` declares cuFFT's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::sort;
use crate::backend::cuda::compile::Module;
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::{Cuda, PerDevice};
use crate::backend::cuda::context::stream_state::{AWAITED, CAPTURING, LOST, SEVERAL};
use crate::backend::cuda::driver::kernel::{blocks, Args};
use crate::backend::position_dtype;
use crate::backend::segments::{Order, Sampled, Segments, Sparse, Transposed, TriangularSystem};
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::Result;
use verdigris_ops::reduction::Reduction;

/// Threads of a block, and elements that each takes in kernels without tiles.
const THREADS: usize = 128;
const ITEMS: usize = 8;
/// From so many elements a segment on average on, segments are long.
const LONG: usize = 64;
/// The fewest items of a part, which a team of lanes takes, and the most parts, each of which leaves two partial rows.
const PART: usize = 64;
const PARTS: usize = 1 << 16;
/// Segments over so many parts or fewer are finished by `ends`, others by `long_ends`.
const FEW_PARTS: usize = 32;
/// Columns that a thread takes at once of a dense matrix stored by columns.
const COLUMNS: usize = 8;
/// From so many columns, and elements of the result, on it is asked in which order the dense matrix is better stored.
const FEWEST_COLUMNS: usize = 4;
const FEWEST_RESULTS: usize = 1 << 18;
/// An upper bound of an accumulator's size, in bytes.
const ACCUMULATOR: usize = 64;

const KERNEL: &str = "extern \"C\" __global__ void __launch_bounds__(THREADS)";

/// How long segments are on average: each length has a kernel that reduces tiles. The bits of sums depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    Short,
    Long,
}

impl Lengths {
    #[cfg(test)]
    const ALL: [Lengths; 2] = [Lengths::Short, Lengths::Long];

    fn of(segments: &Segments<'_>) -> Lengths {
        if segments.len / segments.count().max(1) < LONG {
            Lengths::Short
        } else {
            Lengths::Long
        }
    }

    /// Threads of a block. Each takes `ITEMS` items of a tile, which are elements and ends of segments.
    fn threads(self) -> usize {
        if self == Lengths::Short {
            2 * THREADS
        } else {
            THREADS
        }
    }

    fn tile(self) -> usize {
        self.threads() * ITEMS
    }

    fn kernel(self) -> &'static str {
        if self == Lengths::Short {
            "segment_tile"
        } else {
            "segment_run"
        }
    }
}

/// What all sources begin with: definitions, and the kernel `starts`.
fn head(file: &str, offsets: DType, threads: usize) -> String {
    let starts = "starts(const I* offsets, i64 segments, i64 len, i64 each, i64 parts, i64* starts)";
    format!(
        "#define THREADS {threads}\n#define ITEMS {ITEMS}\n#define FEW_PARTS {FEW_PARTS}\n#include \"{file}\"\ntypedef {} I;\n\
         {KERNEL} {starts} {{ segment_starts<I>(offsets, segments, len, each, parts, starts); }}\n",
        offsets.c_type()
    )
}

/// The kernels `tiles`, which reduces tiles, and `ends`, which merges segments that cross tiles. `accumulator` and
/// `job` are C++ types; `parameters` declares the job's fields, `made` initialises it.
fn tiles(offsets: DType, lengths: Lengths, accumulator: &str, job: &str, parameters: &str, made: &str) -> String {
    let kernel = lengths.kernel();
    let head = head("segments.cuh", offsets, lengths.threads());
    format!(
        "{head}typedef {accumulator} A;\ntypedef {job} Job;\n\
         {KERNEL} tiles({parameters}, const I* offsets, i64 segments, i64 len, const i64* starts, u32 na_rm, A::value* out, A* heads, A* opens) {{\n  \
           const Job job = {made};\n  \
           {kernel}<A, Job, I>(job, offsets, segments, len, starts, na_rm != 0, out, heads, opens);\n}}\n\
         {KERNEL} ends(const A* heads, const A* opens, const i64* starts, i64 tiles, A::value* out) {{ segment_finish<A>(heads, opens, starts, tiles, out); }}\n\
         static_assert(sizeof(A) <= {ACCUMULATOR}, \"the size that backend/cuda/ops/segments.rs allocates for\");\n"
    )
}

/// Products with a matrix of one column.
pub(crate) fn vector_source(offsets: DType, lengths: Lengths, class: Class, weighted: bool) -> String {
    let t = class.c_type();
    let (accumulator, job) = (format!("Products<{t}>"), format!("Picked<{t}, {weighted}>"));
    let parameters = format!("const i32* at, const {t}* x, const {t}* b, i64 extent");
    tiles(offsets, lengths, &accumulator, &job, &parameters, "{at, x, b, extent}")
}

/// Products with a matrix of several columns, of which a lane computes `width`.
pub(crate) fn rows_source(offsets: DType, class: Class, weighted: bool, width: usize) -> String {
    let t = class.c_type();
    head("segments_dense.cuh", offsets, THREADS)
        + &format!(
            "typedef Picked<{t}, {weighted}> Job;\n\
             {KERNEL} rows(const i32* at, const {t}* x, const {t}* b, i64 extent, const I* offsets, i64 segments, i64 len, i64 columns, u32 lanes, i64 each, i64 parts, const i64* starts, {t}* out, {t}* heads, {t}* opens) {{\n  \
               const Job job = {{at, x, b, extent}};\n  \
               segment_rows<{t}, {width}, {weighted}, I>(job, offsets, segments, len, columns, lanes, each, parts, starts, out, heads, opens);\n}}\n\
             {KERNEL} ends(const {t}* heads, const {t}* opens, const i64* starts, i64 parts, i64 columns, {t}* out) {{ segment_rows_finish<{t}>(heads, opens, starts, parts, columns, out); }}\n\
             {KERNEL} long_ends(const {t}* heads, const {t}* opens, const i64* starts, i64 parts, i64 columns, {t}* out) {{ segment_rows_finish_long<{t}>(heads, opens, starts, parts, columns, out); }}\n"
        )
}

/// Products with a matrix of several columns that is stored by columns.
pub(crate) fn columns_source(offsets: DType, class: Class, weighted: bool) -> String {
    let t = class.c_type();
    head("segments_dense.cuh", offsets, THREADS)
        + &format!(
            "{KERNEL} columns(const i32* at, const {t}* x, const {t}* b, i64 extent, const I* offsets, i64 segments, i64 len, i64 columns, i64 each, {t}* out) {{\n  \
               const Picked<{t}, {weighted}> job = {{at, x, b, extent}};\n  \
               segment_columns<{t}, {COLUMNS}, {weighted}, I>(job, offsets, segments, len, columns, each, out);\n}}\n"
        )
}

pub(crate) fn reduce_source(offsets: DType, lengths: Lengths, reduction: Reduction, class: Class) -> String {
    let t = class.c_type();
    let accumulator = format!("{}<{t}>", reduction.accumulator());
    tiles(offsets, lengths, &accumulator, &format!("Plain<{t}>"), &format!("const {t}* x"), "{x}")
}

pub(crate) fn structure_source(offsets: DType, order: DType) -> String {
    let o = order.c_type();
    head("segments.cuh", offsets, THREADS)
        + &format!(
            "{KERNEL} expand(const I* offsets, i64 segments, i64 len, i32* out) {{ segment_expand<I>(offsets, segments, len, out); }}\n\
             {KERNEL} bounds(const i32* sorted, i64 len, i64 extent, I* out) {{ segment_bounds<I>(sorted, len, extent, out); }}\n\
             {KERNEL} pick(const i32* from, const {o}* order, i64 len, i32* out) {{ segment_pick<{o}>(from, order, len, out); }}\n\
             {KERNEL} nearness(const I* offsets, const i32* at, i64 segments, i64 len, u64* out) {{ segment_nearness<I>(offsets, at, segments, len, out); }}\n"
        )
}

pub(crate) fn sampled_source(class: Class) -> String {
    let t = class.c_type();
    head("segments_dense.cuh", DType::Int32, THREADS)
        + &format!(
            "{KERNEL} sampled(const i32* at, const i32* segment, i64 len, const {t}* rows, i64 extent, const {t}* others, i64 inner, {t}* out) {{\n  \
               segment_sampled<{t}>(at, segment, len, rows, extent, others, inner, out);\n}}\n"
        )
}

pub(crate) fn solve_source(offsets: DType, order: DType, class: Class) -> String {
    let (o, t) = (order.c_type(), class.c_type());
    head("segments_solve.cuh", offsets, THREADS)
        + &format!(
            "extern \"C\" __global__ void __launch_bounds__(WARP) solve(const I* offsets, const i32* at, const {o}* order, const {t}* x, i64 n, i64 columns, u32 upper, u32 unit, const {t}* b, {t}* out, u32* done, u64* ticket) {{\n  \
               segment_solve<{t}, I, {o}>(offsets, at, order, x, n, columns, upper != 0, unit != 0, b, out, done, ticket);\n}}\n"
        )
}

/// Every source, with its name.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    let mut out = Vec::new();
    for offsets in [DType::Int32, DType::Int64] {
        for class in [Class::F32, Class::F64] {
            for weighted in [false, true] {
                for lengths in Lengths::ALL {
                    let name = format!("segments {offsets} {lengths:?} {class:?} {weighted}");
                    out.push((name, vector_source(offsets, lengths, class, weighted)));
                }
                let name = format!("columns of segments {offsets} {class:?} {weighted}");
                out.push((name, columns_source(offsets, class, weighted)));
                for width in [1, 2, 4].into_iter().filter(|width| width * class.size() <= 16) {
                    let name = format!("rows of segments {offsets} {class:?} {weighted} {width}");
                    out.push((name, rows_source(offsets, class, weighted, width)));
                }
            }
        }
        for reduction in Reduction::ALL.into_iter().filter(|&reduction| takes(reduction)) {
            for class in Class::ALL.into_iter().filter(|&class| reduction.serves(class)) {
                for lengths in
                    Lengths::ALL.into_iter().filter(|&lengths| offsets == DType::Int32 || lengths == Lengths::Short)
                {
                    let name = format!("{} of segments {offsets} {lengths:?} {class:?}", reduction.name());
                    out.push((name, reduce_source(offsets, lengths, reduction, class)));
                }
            }
        }
        out.push((format!("structure {offsets}"), structure_source(offsets, offsets)));
        for class in [Class::F32, Class::F64] {
            out.push((format!("triangle {offsets} {class:?}"), solve_source(offsets, offsets, class)));
        }
    }
    out.extend([Class::F32, Class::F64].map(|class| (format!("sampled {class:?}"), sampled_source(class))));
    out
}

/// Whether a reduction does not depend on the positions of elements within a segment.
#[cfg(test)]
fn takes(reduction: Reduction) -> bool {
    !matches!(reduction, Reduction::WhichMax | Reduction::WhichMin)
}

/// The merge path of segments, a sequence of elements and ends of segments, cut into parts of `each` items. `starts`
/// holds for each part the first segment that ends in it.
struct Path<'a> {
    segments: &'a Segments<'a>,
    /// Threads of a block of the kernels.
    threads: usize,
    each: usize,
    parts: usize,
    starts: Arc<Buffer>,
}

impl<'a> Path<'a> {
    /// The starts depend on the offsets alone, so they are kept with these: a product of a vector takes a fifth less
    /// time. Not where there are several streams: kept memory is not declared to be used.
    fn new(cuda: &Cuda, module: &Module, segments: &'a Segments<'a>, threads: usize, each: usize) -> Result<Path<'a>> {
        let parts = (segments.count() + segments.len).div_ceil(each);
        let offsets = segments.offsets;
        let key = [offsets.layout.offset(), offsets.len(), segments.len, each].map(|number| number as u64);
        let is_plain = cuda.mode() & (SEVERAL | CAPTURING | LOST | AWAITED) == 0;
        if let Some(starts) = is_plain.then(|| offsets.buffer.kept(key)).flatten() {
            return Ok(Path { segments, threads, each, parts, starts });
        }
        let path = Path { segments, threads, each, parts, starts: cuda.allocate((parts + 1) * 8)? };
        let mut args = Args::new();
        path.push_segments(&mut args);
        args.push(each as i64).push(parts as i64).push(path.starts.address);
        let grid = [blocks(parts + 1, threads), 1, 1];
        cuda.launch(&cuda.function(module, "starts")?, grid, [threads as u32, 1, 1], 0, &mut args)?;
        if is_plain {
            offsets.buffer.keep(key, &path.starts);
        }
        Ok(path)
    }

    fn push_segments<'b>(&self, args: &'b mut Args) -> &'b mut Args {
        push_segments(args, self.segments)
    }

    /// Launches `tiles`, whose first arguments are in `args`, then `ends`.
    fn tiles(&self, cuda: &Cuda, module: &Module, args: &mut Args, na_rm: bool, out: &Arc<Buffer>) -> Result<()> {
        let [heads, opens] = [(); 2].map(|()| cuda.allocate(self.parts * ACCUMULATOR));
        let (heads, opens) = (heads?, opens?);
        self.push_segments(args).push(self.starts.address).push(u32::from(na_rm));
        args.push(out.address).push(heads.address).push(opens.address);
        let threads = [self.threads as u32, 1, 1];
        cuda.launch(&cuda.function(module, "tiles")?, [self.parts as u32, 1, 1], threads, 0, args)?;
        let mut args = Args::new();
        args.push(heads.address)
            .push(opens.address)
            .push(self.starts.address)
            .push(self.parts as i64)
            .push(out.address);
        let grid = [blocks(self.parts, self.threads), 1, 1];
        cuda.launch(&cuda.function(module, "ends")?, grid, threads, 0, &mut args)
    }
}

fn push_segments<'b>(args: &'b mut Args, segments: &Segments<'_>) -> &'b mut Args {
    args.push(segments.offsets.address()).push(segments.count() as i64).push(segments.len as i64)
}

fn push_sparse(args: &mut Args, a: &Sparse<'_>, b: &View) {
    args.push(a.positions.address()).push(a.values.map_or(0, View::address)).push(b.address()).push(a.extent as i64);
}

/// The answers of `order` for the last structures, by the numbers of their buffers.
type Orders = Mutex<VecDeque<([u64; 2], Order)>>;
static ORDERS: PerDevice<Orders> = PerDevice::new();
const ORDERS_KEPT: usize = 32;

/// See `Backend::segment_order`. Where adjacent segments have adjacent positions, threads that take a segment each read
/// adjacent elements of a column, and nothing has to be transposed. Looks at some thousand segments, and waits, once for
/// a structure.
pub fn order(cuda: &Cuda, a: &Sparse<'_>, columns: usize) -> Result<Order> {
    let segments = &a.segments;
    if columns < FEWEST_COLUMNS || segments.count() < 2 || segments.count() * columns < FEWEST_RESULTS {
        return Ok(Order::ByRows);
    }
    let buffers = [segments.offsets.buffer.number(), a.positions.buffer.number()];
    let known = lock(ORDERS.of(cuda)).iter().find(|(of, _)| *of == buffers).map(|&(_, order)| order);
    if known.is_some() || cuda.is_capturing() {
        return Ok(known.unwrap_or(Order::ByRows));
    }
    let offsets = segments.offsets.dtype;
    let module = structure(cuda, offsets, offsets)?;
    let kernel = cuda.function(&module, "nearness")?;
    let found = cuda.receive(|slot| {
        let mut args = Args::new();
        args.push(segments.offsets.address()).push(a.positions.address()).push(segments.count() as i64);
        args.push(segments.len as i64).push(slot);
        cuda.launch(&kernel, [1, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)
    })?;
    let number = |k: usize| u64::from_ne_bytes(found[8 * k..8 * k + 8].try_into().expect("8 bytes"));
    let (near, all) = (number(0), number(1));
    let order = if near > 0 && near * 10 >= all * 9 { Order::ByColumns } else { Order::ByRows };
    let mut orders = lock(ORDERS.of(cuda));
    orders.truncate(ORDERS_KEPT - 1);
    orders.push_front((buffers, order));
    Ok(order)
}

/// Elements and ends in a part of the path. The bits of sums depend on where parts end, so it must depend on the sparse
/// matrix alone.
fn part_of(segments: &Segments<'_>) -> usize {
    (segments.count() + segments.len).div_ceil(PARTS).next_power_of_two().max(PART)
}

/// `products` of a dense matrix stored by columns.
fn products_by_columns(cuda: &Cuda, a: &Sparse<'_>, b: &View, columns: usize, out: &Arc<Buffer>) -> Result<()> {
    let (segments, class, weighted) = (&a.segments, b.dtype.class(), a.values.is_some());
    let offsets = segments.offsets.dtype;
    let key = format!("segments/{offsets}/{class:?}/{weighted}/columns");
    let kernel = cuda.kernel(&key, || columns_source(offsets, class, weighted), "columns")?;
    let mut args = Args::new();
    push_sparse(&mut args, a, b);
    push_segments(&mut args, segments).push(columns as i64).push(part_of(segments) as i64).push(out.address);
    // few segments do not fill the device: their columns are divided
    let across = blocks(segments.count(), THREADS) as usize;
    let down = cuda.wave(&kernel, THREADS as u32, 0)?.div_ceil(across).clamp(1, columns.div_ceil(COLUMNS));
    cuda.launch(&kernel, [across as u32, down as u32, 1], [THREADS as u32, 1, 1], 0, &mut args)
}

/// See `Backend::segment_products`. A result of one column is stored alike by rows and by columns.
pub fn products(
    cuda: &Cuda,
    a: &Sparse<'_>,
    b: &View,
    order: Order,
    columns: usize,
    out: &Arc<Buffer>,
) -> Result<Order> {
    if order == Order::ByColumns {
        return products_by_columns(cuda, a, b, columns, out).map(|()| order);
    }
    let (segments, class, weighted) = (&a.segments, b.dtype.class(), a.values.is_some());
    let offsets = segments.offsets.dtype;
    if columns == 1 {
        let lengths = Lengths::of(segments);
        let key = format!("segments/{offsets}/{lengths:?}/{class:?}/{weighted}");
        let module = cuda.module(&key, || vector_source(offsets, lengths, class, weighted))?;
        let path = Path::new(cuda, &module, segments, lengths.threads(), lengths.tile())?;
        let mut args = Args::new();
        push_sparse(&mut args, a, b);
        path.tiles(cuda, &module, &mut args, false, out)?;
        return Ok(Order::ByColumns);
    }
    // columns that a lane loads at once, as alignment allows
    let size = b.dtype.size();
    let fits = |width: usize| columns.is_multiple_of(width) && b.address().is_multiple_of((width * size) as u64);
    let width = [4, 2].into_iter().find(|&width| width * size <= 16 && fits(width)).unwrap_or(1);
    let lanes = columns.div_ceil(width).next_power_of_two().min(32);
    let key = format!("segments/{offsets}/{class:?}/{weighted}/{width}");
    let module = cuda.module(&key, || rows_source(offsets, class, weighted, width))?;
    let path = Path::new(cuda, &module, segments, THREADS, part_of(segments))?;
    let [heads, opens] = [(); 2].map(|()| cuda.allocate(path.parts * columns * size));
    let (heads, opens) = (heads?, opens?);
    let mut args = Args::new();
    push_sparse(&mut args, a, b);
    path.push_segments(&mut args).push(columns as i64).push(lanes as u32).push(path.each as i64);
    args.push(path.parts as i64).push(path.starts.address).push(out.address).push(heads.address).push(opens.address);
    let threads = [THREADS as u32, 1, 1];
    let grid = [blocks(path.parts, THREADS / lanes), columns.div_ceil(width * lanes) as u32, 1];
    cuda.launch(&cuda.function(&module, "rows")?, grid, threads, 0, &mut args)?;
    let mut args = Args::new();
    args.push(heads.address).push(opens.address).push(path.starts.address).push(path.parts as i64);
    args.push(columns as i64).push(out.address);
    let grid = [blocks(path.parts, THREADS / 32), 1, 1];
    cuda.launch(&cuda.function(&module, "ends")?, grid, threads, 0, &mut args)?;
    if path.parts > FEW_PARTS {
        let grid = [blocks(path.parts, THREADS), columns.div_ceil(16 / size).min(64) as u32, 1];
        cuda.launch(&cuda.function(&module, "long_ends")?, grid, threads, 0, &mut args)?;
    }
    Ok(Order::ByRows)
}

/// See `Backend::segment_reduce`.
pub fn reduce(
    cuda: &Cuda,
    segments: &Segments<'_>,
    values: &View,
    reduction: Reduction,
    na_rm: bool,
    out: &Arc<Buffer>,
) -> Result<()> {
    let (offsets, lengths, class) = (segments.offsets.dtype, Lengths::of(segments), values.dtype.class());
    let key = format!("segments/{offsets}/{lengths:?}/{}/{class:?}", reduction.name());
    let module = cuda.module(&key, || reduce_source(offsets, lengths, reduction, class))?;
    let path = Path::new(cuda, &module, segments, lengths.threads(), lengths.tile())?;
    let mut args = Args::new();
    args.push(values.address());
    path.tiles(cuda, &module, &mut args, na_rm, out)
}

fn structure(cuda: &Cuda, offsets: DType, order: DType) -> Result<Arc<Module>> {
    cuda.module(&format!("segments/{offsets}/{order}/structure"), || structure_source(offsets, order))
}

/// See `Backend::segment_expand`.
pub fn expand(cuda: &Cuda, segments: &Segments<'_>, out: &Arc<Buffer>) -> Result<()> {
    let offsets = segments.offsets.dtype;
    let module = structure(cuda, offsets, offsets)?;
    let mut args = Args::new();
    push_segments(&mut args, segments).push(out.address);
    let grid = [blocks(segments.len, THREADS * ITEMS), 1, 1];
    cuda.launch(&cuda.function(&module, "expand")?, grid, [THREADS as u32, 1, 1], 0, &mut args)
}

/// See `Backend::segment_transpose`. A stable sort by position keeps elements of one position in their order.
pub fn transpose(cuda: &Cuda, segments: &Segments<'_>, positions: &View, extent: usize) -> Result<Transposed> {
    let (n, dtype) = (segments.len, segments.offsets.dtype);
    let module = structure(cuda, dtype, position_dtype(n))?;
    let (sorted, order) = sort::sort(cuda, positions, false, true)?;
    let order = order.expect("positions were asked for");
    let (offsets, out) = (cuda.allocate((extent + 1) * dtype.size())?, cuda.allocate(n * 4)?);
    let threads = [THREADS as u32, 1, 1];
    let launch = |name: &str, n: usize, args: &mut Args| -> Result<()> {
        let kernel = cuda.function(&module, name)?;
        let grid = n.div_ceil(THREADS).clamp(1, cuda.wave(&kernel, THREADS as u32, 0)? * 4);
        cuda.launch(&kernel, [grid as u32, 1, 1], threads, 0, args)
    };
    let mut args = Args::new();
    args.push(sorted.address()).push(n as i64).push(extent as i64).push(offsets.address);
    launch("bounds", extent + 1, &mut args)?;
    if n > 0 {
        let segment = cuda.allocate(n * 4)?;
        expand(cuda, segments, &segment)?;
        let mut args = Args::new();
        args.push(segment.address).push(order.address()).push(n as i64).push(out.address);
        launch("pick", n, &mut args)?;
    }
    Ok(Transposed {
        offsets: View::contiguous(offsets, dtype, extent + 1),
        positions: View::contiguous(out, DType::Int32, n),
        order,
    })
}

/// See `Backend::segment_sampled`.
pub fn sampled(cuda: &Cuda, job: &Sampled<'_>, out: &Arc<Buffer>) -> Result<()> {
    let (n, class) = (job.segments.len, job.by_position.dtype.class());
    let segment = cuda.allocate(n * 4)?;
    expand(cuda, &job.segments, &segment)?;
    let kernel = cuda.kernel(&format!("segments/sampled/{class:?}"), || sampled_source(class), "sampled")?;
    let wave = cuda.wave(&kernel, THREADS as u32, 0)?;
    let grid = n.div_ceil(THREADS / 32).clamp(1, wave * 4);
    let mut args = Args::new();
    args.push(job.positions.address()).push(segment.address).push(n as i64).push(job.by_position.address());
    args.push(job.extent as i64).push(job.by_segment.address()).push(job.inner as i64).push(out.address);
    cuda.launch(&kernel, [grid as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)
}

/// See `Backend::segment_solve`. The matrix is transposed to rows first. A block is one warp, which takes row after
/// row.
pub fn solve(cuda: &Cuda, job: &TriangularSystem<'_>, out: &Arc<Buffer>) -> Result<()> {
    let (a, class, n) = (&job.matrix, job.b.dtype.class(), job.matrix.extent);
    let rows = transpose(cuda, &a.segments, a.positions, n)?;
    let (offsets, order) = (rows.offsets.dtype, rows.order.dtype);
    let key = format!("segments/{offsets}/{order}/{class:?}/solve");
    let kernel = cuda.kernel(&key, || solve_source(offsets, order, class), "solve")?;
    // a word for each element of the solution, set once it is there, followed by the ticket
    let flags = (n * job.columns * 4).next_multiple_of(8);
    let done = cuda.allocate(flags + 8)?;
    cuda.fill(done.address, 0, done.bytes)?;
    let grid = (n * job.columns).clamp(1, cuda.wave(&kernel, 32, 0)?);
    let mut args = Args::new();
    args.push(rows.offsets.address()).push(rows.positions.address()).push(rows.order.address());
    args.push(a.values.map_or(0, View::address)).push(n as i64).push(job.columns as i64);
    args.push(u32::from(job.upper)).push(u32::from(job.unit)).push(job.b.address()).push(out.address);
    args.push(done.address).push(done.address + flags as u64);
    cuda.launch(&kernel, [grid as u32, 1, 1], [32, 1, 1], 0, &mut args)
}
