//! A call of a kernel: arguments held against the signature, packed, and handed to the device.

use std::fmt::Write;
use std::sync::Arc;

use super::module::Function;
use super::signature::{Element, Parameter, Passing, Signature};
use super::value;
use crate::array::Array;
use crate::backend::{self, Launch};
use crate::buffer::{Device, View};
use crate::dtype::{DType, Kind};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::few::Few;
use crate::scalar::Scalar;
use crate::strided;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The place of an array among the call's arrays.
    Array(usize),
    Scalar(Scalar, Kind),
    /// The bytes themselves, of a struct above all.
    Raw(&'a [u8]),
    /// A null pointer.
    Null,
}

/// How a kernel is to be run; what is None is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    pub grid: Option<[u32; 3]>,
    pub block: Option<[u32; 3]>,
    /// Bytes of shared memory beyond what the source declares.
    pub shared: u32,
    /// Threads that are needed; the length of the longest array.
    pub n: Option<usize>,
    /// Whether all blocks must run at once, since they wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
}

/// As many arguments as most kernels have: of so many a call asks for no memory.
pub const USUAL: usize = 16;

/// The bytes of arguments, each at a multiple of 16.
#[derive(Default)]
pub struct Arguments {
    memory: Few<u128, USUAL>,
    places: Few<(u32, u32), USUAL>,
}

impl Arguments {
    pub fn push(&mut self, bytes: &[u8]) {
        self.places.push((self.memory.len() as u32, bytes.len() as u32));
        let mut rest = bytes;
        loop {
            let (now, later) = rest.split_at(rest.len().min(16));
            let mut unit = [0; 16];
            unit[..now.len()].copy_from_slice(now);
            self.memory.push(u128::from_ne_bytes(unit));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The bytes of one.
    pub fn bytes(&self, k: usize) -> &[u8] {
        let (at, len) = self.places[k];
        // SAFETY: `push` wrote them.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at as usize).cast(), len as usize) }
    }

    /// The bytes of all of them.
    pub fn all(&self) -> Few<&[u8], USUAL> {
        let mut all = Few::default();
        (0..self.len()).for_each(|k| all.push(self.bytes(k)));
        all
    }
}

/// Calls a kernel: queued on the arrays' device (on `device` where there are none), not waited for.
///
/// What the kernel may write changes in place, unless someone else sees that memory: a recorded operation, a view,
/// a DLPack consumer, another object. Those keep what they have, and the array gets a copy of its own, which is
/// written. Such copies replace the entries of `arrays`; the caller puts them where he had the old ones.
/// `holders` counts the references to each array's node that are the caller's own, the one in `arrays` among them.
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
    let signature = function.signature(arrays.first().map_or(device, Array::device))?;
    let taken = signature.taken().count();
    if values.len() != taken {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("kernel `{}` takes {}, not {}", signature.name, counted(taken), values.len()),
        )
        .advise(format!("Its signature is `{signature}`.")));
    }
    // numbers too before any array: nothing is computed for a call that cannot be made
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
                return Err(misfit(signature, k, "NULL stands for a pointer only"));
            }
            Value::Null => packed.push(&[0; 8]),
            Value::Raw(bytes) => {
                if matches!(parameter.passing, Passing::Read | Passing::Write) {
                    return Err(misfit(signature, k, "it takes an array, not a raw vector"));
                }
                if let Some(size) = parameter.size().filter(|&size| size != bytes.len()) {
                    return Err(misfit(
                        signature,
                        k,
                        &format!("it has {size} bytes, and the raw vector {}", bytes.len()),
                    ));
                }
                packed.push(bytes);
            }
            Value::Scalar(..) if matches!(parameter.passing, Passing::Read | Passing::Write) => {
                return Err(misfit(signature, k, "it takes an array, not a number"));
            }
            Value::Scalar(scalar, kind) => {
                let bytes =
                    value::bytes(&parameter.element, *scalar, *kind).map_err(|why| misfit(signature, k, &why))?;
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

    // held until the kernel is queued: what is freed after that is freed behind it
    let mut held = Few::<View, USUAL>::default();
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
            packed.memory[packed.places[k].0 as usize] = u128::from(held[*at].address());
        }
    }
    let backend = backend::of(device)?;
    // with one stream nothing is collected, and no memory asked for
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

