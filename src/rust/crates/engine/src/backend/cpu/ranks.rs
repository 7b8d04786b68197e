//! Order statistics on the cpu device by quickselect (Hoare 1961). Each rank is searched in the partition between the
//! ranks found before.

use super::gather::elements;
use super::memory::ScratchVec;
use super::sort_keys::{bytes_of, Sortable};
use crate::backend::{Backend, Ranked};
use crate::memory::buffer::View;
use crate::memory::fallible;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Result;
use verdigris_ops::interrupt::parts;

/// From this many keys on, partitioning is done here, where it can be interrupted. Below, the standard library takes
/// some ten milliseconds at most.
const LONG: usize = 1 << 21;
/// Size of the sample whose median is the pivot of a long partition.
const SAMPLE: usize = 255;

/// Moves the keys for which `first` holds to the front; returns their number.
fn partition(keys: &mut [u64], first: impl Fn(u64) -> bool) -> Result<usize> {
    let mut count = 0;
    for part in parts(keys.len()) {
        for k in part? {
            keys.swap(k, count);
            count += usize::from(first(keys[count]));
        }
    }
    Ok(count)
}

/// Finds the keys at `ranks` (ascending) among `keys`, the lowest of which has rank `base`.
fn find(keys: &mut [u64], base: usize, ranks: &[usize], found: &mut [u64]) -> Result<()> {
    if keys.len() < LONG || ranks.is_empty() {
        find_short(keys, base, ranks, found);
        return Ok(());
    }
    let mut sample: Vec<u64> = keys.iter().step_by(keys.len() / SAMPLE).copied().collect();
    let middle = sample.len() / 2;
    let pivot = *sample.select_nth_unstable(middle).1;
    let less = partition(keys, |key| key < pivot)?;
    let (below, rest) = keys.split_at_mut(less);
    let equal = partition(rest, |key| key == pivot)?;
    let left = ranks.partition_point(|&rank| rank < base + less);
    let right = ranks.partition_point(|&rank| rank < base + less + equal);
    found[left..right].fill(pivot);
    find(below, base, &ranks[..left], &mut found[..left])?;
    find(&mut rest[equal..], base + less + equal, &ranks[right..], &mut found[right..])
}

fn find_short(keys: &mut [u64], base: usize, ranks: &[usize], found: &mut [u64]) {
    let middle = ranks.len() / 2;
    let Some(&rank) = ranks.get(middle) else { return };
    let (below, &mut key, above) = keys.select_nth_unstable(rank - base);
    found[middle] = key;
    let (left, right) = found.split_at_mut(middle);
    find_short(below, base, &ranks[..middle], left);
    find_short(above, rank + 1, &ranks[middle + 1..], &mut right[1..]);
}

fn ranks_as<T: Sortable>(cpu: &dyn Backend, values: &View, ranks: &[usize]) -> Result<Option<Ranked>> {
    let from: &[T] = elements(values);
    let mut keys = ScratchVec::of(from.len(), from.iter().filter(|x| !x.missing()).map(|x| x.key()))?;
    let missing = from.len() - keys.len();
    if ranks.iter().any(|&rank| rank >= keys.len()) {
        return Ok(Some(Ranked { values: None, missing }));
    }
    let mut wanted = fallible::copied(ranks)?;
    wanted.sort_unstable();
    wanted.dedup();
    let mut found = fallible::filled(0, wanted.len())?;
    find(&mut keys, 0, &wanted, &mut found)?;
    let of = |rank: &usize| T::of_key(found[wanted.partition_point(|w| w < rank)]).unwrap_or_default();
    let out: Vec<T> = fallible::collected(ranks.iter().map(of))?;
    let buffer = cpu.allocate(out.len() * values.dtype.size())?;
    cpu.upload(bytes_of(&out), &buffer, 0)?;
    Ok(Some(Ranked { values: Some(View::contiguous(buffer, values.dtype, out.len())), missing }))
}

/// The elements at 0-based ranks among those that are not missing.
pub fn ranks(cpu: &dyn Backend, values: &View, ranks: &[usize]) -> Result<Option<Ranked>> {
    match values.dtype {
        DType::Int32 => ranks_as::<i32>(cpu, values, ranks),
        DType::Int64 => ranks_as::<i64>(cpu, values, ranks),
        DType::Float32 => ranks_as::<f32>(cpu, values, ranks),
        DType::Float64 => ranks_as::<f64>(cpu, values, ranks),
        _ => Ok(None),
    }
}
