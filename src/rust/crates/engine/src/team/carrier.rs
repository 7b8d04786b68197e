//! What moves elements between members: sockets ([`super::host`]), or GPUs ([`super::gpus`]).

use std::sync::Arc;

use crate::memory::buffer::{Buffer, Device, View};
use crate::team::mesh::Mesh;
use crate::team::message::Call;
use verdigris_ops::error::Result;

/// Where the elements of another member are to be put.
pub enum Room {
    /// In this memory.
    At(View),
    /// In a new buffer for so many elements of the call's dtype.
    Of(usize),
    /// In a new buffer, for as many as come.
    New,
}

/// What came from a member.
pub struct Received {
    pub call: Call,
    /// None where there was room for it.
    pub buffer: Option<Arc<Buffer>>,
}

pub trait Carrier {
    /// The connections, over which members always tell each other what they are in.
    fn mesh(&mut self) -> &mut Mesh;

    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// Where elements of an array on this device must be, to be sent, and will be when they come.
    fn place(&self, device: Device) -> Device;

    /// Up to so many bytes each member sends all its elements to each other: the way back would cost more.
    fn short(&self) -> usize;

    /// Sends contiguous views that are at their place to members, and receives from others. What came is in the order of
    /// `rooms`.
    ///
    /// # Errors
    /// Those of `Mesh::exchange`; the team has ended then.
    fn exchange(
        &mut self,
        call: &Call,
        step: u32,
        parcels: &[(usize, View)],
        rooms: Vec<(usize, Room)>,
    ) -> Result<Vec<Received>>;

    /// Folds the elements of a long array and brings the results to all, where the carrier has a better way than two
    /// exchanges; None where it has none. `fold` takes the members' elements of a run, in the order of ranks; another
    /// order may do where not `exact`.
    fn all_reduce(
        &mut self,
        _call: &Call,
        _x: &View,
        _exact: bool,
        _fold: &dyn Fn(Vec<View>) -> Result<View>,
    ) -> Option<Result<View>> {
        None
    }

    /// Ends the team, and tells the others why.
    fn stop(&mut self, reason: &str);
}
