//! Entries: reductions of a whole array to a number, and along a margin to an array.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use verdigris_engine::array::{buffer_from, fact_cache, Array, Operand};
use verdigris_engine::backend::{Deferred, Outcome};
use verdigris_engine::memory::buffer::{Buffer, Device};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::id;
use verdigris_ops::reduction::{Groups, Reduction, STATUS_EMPTY};
use verdigris_ops::scalar::{NA_I32, NA_I64};

use crate::array::handle::{self, Handle};
use crate::array::{convert, host_copy, lazy};
use crate::entries::entry::{entries, for_c};
use crate::r::typed::FromR;
use crate::r::{call_site, *};

impl FromR for Reduction {
    fn from_r(x: SEXP, argument: &'static str) -> Result<Reduction> {
        let name = <&str>::from_r(x, argument)?;
        let found = Reduction::ALL.into_iter().find(|r| r.name() == name);
        found.ok_or_else(|| Error::new(Kind::Argument, format!("there is no reduction `{name}`")))
    }
}

/// For tests: defer numbers and short vectors on the cpu device too, where it gains nothing.
pub static DEFER: AtomicBool = AtomicBool::new(false);

/// A value that is known already, in the form of a deferred one.
struct OnHost(Outcome);

impl Deferred for OnHost {
    fn outcome(&self) -> Result<Outcome> {
        Ok(self.0)
    }

    fn buffer(&self, bytes: usize) -> Result<Arc<Buffer>> {
        buffer_from(&self.0.value[..bytes], Device::Cpu)
    }
}

/// A reduction's result as a deferred number; `None` if R must wait for it.
fn defer_number(array: &Array, reduction: Reduction, na_rm: bool) -> Result<Option<SEXP>> {
    let device = array.device();
    let deferred: Option<(DType, Rc<dyn Deferred>)> = if device != Device::Cpu {
        array.reduce_later(reduction, na_rm)?.map(|(dtype, deferred)| (dtype, deferred.into()))
    } else if DEFER.load(Ordering::Relaxed) && array.is_deferrable(reduction, na_rm) {
        let (dtype, outcome) = array.reduce(reduction, na_rm)?;
        Some((dtype, Rc::new(OnHost(outcome))))
    } else {
        None
    };
    Ok(deferred.map(|(dtype, deferred)| handle::vector(Handle::deferred(deferred, dtype, device))))
}

/// Wraps group results of an array of this dtype. Results of int64 may warn without a call site, of sums that overflow
/// and of rounded elements, so C looks for a handler.
fn wrapped(dtype: DType, results: Array) -> SEXP {
    if dtype == DType::Int64 && !results.is_ready() {
        call_site::look();
    }
    handle::new_vector(results)
}

