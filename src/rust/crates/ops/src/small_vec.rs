//! A vector that keeps up to N values inline, and more of them on the heap, so that a launch allocates nothing.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

pub struct SmallVec<T, const N: usize> {
    inline: [MaybeUninit<T>; N],
    /// The number of inline values.
    len: usize,
    /// All values, if there are more than `N`.
    many: Vec<T>,
}

impl<T, const N: usize> Default for SmallVec<T, N> {
    fn default() -> SmallVec<T, N> {
        SmallVec { inline: [const { MaybeUninit::uninit() }; N], len: 0, many: Vec::new() }
    }
}

impl<T, const N: usize> SmallVec<T, N> {
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len < N && self.many.is_empty() {
            self.inline[self.len].write(value);
            self.len += 1;
        } else {
            self.push_far(value);
        }
    }

    #[cold]
    fn push_far(&mut self, value: T) {
        let len = std::mem::take(&mut self.len);
        // SAFETY: the inline values are moved out, and no longer counted.
        self.many.extend(self.inline[..len].iter().map(|value| unsafe { value.assume_init_read() }));
        self.many.push(value);
    }
}

impl<T, const N: usize> Deref for SmallVec<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        if self.many.is_empty() {
            // SAFETY: the first `len` were written.
            unsafe { std::slice::from_raw_parts(self.inline.as_ptr().cast(), self.len) }
        } else {
            &self.many
        }
    }
}

impl<T, const N: usize> DerefMut for SmallVec<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.many.is_empty() {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts_mut(self.inline.as_mut_ptr().cast(), self.len) }
        } else {
            &mut self.many
        }
    }
}

impl<T, const N: usize> Drop for SmallVec<T, N> {
    fn drop(&mut self) {
        // SAFETY: the first `len` were written, and are dropped once.
        self.inline[..self.len].iter_mut().for_each(|value| unsafe { value.assume_init_drop() });
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn values_keep_their_order_and_are_dropped_once() {
        for n in 0..10 {
            let counted = Rc::new(());
            let mut held = SmallVec::<(usize, Rc<()>), 4>::default();
            for k in 0..n {
                held.push((k, counted.clone()));
            }
            assert!(held.iter().map(|(k, _)| *k).eq(0..n));
            if let Some(last) = held.last_mut() {
                last.0 = 77;
            }
            assert_eq!(held.last().map(|(k, _)| *k), (n > 0).then_some(77));
            assert_eq!(Rc::strong_count(&counted), n + 1);
            drop(held);
            assert_eq!(Rc::strong_count(&counted), 1);
        }
    }
}
