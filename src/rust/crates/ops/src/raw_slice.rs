//! Slices from addresses. Empty memory may have a null or unaligned address, which a slice may not: R returns 1 for
//! vectors without elements, and empty buffers have 0.

/// The slice of `n` elements at `start`.
///
/// # Safety
/// `n` is 0, or the memory holds `n` values, aligned, which nobody writes meanwhile.
pub unsafe fn slice<'a, T>(start: *const T, n: usize) -> &'a [T] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, n) }
}

/// The same, mutable.
///
/// # Safety
/// As for `slice`; nobody else uses the memory meanwhile.
pub unsafe fn slice_mut<'a, T>(start: *mut T, n: usize) -> &'a mut [T] {
    if n == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(start, n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_elements_may_lie_anywhere() {
        for address in [0usize, 1] {
            // SAFETY: there are none.
            unsafe {
                assert!(slice(address as *const u64, 0).is_empty());
                assert!(slice_mut(address as *mut [u64; 2], 0).is_empty());
            }
        }
        let mut values = [1u16, 2];
        // SAFETY: two values.
        unsafe {
            slice_mut(values.as_mut_ptr(), 2)[1] = 5;
            assert_eq!(slice(values.as_ptr(), 2), [1, 5]);
        }
    }
}
