//! A block of elements around the one that was read last.

/// Elements read one by one come in a block after the first few, and all of them after a few blocks.
#[derive(Default)]
pub(super) struct Window {
    pub(super) reads: usize,
    pub(super) from: usize,
    pub(super) n: usize,
    pub(super) bytes: Vec<u8>,
}

pub(super) const SINGLE_READS: usize = 4;
pub(super) const WINDOW: usize = 16 * 1024;
pub(super) const WINDOW_READS: usize = 8;
