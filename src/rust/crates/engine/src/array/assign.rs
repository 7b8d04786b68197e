//! Assignment to part of an array. The array's own memory is written if nothing else can read it; otherwise a new
//! buffer replaces it. If the assigned values read the array, the old buffer is an input of the kernel that fills the
//! new one, so no element is read after it was written.

use std::sync::Arc;

use crate::array::fact_cache;
use crate::array::strided::{overlaps, store};
use crate::array::Array;
use crate::backend::{self, cpu, Base};
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::counters;
use verdigris_ops::dtype::Kind;
use verdigris_ops::error::Result;
use verdigris_ops::layout::{Axis, Layout};
use verdigris_ops::rule::{promote, Typed};
use verdigris_ops::scalar::Scalar;

/// The outcome of an assignment.
pub enum Assigned {
    /// The values were written to the array's own memory.
    InPlace,
    /// A new array holds the result. `warned`: computing the values may have raised a warning, which R may turn into an
    /// error.
    New { array: Array, warned: bool },
}

fn written_in_place(buffer: &Arc<Buffer>) {
    fact_cache::invalidate(buffer);
    counters::IN_PLACE.add(1);
}

/// On the cpu device, values of at least this many elements are computed before they are written in place, because the
/// computation can be interrupted.
const LONG: usize = 1 << 14;

impl Array {
    /// The array's view if it may be written in place, else None. Required: the caller's `holders` references are the
    /// only ones to the node, nothing else holds the buffer, no code outside knows its address, no two elements overlap
    /// (as in the view that `embed()` makes), and no CUDA graph is being captured, since each launch would write again.
    fn own(&self, holders: usize) -> Result<Option<View>> {
        if Arc::strong_count(self.node()) != holders {
            return Ok(None);
        }
        let Some(view) = self.node().sole().filter(|view| !overlaps(&view.layout)) else { return Ok(None) };
        let backend = backend::of(view.buffer.device)?;
        let records = backend.tracks() && backend.streams().is_some_and(|streams| streams.is_capturing());
        Ok((!records).then_some(view))
    }

    /// Assigns one R number to one element (0-based) in place. Returns false if the array may not be written in place,
    /// or if the value would change the dtype.
    ///
    /// # Errors
    /// Those of the device.
    pub fn assign_one(&self, place: usize, value: Scalar, kind: Kind, holders: usize) -> Result<bool> {
        let dtype = self.dtype();
        let keeps = promote(&[Typed::Array(dtype), Typed::Value(kind)]) == dtype;
        if !keeps || kind == Kind::Integer64 || place >= self.len() {
            return Ok(false);
        }
        let Some(view) = self.own(holders)? else { return Ok(false) };
        let part = View { layout: Layout::new(view.layout.offset_of(place), &[1], &[1]), ..view };
        if self.device() == Device::Cpu {
            cpu::set(&part, value.to(dtype.class()));
        } else {
            let (plan, bound) = Array::full(value, dtype, 1, self.device())?.plan()?;
            backend::of(self.device())?.put(&plan, &bound, &part, None)?;
        }
        written_in_place(&part.buffer);
        Ok(true)
    }

    /// `self[ranges] <- value`, with a range for each axis of `dim`. `value` has this array's dtype and one element for
    /// each selected position; at least one position is selected.
    ///
    /// # Errors
    /// Those of computing; the array is unchanged then.
    pub fn assign_ranges(&self, dim: &[usize], axes: &[Axis], value: &Array, holders: usize) -> Result<Assigned> {
        let backend = backend::of(self.device())?;
        let (dtype, n, size) = (self.dtype(), self.len(), self.dtype().size());
        let alone = Arc::strong_count(self.node()) == holders;
        let cheap = !alone && self.costs_a_copy();
        if !cheap {
            self.compute()?;
        }
        let (plan, bound) = value.planned(true)?;
        let warned = !bound.sites.is_empty();
        // A value that reads this array holds its buffer from here on, so `own` returns None.
        if let Some(view) = self.own(holders)?.filter(|_| !warned) {
            if let Some(layout) = view.layout.view(dim, axes) {
                let part = View { layout, ..view };
                let done = if self.device() == Device::Cpu && part.len() >= LONG {
                    let (plan, bound) = Array::from_view(value.contiguous()?).plan()?;
                    backend.put(&plan, &bound, &part, None)?
                } else {
                    backend.put(&plan, &bound, &part, None)?
                };
                if !done {
                    store(value, &part)?;
                }
                written_in_place(&part.buffer);
                return Ok(Assigned::InPlace);
            }
        }
        let whole = View::contiguous(backend.allocate(n * size)?, dtype, n);
        let part = View { layout: whole.layout.view(dim, axes).unwrap_or(Layout::contiguous(0)), ..whole.clone() };
        let base = if cheap {
            let (plan, bound) = self.planned(true)?;
            backend.run(&plan, &bound, std::slice::from_ref(&whole.buffer))?;
            None
        } else {
            Some(self.contiguous()?)
        };
        let around = base.as_ref().map(|view| Base { view, dim, axes });
        if !backend.put(&plan, &bound, &part, around.as_ref())? {
            if let Some(view) = &base {
                backend.copy(&view.buffer, view.layout.offset() * size, &whole.buffer, 0, n * size)?;
            }
            store(value, &part)?;
        }
        Ok(Assigned::New { array: Array::from_view(whole), warned })
    }

