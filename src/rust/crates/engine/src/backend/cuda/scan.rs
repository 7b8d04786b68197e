//! Carries out scans: tiles, and what they tell each other.

use std::sync::Arc;

use super::codegen::scan::{pack_size, tile};
use super::codegen::{parameters, Variant};
use super::device::Cuda;
use super::launch::Packed;
use super::run::{planned, Planned, Use};
use super::{interpret, shipped, tier};
use crate::array::natural_dtype;
use crate::buffer::{Buffer, View};
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
    let (variant, _) = parameters::fit(plan, bound, pack_size(plan), &[output.address]);
    match tier::kernel(cuda, plan, Use::Scan(scan), variant)? {
        Some(planned) => launch(cuda, &planned, plan, bound, variant, output.address, status),
        None => queue_shipped(cuda, plan, bound, scan, output.address, status),
    }
}

/// Scans without a kernel of the plan's own: its values are interpreted into memory, a shipped kernel scans those, and
/// where the result is stored in another type than it is computed in, that is interpreted too.
fn queue_shipped(cuda: &Cuda, plan: &Plan, bound: &Bound, scan: Scan, output: u64, status: u64) -> Result<()> {
    let (register, dtype) = plan.outputs[0];
    let natural = natural_dtype(plan.class(register));
    let simple = shipped::plain(natural);
    let stored = Plan { outputs: vec![(register, natural)], ..plan.clone() };
    let of = |inputs: Vec<View>| Bound { n: bound.n, inputs, ..Bound::default() };
    let values = of(interpret::values(cuda, &stored, bound)?);
    let planned = planned(cuda, &simple, Use::Scan(scan), shipped::PLAIN)?;
    if dtype == natural && output.is_multiple_of(16) {
        return launch(cuda, &planned, &simple, &values, shipped::PLAIN, output, status);
    }
    let scanned = cuda.allocate(bound.n * natural.size())?;
    launch(cuda, &planned, &simple, &values, shipped::PLAIN, scanned.address, status)?;
    let scanned = View::contiguous(scanned, natural, bound.n);
    let stored = Plan { outputs: vec![(0, dtype)], ..simple };
    interpret::run(cuda, &stored, &of(vec![scanned]), &[output])
}

fn launch(
    cuda: &Cuda,
    planned: &Planned,
    plan: &Plan,
    bound: &Bound,
    variant: Variant,
    output: u64,
    status: u64,
) -> Result<()> {
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
    planned.launch(cuda, plan, bound, variant, &[output], Some(&job), tiles as u32)
}
