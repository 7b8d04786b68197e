//! Entries: joining arrays, permuting axes, and views.

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{fact_cache, Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::rule::promote;

use crate::array::device::is_capturing;
use crate::array::{attributes, convert, handle};
use crate::entries::entry::entries;
use crate::r::{self, values, *};

/// The arrays and numbers of a list as arrays on a device, and the dtype that is given or that all promote to.
fn operands(parts: Vec<SEXP>, dtype: Option<DType>, device: Device) -> Result<(Vec<Array>, DType)> {
    let operands = parts.into_iter().map(|x| convert::operand(x, device)).collect::<Result<Vec<_>>>()?;
    let types: Vec<_> = operands.iter().map(Operand::typed).collect();
    let dtype = match dtype {
        Some(dtype) => dtype,
        None if types.is_empty() => return Err(Error::new(Kind::Argument, "there is nothing to join")),
        None => promote(&types),
    };
    let arrays = operands.into_iter().map(|operand| match operand {
        Operand::Array(a) | Operand::Vector(a, _) => Ok(a),
        Operand::Value(scalar, _) => Array::full(scalar, dtype, 1, device),
    });
    Ok((arrays.collect::<Result<Vec<_>>>()?, dtype))
}

/// A list of consecutive views of these lengths, with dimensions unless `dim` is NULL.
///
/// # Safety
/// `dim` is NULL or protected, and fits each view.
unsafe fn views(array: &Array, lengths: impl ExactSizeIterator<Item = usize>, dim: SEXP) -> Result<SEXP> {
    let mut start = 0;
    // SAFETY: the list is protected while its elements are made, and each element while it gets its attributes.
    unsafe {
        let out = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, lengths.len() as R_xlen_t));
        for (k, extent) in lengths.enumerate() {
            let part = Axis { of: 0, start, step: 1, extent };
            let part = match array.strided(&[array.len()], &[part]).and_then(|part| part.fixed()) {
                Ok(part) => part,
                Err(error) => {
                    Rf_unprotect(1);
                    return Err(error);
                }
            };
            let part = Rf_protect(handle::new_without_attributes(part));
            if !r::is_null(dim) {
                r::Rf_setAttrib(part, r::R_DimSymbol, dim);
            }
            SET_VECTOR_ELT(out, k as R_xlen_t, attributes::classed(part));
            Rf_unprotect(1);
            start += extent;
        }
        Rf_unprotect(1);
        Ok(out)
    }
}

