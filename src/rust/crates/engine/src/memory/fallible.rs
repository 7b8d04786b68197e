//! Vectors whose length users determine. A failed allocation is an error here; `vec!` and `collect()` would abort the
//! process.

use crate::memory::host_pool;
use crate::memory::{self, Collect};
use verdigris_ops::error::{Error, Result};
use verdigris_ops::parallel::fail;

/// From this size on, the available memory is checked first, because the system overcommits.
const ASKED: usize = 1 << 30;

/// Reserves capacity for `more` elements.
///
/// # Errors
/// `Memory`.
pub fn reserve<T>(out: &mut Vec<T>, more: usize) -> Result<()> {
    if out.capacity() - out.len() >= more {
        return Ok(());
    }
    let refused = || refusal::<T>(out.len().saturating_add(more));
    let bytes = more.checked_mul(size_of::<T>()).ok_or_else(refused)?;
    if bytes >= ASKED && memory::available().is_some_and(|left| left < bytes as u64) {
        return Err(refused());
    }
    if out.try_reserve_exact(more).is_ok() {
        return Ok(());
    }
    // As for arrays: free cached memory, then collect garbage.
    host_pool::trim();
    if out.try_reserve_exact(more).is_ok() {
        return Ok(());
    }
    memory::collect(Collect::Full);
    host_pool::trim();
    out.try_reserve_exact(more).map_err(|_| refusal::<T>(out.len().saturating_add(more)))
}

/// Grows memory that a thread keeps for its tasks to at least `n` elements. If that fails, it returns false, the task
/// must return, and the call that runs the task fails.
#[must_use]
pub fn grow_task_buffer<T: Clone>(kept: &mut Vec<T>, n: usize, value: T) -> bool {
    let more = n.saturating_sub(kept.len());
    if kept.try_reserve_exact(more).is_err() {
        // Garbage can only be collected on R's thread.
        host_pool::trim();
        if kept.try_reserve_exact(more).is_err() {
            fail(refusal::<T>(n));
            return false;
        }
    }
    kept.extend(std::iter::repeat_n(value, more));
    true
}

fn refusal<T>(n: usize) -> Error {
    host_pool::refusal(n.saturating_mul(size_of::<T>()))
}

/// Empty, with capacity for `most`.
///
/// # Errors
/// `Memory`.
pub fn with_capacity<T>(most: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    reserve(&mut out, most)?;
    Ok(out)
}

/// A vector of `n` copies of a value.
///
/// # Errors
/// `Memory`.
pub fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>> {
    let mut out = with_capacity(n)?;
    out.resize(n, value);
    Ok(out)
}

/// A copy of a slice.
///
/// # Errors
/// `Memory`.
pub fn copied<T: Copy>(items: &[T]) -> Result<Vec<T>> {
    let mut out = with_capacity(items.len())?;
    out.extend_from_slice(items);
    Ok(out)
}

/// A copy of a text.
///
/// # Errors
/// `Memory`.
pub fn text(text: &str) -> Result<String> {
    let mut out = String::new();
    out.try_reserve_exact(text.len()).map_err(|_| host_pool::refusal(text.len()))?;
    out.push_str(text);
    Ok(out)
}

/// Collects an iterator to a vector.
///
/// # Errors
/// `Memory`.
pub fn collected<T>(items: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut out = with_capacity(items.size_hint().0)?;
    for item in items {
        push(&mut out, item)?;
    }
    Ok(out)
}

/// Collects the values of results, up to the first error.
///
/// # Errors
/// `Memory`, or an item's error.
pub fn all_of<T>(items: impl ExactSizeIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut out = with_capacity(items.len())?;
    for item in items {
        push(&mut out, item?)?;
    }
    Ok(out)
}

/// Appends an element.
///
/// # Errors
/// `Memory`.
pub fn push<T>(out: &mut Vec<T>, item: T) -> Result<()> {
    if out.len() == out.capacity() {
        reserve(out, out.len().max(16))?;
    }
    out.push(item);
    Ok(())
}

/// The product of extents.
///
/// # Errors
/// `Shape` if no array can have that many elements.
pub fn product(extents: impl IntoIterator<Item = usize>) -> Result<usize> {
    let mut total = 1usize;
    let mut none = false;
    for extent in extents {
        none |= extent == 0;
        total = total.saturating_mul(extent.max(1));
    }
    match total {
        _ if none => Ok(0),
        // Sizes in bytes and strides must not overflow either.
        total if total <= MOST => Ok(total),
        _ => Err(Error::new(
            verdigris_ops::error::Kind::Shape,
            "the dimensions describe more elements than an array can have",
        )
        .advise("R's own vectors have at most 2^52 elements.")),
    }
}

/// The greatest length of an R vector.
const MOST: usize = 1 << 52;

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_ops::error::Kind;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for n in [1 << 44, usize::MAX / 8, usize::MAX] {
            let error = filled(0u64, n).unwrap_err();
            assert_eq!(error.kind, Kind::Memory);
            assert!(error.message.contains("cannot allocate") && !error.advice.is_empty(), "{error}");
        }
        assert_eq!(collected(0..100_000).unwrap().len(), 100_000);
        assert_eq!(collected((0..1000).filter(|k| k % 3 == 0)).unwrap().len(), 334);
        assert_eq!(filled(7u8, 3).unwrap(), [7, 7, 7]);
        assert!(all_of((0..3).map(|k| if k == 2 { product([MOST, 2]) } else { Ok(k) })).is_err());
    }

    #[test]
    fn a_task_without_memory_fails_its_call() {
        use verdigris_ops::parallel::stoppable;
        let mut kept = Vec::new();
        assert!(stoppable(|| grow_task_buffer(&mut kept, 1000, 0u8)).unwrap());
        assert!(grow_task_buffer(&mut kept, 10, 0u8) && kept.len() == 1000);
        let error = stoppable(|| grow_task_buffer(&mut kept, 1 << 60, 0u8)).unwrap_err();
        assert_eq!((error.kind, kept.len()), (Kind::Memory, 1000));
    }

    #[test]
    fn a_product_that_is_no_number_is_an_error() {
        assert_eq!(product([]).unwrap(), 1);
        assert_eq!(product([usize::MAX, 0, usize::MAX]).unwrap(), 0);
        assert_eq!(product([1 << 26, 1 << 26]).unwrap(), MOST);
        assert_eq!(product([usize::MAX, 2]).unwrap_err().kind, Kind::Shape);
    }
}
