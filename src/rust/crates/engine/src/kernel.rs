//! Kernels that people write: their signatures, read from the source, and calls checked against them.
//!
//! Compiling and launching is the backend's work (`Backend::launch`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::array::Array;
use crate::backend::{self, Launch};
use crate::buffer::Device;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::scalar::Scalar;

mod parse;
mod value;

pub use parse::parse;

/// An `extern "C" __global__` function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// Where it stands in the source, from 1.
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Empty where the source gives none.
    pub name: String,
    pub element: Element,
    pub passing: Passing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// `float a`
    Value,
    /// `const float* x`
    Read,
    /// `float* y`
    Write,
}

/// A C type as far as arguments are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    Bool,
    /// Bytes, and whether it has a sign.
    Integer(u8, bool),
    Half,
    BFloat16,
    Float,
    Double,
    FloatComplex,
    DoubleComplex,
    Void,
    /// A type that the source or a header defines.
    Other(String),
}

impl Element {
    /// Dtypes that a pointer to it takes; None for any.
    fn dtypes(&self) -> Option<&'static [DType]> {
        Some(match self {
            Element::Bool => &[DType::Bool8],
            Element::Integer(1, true) => &[DType::Int8],
            Element::Integer(1, false) => &[DType::UInt8, DType::Bool8],
            Element::Integer(2, true) => &[DType::Int16],
            // the bits of the half types, for code that includes no header for them
            Element::Integer(2, false) => &[DType::Float16, DType::BFloat16, DType::Int16],
            Element::Integer(4, _) => &[DType::Int32],
            Element::Integer(..) => &[DType::Int64],
            Element::Half => &[DType::Float16],
            Element::BFloat16 => &[DType::BFloat16],
            Element::Float => &[DType::Float32],
            Element::Double => &[DType::Float64],
            Element::FloatComplex => &[DType::Complex64],
            Element::DoubleComplex => &[DType::Complex128],
            Element::Void | Element::Other(_) => return None,
        })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::Bool => "bool",
            Element::Integer(1, true) => "signed char",
            Element::Integer(1, false) => "unsigned char",
            Element::Integer(2, true) => "short",
            Element::Integer(2, false) => "unsigned short",
            Element::Integer(4, true) => "int",
            Element::Integer(4, false) => "unsigned int",
            Element::Integer(_, true) => "long long",
            Element::Integer(_, false) => "unsigned long long",
            Element::Half => "__half",
            Element::BFloat16 => "__nv_bfloat16",
            Element::Float => "float",
            Element::Double => "double",
            Element::FloatComplex => "float2",
            Element::DoubleComplex => "double2",
            Element::Void => "void",
            Element::Other(name) => name,
        })
    }
}

impl Parameter {
    /// The type, as C writes it.
    pub fn c_type(&self) -> String {
        match self.passing {
            Passing::Value => self.element.to_string(),
            Passing::Read => format!("const {}*", self.element),
            Passing::Write => format!("{}*", self.element),
        }
    }

    /// The dtype that a host vector is uploaded as for it.
    pub fn dtype(&self) -> Option<DType> {
        self.element.dtypes().map(|d| d[0])
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.c_type())?;
        if self.name.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.name)
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<String> = self.parameters.iter().map(Parameter::to_string).collect();
        write!(f, "void {}({})", self.name, parameters.join(", "))
    }
}

/// As `parse`, and remembered: calls come again and again.
pub fn parsed(source: &str) -> Result<Arc<Vec<Signature>>> {
    static KNOWN: Mutex<Option<HashMap<String, Arc<Vec<Signature>>>>> = Mutex::new(None);
    let lock = || KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(found) = lock().as_ref().and_then(|known| known.get(source)) {
        return Ok(found.clone());
    }
    let found = Arc::new(parse(source)?);
    lock().get_or_insert_default().insert(source.into(), found.clone());
    Ok(found)
}

/// Compiles a source, for its errors. False where there is nothing to compile it with.
///
/// # Errors
/// `Compile`, naming the line, with the compiler's log as detail.
pub fn check(source: &str) -> Result<bool> {
    #[cfg(not(target_os = "macos"))]
    return backend::cuda::user::check(source);
    #[cfg(target_os = "macos")]
    {
        let _ = source;
        Ok(false)
    }
}

/// The kernel of this name; the only one where there is no name.
///
/// # Errors
/// `Argument`, naming the kernels that there are.
pub fn choose(signatures: &[Signature], name: Option<&str>) -> Result<Signature> {
    let list = || signatures.iter().map(|s| format!("`{}`", s.name)).collect::<Vec<_>>().join(", ");
    match (name, signatures) {
        (None, [one]) => Ok(one.clone()),
        (None, _) => Err(Error::new(
            ErrorKind::Argument,
            format!("the source has {} kernels, and `name` does not say which: {}", signatures.len(), list()),
        )),
        (Some(name), _) => signatures.iter().find(|s| s.name == name).cloned().ok_or_else(|| {
            Error::new(ErrorKind::Argument, format!("the source has no kernel `{name}`; it has {}", list()))
        }),
    }
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// The place of an array among the call's arrays.
    Array(usize),
    Scalar(Scalar, Kind),
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
}

