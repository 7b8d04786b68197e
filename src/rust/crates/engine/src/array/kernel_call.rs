//! Calls of user-written kernels: arguments are checked against the signature, packed, and passed to the backend.

use std::fmt::Write;
use std::sync::Arc;

use crate::array::strided;
use crate::array::Array;
use crate::backend::{self, Launch};
use crate::kernel::{value_bytes, Arguments, Element, Function, Geometry, Parameter, Passing, Signature, USUAL};
use crate::memory::buffer::{Device, View};
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::scalar::Scalar;
use verdigris_ops::small_vec::SmallVec;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The index of an array among the call's arrays.
    Array(usize),
    Scalar(Scalar, Kind),
    /// The bytes themselves, mostly those of a struct.
    Raw(&'a [u8]),
    /// A null pointer.
    Null,
}

/// Calls a kernel: queues it on the arrays' device (or on `device` if there are no arrays), without waiting.
///
/// Memory that the kernel may write is changed in place, unless something else refers to it: a recorded operation, a
/// view, a DLPack consumer, another object. In that case those keep the old values, and the kernel writes to a copy.
/// Such copies replace the entries of `arrays`, and the caller stores them. `holders` is the number of the caller's own
/// references to each array's node, including the one in `arrays`.
///
/// # Errors
/// `Argument` and `DType`, where arguments do not fit the parameters; `Device`, for arrays on the cpu device or on
/// several devices; `Compile`; `Launch`. Nothing has changed then.
pub fn call(
    function: &Function,
    values: &[Value<'_>],
    arrays: &mut [Array],
    holders: usize,
    geometry: &Geometry,
    device: Device,
) -> Result<()> {
    let signature = signature(function, arrays.first().map_or(device, Array::device))?;
    let taken = signature.taken().count();
    if values.len() != taken {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("kernel `{}` takes {}, not {}", signature.name, counted(taken), values.len()),
        )
        .advise(format!("Its signature is `{signature}`.")));
    }
    // Numbers are checked before any array is computed, so that a wrong call computes nothing.
    let mut packed = Arguments::default();
    let mut written = Written::default();
    for ((k, parameter), value) in signature.taken().zip(values) {
        match value {
            Value::Array(at) => {
                check_array(signature, k, parameter, arrays[*at].dtype())?;
                if parameter.writes() {
                    written.add(*at);
                }
                packed.push(&[0; 8]);
            }
            Value::Null if parameter.passing == Passing::Value => {
                return Err(signature.misfit(k, "NULL is allowed for a pointer only"));
            }
            Value::Null => packed.push(&[0; 8]),
            Value::Raw(bytes) => {
                if matches!(parameter.passing, Passing::Read | Passing::Write) {
                    return Err(signature.misfit(k, "it takes an array, not a raw vector"));
                }
                if let Some(size) = parameter.size().filter(|&size| size != bytes.len()) {
                    return Err(
                        signature.misfit(k, &format!("it has {size} bytes, but the raw vector has {}", bytes.len()))
                    );
                }
                packed.push(bytes);
            }
            Value::Scalar(..) if matches!(parameter.passing, Passing::Read | Passing::Write) => {
                return Err(signature.misfit(k, "it takes an array, not a number"));
            }
            Value::Scalar(scalar, kind) => {
                let bytes = value_bytes(&parameter.element, *scalar, *kind).map_err(|why| signature.misfit(k, &why))?;
                packed.push(&bytes);
            }
        }
    }
    let device = device_of(arrays, device)?;
    let longest = arrays.iter().map(Array::len).max();
    let Some(n) = geometry.n.or(longest).or(geometry.grid.map(|_| 0)).or(function.host.then_some(0)) else {
        return Err(Error::new(ErrorKind::Argument, "a kernel without arrays needs `grid` or `n`"));
    };
    if n == 0 && geometry.grid.is_none() && !function.host {
        return Ok(());
    }

    // Held until the kernel is queued: memory freed later is freed after the kernel, in stream order.
    let mut held = SmallVec::<View, USUAL>::default();
    let mut replaced: Vec<(usize, Array)> = Vec::new();
    for (at, array) in arrays.iter().enumerate() {
        let view = array.contiguous()?;
        if !written.has(at) {
            held.push(view);
            continue;
        }
        match own(array, view, holders, false)? {
            (view, None) => held.push(view),
            (view, Some(copy)) => {
                held.push(view);
                replaced.push((at, copy));
            }
        }
    }
    for (k, value) in values.iter().enumerate() {
        if let Value::Array(at) = value {
            packed.set_address(k, held[*at].address());
        }
    }
    let backend = backend::of(device)?;
    // With a single stream nothing is tracked, so nothing is collected or allocated here.
    let variables = if backend.tracks() && !function.host { backend.variables(&function.module)? } else { None };
    let touched: Vec<_> = if backend.tracks() {
        let arrays = held.iter().enumerate().map(|(at, view)| (&view.buffer, written.has(at)));
        arrays.chain(variables.iter().map(|buffer| (buffer, false))).collect()
    } else {
        Vec::new()
    };
    let _touching = backend.touching(&touched)?;
    backend.launch(&Launch {
        function,
        signature,
        geometry,
        n,
        arguments: &packed,
        described: &|| described(signature, values, arrays),
    })?;
    for (at, copy) in replaced {
        arrays[at] = copy;
    }
    Ok(())
}

