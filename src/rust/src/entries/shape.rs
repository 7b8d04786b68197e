//! Entries: joined arrays, permuted axes, and views that repeat or overlap.

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{Array, Operand};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::rule::promote;

use crate::array::{attributes, convert, handle};
use crate::entries::entry::entries;
use crate::r::{self, values, *};

/// The arrays and numbers of a list on a device, and the dtype that all meet in unless one is given.
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

/// A list of consecutive views, with dimensions unless these are NULL.
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
            let part = Rf_protect(handle::bare(part));
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
    /// The elements of a list's arrays and host numbers one after the other, without attributes, on `device`, in the
    /// dtype that all meet in unless one is given.
    fn join(parts: Vec<SEXP>, dtype: Option<DType>, device: Device) -> Result<Array> {
        let (parts, dtype) = operands(parts, dtype, device)?;
        Array::join(&parts, dtype, device)
    }

    /// What `c()` makes of arrays and ordinary numbers without names; NULL of anything else beside them.
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

    /// The same of matrices with so many columns, the rows of one below those of the other; NULL where the device has
    /// no pass for that.
    fn join_rows(parts: Vec<SEXP>, columns: Vec<usize>, device: Device) -> Result<Option<Array>> {
        let (parts, dtype) = operands(parts, None, device)?;
        let columns = columns.first().copied().unwrap_or(0);
        if columns == 0 || parts.iter().any(|part| part.len() % columns != 0) {
            return Err(Error::new(Kind::Argument, "matrices that are joined have columns"));
        }
        Array::join_rows(&parts, columns, dtype, device)
    }

    /// A view of an array of shape `dim`, flat. Each axis, fastest first, walks axis `of` (from 1) from `start` (from
    /// 0) on by `step` for `extent` elements.
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

    /// A list of views, each of as many elements as the product of `dim`, one after the other, with `dim` as their
    /// dimensions.
    fn slices(array: Array, dim: SEXP) -> Result<SEXP> {
        let shape = values::sizes(dim)?;
        let size = verdigris_engine::memory::fallible::product(shape.iter().copied())?;
        // SAFETY: integers are made of whole numbers, and protected while they are in use.
        unsafe {
            let extents = Rf_protect(r::Rf_coerceVector(dim, SEXPTYPE::INTSXP));
            let out = views(&array, std::iter::repeat_n(size, array.len() / size.max(1)), extents);
            Rf_unprotect(1);
            out
        }
    }

    /// A list of views of so many elements each, one after the other.
    fn pieces(array: Array, lengths: Vec<usize>) -> Result<SEXP> {
        if lengths.iter().sum::<usize>() > array.len() {
            return Err(Error::new(Kind::Argument, "pieces are within their array"));
        }
        // SAFETY: no dimensions are given.
        unsafe { views(&array, lengths.into_iter(), r::null()) }
    }

    /// The transpose or any permutation of axes, as a view where nobody else writes to the memory: `permutation` counts
    /// from 1.
    fn permute(x: Array, dim: Vec<usize>, permutation: Vec<usize>) -> Result<Array> {
        let axes: Vec<Axis> = permutation.into_iter().map(|p| Axis::whole(p - 1, dim[p - 1])).collect();
        x.view(&dim, &axes)?.fixed()
    }
}
