//! Gathering, scattering, finding and sorting on the cpu.

use std::cmp::Ordering;
use std::sync::Arc;

use super::blocks::parallel;
use super::{bytes, bytes_mut};
use crate::backend::Backend;
use crate::buffer::{Buffer, View};
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::scalar::{NA_F64, NA_I32, NA_I64};

/// The NA of a dtype as stored bytes; uint8 has none and takes 0.
pub fn na_bytes(dtype: DType) -> Vec<u8> {
    match dtype {
        DType::Bool8 => vec![2],
        DType::Int8 => vec![0x80],
        DType::UInt8 => vec![0],
        DType::Int16 => i16::MIN.to_ne_bytes().to_vec(),
        DType::Int32 => NA_I32.to_ne_bytes().to_vec(),
        DType::Int64 => NA_I64.to_ne_bytes().to_vec(),
        DType::Float16 => 0x7FFFu16.to_ne_bytes().to_vec(),
        DType::BFloat16 => 0x7FFFu16.to_ne_bytes().to_vec(),
        DType::Float32 => f32::NAN.to_ne_bytes().to_vec(),
        DType::Float64 => NA_F64.to_ne_bytes().to_vec(),
        DType::Complex64 => [f32::NAN.to_ne_bytes(), f32::NAN.to_ne_bytes()].concat(),
        DType::Complex128 => [NA_F64.to_ne_bytes(), NA_F64.to_ne_bytes()].concat(),
    }
}

fn elements<T: Copy>(view: &View) -> &[T] {
    let size = std::mem::size_of::<T>();
    // SAFETY: a finished buffer of the cpu, contiguous, read as what it holds; buffers are aligned to 64 bytes.
    unsafe {
        let raw = bytes(&view.buffer, view.layout.offset() * size, view.len() * size);
        std::slice::from_raw_parts(raw.as_ptr().cast(), view.len())
    }
}

pub fn gather(source: &View, positions: &View, output: &Arc<Buffer>) -> Result<()> {
    let size = source.dtype.size();
    let from = elements_raw(source);
    let at: &[i64] = elements(positions);
    let na = na_bytes(source.dtype);
    let out = output.address;
    parallel(at.len(), 1 << 16, |first, end| {
        for (k, &p) in at.iter().enumerate().take(end).skip(first) {
            let value = match usize::try_from(p) {
                Ok(p) if p < source.len() => &from[p * size..(p + 1) * size],
                _ => &na,
            };
            // SAFETY: the output has an element for every position, and tasks write different ones.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), (out as *mut u8).add(k * size), size) };
        }
    })
}

fn elements_raw(view: &View) -> &[u8] {
    let size = view.dtype.size();
    // SAFETY: a finished buffer of the cpu.
    unsafe { bytes(&view.buffer, view.layout.offset() * size, view.len() * size) }
}

pub fn scatter(target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) {
    let size = dtype.size();
    // SAFETY: the target was made for this call.
    let out = unsafe { bytes_mut(target, 0, n * size) };
    let from = elements_raw(values);
    for (k, &p) in elements::<i64>(positions).iter().enumerate() {
        if let Ok(p) = usize::try_from(p) {
            if p < n {
                let v = k % values.len();
                out[p * size..(p + 1) * size].copy_from_slice(&from[v * size..(v + 1) * size]);
            }
        }
    }
}

pub fn positions(mask: &View, keep_na: bool) -> Vec<i64> {
    elements::<u8>(mask)
        .iter()
        .enumerate()
        .filter_map(|(k, &x)| match x {
            0 => None,
            1 => Some(k as i64),
            _ => keep_na.then_some(-1),
        })
        .collect()
}

/// How a type sorts: missing values last either way.
trait Sortable: Copy + Send + Sync {
    fn missing(self) -> bool;
    fn order(self, other: Self) -> Ordering;
}

macro_rules! sortable {
    ($type:ty, |$x:ident| $missing:expr) => {
        impl Sortable for $type {
            fn missing(self) -> bool {
                let $x = self;
                $missing
            }
            fn order(self, other: Self) -> Ordering {
                self.partial_cmp(&other).unwrap_or(Ordering::Equal)
            }
        }
    };
}
sortable!(u8, |_x| false);
sortable!(i8, |x| x == i8::MIN);
sortable!(i16, |x| x == i16::MIN);
sortable!(i32, |x| x == NA_I32);
sortable!(i64, |x| x == NA_I64);
sortable!(f32, |x| x.is_nan());
sortable!(f64, |x| x.is_nan());
sortable!(half::f16, |x| x.is_nan());
sortable!(half::bf16, |x| x.is_nan());

