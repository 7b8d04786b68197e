//! First places of distinct elements on the cpu, and places in a table: by a hash table with open addressing that grows when it is half
//! full, or, of whole numbers near each other, by a place each.

use std::sync::Arc;

use super::parallel::parallel;
use super::select::elements;
use super::sort::Sortable;
use crate::buffer::{Buffer, View};
use crate::dtype::DType;
use crate::error::Result;
use crate::transfer::Shared;

const EMPTY: u32 = u32::MAX;

/// The finalizer of MurmurHash3 (Appleby).
fn hash(mut x: u64) -> usize {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x ^ (x >> 33)) as usize
}

/// Whole numbers that reach no further than this many times the number of elements have a place each.
const SPREAD: u64 = 4;

/// Keys and the first place of each.
enum Table {
    /// Of every key from the first on.
    Direct(u64, Vec<u32>),
    Hashed(Vec<(u64, u32)>),
}

impl Table {
    /// The first place of each known key, which `new` hears of in order.
    fn of<T: Sortable>(from: &[T], mut new: impl FnMut(u32)) -> Table {
        let keys = || from.iter().filter(|x| !x.missing()).map(|x| x.key());
        let (low, high) = keys().fold((u64::MAX, 0), |(low, high), key| (low.min(key), high.max(key)));
        let reach = high.wrapping_sub(low);
        if low <= high && reach / SPREAD < from.len() as u64 {
            let mut places = vec![EMPTY; reach as usize + 1];
            for (place, x) in from.iter().enumerate().filter(|(_, x)| !x.missing()) {
                let slot = &mut places[(x.key() - low) as usize];
                if *slot == EMPTY {
                    *slot = place as u32;
                    new(place as u32);
                }
            }
            return Table::Direct(low, places);
        }
        let (mut slots, mut count) = (vec![(0u64, EMPTY); 1 << 12], 0);
        for (place, x) in from.iter().enumerate().filter(|(_, x)| !x.missing()) {
            let key = x.key();
            let at = find(&slots, key);
            if slots[at].1 != EMPTY {
                continue;
            }
            slots[at] = (key, place as u32);
            new(place as u32);
            count += 1;
            if count * 2 > slots.len() {
                let old = std::mem::take(&mut slots);
                slots = vec![(0u64, EMPTY); old.len() * 4];
                for slot in old.into_iter().filter(|slot| slot.1 != EMPTY) {
                    let at = find(&slots, slot.0);
                    slots[at] = slot;
                }
            }
        }
        Table::Hashed(slots)
    }

    fn place(&self, key: u64) -> u32 {
        match self {
            Table::Direct(low, places) => places.get(key.wrapping_sub(*low) as usize).copied().unwrap_or(EMPTY),
            Table::Hashed(slots) => slots[find(slots, key)].1,
        }
    }
}

/// Where a key is, or would be.
fn find(slots: &[(u64, u32)], key: u64) -> usize {
    let mask = slots.len() - 1;
    let mut at = hash(key) & mask;
    while slots[at].1 != EMPTY && slots[at].0 != key {
        at = (at + 1) & mask;
    }
    at
}

fn firsts_as<T: Sortable>(values: &View) -> Vec<i32> {
    let mut out = Vec::new();
    Table::of::<T>(elements(values), |place| out.push(place as i32));
    out
}

fn matches_as<T: Sortable + Sync>(values: &View, table: &View, out: &Arc<Buffer>) -> Result<()> {
    let (from, table) = (elements::<T>(values), Table::of::<T>(elements(table), |_| {}));
    let room = Shared(out.address as *mut u8);
    parallel(from.len(), 1 << 15, |first, end| {
        // SAFETY: the output has a place for each element, and tasks write different ones.
        let room = unsafe { std::slice::from_raw_parts_mut(room.at(first * 4).cast::<i32>(), end - first) };
        for (slot, x) in room.iter_mut().zip(&from[first..end]) {
            // EMPTY and one is none
            *slot = if x.missing() { 0 } else { table.place(x.key()).wrapping_add(1) as i32 };
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
