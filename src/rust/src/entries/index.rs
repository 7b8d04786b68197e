//! Entries: subsetting and assignment. `subset.c` and `R/array-index.R` set names and dimensions.

use std::os::raw::c_int;

use verdigris_engine::array::assign::Assigned;
use verdigris_engine::array::strided;
use verdigris_engine::array::subscript::{self, Fault, Selection};
use verdigris_engine::array::{Array, Operand};
use verdigris_ops::dtype::Kind as NumberKind;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::rule::{promote, Typed};

use crate::array::handle::Handle;
use crate::array::{convert, handle};
use crate::entries::entry::for_c;
use crate::r::{self, conditions, values, *};

/// Reads a subscript: NULL means the whole axis. `Err(text)` inside is a fault that R words.
fn selection(i: SEXP, n: usize, bounded: bool, like: &Array) -> Result<std::result::Result<Selection, Fault>> {
    if r::is_null(i) {
        return Ok(Ok(Selection::whole(n)));
    }
    if handle::of(i).is_some() || r::inherits(i, "gpu_array") {
        let subscript = convert::array(i)?.to_device(like.device())?;
        if let Some(found) = subscript::from_array(&subscript, n, bounded)? {
            return Ok(found);
        }
    }
    if let Some(array) = convert::unread(i, like.device())? {
        if let Some(found) = subscript::from_array(&array, n, bounded)? {
            return Ok(found);
        }
    }
    let data = values::host(i).ok_or_else(|| {
        Error::new(Kind::Argument, format!("a subscript must be numbers or logicals, not {}", values::describe(i)))
    })?;
    subscript::from_host(data, n, bounded, like.device())
}

/// A logical array that has an element for each of the `n`, and lives where the other does.
fn mask(i: SEXP, n: usize, like: &Array) -> Result<Option<Array>> {
    let mask = if handle::of(i).is_some() || r::inherits(i, "gpu_array") {
        convert::array(i)?
    } else {
        let Some(mask) = convert::unread(i, like.device())? else { return Ok(None) };
        mask
    };
    let fits = mask.dtype().kind() == NumberKind::Logical && mask.len() == n && mask.device() == like.device();
    Ok(fits.then_some(mask))
}

/// A fault as R code sees it: a string.
fn fault(fault: Fault) -> SEXP {
    r::string(match fault {
        Fault::Mixed => "mixed",
        Fault::OutOfBounds => "bounds",
        Fault::TooLong => "long",
    })
}

/// The selections of all axes.
fn selections(subscripts: SEXP, dim: &[usize], like: &Array) -> Result<std::result::Result<Vec<Selection>, Fault>> {
    let mut out = Vec::new();
    for (k, &n) in dim.iter().enumerate() {
        // SAFETY: a list with an element for each axis.
        let i = unsafe { VECTOR_ELT(subscripts, k as R_xlen_t) };
        match selection(i, n, dim.len() > 1, like)? {
            Ok(found) => out.push(found),
            Err(fault) => return Ok(Err(fault)),
        }
    }
    Ok(Ok(out))
}

fn checked_dim(dim: SEXP, subscripts: SEXP, array: &Array) -> Result<Vec<usize>> {
    let dim = values::sizes(dim)?;
    // SAFETY: a list that R code made.
    let given = unsafe { Rf_xlength(subscripts) } as usize;
    if given != dim.len() || dim.iter().product::<usize>() != array.len() {
        return Err(Error::new(Kind::Shape, "the subscripts do not fit the array's dimensions"));
    }
    Ok(dim)
}

/// The places of the elements that the selections mean together, counted from 0.
fn positions(dim: &[usize], found: &[Selection], array: &Array) -> Result<Array> {
    match found {
        [one] => one.positions(array.device()),
        _ => subscript::combine(dim, found, array.device()),
    }
}

