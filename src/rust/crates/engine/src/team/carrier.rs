//! The transport of elements between members: sockets ([`super::host`]) or GPUs ([`super::gpus`]).

use std::sync::Arc;

use crate::memory::buffer::{Buffer, Device, View};
use crate::team::mesh::Mesh;
use crate::team::message::Call;
use verdigris_ops::error::Result;

/// Where to put the elements that another member sends.
pub enum ReceiveTarget {
    /// In this memory.
    At(View),
    /// In a new buffer for this many elements of the call's dtype.
    Of(usize),
    /// In a new buffer, for as many elements as are sent.
    New,
}

/// The message received from a member.
pub struct Received {
    pub call: Call,
    /// None if the elements were written to a `ReceiveTarget::At`.
    pub buffer: Option<Arc<Buffer>>,
}

pub trait Carrier {
    /// The socket connections, through which members always compare their collectives.
    fn mesh(&mut self) -> &mut Mesh;

    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// The device to which an array on `device` must be moved before it is sent, and on which received elements arrive.
    fn place(&self, device: Device) -> Device;

    /// Arrays up to this many bytes are sent whole by every member to each other one: a second step would cost more.
    fn one_step_max_bytes(&self) -> usize;

    /// Sends contiguous views on the device given by `place` to members, and receives from others. The result is in the
    /// order of `targets`.
    ///
    /// # Errors
    /// Those of `Mesh::exchange`; the team has then ended.
    fn exchange(
        &mut self,
        call: &Call,
        step: u32,
        sends: &[(usize, View)],
        targets: Vec<(usize, ReceiveTarget)>,
    ) -> Result<Vec<Received>>;

    /// All-reduces a long array, if the carrier has a better way than two exchanges; else None. `fold` folds the
    /// members' elements of a run in the order of ranks. If not `exact`, another order is allowed.
    fn all_reduce(
        &mut self,
        _call: &Call,
        _x: &View,
        _exact: bool,
        _fold: &dyn Fn(Vec<View>) -> Result<View>,
    ) -> Option<Result<View>> {
        None
    }

    /// Ends the team, and sends the reason to the other members.
    fn stop(&mut self, reason: &str);
}
