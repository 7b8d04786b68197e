//! Kernels that people write: R's arguments as the engine's.

use verdigris_engine::array::{Array, HostMut};
use verdigris_engine::dtype::Kind;
use verdigris_engine::error::{Error, Kind as ErrorKind, Result};
use verdigris_engine::kernel::{self, Geometry, Parameter, Passing, Signature, Value};
use verdigris_engine::scalar::Scalar;

use crate::handle::Handle;
use crate::r::{self, List, SEXP};
use crate::{convert, entry, handle};

/// References to an array's node during a call: the handle's, and the one among the arguments.
const HOLDERS: usize = 2;

fn refused(signature: &Signature, k: usize, what: &str) -> Error {
    let parameter = &signature.parameters[k];
    Error::new(
        ErrorKind::DType,
        format!("argument `{}` of kernel `{}` is `{}`: {what}", parameter.name, signature.name, parameter.c_type()),
    )
}

/// The arguments, and the distinct arrays among them with their handles (none for an array that was made here).
struct Arguments<'a> {
    values: Vec<Value>,
    arrays: Vec<Array>,
    handles: Vec<Option<&'a Handle>>,
}

impl Arguments<'_> {
    fn add(&mut self, signature: &Signature, k: usize, parameter: &Parameter, x: SEXP) -> Result<()> {
        let value = if r::is_null(x) {
            Value::Null
        } else if handle::of(x).is_some() || r::inherits(x, "gpu_array") {
            if parameter.passing == Passing::Value && r::len(x) == 1 {
                one(&handle::array(x)?)?
            } else {
                self.array(signature, k, parameter, x)?
            }
        } else {
            match convert::scalar(x) {
                Some((scalar, kind)) if parameter.passing == Passing::Value => Value::Scalar(scalar, kind),
                _ if parameter.passing == Passing::Value => {
                    return Err(refused(signature, k, &format!("it takes one number, not {}", convert::describe(x))));
                }
                _ => {
                    let dtype = parameter.dtype().map_or(String::new(), |d| format!(", dtype = \"{d}\""));
                    return Err(refused(signature, k, &format!("it takes an array, not {}", convert::describe(x)))
                        .advise(format!("Use `as_gpu(x{dtype})` first.")));
                }
            }
        };
        self.values.push(value);
        Ok(())
    }

    fn array(&mut self, signature: &Signature, k: usize, parameter: &Parameter, x: SEXP) -> Result<Value> {
        let handle = handle::of(x);
        if handle.is_none() && parameter.passing == Passing::Write {
            return Err(refused(signature, k, "it would be written, and its data are on the host")
                .advise("Use `x <- as_gpu(x)` first."));
        }
        let known = self.handles.iter().position(|&h| match (h, handle) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            _ => false,
        });
        Ok(Value::Array(match known {
            Some(at) => at,
            None => {
                if let (Some(handle), Passing::Write) = (handle, parameter.passing) {
                    handle.part();
                }
                self.arrays.push(handle::array(x)?);
                // SAFETY: R protects the argument, and with it the handle, for the length of the call.
                self.handles.push(handle.map(|h| unsafe { &*(h as *const Handle) }));
                self.arrays.len() - 1
            }
        }))
    }
}

/// The number in an array of length one, such as a sum that was left on the device.
fn one(array: &Array) -> Result<Value> {
    Ok(match array.dtype().kind() {
        kind @ Kind::Complex => {
            let mut room = [[0.0; 2]];
            array.read(0, HostMut::Complex(&mut room))?;
            Value::Scalar(Scalar::C128(room[0]), kind)
        }
        kind @ Kind::Double => {
            let mut room = [0.0];
            array.read(0, HostMut::Double(&mut room))?;
            Value::Scalar(Scalar::F64(room[0]), kind)
        }
        kind => {
            let mut room = [0];
            array.read(0, HostMut::Integer64(&mut room))?;
            Value::Scalar(Scalar::I64(room[0]), kind)
        }
    })
}

/// One to three whole numbers.
fn extents(x: SEXP, argument: &str) -> Result<Option<[u32; 3]>> {
    if r::is_null(x) {
        return Ok(None);
    }
    let wrong = || Error::new(ErrorKind::Argument, format!("`{argument}` must be one to three whole numbers"));
    let given = convert::sizes(x).map_err(|_| wrong())?;
    if !(1..=3).contains(&given.len()) {
        return Err(wrong());
    }
    let mut out = [1u32; 3];
    for (to, from) in out.iter_mut().zip(given) {
        *to = u32::try_from(from).map_err(|_| wrong())?;
    }
    Ok(Some(out))
}

entry! {
    /// list(name, signature, parameters: their names) of a kernel of the source.
    fn kernel_parse(code, name) {
        let code = convert::string(code, "code")?;
        let name = if r::is_null(name) { None } else { Some(convert::string(name, "name")?) };
        let chosen = kernel::choose(&kernel::parsed(code)?, name)?;
        Ok(List::new(3)
            .add("name", r::string(&chosen.name))
            .add("signature", r::string(&chosen.to_string()))
            .add("parameters", r::strings(chosen.parameters.iter().map(|p| &p.name)))
            .finish())
    }

    /// Compiles the source for its errors; FALSE where there is no compiler.
    fn kernel_check(code) {
        Ok(r::logical(kernel::check(convert::string(code, "code")?)?))
    }

    /// Runs a kernel on a list of arguments.
    fn kernel_call(code, name, arguments, grid, block, shared, n) {
        let code = convert::string(code, "code")?;
        let signature = kernel::choose(&kernel::parsed(code)?, Some(convert::string(name, "name")?))?;
        let shared = convert::size(shared, "shared")?;
        let geometry = Geometry {
            grid: extents(grid, "grid")?,
            block: extents(block, "block")?,
            shared: u32::try_from(shared).unwrap_or(u32::MAX),
            n: if r::is_null(n) { None } else { Some(convert::size(n, "n")?) },
        };
        let count = r::len(arguments);
        let mut given = Arguments { values: Vec::with_capacity(count), arrays: Vec::new(), handles: Vec::new() };
        // where their number is wrong, `call` says so
        for (k, parameter) in signature.parameters.iter().enumerate().take(count) {
            // SAFETY: a list, within its length.
            given.add(&signature, k, parameter, unsafe { r::VECTOR_ELT(arguments, k as isize) })?;
        }
        given.values.resize(count, Value::Null);
        kernel::call(code, &signature, &given.values, &mut given.arrays, HOLDERS, &geometry)?;
        for (parameter, value) in signature.parameters.iter().zip(&given.values) {
            if let (Passing::Write, Value::Array(at)) = (parameter.passing, value) {
                if let Some(handle) = given.handles[*at] {
                    handle.rewrite(given.arrays[*at].clone());
                }
            }
        }
        Ok(r::null())
    }
}
