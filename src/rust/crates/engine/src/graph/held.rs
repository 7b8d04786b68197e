//! How much device memory would be freed if some references to nodes were dropped.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::node::Node;
use crate::memory::buffer::{Buffer, Device};

/// A node or buffer, and how many references to it would be dropped. The map holds one more.
struct Counted<T> {
    of: Arc<T>,
    going: usize,
}

fn count<T>(map: &mut HashMap<*const T, Counted<T>>, of: Arc<T>) -> *const T {
    let key = Arc::as_ptr(&of);
    map.entry(key).or_insert(Counted { of, going: 0 }).going += 1;
    key
}

impl<T> Counted<T> {
    fn goes(&self) -> bool {
        Arc::strong_count(&self.of) == self.going + 1
    }
}

/// Bytes of buffers on a device that would be freed if the owners of these references, one each, were gone. Operands of
/// recorded operations that go are included. The iterator's own references are dropped on return.
pub fn bytes(references: impl Iterator<Item = Arc<Node>>, device: Device) -> u64 {
    let mut nodes: HashMap<*const Node, Counted<Node>> = HashMap::new();
    for node in references {
        count(&mut nodes, node);
    }
    let mut going: Vec<*const Node> = nodes.iter().filter(|(_, node)| node.goes()).map(|(key, _)| *key).collect();
    let mut buffers: HashMap<*const Buffer, Counted<Buffer>> = HashMap::new();
    while let Some(key) = going.pop() {
        let (view, args) = (nodes[&key].of.view(), nodes[&key].of.args());
        if let Some(view) = view.filter(|view| view.buffer.device == device) {
            count(&mut buffers, view.buffer);
        }
        let Some(args) = args else { continue };
        let operands: Vec<_> = args.nodes().map(|operand| count(&mut nodes, operand.clone())).collect();
        drop(args);
        // An operation that uses an operand twice lists it once.
        for (k, operand) in operands.iter().enumerate() {
            if nodes[operand].goes() && !operands[..k].contains(operand) {
                going.push(*operand);
            }
        }
    }
    buffers.values().filter(|buffer| buffer.goes()).map(|buffer| buffer.of.bytes as u64).sum()
}
