//! Computes the outputs of plans.

use std::sync::Arc;

use super::choose;
use super::planned::{hit, Use};
use crate::backend::cuda::codegen::{body, elementwise, parameters, tiled, Variant};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::blocks;
use crate::backend::cuda::interpret;
use crate::memory::buffer::Buffer;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;

/// Computes a plan's outputs.
pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
    if bound.n == 0 {
        return Ok(());
    }
    let (mut inline, many): ([u64; 4], Vec<u64>);
    let addresses = if outputs.len() <= 4 {
        inline = [0; 4];
        inline.iter_mut().zip(outputs).for_each(|(address, output)| *address = output.address);
        &inline[..outputs.len()]
    } else {
        many = outputs.iter().map(|b| b.address).collect();
        &many
    };
    let tiled = tiled::choose(plan, bound);
    if tiled.inputs == 0 && choose::uses_kernels() {
        if let Some((planned, fit, block)) = hit(cuda, plan, bound, addresses) {
            choose::count_compiled(cuda);
            return planned.launch_fit(cuda, plan, bound, fit, addresses, None, blocks(bound.n, block), false);
        }
    }
    let v = if tiled.inputs == 0 { body::pack_size(plan) } else { 1 };
    let variant = Variant { tiled, ..parameters::fit(plan, bound, v, addresses).0 };
    let Some(planned) = choose::kernel(cuda, plan, Use::Store, variant)? else {
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
