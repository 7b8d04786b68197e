//! Computes a plan's outputs: by the gather kernel where the plan is a gather alone, else by the tier that `tiers`
//! chooses.

use std::sync::Arc;

use super::gather;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::cuda::tiers::run;
use crate::memory::buffer::Buffer;
use crate::plan::{Bound, Plan};
use verdigris_ops::error::Result;

pub(crate) fn store(cuda: &Cuda, plan: &Plan, bound: &Bound, outputs: &[Arc<Buffer>]) -> Result<()> {
    match gather::gathers(plan, bound) {
        Some((source, positions)) => gather::gather(cuda, source, positions, bound.n, outputs[0].address),
        None => run::run(cuda, plan, bound, outputs),
    }
}
