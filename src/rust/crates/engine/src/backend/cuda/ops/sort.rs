//! Sorting on the device: a stable radix sort, 8 bits a pass; the kernels are in `kernels/sort.cuh`.

use std::sync::Arc;

use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::Args;
use crate::backend::cuda::driver::kernel::Packed;
use crate::backend::position_dtype;
use crate::memory::buffer::{Buffer, View};
use verdigris_ops::dtype::{DType, Number};
use verdigris_ops::error::{Error, Kind, Result};

/// `DIGITS` in sort.cuh.
const DIGITS: usize = 256;

/// The instance of the kernels that sorts a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub dtype: DType,
    pub positions: bool,
    /// Positions are int64.
    pub wide_positions: bool,
    /// Counts do not fit 30 bits, which is what a 32-bit word has left beside its state.
    pub wide_counts: bool,
}

impl Form {
    fn of(dtype: DType, n: usize, positions: bool) -> Form {
        Form {
            dtype,
            positions,
            wide_positions: positions && position_dtype(n) == DType::Int64,
            wide_counts: n >= 1 << 30,
        }
    }

    /// Threads of a block, elements of a thread, and blocks that a multiprocessor should hold.
    fn shape(self) -> (usize, usize, usize) {
        let widest = if self.wide_positions { 8 } else { self.dtype.size().max(if self.positions { 4 } else { 1 }) };
        // the fastest of a dozen shapes each, measured on an H100; carried positions need space of their own
        match (widest, self.positions) {
            (8, true) => (512, 8, 2),
            (8, false) => (384, 10, 3),
            (_, true) => (512, 16, 2),
            (_, false) => (512, 20, 2),
        }
    }

    fn tile(self) -> usize {
        let (threads, items, _) = self.shape();
        threads * items
    }

    pub(crate) fn source(self) -> String {
        let (name, key) = (self.dtype.name(), key_type(self.dtype));
        let index = if self.wide_positions { "u64" } else { "u32" };
        let offset = if self.wide_counts { "u64" } else { "u32" };
        let (threads, items, blocks) = self.shape();
        let positions = self.positions;
        format!(
            "#define THREADS {threads}\n#include \"sort.cuh\"\n\
             typedef {key} Key;\ntypedef Buffers<Key::T, {index}> Memory;\n\
             extern \"C\" __global__ void __launch_bounds__({threads}) sort_count_{name}(const Key::T* in, i64 n, u32 down, u64* bins) {{\n  \
               sort_count<Key>(in, n, down, bins);\n}}\n\
             extern \"C\" __global__ void __launch_bounds__({DIGITS}) sort_scan_bins(u64* bins, u64 n) {{ sort_scan(bins, n); }}\n\
             extern \"C\" __global__ void __launch_bounds__({threads}, {blocks}) sort_{name}(const __grid_constant__ Memory memory,\n    \
               i64 n, u32 down, u32 pass, const u64* bins, volatile {offset}* words, u32* ticket) {{\n  \
               sort_pass<Key, {items}, {positions}, {index}, {offset}>(memory, n, down, pass, bins, words, ticket);\n}}\n"
        )
    }
}

/// The C++ type in `sort.cuh` that makes the keys of a dtype, which is not complex.
pub(super) fn key_type(dtype: DType) -> String {
    let bits = format!("u{}", 8 * dtype.size());
    match dtype.number() {
        Number::Bool => "BoolKey".into(),
        Number::UInt => format!("UIntKey<{bits}>"),
        Number::Int => format!("IntKey<{bits}>"),
        Number::Float | Number::BFloat => {
            let infinity = match (dtype.number(), dtype.size()) {
                (Number::BFloat, _) => "0x7F80",
                (_, 2) => "0x7C00",
                (_, 4) => "0x7F800000u",
                _ => "0x7FF0000000000000ull",
            };
            format!("FloatKey<{bits}, {infinity}>")
        }
        Number::Complex => unreachable!("complex values have no order"),
    }
}

/// See `Backend::sort`.
pub fn sort(cuda: &Cuda, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
    let (dtype, n) = (values.dtype, values.len());
    if matches!(dtype, DType::Complex64 | DType::Complex128) {
        return Err(Error::new(Kind::DType, "complex values are not sorted on the device")
            .advise("Sort on the host: `sort(as.vector(x))`."));
    }
    let out = cuda.allocate(n * dtype.size())?;
    let dtype_of_positions = position_dtype(n);
    let positions = if with_positions { Some(cuda.allocate(n * dtype_of_positions.size())?) } else { None };
    if n > 0 {
        passes(cuda, values, decreasing, &out, positions.as_ref())?;
    }
    Ok((View::contiguous(out, dtype, n), positions.map(|buffer| View::contiguous(buffer, dtype_of_positions, n))))
}

fn passes(
    cuda: &Cuda,
    values: &View,
    decreasing: bool,
    out: &Arc<Buffer>,
    positions: Option<&Arc<Buffer>>,
) -> Result<()> {
    let (dtype, n, name) = (values.dtype, values.len(), values.dtype.name());
    let form = Form::of(dtype, n, positions.is_some());
    let module = cuda.module(&format!("sort/{form:?}"), || form.source())?;
    let kernel = |function: &str| cuda.function(&module, function);
    let (down, n_i) = (u32::from(decreasing), n as i64);

    let passes = dtype.size();
    // the counts are followed by a byte for each pass, set if all elements have the same digit
    let bins = cuda.allocate(passes * DIGITS * 8 + 8)?;
    cuda.fill(bins.address, 0, bins.bytes)?;
    let threads = form.shape().0;
    let blocks = n.div_ceil(threads * 16).clamp(1, cuda.properties.multiprocessors as usize * 4) as u32;
    let mut args = Args::new();
    args.push(values.address()).push(n_i).push(down).push(bins.address);
    cuda.launch(&kernel(&format!("sort_count_{name}"))?, [blocks, 1, 1], [threads as u32, 1, 1], 0, &mut args)?;
    let mut args = Args::new();
    args.push(bins.address).push(n as u64);
    cuda.launch(&kernel("sort_scan_bins")?, [passes as u32, 1, 1], [DIGITS as u32, 1, 1], 0, &mut args)?;

    let spare = if passes > 1 { Some(cuda.allocate(out.bytes)?) } else { None };
    let spare_positions =
        if positions.is_some() && passes > 1 { Some(cuda.allocate(n * position_dtype(n).size())?) } else { None };
    let address = |buffer: Option<&Arc<Buffer>>| buffer.map_or(0, |buffer| buffer.address);
    let mut buffers = Packed::default();
    for at in
        [values.address(), out.address, address(spare.as_ref()), address(positions), address(spare_positions.as_ref())]
    {
        buffers.u64(at);
    }

    let tiles = n.div_ceil(form.tile());
    let word = if form.wide_counts { 8 } else { 4 };
    // the tiles' words, followed by the ticket
    let words = cuda.allocate(tiles * DIGITS * word + 4)?;
    let ticket = words.address + (tiles * DIGITS * word) as u64;
    let sort = kernel(&format!("sort_{name}"))?;
    for pass in 0..passes as u32 {
        cuda.fill(words.address, 0, words.bytes)?;
        let mut args = Args::new();
        args.push_bytes(buffers.bytes()).push(n_i).push(down).push(pass);
        args.push(bins.address).push(words.address).push(ticket);
        cuda.launch(&sort, [tiles as u32, 1, 1], [threads as u32, 1, 1], 0, &mut args)?;
    }
    Ok(())
}