    /// `self[at] <- values`. `at` holds 0-based int64 positions; of equal positions the last one wins. `values` have
    /// this array's dtype and are recycled.
    ///
    /// # Errors
    /// Those of computing; the array is unchanged then.
    pub fn assign_at(&self, at: &Array, values: &Array, holders: usize) -> Result<Assigned> {
        if Arc::strong_count(self.node()) == holders {
            self.compute()?;
        }
        let warned = !values.is_ready() && !values.plan()?.1.sites.is_empty();
        let (at, values) = (at.contiguous()?, values.contiguous()?);
        if let Some(view) = self.own(holders)?.filter(|_| !warned) {
            if view.layout.is_contiguous() && view.layout.offset() == 0 {
                if !at.is_empty() && !values.is_empty() {
                    backend::of(self.device())?.scatter(&view.buffer, self.dtype(), self.len(), &at, &values)?;
                }
                written_in_place(&view.buffer);
                return Ok(Assigned::InPlace);
            }
        }
        let (at, values) = (Array::from_view(at), Array::from_view(values));
        Ok(Assigned::New { array: self.scatter(&at, &values, self.len())?, warned })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Operand;
    use crate::testing::{apply, array, twice, values};

    const MIDDLE: [Axis; 1] = [Axis { of: 0, start: 1, step: 1, extent: 2 }];

    fn address(x: &Array) -> u64 {
        x.evaluate().expect("values").address()
    }

    #[test]
    fn what_nobody_else_holds_is_written_in_place() {
        let x = array(&[1.0, 2.0, 3.0, 4.0]);
        let at = address(&x);
        let value = twice(&array(&[10.0, 20.0]));
        assert!(matches!(x.assign_ranges(&[4], &MIDDLE, &value, 1), Ok(Assigned::InPlace)));
        assert!(x.assign_one(3, Scalar::I32(7), Kind::Integer, 1).expect("written"));
        assert_eq!((values(&x), address(&x)), (vec![1.0, 20.0, 40.0, 7.0], at));
        // in turn: a second reference to the array, a view of its memory, shared memory, another dtype
        let other = x.clone();
        assert!(!x.assign_one(0, Scalar::F64(5.0), Kind::Double, 1).expect("asked"));
        drop(other);
        let view = x.view(&[4], &MIDDLE).expect("a view").evaluate().expect("values");
        assert!(!x.assign_one(0, Scalar::F64(5.0), Kind::Double, 1).expect("asked"));
        drop(view);
        assert!(!x.assign_one(0, Scalar::C128([5.0, 0.0]), Kind::Complex, 1).expect("asked"));
        assert!(x.assign_one(0, Scalar::F64(5.0), Kind::Double, 1).expect("asked"));
        x.evaluate().expect("values").buffer.share();
        assert!(!x.assign_one(0, Scalar::F64(6.0), Kind::Double, 1).expect("asked"));
        assert_eq!(values(&x), [5.0, 20.0, 40.0, 7.0]);
    }

    #[test]
    fn elements_that_share_a_place_are_not_written_in_place() {
        // overlapping windows of two elements, as embed() makes them
        let windows = [Axis { of: 0, start: 0, step: 1, extent: 3 }, Axis { of: 0, start: 0, step: 1, extent: 2 }];
        let view = || {
            let x = array(&[1.0, 2.0, 3.0, 4.0]);
            let made = x.view(&[4], &windows).expect("a view");
            made.compute().expect("values");
            made
        };
        let x = view();
        assert!(!x.assign_one(1, Scalar::F64(9.0), Kind::Double, 1).expect("asked"));
        let rows = [Axis { of: 0, start: 1, step: 1, extent: 1 }, Axis { of: 1, start: 0, step: 1, extent: 2 }];
        let Ok(Assigned::New { array: new, .. }) = x.assign_ranges(&[3, 2], &rows, &array(&[8.0, 9.0]), 1) else {
            panic!("two elements are one place")
        };
        assert_eq!(values(&new), [1.0, 8.0, 3.0, 2.0, 9.0, 4.0]);
        assert_eq!(values(&x), [1.0, 2.0, 3.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_value_that_reads_the_array_goes_to_a_second_buffer() {
        let x = array(&[1.0, 2.0, 3.0, 4.0]);
        let part = |start| x.view(&[4], &[Axis { start, ..MIDDLE[0] }]).expect("a view");
        let value = apply("add", &[part(0), part(2)].map(Operand::Array));
        let Ok(Assigned::New { array: new, warned: false }) = x.assign_ranges(&[4], &MIDDLE, &value, 1) else {
            panic!("it is written over while it is read")
        };
        assert_eq!(values(&new), [1.0, 4.0, 6.0, 4.0]);
        assert_eq!(values(&x), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn strided_parts_of_matrices_are_written_where_they_lie() {
        let host: Vec<f64> = (0..35).map(f64::from).collect();
        let axes = [Axis { of: 0, start: 1, step: 2, extent: 2 }, Axis { of: 1, start: 6, step: -3, extent: 3 }];
        let value = twice(&array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let mut expected = host.clone();
        for k in 0..6 {
            expected[1 + 2 * (k % 2) + 5 * (6 - 3 * (k / 2))] = 2.0 * (k as f64 + 1.0);
        }
        let x = array(&host);
        assert!(matches!(x.assign_ranges(&[5, 7], &axes, &value, 1), Ok(Assigned::InPlace)));
        assert_eq!(values(&x), expected);
        let (x, held) = (array(&host), array(&host));
        let _other = held.clone();
        let Ok(Assigned::New { array: new, .. }) = held.assign_ranges(&[5, 7], &axes, &value, 1) else { panic!() };
        assert_eq!((values(&new), values(&held)), (expected, values(&x)));
    }
}
