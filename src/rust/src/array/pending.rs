//! Device memory that the next entry will free: R has collected all arrays that hold it.

use std::collections::HashMap;
use std::sync::Arc;

use verdigris_engine::graph::node::Node;
use verdigris_engine::memory::buffer::Device;

use crate::array::handle::Handle;
use crate::r::external_ptr::{Of, Owned};
use crate::r::finalizers;

/// Bytes on a device that go when what is dead is freed: computed values that only dead handles hold.
pub fn bytes(device: Device) -> u64 {
    let mut nodes: HashMap<*const Node, (Arc<Node>, usize)> = HashMap::new();
    for header in finalizers::dead_values().filter(|header| header.kind == Of::Handle) {
        // SAFETY: the header of a handle, as its kind says.
        let handle = unsafe { &(*std::ptr::from_ref(header).cast::<Owned<Handle>>()).value };
        let node = handle.peek().node().clone();
        nodes.entry(Arc::as_ptr(&node)).or_insert((node, 0)).1 += 1;
    }
    let held = nodes.values().filter(|(node, handles)| node.device == device && Arc::strong_count(node) == handles + 1);
    held.filter_map(|(node, _)| node.view())
        // the node's own and this one
        .filter(|view| Arc::strong_count(&view.buffer) == 2)
        .map(|view| view.buffer.bytes as u64)
        .sum()
}
