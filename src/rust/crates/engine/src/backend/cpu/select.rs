//! Gathering, scattering and finding on the cpu.

use std::sync::Arc;

use super::parallel::parallel;
use super::{bytes, bytes_mut};
use crate::buffer::{Buffer, View};
use crate::dtype::DType;
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

pub(super) fn elements<T: Copy>(view: &View) -> &[T] {
    let size = std::mem::size_of::<T>();
    // SAFETY: a finished buffer of the cpu, contiguous, read as what it holds; buffers are aligned to 64 bytes.
    unsafe {
        let raw = bytes(&view.buffer, view.layout.offset() * size, view.len() * size);
        std::slice::from_raw_parts(raw.as_ptr().cast(), view.len())
    }
}

pub fn gather(source: &View, positions: &View, output: &Arc<Buffer>) {
    match source.dtype.size() {
        1 => gather_as::<u8>(source, positions, output),
        2 => gather_as::<u16>(source, positions, output),
        4 => gather_as::<u32>(source, positions, output),
        8 => gather_as::<u64>(source, positions, output),
        _ => gather_as::<[u64; 2]>(source, positions, output),
    }
}

/// Elements of one size move as plain words.
fn gather_as<T: Copy + Sync>(source: &View, positions: &View, output: &Arc<Buffer>) {
    let from: &[T] = elements(source);
    let at: &[i64] = elements(positions);
    let na = na_bytes(source.dtype);
    // SAFETY: the bytes are an element's.
    let na: T = unsafe { na.as_ptr().cast::<T>().read_unaligned() };
    let out = output.address;
    parallel(at.len(), 1 << 15, |first, end| {
        // SAFETY: the output has an element for every position, and tasks write different ones.
        let room = unsafe { std::slice::from_raw_parts_mut((out as *mut T).add(first), end - first) };
        for (slot, &p) in room.iter_mut().zip(&at[first..end]) {
            // a negative position is a very large one
            *slot = from.get(p as usize).copied().unwrap_or(na);
        }
    });
}

pub fn scatter(target: &Arc<Buffer>, dtype: DType, n: usize, positions: &View, values: &View) {
    match dtype.size() {
        1 => scatter_as::<u8>(target, n, positions, values),
        2 => scatter_as::<u16>(target, n, positions, values),
        4 => scatter_as::<u32>(target, n, positions, values),
        8 => scatter_as::<u64>(target, n, positions, values),
        _ => scatter_as::<[u64; 2]>(target, n, positions, values),
    }
}

fn scatter_as<T: Copy>(target: &Arc<Buffer>, n: usize, positions: &View, values: &View) {
    // SAFETY: the target was made for this call, and has n elements.
    let out = unsafe {
        let raw = bytes_mut(target, 0, n * std::mem::size_of::<T>());
        std::slice::from_raw_parts_mut(raw.as_mut_ptr().cast::<T>(), n)
    };
    // a negative position is a very large one
    for (&p, &value) in elements::<i64>(positions).iter().zip(elements::<T>(values).iter().cycle()) {
        if let Some(slot) = out.get_mut(p as usize) {
            *slot = value;
        }
    }
}

pub fn positions(mask: &View, keep_na: bool) -> Vec<i64> {
    let mask: &[u8] = elements(mask);
    let keeps = |x: u8| x == 1 || (keep_na && x > 1);
    let count = mask.iter().filter(|&&x| keeps(x)).count();
    // one place more, since every element is written and only those that count move on
    let mut out = vec![0i64; count + 1];
    let mut at = 0;
    for (k, &x) in mask.iter().enumerate() {
        out[at] = if x == 1 { k as i64 } else { -1 };
        at += usize::from(keeps(x));
    }
    out.truncate(count);
    out
}
