//! Cross products of weighted columns whose weights depend on a linear predictor, as iteratively reweighted least squares
//! needs them: the predictor, what is computed from it for each row, and the products, in one pass over the columns.

use std::sync::Arc;

use super::gram::combination;
use super::Array;
use crate::backend;
use crate::backend::gram::{Gram, PlannedGram, MOST_COLUMNS, MOST_SUMS};
use crate::graph::evaluate;
use crate::graph::node::Node;
use crate::memory::buffer::{Buffer, Device, View};
use crate::memory::fallible;
use crate::plan::{Access, Bound, Plan};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::scalar::Scalar;

/// What is computed for each row, as operations recorded on computed arrays of `rows` float64 elements.
pub struct Recorded<'a> {
    /// The array in place of which a pass uses its own predictor.
    pub predictor: &'a Array,
    /// Computed arrays that the operations read, each with the operations that give it. Named here, an array is
    /// computed anew from the predictor, and not read.
    pub steps: &'a [(Array, Array)],
    /// Factors by which the rows of the columns are multiplied.
    pub scale: &'a Array,
    /// Further columns, which are not multiplied.
    pub rights: &'a [Array],
    /// Values to add up.
    pub sums: &'a [Array],
    /// Arrays that do not depend on the predictor.
    pub fixed: &'a [Array],
}

/// Columns, and the program of what is computed for each row.
pub struct WeightedGram {
    device: Device,
    rows: usize,
    columns: Vec<Option<Array>>,
    stored: Vec<Option<View>>,
    rights: usize,
    plan: Plan,
    bound: Bound,
    /// The plan's input that is the predictor.
    input: u16,
}

/// The results of a pass.
pub struct Pass {
    pub predictor: Array,
    pub scale: Array,
    /// The cross products of the columns and right sides, unless `rights` are given; then the sums.
    pub results: Array,
    /// The right sides, for `gram::gram`, where they were computed by a kernel of their own.
    pub rights: Option<Vec<Array>>,
}

impl WeightedGram {
    /// Columns are as for `gram::gram`. Returns `None` if the operations do not fit one kernel, have other types, or
    /// read an array that is neither fixed nor computed from the predictor by the steps.
    ///
    /// # Errors
    /// `Shape` for other lengths, or too many columns; `Memory`.
    pub fn new(columns: Vec<Option<Array>>, recorded: &Recorded<'_>) -> Result<Option<WeightedGram>> {
        let (rows, device) = (recorded.predictor.len(), recorded.predictor.device());
        let outputs = || std::iter::once(recorded.scale).chain(recorded.rights).chain(recorded.sums);
        let steps = || recorded.steps.iter().flat_map(|(values, operations)| [values, operations]);
        let is_alike = |x: &Array| x.len() == rows && x.device() == device;
        let are_alike = columns.iter().flatten().chain(outputs()).chain(steps()).all(is_alike);
        let are_few = columns.len() + recorded.rights.len() <= MOST_COLUMNS && recorded.sums.len() <= MOST_SUMS;
        if rows == 0 || !are_few || !are_alike {
            return Err(Error::new(Kind::Shape, "columns of other lengths or devices, or too many"));
        }
        let is_double = |x: &Array| x.dtype() == DType::Float64;
        if !outputs().all(is_double) || !columns.iter().flatten().all(is_double) {
            return Ok(None);
        }
        let mut stored = fallible::with_capacity(columns.len())?;
        for column in &columns {
            stored.push(column.as_ref().map(Array::contiguous).transpose()?);
        }
        let predictor = recorded.predictor.contiguous()?;
        let roots: Vec<Arc<Node>> =
            recorded.steps.iter().map(|(_, x)| x).chain(outputs()).map(|x| x.node().clone()).collect();
        let mut builder = evaluate::builder(&roots, false)?.unmarked();
        for (values, operations) in recorded.steps {
            let register = builder.node(operations.node());
            builder.stand_for(values.node(), register);
        }
        let registers: Vec<_> = outputs().map(|x| (builder.node(x.node()), DType::Float64)).collect();
        if !builder.fits() {
            return Ok(None);
        }
        let (plan, bound) = builder.outputs(&registers);
        let is = |view: &View, other: &View| Arc::ptr_eq(&view.buffer, &other.buffer);
        let of_predictor: Vec<usize> = (0..bound.inputs.len()).filter(|&k| is(&bound.inputs[k], &predictor)).collect();
        let is_fixed = |view: &View| recorded.fixed.iter().any(|x| x.node().view().is_some_and(|x| is(view, &x)));
        let [input] = of_predictor[..] else { return Ok(None) };
        let others = (0..bound.inputs.len()).filter(|&k| k != input);
        if plan.inputs[input].access != Access::Linear || !others.map(|k| &bound.inputs[k]).all(is_fixed) {
            return Ok(None);
        }
        let (rights, input) = (recorded.rights.len(), input as u16);
        Ok(Some(WeightedGram { device, rows, columns, stored, rights, plan, bound, input }))
    }

