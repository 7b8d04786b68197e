//! Computes the outputs of plans.

use std::sync::Arc;

use super::choose;
use super::planned::{cached_store, KernelKind};
use crate::backend::cuda::codegen::{body, elementwise, parameters, patch, tiled, Variant};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::blocks;
use crate::backend::cuda::interpret;
use crate::backend::Base;
use crate::memory::buffer::{Buffer, View};
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;

/// Assignments to a part of a buffer use 64-bit indices from this size on, in bytes.
const MOST_NARROW: usize = 1 << 30;

/// Computes a plan's outputs.
pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
    let (mut inline, many): ([u64; 4], Vec<u64>);
    let addresses = if outputs.len() <= 4 {
        inline = [0; 4];
        inline.iter_mut().zip(outputs).for_each(|(address, output)| *address = output.address);
        &inline[..outputs.len()]
    } else {
        many = outputs.iter().map(|b| b.address).collect();
        &many
    };
    run_at(cuda, plan, bound, addresses)
}

/// As `run`, with the outputs' addresses.
pub fn run_at(cuda: &Cuda, plan: &Plan, bound: &Bound, addresses: &[u64]) -> Result<()> {
    if bound.n == 0 {
        return Ok(());
    }
    let tiled = tiled::choose(plan, bound);
    if tiled.inputs == 0 && choose::uses_kernels() {
        if let Some((planned, fit, block)) = cached_store(cuda, plan, bound, addresses) {
            choose::count_compiled(cuda);
            return planned.launch_fit(cuda, plan, bound, fit, addresses, None, blocks(bound.n, block), false);
        }
    }
    let v = if tiled.inputs == 0 { body::pack_size(plan) } else { 1 };
    let variant = Variant { tiled, ..parameters::fit(plan, bound, v, addresses).0 };
    let Some(planned) = choose::kernel(cuda, plan, bound.n, KernelKind::Store, variant)? else {
        return interpret::run(cuda, plan, bound, addresses);
    };
    let (tiles, grid) = if tiled.inputs == 0 {
        (None, blocks(bound.n, elementwise::block_elements(plan)))
    } else {
        let (tiles, count) = tiled::tiles(plan, bound, tiled);
        (Some(tiles), count as u32)
    };
    planned.launch(cuda, plan, bound, variant, addresses, tiles.as_ref(), grid)
}

/// `Backend::put`.
pub fn put(cuda: &Cuda, plan: &Plan, bound: &Bound, part: &View, base: Option<&Base<'_>>) -> Result<bool> {
    if base.is_none() && part.layout.is_contiguous() {
        return run_at(cuda, plan, bound, &[part.address()]).map(|()| true);
    }
    let windows = match base {
        Some(base) => match patch::windows(base.dim, base.axes) {
            Some(windows) => windows,
            None => return Ok(false),
        },
        None if part.layout.shape().len() > patch::MOST_AXES => return Ok(false),
        None => Vec::new(),
    };
    // `patch` writes the whole buffer, `put` only from the part's first element on
    let (how, address, n) = match base {
        Some(base) => (KernelKind::Patch(windows.len() as u8), part.buffer.address, base.view.len()),
        None => (KernelKind::Put(part.layout.shape().len() as u8), part.address(), bound.n),
    };
    let variant = parameters::fit(plan, bound, 1, &[address]).0;
    let variant = Variant { wide: variant.wide || part.buffer.bytes >= MOST_NARROW, ..variant };
    let Some(planned) = choose::kernel(cuda, plan, bound.n, how, variant)? else { return Ok(false) };
    let job = match base {
        Some(base) => patch::pack_patch(&windows, base.view.address(), variant.wide),
        None => patch::pack_put(part, variant.wide),
    };
    planned.launch(cuda, plan, bound, variant, &[address], Some(&job), blocks(n, patch::block_elements()))?;
    Ok(true)
}
