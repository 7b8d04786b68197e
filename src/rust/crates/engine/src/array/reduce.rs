//! Reductions of arrays: over all elements, computed at once or deferred, and within groups.

use std::sync::Arc;

use super::{reads_volatile, Array, Operand};
use crate::backend::{self, Deferred, Outcome};
use crate::graph::builder::recycle;
use crate::graph::node::{Args, Expr, Node, Operation};
use crate::graph::postpone;
use crate::memory::buffer::Device;
use crate::plan::warning;
use verdigris_ops::dtype::{Class, DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::id;
use verdigris_ops::reduction::{Groups, Reduction};
use verdigris_ops::scalar::Scalar;

impl Array {
    /// Casts the array to the dtype that the reduction reads; also returns the class that computes.
    fn reducible(&self, reduction: Reduction) -> Result<(Array, Class)> {
        let class = reduction
            .class(self.dtype().class())
            .ok_or_else(|| Error::new(ErrorKind::DType, "invalid 'type' (complex) of argument"))?;
        let array = match reduction {
            Reduction::Any | Reduction::All => self.in_dtype(DType::Bool8)?,
            _ => self.in_class(class)?,
        };
        Ok((array, class))
    }

    /// Reduces all elements to a value on the host, and waits. Returns the result's dtype and the value.
    pub fn reduce(&self, reduction: Reduction, na_rm: bool) -> Result<(DType, Outcome)> {
        let (array, class) = self.reducible(reduction)?;
        let (plan, bound) = array.planned(true)?;
        let outcome = backend::of(self.device())?.reduce(&plan, &bound, reduction, na_rm)?;
        recycle(plan, bound);
        Ok((reduction.result(class), outcome))
    }

    /// As `reduce`, but does not wait: returns the dtype and a deferred value. None if the device computes
    /// synchronously, or if the value's type depends on the elements.
    pub fn reduce_later(&self, reduction: Reduction, na_rm: bool) -> Result<Option<(DType, Box<dyn Deferred>)>> {
        let (array, class) = self.reducible(reduction)?;
        if self.device() == Device::Cpu || !reduction.is_deferrable(class, self.len(), na_rm) {
            return Ok(None);
        }
        let (plan, bound) = array.planned(true)?;
        let deferred = backend::of(self.device())?.reduce_later(&plan, &bound, reduction, na_rm)?;
        recycle(plan, bound);
        Ok(deferred.map(|deferred| (reduction.result(class), deferred)))
    }

    /// Whether the reduction gives one number whose type does not depend on the elements, and has nothing to report at
    /// once.
    pub fn is_deferrable(&self, reduction: Reduction, na_rm: bool) -> bool {
        self.reducible(reduction).is_ok_and(|(_, class)| reduction.is_deferrable(class, self.len(), na_rm))
    }

    /// Reduces within groups to an array of `groups.count()` values. Recorded, so that the reduction's kernel can also
    /// compute the operations on its results.
    pub fn reduce_groups(&self, reduction: Reduction, na_rm: bool, groups: Groups) -> Result<Array> {
        self.reduced(reduction, na_rm, groups, false)
    }

    /// As `reduce_groups`, but float64 results become float32 if the elements are no wider than float32.
    pub fn reduce_groups_in_width(&self, reduction: Reduction, na_rm: bool, groups: Groups) -> Result<Array> {
        self.reduced(reduction, na_rm, groups, self.dtype().class() == Class::F32)
    }

    /// Records an overflow check for int64 sums within groups, which warns; other values are returned unchanged.
    /// `least` computes the minimum of each group.
    pub(crate) fn checked(
        self,
        reduction: Reduction,
        na_rm: bool,
        of: DType,
        least: impl FnOnce() -> Result<Array>,
    ) -> Result<Array> {
        if reduction != Reduction::Sum || of != DType::Int64 || self.is_empty() {
            return Ok(self);
        }
        let least = if na_rm { Operand::Value(Scalar::I64(0), Kind::Integer64) } else { Operand::Array(least()?) };
        Array::apply(id::CHECKED_SUM, &[Operand::Array(self), least], warning::no_call())
    }

    fn reduced(&self, reduction: Reduction, na_rm: bool, groups: Groups, narrow: bool) -> Result<Array> {
        let sums = self.reduced_unchecked(reduction, na_rm, groups, narrow)?;
        sums.checked(reduction, na_rm, self.dtype(), || self.reduced_unchecked(Reduction::Min, false, groups, false))
    }

    fn reduced_unchecked(&self, reduction: Reduction, na_rm: bool, groups: Groups, narrow: bool) -> Result<Array> {
        let (array, class) = self.reducible(reduction)?;
        let (dtype, count) = (reduction.result(class), groups.count() * reduction.width());
        let expr =
            Expr { op: Operation::Reduce { reduction, na_rm, groups }, class, args: Args::of(&array.node), site: None };
        let at_once = reads_volatile(&expr.args);
        let results = Array::of(Arc::new(Node::lazy(dtype, count, self.device(), expr)));
        let latest = Arc::downgrade(results.node());
        let out = if narrow && dtype == DType::Float64 {
            let narrowed = results.cast(DType::Float32, None)?;
            // Other references to the results make the kernel store them; drop this one first.
            drop(results);
            narrowed
        } else {
            results
        };
        postpone::postpone(latest, out.node(), self.len() * self.dtype().size())?;
        if reduction.width() > 1 || at_once {
            out.evaluate()?;
        }
        Ok(out)
    }
}