/// `x[i, j, ...]` of an array with this shape, flat; or a string that names a fault. `extents` is NULL, or integers
/// that take how many elements each axis' subscript selects.
fn subset(x: SEXP, dim: SEXP, subscripts: SEXP, extents: SEXP) -> Result<SEXP> {
    let array = convert::array(x)?;
    let dim = checked_dim(dim, subscripts, &array)?;
    if let [n] = dim[..] {
        // SAFETY: a list with an element for each axis.
        if let Some(mask) = mask(unsafe { VECTOR_ELT(subscripts, 0) }, n, &array)? {
            return Ok(handle::wrap(array.mask(&mask)?));
        }
    }
    let found = match selections(subscripts, &dim, &array)? {
        Ok(found) => found,
        Err(f) => return Ok(fault(f)),
    };
    if !r::is_null(extents) {
        for (k, selection) in found.iter().enumerate() {
            let extent = c_int::try_from(selection.len())
                .map_err(|_| Error::new(Kind::Shape, "an extent is above 2147483647, which R's `dim` cannot say"))?;
            // SAFETY: an integer vector that C made, with an element for each axis.
            unsafe { *INTEGER(extents).add(k) = extent };
        }
    }
    let ranges = ranges(&found);
    // the first few of a recorded array, as head() and editors ask for them, are computed without the rest
    if let (Some([axis]), [_]) = (ranges.as_deref(), &dim[..]) {
        let end = if axis.extent == 0 { 0 } else { axis.start + 1 + (axis.extent - 1) * axis.step.unsigned_abs() };
        let prefix = if axis.step > 0 && !array.is_ready() { array.short_prefix(end)? } else { None };
        if let Some(prefix) = prefix {
            return Ok(handle::wrap(prefix.view(&[end], &[Axis { of: 0, ..*axis }])?));
        }
    }
    let out = match ranges {
        Some(axes) => array.part(&dim, &axes)?.fixed()?,
        None => match subscript::taken(&array, &dim, &found)? {
            Some(taken) => taken,
            None => {
                let positions = positions(&dim, &found, &array)?;
                let is_inside = found.iter().zip(&dim).all(|(s, &n)| !s.any_na() && s.top() <= n);
                if is_inside {
                    array.gather_inside(&positions)?
                } else {
                    array.gather(&positions)?
                }
            }
        },
    };
    Ok(handle::wrap(out))
}

/// The selections, where all are ranges.
fn ranges(found: &[Selection]) -> Option<Vec<Axis>> {
    let axis = |(of, selection): (usize, &Selection)| match *selection {
        Selection::Range { start, step, count } => Some(Axis { of, start, step, extent: count }),
        Selection::At { .. } => None,
    };
    found.iter().enumerate().map(axis).collect()
}

/// What an assignment gives R: `x` itself where it was written in place, or took the values.
fn assigned(x: SEXP, target: Option<&Handle>, done: Assigned) -> Result<SEXP> {
    match (done, target) {
        (Assigned::InPlace, Some(handle)) => handle.written(),
        (Assigned::New { array, warned: false }, Some(handle)) => handle.rewrite(array)?,
        (Assigned::New { array, .. }, _) => return Ok(handle::wrap(array)),
        (Assigned::InPlace, None) => unreachable!("what is no target is not written"),
    }
    Ok(x)
}

/// The handle of a target, whose memory nothing but the array's own counts protects. `is_target`: R assigns to `x`,
/// which nobody else refers to.
fn target<'a>(x: SEXP, is_target: SEXP) -> Option<&'a Handle> {
    // SAFETY: a logical that C made.
    let is_target = unsafe { r::LOGICAL_ELT(is_target, 0) } == 1;
    handle::of(x).filter(|handle| is_target && handle.is_writable())
}

