//! A kernel's signature: the C types of its parameters, as far as needed to pass arguments.

use std::fmt;

use verdigris_ops::dtype::{DType, Number};
use verdigris_ops::error::{Error, Kind as ErrorKind};

/// The signature of a `__global__` function, or of a host function that launches kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// Whether it returns a status code.
    pub status: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Empty if unknown.
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
    /// Eight bytes of a binary that may be an address or a number. Arrays are assumed to be written.
    Either,
}

/// A C type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    Bool,
    /// The number of bytes, and whether it is signed.
    Integer(u8, bool),
    Half,
    BFloat16,
    Float,
    Double,
    FloatComplex,
    DoubleComplex,
    Void,
    /// `cudaStream_t` of a host function: not an argument; the current stream is passed.
    Stream,
    /// A type that the source or a header defines.
    Other(String),
    /// A number of bytes, for a binary that does not declare the type. True: an integer in PTX, of unknown signedness.
    Bytes(usize, bool),
}

impl Element {
    /// The dtypes of arrays that a pointer to this type accepts, preferred one first; None for any.
    pub fn dtypes(&self) -> Option<impl Iterator<Item = DType>> {
        let is_unsigned = |bytes: u8| DType::ALL.iter().any(|d| d.number() == Number::UInt && d.size() == bytes.into());
        let numbers: &[Number] = match self {
            Element::Bool => &[Number::Bool],
            Element::Integer(bytes, false) if is_unsigned(*bytes) => &[Number::UInt, Number::Bool],
            // Raw bits, such as half floats in code that does not include their header.
            Element::Integer(2, false) => &[Number::Float, Number::BFloat, Number::Int],
            Element::Integer(..) => &[Number::Int],
            Element::Half | Element::Float | Element::Double => &[Number::Float],
            Element::BFloat16 => &[Number::BFloat],
            Element::FloatComplex | Element::DoubleComplex => &[Number::Complex],
            Element::Void | Element::Stream | Element::Other(_) | Element::Bytes(..) => return None,
        };
        let bytes = self.size()?;
        let stored = move |&number| DType::ALL.into_iter().filter(move |d| d.number() == number && d.size() == bytes);
        Some(numbers.iter().flat_map(stored))
    }

    /// Bytes of a value; None if the size is unknown or no value can be passed.
    pub fn size(&self) -> Option<usize> {
        Some(match self {
            Element::Bool => 1,
            Element::Integer(bytes, _) => usize::from(*bytes),
            Element::Half | Element::BFloat16 => 2,
            Element::Float => 4,
            Element::Double | Element::FloatComplex => 8,
            Element::DoubleComplex => 16,
            Element::Bytes(n, _) => *n,
            Element::Void | Element::Stream | Element::Other(_) => return None,
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
            Element::Stream => "cudaStream_t",
            Element::Other(name) => name,
            Element::Bytes(n, whole) => {
                return match (n, whole) {
                    (n, true) => write!(f, "{}-bit integer", 8 * n),
                    (1, _) => f.write_str("1 byte"),
                    (n, _) => write!(f, "{n} bytes"),
                };
            }
        })
    }
}

impl Parameter {
    /// The type in C's notation.
    pub fn c_type(&self) -> String {
        match self.passing {
            Passing::Value => self.element.to_string(),
            Passing::Read => format!("const {}*", self.element),
            Passing::Write => format!("{}*", self.element),
            Passing::Either => "address or 8 bytes".into(),
        }
    }

    /// The dtype to which a host vector is converted when it is uploaded for this parameter.
    pub fn dtype(&self) -> Option<DType> {
        self.element.dtypes()?.next()
    }

    /// Bytes of an argument, if known.
    pub fn size(&self) -> Option<usize> {
        if self.passing == Passing::Value {
            self.element.size()
        } else {
            Some(8)
        }
    }

    /// Whether the kernel may write an array passed as this parameter.
    pub fn writes(&self) -> bool {
        matches!(self.passing, Passing::Write | Passing::Either)
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
        write!(f, "{} {}({})", if self.status { "int" } else { "void" }, self.name, parameters.join(", "))
    }
}

impl Signature {
    /// The parameters, with their indices, that callers pass arguments for: all but streams.
    pub fn taken(&self) -> impl Iterator<Item = (usize, &Parameter)> {
        self.parameters.iter().enumerate().filter(|(_, p)| p.element != Element::Stream)
    }
}

/// The name of an argument in messages.
fn called(signature: &Signature, k: usize) -> String {
    let parameter = &signature.parameters[k];
    let name = if parameter.name.is_empty() { format!("{}", k + 1) } else { format!("`{}`", parameter.name) };
    format!("argument {name} of kernel `{}`", signature.name)
}

impl Signature {
    /// The error for an argument that does not fit parameter `k`.
    pub fn misfit(&self, k: usize, why: &str) -> Error {
        let parameter = &self.parameters[k];
        Error::new(ErrorKind::DType, format!("{} is `{}`: {why}", called(self, k), parameter.c_type()))
    }
}
