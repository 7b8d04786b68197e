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

/// Classifies a subscript on an axis of `n` elements; NULL means the whole axis. `bounded`: positions beyond `n` are
/// faults. The inner error is a fault for which R code raises base R's error.
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
    if let Some(array) = convert::device_array_if_unread(i, like.device())? {
        if let Some(found) = subscript::from_array(&array, n, bounded)? {
            return Ok(found);
        }
    }
    let data = values::host(i).ok_or_else(|| {
        Error::new(Kind::Argument, format!("a subscript must be numbers or logicals, not {}", values::describe(i)))
    })?;
    subscript::from_host(data, n, bounded, like.device())
}

/// The subscript as a logical array of length `n` on the device of `like`; `None` for other subscripts.
fn mask(i: SEXP, n: usize, like: &Array) -> Result<Option<Array>> {
    let mask = if handle::of(i).is_some() || r::inherits(i, "gpu_array") {
        convert::array(i)?
    } else {
        let Some(mask) = convert::device_array_if_unread(i, like.device())? else { return Ok(None) };
        mask
    };
    let fits = mask.dtype().kind() == NumberKind::Logical && mask.len() == n && mask.device() == like.device();
    Ok(fits.then_some(mask))
}

/// A fault as a string for R code.
fn fault(fault: Fault) -> SEXP {
    r::string(match fault {
        Fault::Mixed => "mixed",
        Fault::OutOfBounds => "bounds",
        Fault::TooLong => "long",
    })
}

/// The selections on all axes.
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

/// The 0-based flat positions of the elements that the selections select together.
fn positions(dim: &[usize], found: &[Selection], array: &Array) -> Result<Array> {
    match found {
        [one] => one.positions(array.device()),
        _ => subscript::combine(dim, found, array.device()),
    }
}

