//! First places of distinct elements on the cpu, by a hash table with open addressing that doubles when it is half full.

use super::select::elements;
use super::sort::Sortable;
use crate::buffer::View;
use crate::dtype::DType;

const EMPTY: u32 = u32::MAX;

/// The finalizer of MurmurHash3 (Appleby).
fn hash(mut x: u64) -> usize {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x ^ (x >> 33)) as usize
}

fn firsts_as<T: Sortable>(values: &View) -> Vec<i32> {
    let from: &[T] = elements(values);
    let mut slots = vec![(0u64, EMPTY); 1 << 12];
    let mut out = Vec::new();
    for (place, &x) in from.iter().enumerate() {
        if x.missing() {
            continue;
        }
        let (key, mask) = (x.key(), slots.len() - 1);
        let mut at = hash(key) & mask;
        while slots[at].1 != EMPTY && slots[at].0 != key {
            at = (at + 1) & mask;
        }
        if slots[at].1 != EMPTY {
            continue;
        }
        slots[at] = (key, place as u32);
        out.push(place as i32);
        if out.len() * 2 > slots.len() {
            let old = std::mem::take(&mut slots);
            slots = vec![(0u64, EMPTY); old.len() * 4];
            let mask = slots.len() - 1;
            for slot in old.into_iter().filter(|slot| slot.1 != EMPTY) {
                let mut at = hash(slot.0) & mask;
                while slots[at].1 != EMPTY {
                    at = (at + 1) & mask;
                }
                slots[at] = slot;
            }
        }
    }
    out
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
