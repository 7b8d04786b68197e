//! Teams: processes that compute together. A member holds a [`Transport`], which is [`collectives`] by a [`carrier`]:
//! sockets for arrays of any device ([`host`]), or NCCL between GPUs (`gpus`).
//!
//! All members call the same collectives in the same order. A member that ends, stops, or calls another collective ends
//! the team: an error of kind `Member` on all that live.

pub mod carrier;
pub mod collectives;
#[cfg(all(unix, not(target_os = "macos")))]
pub mod gpus;
pub mod host;
pub mod link;
pub mod mesh;
pub mod message;
pub mod rendezvous;

use crate::array::Array;
use message::Fold;
use verdigris_ops::call_site::CallSite;
use verdigris_ops::error::Result;

/// Where a collective was called.
#[derive(Clone, Default)]
pub struct Caller {
    /// For warnings of what folds.
    pub site: Option<CallSite>,
    /// R's call, where calls are compared.
    pub text: String,
}

/// What carries collectives between members. Results are on the device of the member's array.
pub trait Transport {
    /// From 0.
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// Folds the members' elements, in the order of ranks where `exact`; all have the result.
    fn all_reduce(&mut self, x: &Array, fold: Fold, exact: bool, caller: &Caller) -> Result<Array>;

    /// As `all_reduce`, but of the result each member has its run (`run()`) of pieces of `unit` elements.
    fn reduce_scatter(&mut self, x: &Array, fold: Fold, unit: usize, exact: bool, caller: &Caller) -> Result<Array>;

    /// The members' arrays, which may have different lengths, in the order of ranks; all have them.
    fn all_gather(&mut self, x: &Array, caller: &Caller) -> Result<Vec<Array>>;

    /// The array of one member, which all have then. Of the others it is the array whose device counts.
    fn broadcast(&mut self, x: &Array, root: usize, caller: &Caller) -> Result<Array>;

    /// Waits until all members have come.
    fn barrier(&mut self, caller: &Caller) -> Result<()>;

    /// Ends the team, and tells the others why.
    fn stop(&mut self, reason: &str);
}

/// The run of one member among `n` things: contiguous, in the order of ranks.
pub fn run(n: usize, rank: usize, size: usize) -> std::ops::Range<usize> {
    let bound = |k: usize| (n as u128 * k as u128 / size as u128) as usize;
    bound(rank)..bound(rank + 1)
}
