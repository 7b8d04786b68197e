//! Grouped operations: counts, reductions by group, lookups in tables, and order statistics. An int32 code for each
//! element says to which group it belongs.

use crate::array::subscript::range_of;
use crate::array::Array;
use crate::backend;
use crate::memory::buffer::{Device, View};
use verdigris_ops::dtype::natural_dtype;
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::reduction::Reduction;
use verdigris_ops::rule::{self, Typed};

fn no_complex(dtype: DType) -> Result<()> {
    match dtype {
        DType::Complex64 | DType::Complex128 => {
            Err(Error::new(Kind::DType, "complex values have no order").advise("Use the host: `as.vector(x)`."))
        }
        _ => Ok(()),
    }
}

impl Array {
    /// Counts the elements equal to each of the `bins` integers from `low` on (int64). The last count, at index `bins`,
    /// is that of all other elements, missing ones included.
    ///
    /// # Errors
    /// `DType` for complex values; `Memory`.
    pub fn count_bins(&self, low: i64, bins: usize) -> Result<Array> {
        no_complex(self.dtype())?;
        // A bool of 2 is NA, and must not be counted as the integer 2.
        let reaches_na = self.dtype() == DType::Bool8 && low.saturating_add(bins as i64) > 2;
        let values = match self.dtype() {
            dtype if dtype.is_half() => self.cast(DType::Float32, None)?,
            DType::Bool8 if reaches_na => self.cast(DType::Int32, None)?,
            _ => self.clone(),
        };
        let counts = backend::of(self.device())?.count_bins(&values.contiguous()?, low, bins)?;
        Ok(Array::from_view(View::contiguous(counts, DType::Int64, bins + 1)))
    }

    /// Reduces the elements of each code (int32, from 1 to `groups`; other codes are ignored) to one value, in a fixed
    /// order; several columns, each as long as the codes, one after the other. Sums of integers are int64. Returns None if there are too many groups for this method; the caller should
    /// then sort by code.
    ///
    /// # Errors
    /// `DType` for complex values, `Shape` where lengths differ; `Memory`.
    pub fn reduce_coded(
        &self,
        codes: &Array,
        groups: usize,
        reduction: Reduction,
        na_rm: bool,
    ) -> Result<Option<Array>> {
        no_complex(self.dtype())?;
        let (n, rows) = (self.len(), codes.len());
        let columns = if rows > 0 && n % rows == 0 { n / rows } else { 1 };
        if columns == 0 || columns * rows != n || !Reduction::GROUPED.contains(&reduction) {
            return Err(Error::new(Kind::Shape, "each element needs a code"));
        }
        let class = reduction.class(self.dtype().class()).expect("what is not complex is reduced");
        let values = self.cast(natural_dtype(class), None)?.contiguous()?;
        let codes = codes.cast(DType::Int32, None)?.contiguous()?;
        let found = backend::of(self.device())?.reduce_coded(&values, &codes, groups, reduction, na_rm)?;
        let made = |found: Option<_>, reduction: Reduction| {
            found.map(|buffer| Array::from_view(View::contiguous(buffer, reduction.result(class), columns * groups)))
        };
        let Some(results) = made(found, reduction) else { return Ok(None) };
        let least = || {
            let found = backend::of(self.device())?.reduce_coded(&values, &codes, groups, Reduction::Min, false)?;
            Ok(made(found, Reduction::Min).expect("a device that sums groups has their extremes"))
        };
        results.checked(reduction, na_rm, self.dtype(), least).map(Some)
    }

    /// For each element, how many elements of `table` (sorted, without missing values) are less than or equal to it, or
    /// less than it if `strictly` (int32).
    ///
    /// # Errors
    /// `DType` for complex values, `Device`, `Memory`.
    pub fn search(&self, table: &Array, strictly: bool) -> Result<Array> {
        let (values, table) = self.beside(table)?;
        let positions = backend::of(self.device())?.search(&values, &table, strictly)?;
        Ok(Array::from_view(View::contiguous(positions, DType::Int32, self.len())))
    }

    /// For each element, the 1-based position (int32) of its first occurrence in `table`; 0 if it does not occur or is
    /// missing. Returns None if the caller should search a sorted table instead.
    ///
    /// # Errors
    /// As `search`.
    pub fn matches(&self, table: &Array) -> Result<Option<Array>> {
        let (values, table) = self.beside(table)?;
        let found = backend::of(self.device())?.matches(&values, &table)?;
        Ok(found.map(|positions| Array::from_view(View::contiguous(positions, DType::Int32, self.len()))))
    }

    /// Casts these values and a table to their common type, stored in the dtype in which its class computes.
    fn beside(&self, table: &Array) -> Result<(View, View)> {
        let meet = rule::promote(&[Typed::Array(self.dtype()), Typed::Array(table.dtype())]);
        no_complex(meet)?;
        if self.device() != table.device() || table.len() > i32::MAX as usize {
            return Err(Error::new(Kind::Device, "the table is on another device, or too long"));
        }
        let natural = natural_dtype(meet.class());
        Ok((self.cast(natural, None)?.contiguous()?, table.cast(natural, None)?.contiguous()?))
    }

    /// The 0-based positions (int32, ascending) of the first occurrences of values that are not missing. Returns None
    /// if the caller should sort instead.
    ///
    /// # Errors
    /// `DType` for complex values; `Memory`.
    pub fn firsts(&self) -> Result<Option<Array>> {
        no_complex(self.dtype())?;
        let class = self.dtype().class();
        let values = self.cast(natural_dtype(class), None)?.contiguous()?;
        // A GPU uses a table indexed by value for integers of a small range.
        let between = if self.device() != Device::Cpu && matches!(class, Class::I32 | Class::I64) {
            let (low, high) = range_of(&Array::from_view(values.clone()).cast(DType::Int64, None)?, true)?;
            (low <= high).then_some((low, high))
        } else {
            None
        };
        Ok(backend::of(self.device())?.firsts(&values, between)?.map(Array::from_view))
    }

    /// The elements at 0-based ranks among the values that are not missing, and the number of missing values. The
    /// elements are None if a rank is not less than the number of values that are not missing. Returns None if the
    /// caller should sort instead.
    pub fn ranks(&self, ranks: &[usize]) -> Result<Option<(Option<Array>, usize)>> {
        let found = backend::of(self.device())?.ranks(&self.contiguous()?, ranks)?;
        Ok(found.map(|found| (found.values.map(Array::from_view), found.missing)))
    }
}
