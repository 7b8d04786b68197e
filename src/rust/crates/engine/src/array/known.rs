//! What was read of arrays in memory, and holds until values are written over: the ranges of subscripts, and which
//! arrays have no missing value.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::array::{Array, Operand};
use crate::graph::node::Node;
use crate::memory::buffer::Device;
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::reduction::Reduction;

/// The positions of a subscript, counted from 0.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub low: i64,
    pub high: i64,
    pub any_na: bool,
}

thread_local! {
    /// The ranges of the last subscripts: `x[i] + y[i]` looks through `i` once, and waits once. An entry keeps the
    /// node's address from serving another node.
    static RANGES: RefCell<Vec<(Weak<Node>, Range)>> = const { RefCell::new(Vec::new()) };
    /// The last arrays without a missing value: the variables of a model that is fitted again.
    static COMPLETE: RefCell<Vec<Weak<Node>>> = const { RefCell::new(Vec::new()) };
}
const MOST_RANGES: usize = 4;
const MOST_COMPLETE: usize = 256;

/// To be called where computed values are written over, in the memory that they are in.
pub(crate) fn forget() {
    RANGES.with_borrow_mut(Vec::clear);
    COMPLETE.with_borrow_mut(Vec::clear);
}

/// Whether what is read of it holds: not where another library shares the memory.
fn is_lasting(x: &Array) -> bool {
    x.is_ready() && !x.is_shared()
}

fn is_of(node: &Weak<Node>, x: &Array) -> bool {
    node.as_ptr() == Arc::as_ptr(x.node())
}

pub(crate) fn range(x: &Array) -> Option<Range> {
    let found = || RANGES.with_borrow(|all| all.iter().find(|(node, _)| is_of(node, x)).map(|(_, range)| *range));
    is_lasting(x).then(found).flatten()
}

pub(crate) fn note_range(x: &Array, range: Range) {
    if is_lasting(x) {
        RANGES.with_borrow_mut(|all| {
            all.truncate(MOST_RANGES - 1);
            all.insert(0, (Arc::downgrade(x.node()), range));
        });
    }
}

/// Whether none of these arrays, which are on one device, has a missing value. On a GPU one kernel reads all those of one
/// length.
pub fn are_complete(arrays: &[Array]) -> Result<bool> {
    let is_known = |x: &Array| is_lasting(x) && COMPLETE.with_borrow(|all| all.iter().any(|node| is_of(node, x)));
    let mut unread: Vec<&Array> = arrays.iter().filter(|x| !x.is_empty() && !is_known(x)).collect();
    unread.sort_unstable_by_key(|x| x.len());
    for group in unread.chunk_by(|x, y| x.device() != Device::Cpu && x.len() == y.len()) {
        let mut any = missing(group[0])?;
        for x in &group[1..] {
            any = Array::apply(id::OR, &[Operand::Array(any), Operand::Array(missing(x)?)], None)?;
        }
        if any.reduce(Reduction::Any, false)?.1.value[0] != 0 {
            return Ok(false);
        }
    }
    COMPLETE.with_borrow_mut(|all| {
        all.retain(|node| node.strong_count() > 0);
        all.extend(unread.iter().filter(|x| is_lasting(x)).map(|x| Arc::downgrade(x.node())));
        let oldest = all.len().saturating_sub(MOST_COMPLETE);
        all.drain(..oldest);
    });
    Ok(true)
}

fn missing(x: &Array) -> Result<Array> {
    Array::apply(id::IS_NA, &[Operand::Array(x.clone())], None)
}
