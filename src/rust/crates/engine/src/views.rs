//! Views: elements in another order, or some of them, on the same memory. A view of a few recorded operations is those
//! operations on views of their operands, so `t(t(x) / s)` reads and writes along memory.

use std::sync::Arc;

use crate::array::Array;
use crate::buffer::View;
use crate::epilogue;
use crate::error::{Error, Kind, Result};
use crate::expr::{Arg, Args, Expr, Node, Operation};
use crate::layout::{Axis, Layout};

/// So many recorded operations are done again for each view of them, rather than stored.
const CHEAP: u32 = 4;

impl Array {
    /// The same values in another order, or some of them: on the same memory where they are computed, recorded where they are a
    /// few recorded operations. `dim` is this array's shape; `axes` describe the view, fastest first.
    pub fn view(&self, dim: &[usize], axes: &[Axis]) -> Result<Array> {
        let n: usize = axes.iter().map(|a| a.extent).product();
        if n > 0 && !self.is_ready() && self.node().weight <= CHEAP && dim.iter().product::<usize>() == self.len() {
            if let Some(recorded) = recorded(self.node(), dim, axes)? {
                return Ok(Array::of(recorded));
            }
        }
        let view = self.settle()?;
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
}

/// The operations of a recorded array on views of what they read; None where there is more to it than elements: what depends on
/// the index, what may warn, which concerns all elements, or an operand that does not repeat along whole axes.
fn recorded(node: &Arc<Node>, dim: &[usize], axes: &[Axis]) -> Result<Option<Arc<Node>>> {
    let len: usize = dim.iter().product();
    if node.len != len {
        return repeated(node, dim, axes);
    }
    let Some(expr) = node.expr() else {
        return Ok(Some(Array::of(node.clone()).view(dim, axes)?.node().clone()));
    };
    let Operation::Row(op) = expr.op else { return Ok(None) };
    if op.row().rule.uses_index() || op.may_warn(expr.class) {
        return Ok(None);
    }
    let mut args = Args::new();
    for arg in expr.args.iter() {
        args.push(match arg {
            Arg::Node(below) => match recorded(below, dim, axes)? {
                Some(below) => Arg::Node(below),
                None => return Ok(None),
            },
            Arg::Scalar(scalar) => Arg::Scalar(*scalar),
        });
    }
    let extent = axes.iter().map(|a| a.extent).product();
    Ok(Some(Arc::new(Node::lazy(node.dtype, extent, node.device, Expr { args, ..expr }))))
}

/// A shorter operand, which is recycled: it repeats along the axes behind those that it fills.
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
        if let Some(repeated) = epilogue::repeated(node, times) {
            return Ok(Some(repeated));
        }
    }
    let view = Array::of(node.clone()).contiguous()?;
    Ok(of(view.layout.offset()).map(|layout| Array::from_view(View { layout, ..view }).node().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Operand;
    use crate::testing::{apply, array, twice, values};

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
        // three fill no axis of two: computed first
        let across = plus(&[10.0, 20.0, 30.0]).view(&[2, 3], &TRANSPOSED).unwrap();
        assert!(across.is_ready());
        assert_eq!(values(&across), [11.0, 33.0, 25.0, 22.0, 14.0, 36.0]);
        // there and back again is along memory
        let there = apply(
            "add",
            &[Operand::Array(x.view(&[2, 3], &TRANSPOSED).unwrap()), Operand::Array(array(&[1.0, 2.0, 3.0]))],
        );
        let back = there.view(&[3, 2], &[Axis::whole(1, 2), Axis::whole(0, 3)]).unwrap();
        assert!(!back.is_ready());
        assert_eq!(values(&back), [2.0, 3.0, 5.0, 6.0, 8.0, 9.0]);
    }

    #[test]
    fn results_go_on_to_the_elements_of_their_groups() {
        use crate::explain::explain;
        use crate::reduction::{Groups, Reduction};
        let (rows, columns) = (600, 513);
        let host: Vec<f64> = (0..rows * columns).map(|i| (i * 7 % 11) as f64).collect();
        let x = array(&host);
        let sums = x.reduce_groups(Reduction::Sum, false, Groups { outer: columns, length: rows, inner: 1 }).unwrap();
        let half = apply(
            "mul",
            &[
                Operand::Array(sums.clone()),
                Operand::Value(crate::scalar::Scalar::F64(0.5), crate::dtype::Kind::Double),
            ],
        );
        let across = [Axis::whole(1, columns), Axis::whole(0, rows)];
        let back = [Axis::whole(1, rows), Axis::whole(0, columns)];
        let t = x.view(&[rows, columns], &across).unwrap();
        let centred = apply("sub", &[Operand::Array(t), Operand::Array(half)]).view(&[columns, rows], &back).unwrap();
        assert!(!centred.is_ready() && !sums.is_ready());
        assert_eq!(explain(&centred).len(), 1);
        let expected = |i: usize| host[i] - host[i / rows * rows..][..rows].iter().sum::<f64>() * 0.5;
        let found = values(&centred);
        assert!((0..rows * columns).all(|i| found[i] == expected(i)));
        // nobody has asked for the results
        assert!(!sums.is_ready());
        assert_eq!(values(&sums)[3], host[3 * rows..][..rows].iter().sum::<f64>());
    }

    #[test]
    fn what_may_warn_is_computed_for_all_elements() {
        let root = apply("sqrt", &[Operand::Array(array(&[1.0, 4.0, 9.0, 16.0]))]);
        assert!(root.view(&[2, 2], &[Axis::whole(1, 2), Axis::whole(0, 2)]).unwrap().is_ready());
    }
}