/// A kernel's signature. If a binary does not declare it, the binary is loaded to get the sizes of its parameters.
///
/// # Errors
/// Those of loading.
pub fn signature(function: &Function, device: Device) -> Result<&Arc<Signature>> {
    function.signature(|| backend::of(device)?.parameters(function))
}

/// The set of a call's arrays that the kernel writes.
#[derive(Default)]
struct Written {
    first: u64,
    rest: Vec<usize>,
}

impl Written {
    fn add(&mut self, at: usize) {
        match at {
            0..64 => self.first |= 1 << at,
            _ => self.rest.push(at),
        }
    }

    fn has(&self, at: usize) -> bool {
        if at < 64 {
            self.first >> at & 1 == 1
        } else {
            self.rest.contains(&at)
        }
    }
}

/// `1 argument`, `2 arguments`
pub fn counted(n: usize) -> String {
    format!("{n} argument{}", if n == 1 { "" } else { "s" })
}

/// The arguments as messages show them: `x: float32[1000], a: 2.5`.
fn described(signature: &Signature, values: &[Value<'_>], arrays: &[Array]) -> String {
    let mut text = String::new();
    for ((k, parameter), value) in signature.taken().zip(values) {
        let name = if parameter.name.is_empty() { (k + 1).to_string() } else { parameter.name.clone() };
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{name}: ");
        let _ = match value {
            Value::Array(at) => write!(text, "{}[{}]", arrays[*at].dtype(), arrays[*at].len()),
            Value::Scalar(Scalar::F64(x), _) => write!(text, "{x}"),
            Value::Scalar(Scalar::I32(x), _) => write!(text, "{x}"),
            Value::Scalar(Scalar::I64(x), _) => write!(text, "{x}"),
            Value::Scalar(Scalar::C128([re, im]), _) => write!(text, "{re}{im:+}i"),
            Value::Scalar(other, _) => write!(text, "{other:?}"),
            Value::Raw(bytes) => write!(text, "{} bytes", bytes.len()),
            Value::Null => write!(text, "NULL"),
        };
    }
    text
}

/// The memory that a kernel may write for an array, given its contiguous view: the array's own memory, if nothing else
/// refers to it. Otherwise new memory in an array of its own: a copy, or, if the kernel overwrites all of it,
/// uninitialised memory.
pub(crate) fn own(array: &Array, view: View, holders: usize, all: bool) -> Result<(View, Option<Array>)> {
    strided::refuse_overlap(array, "an array that the kernel writes")?;
    if !array.node().lies_in(&view.buffer) {
        // The contiguous view is a fresh copy of a strided view of another library's memory.
        return Ok((view.clone(), Some(Array::from_view(view))));
    }
    // Two references: the node's view, and `view`.
    let alone = Arc::strong_count(array.node()) <= holders && Arc::strong_count(&view.buffer) <= 2;
    if (alone || view.buffer.is_volatile()) && !view.buffer.is_read_only() {
        crate::array::fact_cache::invalidate(&view.buffer);
        return Ok((view, None));
    }
    let other = if all {
        let buffer = backend::of(view.buffer.device)?.allocate(view.len() * view.dtype.size())?;
        Array::from_view(View::contiguous(buffer, view.dtype, view.len()))
    } else {
        Array::duplicate(&view)?
    };
    Ok((other.evaluate()?, Some(other)))
}

fn device_of(arrays: &[Array], fallback: Device) -> Result<Device> {
    let device = arrays.first().map_or(fallback, Array::device);
    if let Some(other) = arrays.iter().map(Array::device).find(|&d| d != device) {
        return Err(Error::new(
            ErrorKind::Device,
            format!("a kernel's arrays must be on one device, but are on {device} and {other}"),
        )
        .advise(format!(
            "Move them with `as_gpu(x, device = \"{}\")`.",
            if device == Device::Cpu { other } else { device }
        )));
    }
    if device == Device::Cpu {
        return Err(Error::new(ErrorKind::Device, "kernels run on CUDA devices, but the arrays are on cpu")
            .advise("Move them with `as_gpu(x, device = \"cuda\")`."));
    }
    Ok(device)
}

fn check_array(signature: &Signature, k: usize, parameter: &Parameter, dtype: DType) -> Result<()> {
    if parameter.passing == Passing::Value {
        let what = if matches!(parameter.element, Element::Other(_)) { "a raw vector" } else { "one number" };
        return Err(signature.misfit(k, &format!("it takes {what}, not an array")));
    }
    if parameter.element.dtypes().is_none_or(|mut fitting| fitting.any(|d| d == dtype)) {
        return Ok(());
    }
    let names: Vec<&str> = parameter.element.dtypes().into_iter().flatten().map(|d| d.name()).collect();
    let name = if parameter.name.is_empty() { "x" } else { &parameter.name };
    Err(signature
        .misfit(k, &format!("it takes {} arrays, not {dtype}", names.join(" or ")))
        .advise(format!("Cast it with `gpu_cast({name}, \"{}\")`.", names[0])))
}
