//! First places of distinct elements on the cpu, and places in a table: by a hash table with open addressing, or, of whole
//! numbers near each other, by a place each.

use std::sync::Arc;

use super::parallel::parallel;
use super::select::elements;
use super::sort::Sortable;
use crate::buffer::{Buffer, View};
use crate::dtype::DType;
use crate::error::Result;
use crate::transfer::Shared;

/// Multiplication by the golden ratio (Knuth, TAOCP 6.4): the upper half of the product depends on all bits of what is folded.
fn hash(x: u64) -> usize {
    (((x ^ (x >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32) as usize
}

/// Whole numbers that reach no further than this many times the number of elements have a place each.
const SPREAD: u64 = 16;

/// The first place of each key among some elements, from 1; 0 for none. Fresh memory is zero, and not touched before it is used.
enum Table<'a, T> {
    /// Of every key from the first on.
    Direct(u64, Vec<u32>),
    Hashed(&'a [T], Vec<u32>),
}

impl<'a, T: Sortable> Table<'a, T> {
    /// `new` hears of first places, from 0, in order.
    fn of(from: &'a [T], mut new: impl FnMut(u32)) -> Table<'a, T> {
        let known = || from.iter().zip(1u32..).filter(|(x, _)| !x.missing()).map(|(x, place)| (x.key(), place));
        let (low, high) = known().fold((u64::MAX, 0), |(low, high), (key, _)| (low.min(key), high.max(key)));
        let reach = high.wrapping_sub(low);
        let is_near = low <= high && reach / SPREAD < from.len() as u64;
        let size = if is_near { reach as usize + 1 } else { (2 * from.len()).next_power_of_two() };
        let mut places = vec![0u32; size];
        for (key, place) in known() {
            let at = if is_near { (key - low) as usize } else { find(from, &places, key) };
            if places[at] == 0 {
                places[at] = place;
                new(place - 1);
            }
        }
        if is_near {
            Table::Direct(low, places)
        } else {
            Table::Hashed(from, places)
        }
    }

    fn place(&self, key: u64) -> u32 {
        match self {
            Table::Direct(low, places) => places.get(key.wrapping_sub(*low) as usize).copied().unwrap_or(0),
            Table::Hashed(from, places) => places[find(from, places, key)],
        }
    }
}

/// Where a key is in a table that is at most half full, or would be.
fn find<T: Sortable>(from: &[T], places: &[u32], key: u64) -> usize {
    let mask = places.len() - 1;
    let mut at = hash(key) & mask;
    while places[at] != 0 && from[places[at] as usize - 1].key() != key {
        at = (at + 1) & mask;
    }
    at
}

fn firsts_as<T: Sortable>(values: &View) -> Vec<i32> {
    let mut out = Vec::new();
    Table::<T>::of(elements(values), |place| out.push(place as i32));
    out
}

fn matches_as<T: Sortable + Sync>(values: &View, table: &View, out: &Arc<Buffer>) -> Result<()> {
    let (from, table) = (elements::<T>(values), Table::<T>::of(elements(table), |_| {}));
    let room = Shared(out.address as *mut u8);
    parallel(from.len(), 1 << 15, |first, end| {
        // SAFETY: the output has a place for each element, and tasks write different ones.
        let room = unsafe { std::slice::from_raw_parts_mut(room.at(first * 4).cast::<i32>(), end - first) };
        for (slot, x) in room.iter_mut().zip(&from[first..end]) {
            *slot = if x.missing() { 0 } else { table.place(x.key()) as i32 };
        }
    })
}

/// The place in a table where each value stands first, from 1; 0 where it does not.
pub fn matches(values: &View, table: &View, out: &Arc<Buffer>) -> Result<()> {
    match values.dtype {
        DType::Int32 => matches_as::<i32>(values, table, out),
        DType::Int64 => matches_as::<i64>(values, table, out),
        DType::Float32 => matches_as::<f32>(values, table, out),
        DType::Float64 => matches_as::<f64>(values, table, out),
        other => unreachable!("{other} is no class's own type"),
    }
}

/// The places, in order, where each known value stands first; of at most 2^31 - 1 elements.
pub fn firsts(values: &View) -> Vec<i32> {
    match values.dtype {
        DType::Int32 => firsts_as::<i32>(values),
        DType::Int64 => firsts_as::<i64>(values),
        DType::Float32 => firsts_as::<f32>(values),
        DType::Float64 => firsts_as::<f64>(values),
        other => unreachable!("{other} is no class's own type"),
    }
}