/// Calls a kernel: queued on the arrays' device, not waited for.
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
    source: &str,
    signature: &Signature,
    values: &[Value],
    arrays: &mut [Array],
    holders: usize,
    geometry: &Geometry,
) -> Result<()> {
    let parameters = &signature.parameters;
    if values.len() != parameters.len() {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("kernel `{}` takes {} arguments, not {}", signature.name, parameters.len(), values.len()),
        )
        .advise(format!("Its signature is `{signature}`.")));
    }
    for (k, (parameter, value)) in parameters.iter().zip(values).enumerate() {
        if let Value::Array(at) = value {
            check_array(signature, k, parameter, arrays[*at].dtype())?;
        }
    }
    let mut written = vec![false; arrays.len()];
    for (parameter, value) in parameters.iter().zip(values) {
        if let (Passing::Write, Value::Array(at)) = (parameter.passing, value) {
            written[*at] = true;
        }
    }
    // scalars next: nothing is computed for a call that cannot be made
    let mut packed = Vec::with_capacity(values.len());
    for (k, (parameter, value)) in parameters.iter().zip(values).enumerate() {
        packed.push(match value {
            Value::Array(_) => Vec::new(),
            Value::Null if parameter.passing == Passing::Value => {
                return Err(misfit(signature, k, "NULL stands for a pointer only"));
            }
            Value::Null => vec![0; 8],
            Value::Scalar(..) if parameter.passing != Passing::Value => {
                return Err(misfit(signature, k, "it takes an array, not a number"));
            }
            Value::Scalar(scalar, kind) => {
                value::bytes(&parameter.element, *scalar, *kind).map_err(|why| misfit(signature, k, &why))?
            }
        });
    }
    let device = device_of(arrays)?;
    let longest = arrays.iter().map(Array::len).max();
    let Some(n) = geometry.n.or(longest).or(geometry.grid.map(|_| 0)) else {
        return Err(Error::new(ErrorKind::Argument, "a kernel without arrays needs `grid` or `n`"));
    };
    if n == 0 && geometry.grid.is_none() {
        return Ok(());
    }

    let mut ready = arrays.to_vec();
    for (at, array) in ready.iter_mut().enumerate() {
        if written[at] {
            // `ready` holds one more reference
            *array = own(array, holders + 1)?;
        }
    }
    // held until the kernel is queued: what is freed after that is freed behind it
    let mut held = Vec::new();
    for (value, bytes) in values.iter().zip(&mut packed) {
        if let Value::Array(at) = value {
            let view = ready[*at].contiguous()?;
            *bytes = view.address().to_ne_bytes().to_vec();
            held.push((view, written[*at]));
        }
    }
    let backend = backend::of(device)?;
    let touched: Vec<_> = held.iter().map(|(view, written)| (&view.buffer, *written)).collect();
    let _touching = backend.touching(&touched)?;
    backend.launch(&Launch {
        source,
        name: &signature.name,
        grid: geometry.grid,
        block: geometry.block,
        shared: geometry.shared,
        n,
        arguments: &packed,
    })?;
    arrays.clone_from_slice(&ready);
    Ok(())
}

/// The array, if nobody else sees its memory, else one with memory of its own.
pub(crate) fn own(array: &Array, holders: usize) -> Result<Array> {
    let view = array.contiguous()?;
    if !Arc::ptr_eq(&view.buffer, &array.settle()?.buffer) {
        return Ok(Array::from_view(view)); // made just now, of a strided view of another library's memory
    }
    // the node's view and the one just made
    let alone = Arc::strong_count(array.node()) <= holders && Arc::strong_count(&view.buffer) <= 2;
    if alone && !view.buffer.is_read_only() {
        crate::select::forget_ranges();
        Ok(array.clone())
    } else {
        Array::duplicate(&view)
    }
}

fn device_of(arrays: &[Array]) -> Result<Device> {
    let device = arrays.first().map_or(Device::Cuda(0), Array::device);
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

fn misfit(signature: &Signature, k: usize, why: &str) -> Error {
    let parameter = &signature.parameters[k];
    Error::new(ErrorKind::DType, format!("{} is `{}`: {why}", called(signature, k), parameter.c_type()))
}

fn check_array(signature: &Signature, k: usize, parameter: &Parameter, dtype: DType) -> Result<()> {
    if parameter.passing == Passing::Value {
        return Err(misfit(signature, k, "it takes one number, not an array"));
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

#[cfg(test)]
mod tests;
