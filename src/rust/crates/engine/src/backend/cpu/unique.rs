//! First positions of distinct elements, and positions in a table, on the cpu device: by a hash table with open
//! addressing or, for integers of a small range, by a table indexed by value.

use std::sync::Arc;

use super::gather::elements;
use super::sort_keys::{extremes, Sortable};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::fallible;
use crate::memory::host_pool::Block;
use crate::memory::staging::Shared;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::interrupt::parts;
use verdigris_ops::parallel::parallel;

/// Multiplicative hashing by the golden ratio (Knuth, TAOCP 6.4): the upper half of the product depends on all bits of
/// the folded key.
fn hash(x: u64) -> usize {
    (((x ^ (x >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32) as usize
}

/// Integers whose range is at most this many times the number of elements use a table indexed by value.
const SPREAD: u64 = 16;

/// How many elements ahead the hash table is prefetched.
const AHEAD: usize = 16;

/// For each key, the 1-based position of its first occurrence among some elements; 0 for none.
enum Table<'a, T> {
    /// Indexed by key, relative to the lowest one.
    Direct(u64, Entries),
    Hashed(&'a [T], Entries),
}

/// Table entries in a reused block: fresh pages would cost more than all the rest.
struct Entries {
    block: Block,
    len: usize,
}

impl Entries {
    fn new(len: usize) -> Result<Entries> {
        let block = Block::new(len * 4, Device::Cpu)?;
        for part in parts(len) {
            let part = part?;
            // SAFETY: the block has space for them.
            unsafe { block.start().add(part.start * 4).write_bytes(0, part.len() * 4) };
        }
        Ok(Entries { block, len })
    }

    fn all(&self) -> &[u32] {
        // SAFETY: all entries were cleared, and blocks are aligned to 64 bytes.
        unsafe { std::slice::from_raw_parts(self.block.start().cast(), self.len) }
    }

    fn all_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().cast(), self.len) }
    }
}

impl<'a, T: Sortable> Table<'a, T> {
    /// Calls `new` with the 0-based positions of first occurrences, in order.
    fn of(from: &'a [T], mut new: impl FnMut(u32) -> Result<()>) -> Result<Table<'a, T>> {
        let (low, high) = extremes(from)?;
        let reach = high.wrapping_sub(low);
        let is_near = low <= high && reach / SPREAD < from.len() as u64;
        let size = if is_near { reach as usize + 1 } else { (2 * from.len()).next_power_of_two() };
        let mut table = Entries::new(size)?;
        let positions = table.all_mut();
        for part in parts(from.len()) {
            let part = part?;
            for (k, x) in (part.start..).zip(&from[part]) {
                if let Some(next) = from.get(k + AHEAD).filter(|_| !is_near) {
                    fetch(positions, hash(next.key()) & (size - 1));
                }
                if x.missing() {
                    continue;
                }
                let at = if is_near { (x.key() - low) as usize } else { find(from, positions, x.key()) };
                if positions[at] == 0 {
                    positions[at] = k as u32 + 1;
                    new(k as u32)?;
                }
            }
        }
        Ok(if is_near { Table::Direct(low, table) } else { Table::Hashed(from, table) })
    }

    /// The 1-based positions of the elements; 0 if they do not occur or are missing.
    fn positions(&self, values: &[T], out: &mut [i32]) {
        match self {
            Table::Direct(low, positions) => {
                let position = |x: &T| positions.all().get(x.key().wrapping_sub(*low) as usize).copied().unwrap_or(0);
                out.iter_mut()
                    .zip(values)
                    .for_each(|(slot, x)| *slot = if x.missing() { 0 } else { position(x) as i32 });
            }
            Table::Hashed(from, positions) => {
                let positions = positions.all();
                for (k, (slot, x)) in out.iter_mut().zip(values).enumerate() {
                    if let Some(next) = values.get(k + AHEAD) {
                        fetch(positions, hash(next.key()) & (positions.len() - 1));
                    }
                    *slot = if x.missing() { 0 } else { positions[find(from, positions, x.key())] as i32 };
                }
            }
        }
    }
}

/// Prefetches the entry of an index.
fn fetch(positions: &[u32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch(positions.as_ptr().wrapping_add(at).cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (positions, at);
}

/// The index of a key's entry, or of the free entry for it, in a table that is at most half full.
fn find<T: Sortable>(from: &[T], positions: &[u32], key: u64) -> usize {
    let mask = positions.len() - 1;
    let mut at = hash(key) & mask;
    while positions[at] != 0 && from[positions[at] as usize - 1].key() != key {
        at = (at + 1) & mask;
    }
    at
}

fn firsts_as<T: Sortable>(values: &View) -> Result<Vec<i32>> {
    let mut out = Vec::new();
    Table::<T>::of(elements(values), |position| fallible::push(&mut out, position as i32))?;
    Ok(out)
}

fn matches_as<T: Sortable + Sync>(values: &View, table: &View, out: &Arc<Buffer>) -> Result<()> {
    let (from, table) = (elements::<T>(values), Table::<T>::of(elements(table), |_| Ok(()))?);
    let out = Shared(out.address as *mut u8);
    parallel(from.len(), 1 << 15, |first, end| {
        // SAFETY: the output has a position for each element, and tasks write different ones.
        let out = unsafe { std::slice::from_raw_parts_mut(out.at(first * 4).cast::<i32>(), end - first) };
        table.positions(&from[first..end], out);
    })
}

/// The 1-based position of the first occurrence of each value in a table; 0 if it does not occur.
pub fn matches(values: &View, table: &View, out: &Arc<Buffer>) -> Result<()> {
    match values.dtype {
        DType::Int32 => matches_as::<i32>(values, table, out),
        DType::Int64 => matches_as::<i64>(values, table, out),
        DType::Float32 => matches_as::<f32>(values, table, out),
        DType::Float64 => matches_as::<f64>(values, table, out),
        other => unreachable!("{other} is no class's own type"),
    }
}

/// The 0-based positions, ascending, of the first occurrence of each value that is not missing. At most 2^31 - 1
/// elements.
pub fn firsts(values: &View) -> Result<Vec<i32>> {
    match values.dtype {
        DType::Int32 => firsts_as::<i32>(values),
        DType::Int64 => firsts_as::<i64>(values),
        DType::Float32 => firsts_as::<f32>(values),
        DType::Float64 => firsts_as::<f64>(values),
        other => unreachable!("{other} is no class's own type"),
    }
}
