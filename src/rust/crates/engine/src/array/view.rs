//! Views: a permutation or part of the elements in the same memory. A view of a few recorded operations is recorded as
//! those operations on views of their operands, so `t(t(x) / s)` reads and writes whole cache lines.

use std::sync::Arc;

use crate::array::Array;
use crate::graph::epilogue;
use crate::graph::node::Node;
use crate::memory::buffer::{Device, View};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::{Axis, Layout};

impl Array {
    /// The same values in another order, or some of them. A computed array is viewed in place; a few recorded
    /// operations are recorded on views of their operands. `dim` is this array's shape; `axes` describe the view,
    /// fastest axis first.
    pub fn view(&self, dim: &[usize], axes: &[Axis]) -> Result<Array> {
        let n = crate::memory::fallible::product(axes.iter().map(|a| a.extent))?;
        if n > 0 && !self.is_ready() && self.node().cost.is_cheap() && dim.iter().product::<usize>() == self.len() {
            if let Some(recorded) = recorded(self.node(), dim, axes)? {
                return Ok(Array::of(recorded));
            }
        }
        let view = self.evaluate()?;
        if n == 0 {
            return Ok(Array::from_view(View { layout: Layout::contiguous(0), ..view }));
        }
        let layout = match view.layout.view(dim, axes) {
            Some(layout) => layout,
            None => {
                let view = self.contiguous()?;
                return view
                    .layout
                    .view(dim, axes)
                    .map(|layout| Array::from_view(View { layout, ..view }))
                    .ok_or_else(|| Error::new(Kind::Shape, "the dimensions do not fit the array's length"));
            }
        };
        Ok(Array::from_view(View { layout, ..view }))
    }

    /// As `view`, for a subscript. On the cpu device a few computed elements are copied instead: a view of them would
    /// keep all of the memory alive, and keep it from being written in place, until R collects the view.
    pub fn part(&self, dim: &[usize], axes: &[Axis]) -> Result<Array> {
        const FEW: usize = 4096;
        let part = self.view(dim, axes)?;
        if part.device() == Device::Cpu
            && self.is_ready()
            && part.len() * part.dtype().size() <= FEW
            && !part.is_shared()
        {
            return Array::duplicate(&part.evaluate()?);
        }
        Ok(part)
    }
}

/// Records the operations of a node on views of their operands. None for operations that depend on the index or may
/// warn (warnings concern all elements), and for operands that are not recycled along whole axes.
fn recorded(node: &Arc<Node>, dim: &[usize], axes: &[Axis]) -> Result<Option<Arc<Node>>> {
    let len: usize = dim.iter().product();
    if node.len != len {
        return repeated(node, dim, axes);
    }
    let Some(expr) = node.expr() else {
        return Ok(Some(Array::of(node.clone()).view(dim, axes)?.node().clone()));
    };
    if !expr.is_by_element() {
        return Ok(None);
    }
    node.over(expr, axes.iter().map(|a| a.extent).product(), |below| recorded(below, dim, axes))
}

