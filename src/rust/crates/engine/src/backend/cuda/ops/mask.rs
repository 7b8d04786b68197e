//! Selects the elements where a mask is TRUE. The mask and the values are computed inside the selecting kernels.

use super::gather;
use crate::backend::cuda::codegen::prebuilt;
use crate::backend::cuda::codegen::{mask, parameters, Variant, THREADS};
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::driver::kernel::{Args, Packed};
use crate::backend::cuda::interpret;
use crate::backend::cuda::tiers::choose;
use crate::backend::cuda::tiers::planned::{planned, KernelKind, PlanKernel};
use crate::memory::buffer::View;
use crate::plan::{Bound, Plan};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;

const WARPS: usize = THREADS / 32;

/// See `Backend::mask`. Waits, because the length of the result must be known.
pub fn mask(cuda: &Cuda, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
    let dtype = plan.outputs.get(1).map_or(DType::Int64, |(_, dtype)| *dtype);
    let n = bound.n;
    if n == 0 {
        return Ok(View::contiguous(cuda.allocate(0)?, dtype, 0));
    }
    let (variant, _) = parameters::fit(plan, bound, 1, &[]);
    match choose::kernel(cuda, plan, bound.n, KernelKind::Mask(keep_na), variant)? {
        Some(planned) => launch(cuda, &planned, plan, bound, variant, dtype),
        None => by_prebuilt(cuda, plan, bound, keep_na),
    }
}

/// Selects without a kernel of the plan's own: mask and values are interpreted into memory, a prebuilt kernel finds the
/// positions, and the values are gathered by them.
fn by_prebuilt(cuda: &Cuda, plan: &Plan, bound: &Bound, keep_na: bool) -> Result<View> {
    let simple = prebuilt::stored_plan(DType::Bool8);
    let mut stored = plan.clone();
    stored.outputs[0].1 = DType::Bool8;
    let views = interpret::values(cuda, &stored, bound)?;
    let mask = Bound { n: bound.n, inputs: vec![views[0].clone()], ..Bound::default() };
    let planned = planned(cuda, &simple, KernelKind::Mask(keep_na), prebuilt::PLAIN)?;
    let positions = launch(cuda, &planned, &simple, &mask, prebuilt::PLAIN, DType::Int64)?;
    let Some(values) = views.get(1) else { return Ok(positions) };
    let total = positions.len();
    let out = cuda.allocate(total * values.dtype.size())?;
    gather::gather(cuda, values, &positions, total, out.address)?;
    Ok(View::contiguous(out, values.dtype, total))
}

/// Launches the kernel that counts, waits for the count, and launches the kernel that writes.
fn launch(
    cuda: &Cuda,
    planned: &PlanKernel,
    plan: &Plan,
    bound: &Bound,
    variant: Variant,
    dtype: DType,
) -> Result<View> {
    let n = bound.n;
    let write = planned.second.as_ref().expect("both kernels are loaded together");
    let row = 32 * mask::in_flight(plan);
    // one wave of blocks, where each warp takes `each` neighbouring elements
    let blocks = n.div_ceil(WARPS * row).min(planned.wave);
    let each = n.div_ceil(blocks * WARPS).next_multiple_of(row);
    let warps = cuda.allocate(blocks * WARPS * 4)?;
    let sums = cuda.allocate(blocks * 8)?;
    let job = |total: u64| {
        let mut job = Packed::default();
        job.u64(each as u64);
        for address in [warps.address, sums.address, total, cuda.tickets()] {
            job.u64(address);
        }
        job
    };
    let total =
        cuda.receive(|slot| planned.launch(cuda, plan, bound, variant, &[], Some(&job(slot)), blocks as u32))?;
    let total = u64::from_ne_bytes(total[..8].try_into().expect("eight bytes")) as usize;
    let out = cuda.allocate(total * dtype.size())?;
    if total > 0 {
        // no flag words: the first kernel has noted the expression's warnings
        let mut params = Packed::default();
        let packed = parameters::packable(plan, bound, 1, &[]);
        parameters::pack(&mut params, plan, bound, (variant, packed), &[], (0, 0))?;
        let mut args = Args::new();
        args.push_bytes(params.bytes()).push_bytes(job(0).bytes()).push(out.address);
        cuda.launch(write, [blocks as u32, 1, 1], [THREADS as u32, 1, 1], 0, &mut args)?;
    }
    Ok(View::contiguous(out, dtype, total))
}