/// `x[i, j, ...]` for an array of shape `dim`, without dimensions; or a string that names a fault. `extents` is NULL,
/// or an integer vector that receives the number of elements selected on each axis.
fn subset(x: SEXP, dim: SEXP, subscripts: SEXP, extents: SEXP) -> Result<SEXP> {
    let array = convert::array(x)?;
    let dim = checked_dim(dim, subscripts, &array)?;
    if let [n] = dim[..] {
        // SAFETY: a list with an element for each axis.
        if let Some(mask) = mask(unsafe { VECTOR_ELT(subscripts, 0) }, n, &array)? {
            return Ok(handle::new_vector(array.mask(&mask)?));
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
    // the first few elements of a recorded array, for head() and editors, are computed without the rest
    if let (Some([axis]), [_]) = (ranges.as_deref(), &dim[..]) {
        let end = if axis.extent == 0 { 0 } else { axis.start + 1 + (axis.extent - 1) * axis.step.unsigned_abs() };
        let prefix = if axis.step > 0 && !array.is_ready() { array.short_prefix(end)? } else { None };
        if let Some(prefix) = prefix {
            return Ok(handle::new_vector(prefix.view(&[end], &[Axis { of: 0, ..*axis }])?));
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
    Ok(handle::new_vector(out))
}

/// The selections as axes, if all are ranges.
fn ranges(found: &[Selection]) -> Option<Vec<Axis>> {
    let axis = |(of, selection): (usize, &Selection)| match *selection {
        Selection::Range { start, step, count } => Some(Axis { of, start, step, extent: count }),
        Selection::At { .. } => None,
    };
    found.iter().enumerate().map(axis).collect()
}

/// The result of an assignment for R: `x` itself if it was written in place or its handle took the new array, else a
/// new vector.
fn assigned(x: SEXP, target: Option<&Handle>, done: Assigned) -> Result<SEXP> {
    match (done, target) {
        (Assigned::InPlace, Some(handle)) => handle.written(),
        (Assigned::New { array, warned: false }, Some(handle)) => handle.rewrite(array)?,
        (Assigned::New { array, .. }, _) => return Ok(handle::new_vector(array)),
        (Assigned::InPlace, None) => unreachable!("what is no target is not written"),
    }
    Ok(x)
}

/// The handle of x if it may be written: R assigns to x and nothing else refers to it (`is_target`), and the handle
/// allows writes. The engine still checks the references to the node.
fn target<'a>(x: SEXP, is_target: SEXP) -> Option<&'a Handle> {
    // SAFETY: a logical that C made.
    let is_target = unsafe { r::LOGICAL_ELT(is_target, 0) } == 1;
    handle::of(x).filter(|handle| is_target && handle.is_writable())
}

/// `x[i, j, ...] <- value`: returns `x` itself, or a new array without dimensions, which may be longer; or a string
/// that names a fault. `count` is a double that receives the number of elements assigned to.
fn assign(x: SEXP, dim: SEXP, subscripts: SEXP, value: SEXP, count: SEXP, is_target: SEXP) -> Result<SEXP> {
    let array = convert::array(x)?;
    strided::refuse_overlap(&array, "x")?;
    let dim = checked_dim(dim, subscripts, &array)?;
    let found = match selections(subscripts, &dim, &array)? {
        Ok(found) => found,
        Err(f) => return Ok(fault(f)),
    };
    let (selected, given) = (found.iter().map(Selection::len).product::<usize>(), r::len(value));
    // like base R, assigning an empty vector to an empty one of the same type does nothing, whatever is selected
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
    // a position past the end extends a vector, and so does a longer logical subscript
    let n = if dim.len() == 1 {
        // SAFETY: a list with an element for each axis; arrays of logicals have that type too.
        let i = unsafe { VECTOR_ELT(subscripts, 0) };
        let asked = if unsafe { TYPEOF(i) } == SEXPTYPE::LGLSXP { r::len(i) } else { 0 };
        array.len().max(found[0].top()).max(asked)
    } else {
        array.len()
    };
    // the longest vector of R; the size in bytes must not overflow
    if n > 1 << 52 {
        return Ok(r::string("vast"));
    }
    let adopts = convert::fits(value, array.dtype());
    let value = convert::operand(value, array.device())?;
    let like = if adopts { array.dtype() } else { promote(&[Typed::Array(array.dtype()), value.typed()]) };
    let stays = like == array.dtype() && n == array.len();
    // not in place if R will warn that the lengths do not fit: the warning may become an error, and x must be unchanged
    let handle = target(x, is_target).filter(|_| stays && selected % value.extent().max(1) == 0);
    if selected == 0 && handle.is_some() {
        return Ok(x);
    }
    // no recycling: ranges are then written by one kernel
    let by_place = value.extent() == selected || matches!(value, Operand::Value(..));
    let ranges = if stays && by_place && selected > 0 { ranges(&found) } else { None };
    let values = match value {
        Operand::Array(v) | Operand::Vector(v, _) => v.to_device(array.device())?,
        Operand::Value(scalar, _) => {
            let count = if ranges.is_some() { selected } else { 1 };
            Array::full(scalar, like, count, array.device())?
        }
    };
    // references to the node: the handle's and `array`
    let holders = if handle.is_some() { 2 } else { usize::MAX };
    if let Some(axes) = ranges {
        return assigned(x, handle, array.assign_ranges(&dim, &axes, &values.cast(like, None)?, holders)?);
    }
    let at = positions(&dim, &found, &array)?;
    drop(found);
    if stays {
        return assigned(x, handle, array.assign_at(&at, &values.cast(like, None)?, holders)?);
    }
    Ok(handle::new_vector(array.cast(like, None)?.scatter(&at, &values, n)?))
}

for_c! {
    subset(x, dim, subscripts, extents);
    assign(x, dim, subscripts, value, count, is_target);
}

/// Writes a number to a 0-based position of `x` in place. The caller has checked that R assigns to `x` and that nothing
/// else refers to it. Returns 1; 0 on failure; -1 if it cannot be written in place.
#[no_mangle]
extern "C" fn vg_assign_one(x: SEXP, place: isize, value: SEXP) -> c_int {
    let done = conditions::attempt(|| {
        let Some(handle) = handle::of(x).filter(|handle| handle.is_writable()) else { return Ok(false) };
        let Some((value, kind)) = values::scalar(value) else { return Ok(false) };
        // 1: the handle's reference to the node is the only one
        let done = handle.with_array(|array| array.assign_one(place as usize, value, kind, 1))??;
        if done {
            handle.written();
        }
        Ok(done)
    });
    done.map_or(0, |done| if done { 1 } else { -1 })
}