/// `x` with `x[i, j, ...] <- value`: `x` itself, or a new array, flat and maybe longer; or a string that names a
/// fault. `count` is one double that takes how many elements are assigned to.
fn assign(x: SEXP, dim: SEXP, subscripts: SEXP, value: SEXP, count: SEXP, is_target: SEXP) -> Result<SEXP> {
    let array = convert::array(x)?;
    strided::refuse_overlap(&array, "x")?;
    let dim = checked_dim(dim, subscripts, &array)?;
    let found = match selections(subscripts, &dim, &array)? {
        Ok(found) => found,
        Err(f) => return Ok(fault(f)),
    };
    let (selected, given) = (found.iter().map(Selection::len).product::<usize>(), r::len(value));
    // base R returns an empty vector to which an empty one of its type is assigned, whatever is selected
    // SAFETY: both are vectors.
    if given == 0 && array.is_empty() && unsafe { TYPEOF(x) == TYPEOF(value) } {
        return Ok(x);
    }
    if selected > 0 && given == 0 {
        return Ok(r::string("zero"));
    }
    if given > 1 && found.iter().any(Selection::any_na) {
        return Ok(r::string("na"));
    }
    if dim.len() > 1 && selected > 0 && selected % given != 0 {
        return Ok(r::string("uneven"));
    }
    // SAFETY: a double that C made.
    unsafe { *REAL(count) = selected as f64 };
    // assignment past the end extends a vector, and so does a logical subscript that is longer
    let n = if dim.len() == 1 {
        // SAFETY: a list with an element for each axis; arrays of logicals have that type too.
        let i = unsafe { VECTOR_ELT(subscripts, 0) };
        let asked = if unsafe { TYPEOF(i) } == SEXPTYPE::LGLSXP { r::len(i) } else { 0 };
        array.len().max(found[0].top()).max(asked)
    } else {
        array.len()
    };
    let adopts = convert::fits(value, array.dtype());
    let value = convert::operand(value, array.device())?;
    let like = if adopts { array.dtype() } else { promote(&[Typed::Array(array.dtype()), value.typed()]) };
    let stays = like == array.dtype() && n == array.len();
    // a warning of what does not fit may become an error, which leaves `x` as it was
    let handle = target(x, is_target).filter(|_| stays && selected % value.extent().max(1) == 0);
    if selected == 0 && handle.is_some() {
        return Ok(x);
    }
    // each place takes one element: where they are ranges, one kernel writes them
    let by_place = value.extent() == selected || matches!(value, Operand::Value(..));
    let ranges = if stays && by_place && selected > 0 { ranges(&found) } else { None };
    let values = match value {
        Operand::Array(v) | Operand::Vector(v, _) => v.to_device(array.device())?,
        Operand::Value(scalar, _) => {
            let count = if ranges.is_some() { selected } else { 1 };
            Array::full(scalar, like, count, array.device())?
        }
    };
    // the references to the node that the handle has, and we
    let holders = if handle.is_some() { 2 } else { usize::MAX };
    if let Some(axes) = ranges {
        return assigned(x, handle, array.assign_ranges(&dim, &axes, &values.cast(like, None)?, holders)?);
    }
    let at = positions(&dim, &found, &array)?;
    drop(found);
    if stays {
        return assigned(x, handle, array.assign_at(&at, &values.cast(like, None)?, holders)?);
    }
    Ok(handle::wrap(array.cast(like, None)?.scatter(&at, &values, n)?))
}

for_c! {
    subset(x, dim, subscripts, extents);
    assign(x, dim, subscripts, value, count, is_target);
}

/// `x[place] <- value`, a number, in place: `x` is a target of an assignment of R's that nobody else refers to. 1 where
/// that was done; 0 where it failed, -1 where it cannot be.
#[no_mangle]
extern "C" fn vg_assign_one(x: SEXP, place: isize, value: SEXP) -> c_int {
    let done = conditions::attempt(|| {
        let Some(handle) = handle::of(x).filter(|handle| handle.is_writable()) else { return Ok(false) };
        let Some((value, kind)) = values::scalar(value) else { return Ok(false) };
        // the handle's reference to the node
        let done = handle.with_array(|array| array.assign_one(place as usize, value, kind, 1))??;
        if done {
            handle.written();
        }
        Ok(done)
    });
    done.map_or(0, |done| if done { 1 } else { -1 })
}