entries! {
    /// Concatenates the elements of a list's arrays and host vectors on `device`, without attributes, in the given
    /// dtype or the one that all promote to.
    fn join(parts: Vec<SEXP>, dtype: Option<DType>, device: Device) -> Result<Array> {
        let (parts, dtype) = operands(parts, dtype, device)?;
        Array::join(&parts, dtype, device)
    }

    /// `c()` of arrays and plain numbers without names; NULL if there is anything else.
    fn combine(parts: Vec<SEXP>) -> Result<Option<Array>> {
        let mut device = None;
        for &x in &parts {
            match convert::array_or_none(x)? {
                Some(array) => device = device.or(Some(array.device())),
                // SAFETY: reading a flag.
                None if unsafe { Rf_isObject(x) } == Rboolean::FALSE && values::kind(x).is_some() => {}
                None => return Ok(None),
            }
            if attributes::has_names(x) {
                return Ok(None);
            }
        }
        let Some(device) = device else { return Ok(None) };
        let (parts, dtype) = operands(parts, None, device)?;
        Array::join(&parts, dtype, device).map(Some)
    }

    /// `rbind()` of matrices with this number of columns; NULL if the device has no kernel for it.
    fn join_rows(parts: Vec<SEXP>, columns: Vec<usize>, device: Device) -> Result<Option<Array>> {
        let (parts, dtype) = operands(parts, None, device)?;
        let columns = columns.first().copied().unwrap_or(0);
        if columns == 0 || parts.iter().any(|part| part.len() % columns != 0) {
            return Err(Error::new(Kind::Argument, "matrices that are joined have columns"));
        }
        Array::join_rows(&parts, columns, dtype, device)
    }

    /// The elements at 0-based positions, recorded; NA for positions out of bounds. Unlike `x[i]`, whose length depends
    /// on the positions, this never waits for them.
    fn gather(x: Array, positions: Array) -> Result<Array> {
        x.gather(&positions)
    }

    /// Records that `result`, which R code keeps, was computed from x; FALSE if either may change unnoticed, or if a
    /// graph is being recorded, whose launches compute it.
    fn note_derived(result: Array, x: Array) -> Result<bool> {
        Ok(!is_capturing(x.device())? && fact_cache::note_derived(&result, &x))
    }

    /// Whether `result` is recorded as computed from x, and both are as they were. FALSE while a graph is recorded,
    /// whose launches may find other values in x.
    fn is_derived(result: Array, x: Array) -> Result<bool> {
        Ok(!is_capturing(x.device())? && fact_cache::is_derived(&result, &x))
    }

    /// A view of an array of shape `dim`, without dimensions. Each axis of the view, fastest first, has `extent`
    /// elements along axis `of` (1-based) from `start` (0-based) on, `step` apart.
    fn strided(
        x: Array,
        dim: Vec<usize>,
        of: Vec<usize>,
        start: Vec<usize>,
        step: SEXP,
        extent: Vec<usize>,
    ) -> Result<Array> {
        let Some(Host::Double(step)) = values::host(step) else {
            return Err(Error::new(Kind::Argument, "the steps of a view are doubles"));
        };
        if [start.len(), extent.len(), step.len()] != [of.len(); 3] || of.contains(&0) {
            return Err(Error::new(Kind::Argument, "each axis of a view has `of`, `start`, `step` and `extent`"));
        }
        let axes: Vec<Axis> = (0..of.len())
            .map(|k| Axis { of: of[k] - 1, start: start[k], step: step[k] as isize, extent: extent[k] })
            .collect();
        x.strided(&dim, &axes)?.fixed()
    }

    /// A list of consecutive views with dimensions `dim`.
    fn slices(array: Array, dim: SEXP) -> Result<SEXP> {
        let shape = values::sizes(dim)?;
        let size = verdigris_engine::memory::fallible::product(shape.iter().copied())?;
        // SAFETY: whole numbers can be coerced to integers, which are protected while they are in use.
        unsafe {
            let extents = Rf_protect(r::Rf_coerceVector(dim, SEXPTYPE::INTSXP));
            let out = views(&array, std::iter::repeat_n(size, array.len() / size.max(1)), extents);
            Rf_unprotect(1);
            out
        }
    }

    /// A list of consecutive views of these lengths.
    fn pieces(array: Array, lengths: Vec<usize>) -> Result<SEXP> {
        if lengths.iter().sum::<usize>() > array.len() {
            return Err(Error::new(Kind::Argument, "pieces are within their array"));
        }
        // SAFETY: no dimensions are given.
        unsafe { views(&array, lengths.into_iter(), r::null()) }
    }

    /// A permutation of axes, such as the transpose: a view, or a copy if others may write to the memory. `permutation`
    /// is 1-based.
    fn permute(x: Array, dim: Vec<usize>, permutation: Vec<usize>) -> Result<Array> {
        let axis = |p: usize| p.checked_sub(1).and_then(|k| Some(Axis::whole(k, *dim.get(k)?)));
        let axes: Option<Vec<Axis>> = permutation.into_iter().map(axis).collect();
        let axes = axes.ok_or_else(|| Error::new(Kind::Argument, "the permutation names another dimension"))?;
        x.view(&dim, &axes)?.fixed()
    }

    /// As `permute`, for a matrix with its dimensions.
    fn transpose(x: SEXP) -> Result<SEXP> {
        let (array, dim) = (convert::array(x)?, attributes::extents(x)?);
        let &[rows, columns] = &dim[..] else { return Err(Error::new(Kind::Argument, "argument is not a matrix")) };
        let turned = array.view(&dim, &[Axis::whole(1, columns), Axis::whole(0, rows)])?.fixed()?;
        handle::new_of_dim(turned, &[columns, rows])
    }
}