fn compare<T: Sortable>(a: T, b: T, decreasing: bool) -> Ordering {
    match (a.missing(), b.missing()) {
        (false, false) if decreasing => b.order(a),
        (false, false) => a.order(b),
        (x, y) => x.cmp(&y),
    }
}

fn sort_as<T: Sortable>(
    cpu: &dyn Backend,
    values: &View,
    decreasing: bool,
    with_positions: bool,
) -> Result<(View, Option<View>)> {
    use rayon::slice::ParallelSliceMut;
    let from: &[T] = elements(values);
    let threads = super::threads_usable() && from.len() > 1 << 15;
    let mut at: Vec<u64> = Vec::new();
    let sorted: Vec<T> = if with_positions {
        at = (0..from.len() as u64).collect();
        let by = |a: &u64, b: &u64| compare(from[*a as usize], from[*b as usize], decreasing);
        if threads {
            at.par_sort_by(by)
        } else {
            at.sort_by(by)
        }
        at.iter().map(|&k| from[k as usize]).collect()
    } else {
        let mut out = from.to_vec();
        // stable, so that -0 and 0, and NA and NaN, stay in their order
        let by = |a: &T, b: &T| compare(*a, *b, decreasing);
        if threads {
            out.par_sort_by(by)
        } else {
            out.sort_by(by)
        }
        out
    };
    let keep = |raw: &[u8], dtype, n| -> Result<View> {
        let buffer = cpu.allocate(raw.len())?;
        cpu.upload(raw, &buffer, 0)?;
        Ok(View::contiguous(buffer, dtype, n))
    };
    // SAFETY: plain numbers may be read as bytes.
    let (raw, raw_at) = unsafe {
        (
            std::slice::from_raw_parts(sorted.as_ptr().cast::<u8>(), std::mem::size_of_val(&sorted[..])),
            std::slice::from_raw_parts(at.as_ptr().cast::<u8>(), std::mem::size_of_val(&at[..])),
        )
    };
    let places = if with_positions { Some(keep(raw_at, DType::Int64, at.len())?) } else { None };
    Ok((keep(raw, values.dtype, sorted.len())?, places))
}

pub fn sort(cpu: &dyn Backend, values: &View, decreasing: bool, with_positions: bool) -> Result<(View, Option<View>)> {
    match values.dtype {
        // NA is 2, and so already last; a decreasing order needs it last too
        DType::Bool8 if decreasing => {
            let wide = crate::array::Array::from_view(values.clone()).cast(DType::Int8, None)?.contiguous()?;
            let (sorted, at) = sort_as::<i8>(cpu, &wide, decreasing, with_positions)?;
            let back = crate::array::Array::from_view(sorted).cast(DType::Bool8, None)?.contiguous()?;
            Ok((back, at))
        }
        DType::Bool8 | DType::UInt8 => sort_as::<u8>(cpu, values, decreasing, with_positions),
        DType::Int8 => sort_as::<i8>(cpu, values, decreasing, with_positions),
        DType::Int16 => sort_as::<i16>(cpu, values, decreasing, with_positions),
        DType::Int32 => sort_as::<i32>(cpu, values, decreasing, with_positions),
        DType::Int64 => sort_as::<i64>(cpu, values, decreasing, with_positions),
        DType::Float16 => sort_as::<half::f16>(cpu, values, decreasing, with_positions),
        DType::BFloat16 => sort_as::<half::bf16>(cpu, values, decreasing, with_positions),
        DType::Float32 => sort_as::<f32>(cpu, values, decreasing, with_positions),
        DType::Float64 => sort_as::<f64>(cpu, values, decreasing, with_positions),
        DType::Complex64 | DType::Complex128 => {
            Err(Error::new(Kind::DType, "complex values are not sorted on the device")
                .advise("Sort on the host: `sort(as.vector(x))`."))
        }
    }
}
