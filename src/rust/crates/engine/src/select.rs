//! Which elements a subscript means: R's rules on numbers and logicals, as ranges where they are ranges.

use crate::array::{Array, Host, Operand};
use crate::buffer::Device;
use crate::dtype::{Class, DType, Kind};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::ops::id;
use crate::reduction::Reduction;
use crate::scalar::{Scalar, NA_I32, NA_I64};

/// The elements of one axis that a subscript selects, counted from 0.
pub enum Selection {
    /// `start, start + step, ...`: a view serves.
    Range { start: usize, step: isize, count: usize },
    /// Positions (int64); negative where the subscript is NA. `top` is one past the greatest.
    At { positions: Array, top: usize, any_na: bool },
}

impl Selection {
    pub fn whole(n: usize) -> Selection {
        Selection::Range { start: 0, step: 1, count: n }
    }

    pub fn len(&self) -> usize {
        match self {
            Selection::Range { count, .. } => *count,
            Selection::At { positions, .. } => positions.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One past the greatest position.
    pub fn top(&self) -> usize {
        match *self {
            Selection::Range { count: 0, .. } => 0,
            Selection::Range { start, step, count } => {
                start.max((start as isize + step * (count as isize - 1)) as usize) + 1
            }
            Selection::At { top, .. } => top,
        }
    }

    pub fn any_na(&self) -> bool {
        matches!(self, Selection::At { any_na: true, .. })
    }

    /// The positions as an array.
    pub fn positions(&self, device: Device) -> Result<Array> {
        match self {
            Selection::At { positions, .. } => Ok(positions.clone()),
            Selection::Range { start, step, count } => Array::source(
                id::SEQ,
                Class::I64,
                DType::Int64,
                *count,
                device,
                &[Scalar::I64(*start as i64), Scalar::I64(*step as i64)],
            ),
        }
    }
}

/// What is wrong with a subscript; R words it.
pub enum Fault {
    /// Positive and negative together.
    Mixed,
    /// Beyond the axis, where that is not allowed.
    OutOfBounds,
    /// A logical longer than the axis, where that is not allowed.
    TooLong,
}

/// Reads a host subscript for an axis of `n` elements. `bounded` axes (of arrays) refuse what lies beyond;
/// unbounded ones (of vectors) give positions past the end, which read as NA.
pub fn from_host(
    subscript: Host<'_>,
    n: usize,
    bounded: bool,
    device: Device,
) -> Result<std::result::Result<Selection, Fault>> {
    let positions: Option<Vec<i64>> = match subscript {
        Host::Logical(x) => {
            if bounded && x.len() > n {
                return Ok(Err(Fault::TooLong));
            }
            let total = if x.is_empty() { 0 } else { n.max(x.len()) };
            Some(
                (0..total)
                    .filter_map(|k| match x[k % x.len()] {
                        0 => None,
                        NA_I32 => Some(-1),
                        _ => Some(k as i64),
                    })
                    .collect(),
            )
        }
        Host::Integer(x) => numbers(x.iter().map(|&v| if v == NA_I32 { None } else { Some(i64::from(v)) }), n),
        Host::Double(x) => numbers(x.iter().map(|&v| if v.is_nan() { None } else { Some(v as i64) }), n),
        Host::Integer64(x) => numbers(x.iter().map(|&v| if v == NA_I64 { None } else { Some(v) }), n),
        Host::Complex(_) => {
            return Err(Error::new(ErrorKind::DType, "invalid subscript type 'complex'"));
        }
    };
    let Some(positions) = positions else { return Ok(Err(Fault::Mixed)) };
    let any_na = positions.contains(&-1);
    let top = positions.iter().map(|p| p + 1).max().unwrap_or(0).max(0) as usize;
    if bounded && top > n {
        return Ok(Err(Fault::OutOfBounds));
    }
    if !any_na && top <= n {
        if let Some((start, step)) = range(&positions) {
            return Ok(Ok(Selection::Range { start, step, count: positions.len() }));
        }
    }
    let positions = Array::upload(Host::Integer64(&positions), None, device, None)?;
    Ok(Ok(Selection::At { positions, top, any_na }))
}

/// Positions from 0 for numbers from 1; zeros fall out, negative ones leave out. `None` where signs are mixed.
fn numbers(x: impl Iterator<Item = Option<i64>> + Clone, n: usize) -> Option<Vec<i64>> {
    if !x.clone().any(|v| v.is_some_and(|v| v < 0)) {
        return Some(x.filter(|v| *v != Some(0)).map(|v| v.map_or(-1, |v| v - 1)).collect());
    }
    if x.clone().any(|v| v.is_none_or(|v| v > 0)) {
        return None;
    }
    let mut kept = vec![true; n];
    for v in x.flatten() {
        if let Some(slot) = usize::try_from(-(v + 1)).ok().and_then(|k| kept.get_mut(k)) {
            *slot = v == 0;
        }
    }
    Some(kept.iter().enumerate().filter_map(|(k, &keep)| keep.then_some(k as i64)).collect())
}

fn range(positions: &[i64]) -> Option<(usize, isize)> {
    let (&first, rest) = positions.split_first()?;
    let step = rest.first().map_or(1, |second| second - first);
    let regular = step != 0 && positions.windows(2).all(|w| w[1] - w[0] == step);
    regular.then_some((first as usize, step as isize))
}

/// Reads a subscript that lives on the device. `None` where it holds zeros or negatives, for which the host must look at it.
pub fn from_array(subscript: &Array, n: usize, bounded: bool) -> Result<Option<std::result::Result<Selection, Fault>>> {
    if subscript.dtype().kind() == Kind::Logical {
        if subscript.len() > n && bounded {
            return Ok(Some(Err(Fault::TooLong)));
        }
        let mask = if subscript.len() < n && !subscript.is_empty() {
            let index = Selection::whole(n).positions(subscript.device())?;
            let length = Operand::Value(Scalar::I64(subscript.len() as i64), Kind::Integer64);
            subscript.gather(&Array::apply(id::MOD, &[Operand::Array(index), length], None)?)?
        } else {
            subscript.clone()
        };
        let positions = mask.positions(true)?;
        let (low, high) = extremes(&positions)?;
        return Ok(Some(Ok(Selection::At { positions, top: (high + 1).max(0) as usize, any_na: low < 0 })));
    }
    if matches!(subscript.dtype().kind(), Kind::Complex) {
        return Err(Error::new(ErrorKind::DType, "invalid subscript type 'complex'"));
    }
    let one = Operand::Value(Scalar::I64(1), Kind::Integer64);
    let wide = Operand::Array(subscript.cast(DType::Int64, None)?);
    let positions = Array::apply(id::SUB, &[wide, one], None)?;
    positions.settle()?;
    let (low, high) = extremes(&positions)?;
    if low < 0 {
        return Ok(None);
    }
    if bounded && high >= n as i64 {
        return Ok(Some(Err(Fault::OutOfBounds)));
    }
    Ok(Some(Ok(Selection::At { positions, top: (high + 1) as usize, any_na: false })))
}

/// Smallest and largest position; (0, -1) where there is none. NA counts as smallest.
fn extremes(positions: &Array) -> Result<(i64, i64)> {
    if positions.is_empty() {
        return Ok((0, -1));
    }
    let (_, outcome) = positions.reduce(Reduction::Range, true)?;
    let at = |k: usize| i64::from_ne_bytes(outcome.value[8 * k..8 * k + 8].try_into().expect("eight bytes"));
    let any_na = {
        let test = Array::apply(id::IS_NA, &[Operand::Array(positions.clone())], None)?;
        let (_, outcome) = test.reduce(Reduction::Any, false)?;
        outcome.value[0] != 0
    };
    if any_na {
        Ok((NA_I64, at(1).max(-1)))
    } else {
        Ok((at(0), at(1)))
    }
}

/// The positions in the flat array of a selection on each axis of `dim`.
pub fn combine(dim: &[usize], selections: &[Selection], device: Device) -> Result<Array> {
    let total: usize = selections.iter().map(Selection::len).product();
    let value = |x: usize| Operand::Value(Scalar::I64(x as i64), Kind::Integer64);
    let index = Selection::whole(total).positions(device)?;
    let (mut flat, mut done, mut stride) = (None, 1usize, 1usize);
    for (selection, &extent) in selections.iter().zip(dim) {
        let n = selection.len();
        if total > 0 {
            let mut own = index.clone();
            if done > 1 {
                own = Array::apply(id::INTDIV, &[Operand::Array(own), value(done)], None)?;
            }
            if done * n < total {
                own = Array::apply(id::MOD, &[Operand::Array(own), value(n)], None)?;
            }
            let at = match selection {
                Selection::Range { start, step, .. } => {
                    let scaled = Array::apply(
                        id::MUL,
                        &[Operand::Array(own), Operand::Value(Scalar::I64(*step as i64), Kind::Integer64)],
                        None,
                    )?;
                    Array::apply(id::ADD, &[Operand::Array(scaled), value(*start)], None)?
                }
                Selection::At { positions, .. } => {
                    // an NA subscript is -1, which must stay outside after scaling
                    let picked = positions.gather(&own)?;
                    let missing = Array::apply(id::LT, &[Operand::Array(picked.clone()), value(0)], None)?;
                    Array::apply(
                        id::SELECT,
                        &[
                            Operand::Array(missing),
                            Operand::Value(Scalar::I64(NA_I64), Kind::Integer64),
                            Operand::Array(picked),
                        ],
                        None,
                    )?
                }
            };
            let scaled = Array::apply(id::MUL, &[Operand::Array(at), value(stride)], None)?;
            flat = Some(match flat {
                None => scaled,
                Some(sum) => Array::apply(id::ADD, &[Operand::Array(sum), Operand::Array(scaled)], None)?,
            });
        }
        done *= n;
        stride *= extent;
    }
    match flat {
        Some(flat) => Ok(flat),
        None => Selection::whole(total.min(1)).positions(device),
    }
}