/// A recycled operand as a view: it fills the first axes, and repeats along the others.
fn repeated(node: &Arc<Node>, dim: &[usize], axes: &[Axis]) -> Result<Option<Arc<Node>>> {
    let mut filled = 1;
    let along = dim.iter().take_while(|&&extent| {
        let more = filled < node.len;
        filled *= if more { extent } else { 1 };
        more
    });
    let along = along.count();
    if filled != node.len {
        return Ok(None);
    }
    let mut strides = Vec::with_capacity(dim.len());
    let mut step = 1;
    for (axis, &extent) in dim.iter().enumerate() {
        strides.push(if axis < along { step } else { 0 });
        step *= extent as isize;
    }
    let of = |offset: usize| Layout::new(offset, dim, &strides).view(dim, axes);
    let n: usize = axes.iter().map(|a| a.extent).product();
    let times = n / node.len;
    if of(0) == Some(Layout::new(0, &[times, node.len], &[0, 1])) {
        if let Some(repeated) = epilogue::repeated(node, times)? {
            return Ok(Some(repeated));
        }
    }
    let view = Array::of(node.clone()).contiguous()?;
    Ok(of(view.layout.offset()).map(|layout| Array::from_view(View { layout, ..view }).node().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::explain::explain;
    use crate::array::Operand;
    use crate::memory::buffer::Device;
    use crate::testing::{apply, array, twice, values};
    use verdigris_ops::dtype::{Class, DType, Kind};
    use verdigris_ops::id;
    use verdigris_ops::reduction::{Groups, Reduction};
    use verdigris_ops::scalar::Scalar;

    const TRANSPOSED: [Axis; 2] =
        [Axis { of: 1, start: 0, step: 1, extent: 3 }, Axis { of: 0, start: 0, step: 1, extent: 2 }];

    #[test]
    fn a_view_of_what_is_recorded_is_recorded() {
        let x = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let recorded = twice(&x);
        let t = recorded.view(&[2, 3], &TRANSPOSED).unwrap();
        assert!(!t.is_ready() && !recorded.is_ready());
        assert_eq!(values(&t), [2.0, 6.0, 10.0, 4.0, 8.0, 12.0]);
        let slice = [Axis { of: 0, start: 1, step: 1, extent: 1 }, Axis::whole(1, 3)];
        assert_eq!(values(&twice(&x).view(&[2, 3], &slice).unwrap()), [4.0, 8.0, 12.0]);
    }

    #[test]
    fn shorter_operands_repeat_along_whole_axes() {
        let x = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let plus = |v: &[f64]| apply("add", &[Operand::Array(x.clone()), Operand::Array(array(v))]);
        let rows = plus(&[10.0, 20.0]).view(&[2, 3], &TRANSPOSED).unwrap();
        assert!(!rows.is_ready());
        assert_eq!(values(&rows), [11.0, 13.0, 15.0, 22.0, 24.0, 26.0]);
        // three elements do not fill an axis of two, so the operation is computed first
        let across = plus(&[10.0, 20.0, 30.0]).view(&[2, 3], &TRANSPOSED).unwrap();
        assert!(across.is_ready());
        assert_eq!(values(&across), [11.0, 33.0, 25.0, 22.0, 14.0, 36.0]);
        // transposed twice is memory order again
        let there = apply(
            "add",
            &[Operand::Array(x.view(&[2, 3], &TRANSPOSED).unwrap()), Operand::Array(array(&[1.0, 2.0, 3.0]))],
        );
        let back = there.view(&[3, 2], &[Axis::whole(1, 2), Axis::whole(0, 3)]).unwrap();
        assert!(!back.is_ready());
        assert_eq!(values(&back), [2.0, 3.0, 5.0, 6.0, 8.0, 9.0]);
    }

    const ROWS: usize = 600;
    const COLUMNS: usize = 513;

    /// A matrix whose columns one block would read twice, and its column sums, recorded.
    fn matrix() -> (Vec<f64>, Array, Array) {
        let host: Vec<f64> = (0..ROWS * COLUMNS).map(|i| (i * 7 % 11) as f64).collect();
        let x = array(&host);
        let groups = Groups { outer: COLUMNS, length: ROWS, inner: 1 };
        let sums = x.reduce_groups(Reduction::Sum, false, groups).unwrap();
        (host, x, sums)
    }

    /// `t(t(x) - y)`, with an element of `y` for each column.
    fn centred(x: &Array, y: Array) -> Array {
        let t = x.view(&[ROWS, COLUMNS], &[Axis::whole(1, COLUMNS), Axis::whole(0, ROWS)]).unwrap();
        let gap = apply("sub", &[Operand::Array(t), Operand::Array(y)]);
        gap.view(&[COLUMNS, ROWS], &[Axis::whole(1, ROWS), Axis::whole(0, COLUMNS)]).unwrap()
    }

    #[test]
    fn results_go_on_to_the_elements_of_their_groups() {
        let (host, x, sums) = matrix();
        let half = Operand::Value(Scalar::F64(0.5), Kind::Double);
        let centred = centred(&x, apply("mul", &[Operand::Array(sums.clone()), half]));
        assert!(!centred.is_ready() && !sums.is_ready());
        assert_eq!(explain(&centred).len(), 1);
        let expected = |i: usize| host[i] - host[i / ROWS * ROWS..][..ROWS].iter().sum::<f64>() * 0.5;
        let found = values(&centred);
        assert!((0..ROWS * COLUMNS).all(|i| found[i] == expected(i)));
        // later readers find the sums computed
        assert!(sums.is_ready());
        assert_eq!(values(&sums)[3], host[3 * ROWS..][..ROWS].iter().sum::<f64>());
    }

    #[test]
    fn an_index_among_results_is_not_that_of_an_element() {
        let (host, x, sums) = matrix();
        let steps = [Scalar::F64(0.5), Scalar::F64(1.0)];
        let steps = Array::source(id::SEQ, Class::F64, DType::Float64, COLUMNS, Device::Cpu, &steps).unwrap();
        let found = values(&centred(&x, apply("add", &[Operand::Array(sums), Operand::Array(steps)])));
        let expected =
            |i: usize| host[i] - (host[i / ROWS * ROWS..][..ROWS].iter().sum::<f64>() + 0.5 + (i / ROWS) as f64);
        assert!((0..ROWS * COLUMNS).all(|i| found[i] == expected(i)));
    }

    #[test]
    fn what_may_warn_is_computed_for_all_elements() {
        let root = apply("sqrt", &[Operand::Array(array(&[1.0, 4.0, 9.0, 16.0]))]);
        assert!(root.view(&[2, 2], &[Axis::whole(1, 2), Axis::whole(0, 2)]).unwrap().is_ready());
    }
}
