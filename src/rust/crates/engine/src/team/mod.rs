//! Teams: processes that compute together. A member holds a [`Transport`], which is [`collectives`] over a [`carrier`]:
//! sockets for arrays of any device ([`host`]), or NCCL between GPUs (`gpus`).
//!
//! All members must call the same collectives in the same order. A member that ends, stops, or calls another collective
//! ends the team: all others get an error of kind `Member`.

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

/// The R call of a collective.
#[derive(Clone, Default)]
pub struct Caller {
    /// The call site, for warnings of the fold.
    pub site: Option<CallSite>,
    /// The call's text; empty unless calls are compared.
    pub text: String,
}

/// The collectives of a team. Results are on the device of the member's array.
pub trait Transport {
    /// The member's number, from 0.
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// Folds the members' elements, in the order of ranks if `exact`. All members get the result.
    fn all_reduce(&mut self, x: &Array, fold: Fold, exact: bool, caller: &Caller) -> Result<Array>;

    /// As `all_reduce`, but each member gets only its run (see `run()`) of the result, split in pieces of `unit`
    /// elements.
    fn reduce_scatter(&mut self, x: &Array, fold: Fold, unit: usize, exact: bool, caller: &Caller) -> Result<Array>;

    /// All members' arrays, which may have different lengths, in the order of ranks.
    fn all_gather(&mut self, x: &Array, caller: &Caller) -> Result<Vec<Array>>;

    /// The array `x` of member `root`. The other members' `x` only determine the device of their result.
    fn broadcast(&mut self, x: &Array, root: usize, caller: &Caller) -> Result<Array>;

    /// Waits for all members.
    fn barrier(&mut self, caller: &Caller) -> Result<()>;

    /// Ends the team, and sends the reason to the other members.
    fn stop(&mut self, reason: &str);
}

/// The indices, among `n`, of one member's run. Runs are contiguous and in the order of ranks.
pub fn run(n: usize, rank: usize, size: usize) -> std::ops::Range<usize> {
    let bound = |k: usize| (n as u128 * k as u128 / size as u128) as usize;
    bound(rank)..bound(rank + 1)
}