    /// A pass with the predictor `before` plus the columns times the numbers `by`, added from first to last; without
    /// numbers it is `before`. Where one kernel cannot do it all, or is not compiled yet, cross products are left to
    /// `gram::gram`, which gives the same bits. Returns `None` if the device has no kernel for sums.
    ///
    /// # Errors
    /// `Shape` for other lengths; `Memory`; those of kernels.
    pub fn pass(&self, by: &[f64], before: Option<&Array>) -> Result<Option<Pass>> {
        let is_whole = by.len() == self.columns.len() || by.is_empty() && before.is_some();
        if !is_whole || before.is_some_and(|x| x.len() != self.rows || x.dtype() != DType::Float64) {
            return Err(Error::new(Kind::Shape, "a number for each column is needed"));
        }
        let before = before.map(Array::contiguous).transpose()?;
        let m = self.columns.len() + self.rights;
        let [predictor, scale] = [self.doubles(self.rows)?, self.doubles(self.rows)?];
        let results = self.doubles(m * m + self.sums())?;
        let job = PlannedGram {
            columns: &self.stored,
            plan: &self.plan,
            bound: &self.bound,
            rights: self.rights,
            input: self.input,
            by,
            before: before.as_ref(),
        };
        let stored = [&predictor, &scale].map(|view| &view.buffer);
        if backend::of(self.device)?.planned_gram(&job, stored, &results.buffer)? {
            let [predictor, scale, results] = [predictor, scale, results].map(Array::from_view);
            return Ok(Some(Pass { predictor, scale, results, rights: None }));
        }
        drop(predictor);
        self.pass_in_parts(by, before, scale)
    }

    /// A pass by several kernels.
    fn pass_in_parts(&self, by: &[f64], before: Option<View>, scale: View) -> Result<Option<Pass>> {
        let backend = backend::of(self.device)?;
        let predictor = match before {
            Some(before) if by.is_empty() => before,
            before => match combination(&self.columns, by, before.map(Array::from_view))? {
                Some(predictor) => predictor.contiguous()?,
                None => {
                    let sum = by.iter().sum();
                    Array::full(Scalar::F64(sum), DType::Float64, self.rows, self.device)?.contiguous()?
                }
            },
        };
        let mut bound = self.bound.clone();
        bound.inputs[self.input as usize] = predictor.clone();
        let mut outputs = fallible::with_capacity(self.plan.outputs.len())?;
        outputs.push(scale.buffer.clone());
        for _ in 0..self.rights + self.sums() {
            outputs.push(self.doubles(self.rows)?.buffer);
        }
        backend.run(&self.plan, &bound, &outputs)?;
        let view = |buffer: &Arc<Buffer>| View::contiguous(buffer.clone(), DType::Float64, self.rows);
        let (rights, summed) = outputs[1..].split_at(self.rights);
        let sums: Vec<View> = summed.iter().map(view).collect();
        let results = self.doubles(self.sums())?;
        let job = Gram { columns: &[], rows: self.rows, scale: None, scaled: 0, sums: &sums };
        let made = sums.is_empty() || backend.gram(&job, &results.buffer)?;
        let rights = rights.iter().map(|buffer| Array::from_view(view(buffer))).collect();
        let [predictor, scale, results] = [predictor, scale, results].map(Array::from_view);
        Ok(made.then_some(Pass { predictor, scale, results, rights: Some(rights) }))
    }

    /// The number of values to add up.
    fn sums(&self) -> usize {
        self.plan.outputs.len() - 1 - self.rights
    }

    fn doubles(&self, count: usize) -> Result<View> {
        let buffer = backend::of(self.device)?.allocate(count * DType::Float64.size())?;
        Ok(View::contiguous(buffer, DType::Float64, count))
    }
}
