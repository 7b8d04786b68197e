//! Takes the elements where a mask is TRUE: the mask and the values are computed in the kernels that use them.

use super::codegen::{compress, parameters, THREADS};
use super::device::Cuda;
use super::launch::{Args, Packed};
use super::run::{planned, Use};
use crate::buffer::View;
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::{Bound, Plan};

const WARPS: usize = THREADS / 32;

/// Waits, because the length of the result must be known.
pub fn compress(cuda: &Cuda, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
    let dtype = plan.outputs.get(1).map_or(DType::Int64, |(_, dtype)| *dtype);
    let n = bound.n;
    if n == 0 {
        return Ok(View::contiguous(cuda.allocate(0)?, dtype, 0));
    }
    let variant = parameters::variant(plan, bound, 1, &[]);
    let planned = planned(cuda, plan, Use::Compress(keep_na), variant)?;
    let write = planned.second.as_ref().expect("both kernels are loaded together");
    let row = 32 * compress::in_flight(plan);
    // one wave of blocks, each warp with a stretch of its own
    let wave = cuda.properties.multiprocessors as usize * planned.occupancy as usize;
    let blocks = n.div_ceil(WARPS * row).min(wave);
    let each = n.div_ceil(blocks * WARPS).next_multiple_of(row);
    let warps = cuda.allocate(blocks * WARPS * 4)?;
    let sums = cuda.allocate(blocks * 8)?;
    let (grid, block) = ([blocks as u32, 1, 1], [THREADS as u32, 1, 1]);
    let job = |total: u64| {
        let mut job = Packed::default();
        job.u64(each as u64);
        for address in [warps.address, sums.address, total, cuda.tickets()] {
            job.u64(address);
        }
        job
    };
    let total = cuda.receive(|slot| {
        let (params, _queueing) = planned.parameters(cuda, plan, bound, variant, &[])?;
        let mut args = Args::new();
        args.push_bytes(&params.bytes).push_bytes(&job(slot).bytes);
        cuda.launch(&planned.kernel, grid, block, 0, &mut args)
    })?;
    let total = u64::from_ne_bytes(total[..8].try_into().expect("eight bytes")) as usize;
    let out = cuda.allocate(total * dtype.size())?;
    if total > 0 {
        // what the expression may warn of the first kernel has noted
        let params = parameters::pack(plan, bound, variant, 1, &[], (0, 0))?;
        let mut args = Args::new();
        args.push_bytes(&params.bytes).push_bytes(&job(0).bytes).push(out.address);
        cuda.launch(write, grid, block, 0, &mut args)?;
    }
    Ok(View::contiguous(out, dtype, total))
}
