//! Carries out scans: tiles, and what they tell each other.

use std::sync::Arc;

use super::codegen::scan::{pack_size, tile};
use super::codegen::{parameters, THREADS};
use super::device::Cuda;
use super::launch::{Args, Packed};
use super::run::{planned, Use};
use crate::buffer::Buffer;
use crate::dtype::Class;
use crate::error::Result;
use crate::plan::{Bound, Plan};
use crate::scan::Scan;

/// Bytes of a total that travels: the largest state of `scan.h` has 32, and as many marks go with them.
const TOTAL: usize = 64;
/// Tiles of a group, and groups of a thousand: `GROUP` in scan.cuh.
const GROUP: usize = 32;

pub fn run(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>) -> Result<u32> {
    if bound.n == 0 {
        return Ok(0);
    }
    let whole_numbers = matches!(plan.class(plan.outputs[0].0), Class::I32 | Class::I64);
    if scan != Scan::Sum || !whole_numbers {
        queue(cuda, plan, bound, scan, output, 0)?;
        return Ok(0);
    }
    let bytes = cuda.receive(|slot| {
        cuda.fill(slot, 0, 4)?;
        queue(cuda, plan, bound, scan, output, slot)
    })?;
    Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn queue(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: &Arc<Buffer>, status: u64) -> Result<()> {
    let variant = parameters::variant(plan, bound, pack_size(plan), &[output.address]);
    let planned = planned(cuda, plan, Use::Scan(scan), variant)?;
    let tiles = bound.n.div_ceil(tile(plan));
    let groups = tiles.div_ceil(GROUP);
    let thousands = groups.div_ceil(GROUP);
    let all = tiles + groups + thousands;
    // behind the totals the ticket
    let totals = cuda.allocate(all * TOTAL + 4)?;
    cuda.fill(totals.address, 0, totals.bytes)?;
    let mut job = Packed::default();
    for at in [0, tiles, tiles + groups, all] {
        job.u64(totals.address + (at * TOTAL) as u64);
    }
    job.u64(status);
    let (params, _queueing) = planned.parameters(cuda, plan, bound, variant, &[output.address])?;
    let mut args = Args::new();
    args.push_bytes(&params.bytes).push_bytes(&job.bytes);
    cuda.launch(&planned.kernel, [tiles as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)
}
