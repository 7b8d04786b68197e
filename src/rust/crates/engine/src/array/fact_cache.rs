//! Caches of facts about arrays in memory: the ranges of subscripts, which arrays have no missing value, and which were
//! computed from which. They hold until values are overwritten in place.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use crate::array::{Array, Operand};
use crate::graph::node::Node;
use crate::memory::buffer::{Buffer, Device};
use verdigris_ops::error::Result;
use verdigris_ops::id;
use verdigris_ops::reduction::Reduction;

/// The range of a subscript's 0-based positions.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub low: i64,
    pub high: i64,
    pub any_na: bool,
}

thread_local! {
    /// Ranges of recent subscripts, so that `x[i] + y[i]` reads `i`, and waits, only once. The weak reference keeps the
    /// node's address from being reused for another node.
    static RANGES: RefCell<Vec<(Weak<Node>, Range)>> = const { RefCell::new(Vec::new()) };
    /// Recently checked arrays that have no missing value, so that refitting a model does not check its variables
    /// again.
    static COMPLETE: RefCell<Vec<Weak<Node>>> = const { RefCell::new(Vec::new()) };
    /// Arrays that R code keeps to use them again, each with the array that it was computed from.
    static DERIVED: RefCell<Vec<[Weak<Node>; 2]>> = const { RefCell::new(Vec::new()) };
}
const MOST_RANGES: usize = 4;
const MOST_COMPLETE: usize = 256;
const MOST_DERIVED: usize = 256;

/// Must be called where computed values are overwritten in place. Of what was computed from which only that in the
/// buffer is forgotten: loops assign elements between products.
pub(crate) fn invalidate(overwritten: &Arc<Buffer>) {
    overwritten.forget_kept();
    RANGES.with_borrow_mut(Vec::clear);
    COMPLETE.with_borrow_mut(Vec::clear);
    let stays = |node: &Weak<Node>| node.upgrade().is_some_and(|node| !node.lies_in(overwritten));
    DERIVED.with_borrow_mut(|all| all.retain(|pair| pair.iter().all(stays)));
}

/// Whether facts read from the array stay true; not if another library shares the memory.
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

/// Records that `result` was computed from `source`, for `is_derived`. False if either may change unnoticed.
pub fn note_derived(result: &Array, source: &Array) -> bool {
    let lasts = is_lasting(result) && is_lasting(source);
    if lasts {
        DERIVED.with_borrow_mut(|all| {
            all.retain(|pair| pair.iter().all(|node| node.strong_count() > 0));
            let oldest = (all.len() + 1).saturating_sub(MOST_DERIVED);
            all.drain(..oldest);
            all.push([result, source].map(|x| Arc::downgrade(x.node())));
        });
    }
    lasts
}

/// Whether it is recorded that `result` was computed from `source`, and both are unchanged.
pub fn is_derived(result: &Array, source: &Array) -> bool {
    let is_known = |[of, from]: &[Weak<Node>; 2]| is_of(of, result) && is_of(from, source);
    is_lasting(result) && is_lasting(source) && DERIVED.with_borrow(|all| all.iter().any(is_known))
}

/// Whether none of these arrays, which must be on one device, has a missing value. On a GPU one kernel reads all arrays
/// of the same length.
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