entries! {
    /// Sets whether the cpu device defers numbers and short vectors too, for tests. Returns the old setting.
    fn defer(value: bool) -> bool {
        DEFER.swap(value, Ordering::Relaxed)
    }

    /// Whether none of a list of arrays on one device has a missing value. Waits for the device unless it is known.
    fn are_complete(arrays: Vec<SEXP>) -> Result<bool> {
        fact_cache::are_complete(&arrays.into_iter().map(convert::array).collect::<Result<Vec<_>>>()?)
    }

    /// The square root of a deferred number, computed on its device; NULL for other numbers.
    fn defer_sqrt(x: SEXP) -> Result<Option<SEXP>> {
        let Some(number) = handle::ordinary(x).filter(|_| len(x) == 1) else { return Ok(None) };
        let Some(array) = number.device_array_if_unread(number.device())? else { return Ok(None) };
        let root = Array::apply(id::SQRT, &[Operand::Array(array)], None)?;
        Ok(Some(handle::vector(Handle::ordinary(root))))
    }

    /// Reduces a whole array. Returns the value (two for range), which may be deferred; or list(value, status bits) if
    /// the status is not 0.
    fn reduce(reduction: Reduction, x: SEXP, na_rm as "na.rm": bool) -> Result<SEXP> {
        let array = lazy::intermediate(x)?;
        if let Some(number) = defer_number(&array, reduction, na_rm)? {
            return Ok(number);
        }
        let logical = matches!(reduction, Reduction::Any | Reduction::All);
        let (dtype, outcome) = array.reduce(reduction, na_rm)?;
        let at = |k: usize, n: usize| &outcome.value[k * n..(k + 1) * n];
        let width = reduction.width();
        // SAFETY: plain allocations and stores into fresh vectors, protected until returned.
        unsafe {
            let value = match dtype {
                // R's sum of integers is an integer if it fits
                DType::Int64 if reduction == Reduction::Sum && !matches!(array.dtype(), DType::Int64) => {
                    let sum = i64::from_ne_bytes(at(0, 8).try_into().expect("eight bytes"));
                    Rf_protect(match i32::try_from(sum) {
                        Ok(sum) if sum != NA_I32 => Rf_ScalarInteger(sum),
                        _ if sum == NA_I64 => Rf_ScalarInteger(NA_I32),
                        _ => Rf_ScalarReal(sum as f64),
                    })
                }
                DType::Int32 => {
                    let out = Rf_protect(Rf_allocVector(
                        if logical { SEXPTYPE::LGLSXP } else { SEXPTYPE::INTSXP },
                        width as R_xlen_t,
                    ));
                    let target = if logical { LOGICAL(out) } else { INTEGER(out) };
                    for k in 0..width {
                        *target.add(k) = i32::from_ne_bytes(at(k, 4).try_into().expect("four bytes"));
                    }
                    out
                }
                DType::Complex128 => {
                    let out = Rf_protect(Rf_allocVector(SEXPTYPE::CPLXSXP, 1));
                    std::ptr::copy_nonoverlapping(outcome.value.as_ptr(), COMPLEX(out).cast::<u8>(), 16);
                    out
                }
                _ => {
                    let out = Rf_protect(Rf_allocVector(SEXPTYPE::REALSXP, width as R_xlen_t));
                    let mut lost = false;
                    for k in 0..width {
                        *REAL(out).add(k) = match dtype {
                            DType::Int64 => host_copy::number(
                                i64::from_ne_bytes(at(k, 8).try_into().expect("eight bytes")),
                                &mut lost,
                            ),
                            DType::Float32 => f32::from_ne_bytes(at(k, 4).try_into().expect("four bytes")).into(),
                            _ => f64::from_ne_bytes(at(k, 8).try_into().expect("eight bytes")),
                        };
                    }
                    // the extremes of no elements are those of the type, which is no loss
                    if lost && outcome.status & STATUS_EMPTY == 0 {
                        host_copy::warn_lost();
                    }
                    out
                }
            };
            if outcome.status == 0 {
                Rf_unprotect(1);
                return Ok(value);
            }
            let out = Rf_protect(Rf_allocVector(SEXPTYPE::VECSXP, 2));
            SET_VECTOR_ELT(out, 0, value);
            SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(outcome.status as i32));
            Rf_unprotect(2);
            Ok(out)
        }
    }

    /// Reduces within groups (see `Groups`: outer, length, inner) to an array. With `in_width`, results that are
    /// added in float64 become float32 if the elements are float32 or narrower.
    fn reduce_groups(
        reduction: Reduction,
        array: Array,
        na_rm as "na.rm": bool,
        groups: [usize; 3],
        in_width: bool,
    ) -> Result<SEXP> {
        let [outer, length, inner] = groups;
        if outer * length * inner != array.len() {
            return Err(Error::new(Kind::Shape, "the groups do not fit the array's length"));
        }
        // rowSums() and the like return doubles for integers; sums of int64 stay int64
        let dtype = array.dtype();
        let array = match array.dtype().kind() {
            verdigris_ops::dtype::Kind::Double | verdigris_ops::dtype::Kind::Complex => array,
            verdigris_ops::dtype::Kind::Integer64 if reduction == Reduction::Sum => array,
            _ if matches!(reduction, Reduction::Sum | Reduction::Mean) => array.cast(DType::Float64, None)?,
            _ => array,
        };
        let groups = Groups { outer, length, inner };
        Ok(wrapped(dtype, match in_width {
            true => array.reduce_groups_in_width(reduction, na_rm, groups)?,
            false => array.reduce_groups(reduction, na_rm, groups)?,
        }))
    }

    /// Reduces the elements with each code from 1 to `groups` to an array; NULL if the caller must sort by code first.
    fn reduce_coded(
        reduction: Reduction,
        array: Array,
        codes: Array,
        groups: usize,
        na_rm as "na.rm": bool,
    ) -> Result<Option<SEXP>> {
        let Some(found) = array.reduce_coded(&codes, groups, reduction, na_rm)? else { return Ok(None) };
        // sums of integers are returned as doubles, since they may not fit R's integers
        let whole = found.dtype() == DType::Int64 && array.dtype() != DType::Int64;
        let found = if whole { Array::apply(id::NEAREST, &[Operand::Array(found)], None)? } else { found };
        Ok(Some(wrapped(array.dtype(), found)))
    }
}

for_c! {
    reduce(reduction, x, na_rm as "na.rm");
}