/// Which of a call's arrays are written.
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

/// The memory that may be written in place of an array's, whose contiguous view this is: that memory itself, where nobody else
/// sees it, else other memory, which is an array of its own: a copy, or, if all of it will be written, memory as it comes.
pub(crate) fn own(array: &Array, view: View, holders: usize, all: bool) -> Result<(View, Option<Array>)> {
    strided::refuse_overlap(array, "an array that the kernel writes")?;
    if !array.node().lies_in(&view.buffer) {
        // made just now, of a strided view of another library's memory
        return Ok((view.clone(), Some(Array::from_view(view))));
    }
    // the node's view and the one just made
    let alone = Arc::strong_count(array.node()) <= holders && Arc::strong_count(&view.buffer) <= 2;
    if (alone || view.buffer.is_volatile()) && !view.buffer.is_read_only() {
        crate::select::forget_ranges();
        return Ok((view, None));
    }
    let other = if all {
        let buffer = backend::of(view.buffer.device)?.allocate(view.len() * view.dtype.size())?;
        Array::from_view(View::contiguous(buffer, view.dtype, view.len()))
    } else {
        Array::duplicate(&view)?
    };
    Ok((other.settle()?, Some(other)))
}

fn device_of(arrays: &[Array], fallback: Device) -> Result<Device> {
    let device = arrays.first().map_or(fallback, Array::device);
    if let Some(other) = arrays.iter().map(Array::device).find(|&d| d != device) {
        return Err(Error::new(
            ErrorKind::Device,
            format!("a kernel's arrays must be on one device, and are on {device} and {other}"),
        )
        .advise(format!(
            "Move them with `as_gpu(x, device = \"{}\")`.",
            if device == Device::Cpu { other } else { device }
        )));
    }
    if device == Device::Cpu {
        return Err(Error::new(ErrorKind::Device, "kernels run on CUDA devices, and the arrays are on cpu")
            .advise("Move them with `as_gpu(x, device = \"cuda\")`."));
    }
    Ok(device)
}

/// How messages call an argument.
fn called(signature: &Signature, k: usize) -> String {
    let parameter = &signature.parameters[k];
    let name = if parameter.name.is_empty() { format!("{}", k + 1) } else { format!("`{}`", parameter.name) };
    format!("argument {name} of kernel `{}`", signature.name)
}

/// An argument that does not fit its parameter.
pub(super) fn misfit(signature: &Signature, k: usize, why: &str) -> Error {
    let parameter = &signature.parameters[k];
    Error::new(ErrorKind::DType, format!("{} is `{}`: {why}", called(signature, k), parameter.c_type()))
}

impl Signature {
    /// An argument that does not fit the parameter of this place.
    pub fn misfit(&self, k: usize, why: &str) -> Error {
        misfit(self, k, why)
    }
}

fn check_array(signature: &Signature, k: usize, parameter: &Parameter, dtype: DType) -> Result<()> {
    if parameter.passing == Passing::Value {
        let what = if matches!(parameter.element, Element::Other(_)) { "a raw vector" } else { "one number" };
        return Err(misfit(signature, k, &format!("it takes {what}, not an array")));
    }
    match parameter.element.dtypes() {
        Some(fitting) if !fitting.contains(&dtype) => {
            let names: Vec<&str> = fitting.iter().map(|d| d.name()).collect();
            let name = if parameter.name.is_empty() { "x" } else { &parameter.name };
            Err(misfit(signature, k, &format!("it takes {} arrays, not {dtype}", names.join(" or ")))
                .advise(format!("Cast it with `gpu_cast({name}, \"{}\")`.", names[0])))
        }
        _ => Ok(()),
    }
}
