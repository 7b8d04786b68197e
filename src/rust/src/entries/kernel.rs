//! Entries: user-written kernels. Converts R's arguments to the engine's.

use std::os::raw::c_int;
use std::sync::Arc;

use verdigris_engine::array::kernel_call as user_kernel;
use verdigris_engine::array::kernel_call::Value;
use verdigris_engine::array::transfer::HostMut;
use verdigris_engine::array::Array;
use verdigris_engine::backend::{self, Backend, Touching};
use verdigris_engine::kernel::{Element, Function, Geometry, Module, Parameter, Passing, Signature, USUAL};
use verdigris_engine::memory::buffer::{Buffer, Device, View};
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::raw_slice;
use verdigris_ops::scalar::Scalar;
use verdigris_ops::small_vec::SmallVec;

use crate::array::handle::{self, Handle};
use crate::array::{attributes, convert, device};
use crate::entries::entry::{self, entries};
use crate::entries::module::{self, Pointed};
use crate::entries::streams::Stream;
use crate::r::typed::FromR;
use crate::r::{self, values, List, SEXP, SEXPTYPE};

/// References to an array's node during a call: the handle's, and the one in `Arguments`.
const HOLDERS: usize = 2;

/// A kernel as R holds it.
pub struct Kernel {
    function: Function,
    /// Indices of the parameters that a call allocates and returns.
    returns: Vec<usize>,
    cooperative: bool,
    cluster: Option<[u32; 3]>,
}

impl Pointed for Kernel {
    fn tag() -> SEXP {
        r::known_symbol!(c"verdigris_kernel")
    }
}

impl FromR for &Kernel {
    fn from_r(x: SEXP, _: &'static str) -> Result<Self> {
        module::pointed(x)
    }
}

/// The arguments, and the distinct arrays among them with their handles (`None` for an array that was made here).
#[derive(Default)]
struct Arguments<'a> {
    values: SmallVec<Value<'a>, USUAL>,
    arrays: SmallVec<Array, USUAL>,
    handles: SmallVec<Option<&'a Handle>, USUAL>,
}

impl<'a> Arguments<'a> {
    fn add(&mut self, signature: &Signature, k: usize, parameter: &Parameter, x: SEXP) -> Result<()> {
        let takes_array = parameter.passing != Passing::Value;
        let value = if r::is_null(x) {
            Value::Null
        } else if let Some(handle) = handle::of(x) {
            if !takes_array && r::len(x) == 1 {
                one(&handle.array_synced()?)?
            } else {
                self.array(handle, parameter.writes())?
            }
        } else if r::inherits(x, "gpu_array") {
            if parameter.writes() {
                return Err(signature
                    .misfit(k, "it would be written, and its data are on the host")
                    .advise("Use `x <- as_gpu(x)` first."));
            }
            let array = convert::array(x)?;
            if !takes_array && array.len() == 1 {
                one(&array)?
            } else {
                self.arrays.push(array);
                self.handles.push(None);
                Value::Array(self.arrays.len() - 1)
            }
        } else if r::kind_of(x) == SEXPTYPE::RAWSXP {
            // SAFETY: a raw vector, which R protects during the call.
            Value::Raw(unsafe { raw_slice::slice(r::RAW_RO(x), r::len(x)) })
        } else {
            let either = parameter.passing == Passing::Either;
            match values::scalar(x) {
                Some((scalar, kind)) if !takes_array || either => Value::Scalar(scalar, kind),
                _ if !takes_array && matches!(parameter.element, Element::Other(_)) => {
                    return Err(signature.misfit(k, &format!("it takes a raw vector, not {}", values::describe(x))));
                }
                _ if !takes_array => {
                    return Err(signature.misfit(k, &format!("it takes one number, not {}", values::describe(x))));
                }
                _ => {
                    let dtype = parameter.dtype().map_or(String::new(), |d| format!(", dtype = \"{d}\""));
                    return Err(signature
                        .misfit(k, &format!("it takes an array, not {}", values::describe(x)))
                        .advise(format!("Use `as_gpu(x{dtype})` first.")));
                }
            }
        };
        self.values.push(value);
        Ok(())
    }

    fn array(&mut self, handle: &Handle, writes: bool) -> Result<Value<'a>> {
        if writes {
            handle.detach_cell();
        }
        let known = self.handles.iter().position(|h| h.is_some_and(|h| std::ptr::eq(h, handle)));
        Ok(Value::Array(match known {
            Some(at) => at,
            None => {
                self.arrays.push(handle.array_synced()?);
                // SAFETY: R protects the argument, and with it the handle, for the length of the call.
                self.handles.push(Some(unsafe { &*(handle as *const Handle) }));
                self.arrays.len() - 1
            }
        }))
    }
}

/// The number in an array of length one, such as a sum on the device. Waits for it.
fn one(array: &Array) -> Result<Value<'static>> {
    Ok(match array.dtype().kind() {
        kind @ Kind::Complex => {
            let mut value = [[0.0; 2]];
            array.read(0, HostMut::Complex(&mut value))?;
            Value::Scalar(Scalar::C128(value[0]), kind)
        }
        kind @ Kind::Double => {
            let mut value = [0.0];
            array.read(0, HostMut::Double(&mut value))?;
            Value::Scalar(Scalar::F64(value[0]), kind)
        }
        kind => {
            let mut value = [0];
            array.read(0, HostMut::Integer64(&mut value))?;
            Value::Scalar(Scalar::I64(value[0]), kind)
        }
    })
}

/// One to three whole numbers, extents of a grid, block or cluster; missing ones are 1. `None` for NULL.
fn extents(x: SEXP, argument: &str) -> Result<Option<[u32; 3]>> {
    if r::is_null(x) {
        return Ok(None);
    }
    let single = match values::amount(x) {
        Some((Scalar::I32(n), Kind::Integer)) => u32::try_from(n).ok(),
        Some((Scalar::F64(n), _)) if (0.0..4294967296.0).contains(&n) && n.fract() == 0.0 => Some(n as u32),
        _ => None,
    };
    if let Some(n) = single {
        return Ok(Some([n, 1, 1]));
    }
    let wrong = || {
        Error::new(
            ErrorKind::Argument,
            format!("`{argument}` must be one to three whole numbers, not {}", values::describe(x)),
        )
    };
    let given = values::sizes(x).map_err(|_| wrong())?;
    if !(1..=3).contains(&given.len()) {
        return Err(wrong());
    }
    let mut out = [1u32; 3];
    for (to, from) in out.iter_mut().zip(given) {
        *to = u32::try_from(from).map_err(|_| wrong())?;
    }
    Ok(Some(out))
}

/// The device of a call without arrays, and of a module's variables: the one named, else the current one if it is a
/// CUDA device, else `cuda:0`.
fn device(named: Option<Device>) -> Result<Device> {
    Ok(match named {
        Some(named) => named,
        None => match device::current()? {
            Device::Cpu => Device::Cuda(0),
            cuda => cuda,
        },
    })
}

/// New arrays of zeros for the parameters that are returned. Their length is `n`, or that of the longest array.
fn made(
    kernel: &Kernel,
    signature: &Signature,
    given: &Arguments<'_>,
    n: Option<usize>,
    device: Device,
) -> Result<Vec<Array>> {
    let longest = given.arrays.iter().map(Array::len).max();
    let Some(n) = n.or(longest) else {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("kernel `{}` returns an array: give `n`, its length", kernel.function.name),
        ));
    };
    let backend = backend::of(device)?;
    kernel
        .returns
        .iter()
        .map(|&k| {
            let dtype = signature.parameters[k].dtype().unwrap_or(DType::Float64);
            let bytes = n
                .checked_mul(dtype.size())
                .ok_or_else(|| Error::new(ErrorKind::Memory, "the array is larger than memory can be"))?;
            let buffer = backend.allocate(bytes)?;
            if bytes > 0 {
                backend.clear(&buffer)?;
            }
            Ok(Array::from_view(View::contiguous(buffer, dtype, n)))
        })
        .collect()
}

/// The R value of the returned arrays: one array, or a named list. They get the dimensions of the first array argument
/// of their length, if there is one.
fn returned(kernel: &Kernel, signature: &Signature, arrays: Vec<Array>, arguments: &[SEXP]) -> SEXP {
    let n = arrays[0].len();
    // SAFETY: the arguments are protected by their caller.
    unsafe {
        let like = arguments.iter().copied().find(|&x| r::inherits(x, "gpu_array") && r::len(x) == n);
        let wrap = |array: Array| {
            handle::new_with_attributes(array, move |x| {
                if let Some(like) = like {
                    let dim = r::Rf_protect(r::Rf_getAttrib(like, r::R_DimSymbol));
                    if !r::is_null(dim) {
                        r::Rf_setAttrib(x, r::R_DimSymbol, dim);
                    }
                    r::Rf_unprotect(1);
                }
                attributes::classed(x)
            })
        };
        if arrays.len() == 1 {
            return arrays.into_iter().map(wrap).next().unwrap_or_else(r::null);
        }
        let mut list = List::new(arrays.len());
        for (array, &k) in arrays.into_iter().zip(&kernel.returns) {
            list = list.add(&signature.parameters[k].name, wrap(array));
        }
        list.finish()
    }
}

/// The launch arguments as given in R; NULL if not given.
struct Asked {
    grid: SEXP,
    block: SEXP,
    shared: SEXP,
    n: SEXP,
    stream: SEXP,
}

impl Asked {
    fn geometry(&self, kernel: &Kernel) -> Result<Geometry> {
        let shared = if r::is_null(self.shared) { 0 } else { values::size(self.shared, "shared")? };
        Ok(Geometry {
            grid: extents(self.grid, "grid")?,
            block: extents(self.block, "block")?,
            shared: u32::try_from(shared).unwrap_or(u32::MAX),
            n: if r::is_null(self.n) { None } else { Some(values::size(self.n, "n")?) },
            cooperative: kernel.cooperative,
            cluster: kernel.cluster,
        })
    }
}

/// Runs a kernel. `arguments` are in the order of the parameters, without those that are returned; R protects them.
fn launch(kernel: &Kernel, arguments: &[SEXP], asked: &Asked) -> Result<SEXP> {
    device::refresh_debug()?;
    let stream = Option::<&Stream>::from_r(asked.stream, "stream")?;
    // the device of a call without arrays
    let elsewhere = || stream.map_or_else(|| device(None), |stream| Ok(stream.device()));
    let signature = match kernel.function.known_signature() {
        Some(known) => known,
        None => user_kernel::signature(&kernel.function, elsewhere()?)?,
    };
    let geometry = asked.geometry(kernel)?;
    let taken = signature.taken().filter(|(k, _)| !kernel.returns.contains(k)).count();
    if arguments.len() != taken {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("kernel `{}` takes {}, not {}", signature.name, user_kernel::counted(taken), arguments.len()),
        )
        .advise(format!("Its signature is `{signature}`.")));
    }
    let mut given = Arguments::default();
    let mut rest = arguments.iter();
    for (k, parameter) in signature.taken() {
        if kernel.returns.contains(&k) {
            given.values.push(Value::Null); // a placeholder until the lengths of all arguments are known
        } else if let Some(&x) = rest.next() {
            given.add(signature, k, parameter, x)?;
        }
    }
    let first = given.arrays.len();
    let on = given.arrays.first().map_or_else(elsewhere, |array| Ok(array.device()))?;
    let _selected = stream.map(|stream| stream.select(on)).transpose()?;
    if !kernel.returns.is_empty() {
        for array in made(kernel, signature, &given, geometry.n, on)? {
            given.arrays.push(array);
            given.handles.push(None);
        }
        for ((k, _), value) in signature.taken().zip(given.values.iter_mut()) {
            if let Some(index) = kernel.returns.iter().position(|&of| of == k) {
                *value = Value::Array(first + index);
            }
        }
    }
    user_kernel::call(&kernel.function, &given.values, &mut given.arrays, HOLDERS, &geometry, on)?;
    for ((_, parameter), value) in signature.taken().zip(given.values.iter()) {
        if let (true, Value::Array(at)) = (parameter.writes(), value) {
            if let Some(handle) = given.handles[*at] {
                handle.rewrite(given.arrays[*at].clone())?;
            }
        }
    }
    if kernel.returns.is_empty() {
        return Ok(r::null());
    }
    let fresh = given.arrays[first..].to_vec();
    drop(given);
    Ok(returned(kernel, signature, fresh, arguments))
}

/// `launch` for `kernel.c`: `count` arguments in the order of the parameters.
#[no_mangle]
extern "C" fn vg_launch(
    pointer: SEXP,
    arguments: *const SEXP,
    count: c_int,
    grid: SEXP,
    block: SEXP,
    shared: SEXP,
    n: SEXP,
    stream: SEXP,
) -> SEXP {
    // SAFETY: C passes the address of `count` arguments.
    let arguments = unsafe { raw_slice::slice(arguments, count as usize) };
    entry::run(|| launch(<&Kernel>::from_r(pointer, "kernel")?, arguments, &Asked { grid, block, shared, n, stream }))
}

entries! {
    /// list(pointer, name, signature, parameters: their names in a call). The last two are NULL if the
    /// binary must be loaded to know them.
    fn kernel_new(
        module: Arc<Module>,
        name: Option<&str>,
        returns: Vec<String>,
        cooperative: bool,
        cluster: SEXP,
    ) -> Result<List> {
        let function = module.function(name)?;
        let named = returns;
        let mut returns = Vec::new();
        if !named.is_empty() {
            let signature = user_kernel::signature(&function, device(None)?)?;
            for wanted in &named {
                let index = signature.parameters.iter().position(|p| p.name == *wanted).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Argument,
                        format!("`returns`: kernel `{}` has no parameter `{wanted}`", function.name),
                    )
                    .advise(format!("Its signature is `{signature}`."))
                })?;
                let parameter = &signature.parameters[index];
                if parameter.passing != Passing::Write || parameter.dtype().is_none() {
                    return Err(Error::new(
                        ErrorKind::Argument,
                        format!(
                            "`returns`: parameter `{wanted}` is `{}`, and only a pointer to numbers that is not const \
                             can be returned",
                            parameter.c_type()
                        ),
                    ));
                }
                if returns.contains(&index) {
                    return Err(Error::new(ErrorKind::Argument, format!("`returns` names `{wanted}` twice")));
                }
                returns.push(index);
            }
        }
        let known = function.known_signature().cloned();
        let name = function.name.clone();
        let kernel = Kernel { function, returns, cooperative, cluster: extents(cluster, "cluster")? };
        let parameters: Vec<String> = known
            .iter()
            .flat_map(|s| s.taken())
            .filter(|(k, _)| !kernel.returns.contains(k))
            .map(|(_, p)| p.name.clone())
            .collect();
        let list = List::new(4);
        let pointer = module::pointer(kernel);
        let list = list.add("pointer", pointer).add("name", name);
        if known.is_some() {
            // SAFETY: the pointer is in the list, and so protected. kernel.c reads the names.
            unsafe { r::vg_keep_with(pointer, r::strings(parameters.iter())) };
        }
        let parameters = known.is_some().then_some(&parameters[..]);
        Ok(list.add("signature", known.map(|signature| signature.to_string())).add("parameters", parameters))
    }

    /// list(signature, parameters: their names in a call); loads the kernel's binary if needed.
    fn kernel_signature(kernel: &Kernel) -> Result<List> {
        let signature = user_kernel::signature(&kernel.function, device(None)?)?;
        let parameters: Vec<&str> =
            signature.taken().filter(|(k, _)| !kernel.returns.contains(k)).map(|(_, p)| p.name.as_str()).collect();
        Ok(List::new(2).add("signature", signature.to_string()).add("parameters", r::strings(parameters.iter())))
    }

    /// Runs a kernel on a list of arguments, in the order of the parameters that are not returned.
    fn kernel_call(
        kernel: &Kernel,
        arguments: Vec<SEXP>,
        grid: SEXP,
        block: SEXP,
        shared: SEXP,
        n: SEXP,
        stream: SEXP,
    ) -> Result<SEXP> {
        launch(kernel, &arguments, &Asked { grid, block, shared, n, stream })
    }

    /// A copy of a module's variable: an array, or a raw vector if the dtype is "raw".
    fn global_read(module: Arc<Module>, name: &str, dtype: SEXP, on as "device": Option<Device>) -> Result<SEXP> {
        let on = device(on)?;
        let raw = <&str>::from_r(dtype, "dtype").is_ok_and(|dtype| dtype == "raw");
        let wanted = if raw { None } else { values::dtype(dtype)? };
        let buffer = backend::of(on)?.global(&module, name)?;
        let backend = backend::of(on)?;
        let variables = variables(backend, &module)?;
        let _touching = touching(backend, &variables)?;
        if raw {
            // SAFETY: a new raw vector with as many bytes.
            unsafe {
                let out = r::Rf_protect(r::Rf_allocVector(SEXPTYPE::RAWSXP, buffer.bytes as r::R_xlen_t));
                let done = backend.download(&buffer, 0, std::slice::from_raw_parts_mut(r::RAW(out), buffer.bytes));
                r::Rf_unprotect(1);
                return done.map(|()| out);
            }
        }
        let dtype = stored(&module, name, wanted)?;
        let n = whole(name, buffer.bytes, dtype)?;
        let copy = backend.allocate(buffer.bytes)?;
        backend.copy(&buffer, 0, &copy, 0, buffer.bytes)?;
        Ok(handle::new_vector(Array::from_view(View::contiguous(copy, dtype, n))))
    }

    /// Writes a module's variable. `value` is an array or host vector of its length, or a raw vector of its bytes.
    fn global_write(
        module: Arc<Module>,
        name: &str,
        dtype: Option<DType>,
        on as "device": Option<Device>,
        value: SEXP,
    ) -> Result<()> {
        let on = device(on)?;
        let buffer = backend::of(on)?.global(&module, name)?;
        let backend = backend::of(on)?;
        let variables = variables(backend, &module)?;
        let wrong = |given: usize, n: usize, what: &str| {
            Error::new(ErrorKind::Shape, format!("variable `{name}` has {n} {what}, and `value` {given}"))
        };
        if r::kind_of(value) == SEXPTYPE::RAWSXP {
            if r::len(value) != buffer.bytes {
                return Err(wrong(r::len(value), buffer.bytes, "bytes"));
            }
            let _touching = touching(backend, &variables)?;
            // SAFETY: a raw vector of this length.
            backend.upload(unsafe { std::slice::from_raw_parts(r::RAW_RO(value), buffer.bytes) }, &buffer, 0)?;
            return backend.synchronize();
        }
        let dtype = stored(&module, name, dtype)?;
        let n = whole(name, buffer.bytes, dtype)?;
        if r::len(value) != n {
            return Err(wrong(r::len(value), n, "elements"));
        }
        let array = if handle::of(value).is_some() || r::inherits(value, "gpu_array") {
            let array = convert::array(value)?;
            if array.device() != on {
                return Err(Error::new(
                    ErrorKind::Device,
                    format!("`value` is on {}, and the variable on {on}", array.device()),
                )
                .advise(format!("Move it with `as_gpu(x, device = \"{on}\")`.")));
            }
            array.cast(dtype, None)?
        } else {
            convert::upload(value, Some(dtype), on, None)?
        };
        let view = array.contiguous()?;
        let _touching = touching(backend, &variables)?;
        backend.copy(&view.buffer, view.layout.offset() * dtype.size(), &buffer, 0, buffer.bytes)
    }
}

/// The token buffer that orders access to the module's variables across streams; `None` if nothing tracks streams.
fn variables(backend: &dyn Backend, module: &Module) -> Result<Option<Arc<Buffer>>> {
    if backend.tracks() {
        backend.variables(module)
    } else {
        Ok(None)
    }
}

/// Orders a copy from or to a variable: what is queued while the result lives runs after earlier kernels of the module
/// and before later ones, on whatever stream.
fn touching<'a>(
    backend: &'a dyn Backend,
    variables: &'a Option<Arc<Buffer>>,
) -> Result<Option<Box<dyn Touching + 'a>>> {
    let touched: Vec<_> = variables.iter().map(|buffer| (buffer, true)).collect();
    backend.touching(&touched)
}

/// The dtype of a variable: the wanted one, or the one that the source declares.
fn stored(module: &Module, name: &str, wanted: Option<DType>) -> Result<DType> {
    let declared = module.globals().iter().find(|g| g.name == name).map(|g| &g.element);
    let natural = declared.and_then(|element| element.dtypes()?.next());
    wanted.or(natural).ok_or_else(|| {
        let what = declared.map_or("its type is not known".into(), |element| format!("it is of type `{element}`"));
        Error::new(ErrorKind::DType, format!("variable `{name}`: {what}"))
            .advise("Say what it holds by `dtype`, such as \"float32\"; \"raw\" gives its bytes.")
    })
}

fn whole(name: &str, bytes: usize, dtype: DType) -> Result<usize> {
    if !bytes.is_multiple_of(dtype.size()) {
        return Err(Error::new(
            ErrorKind::DType,
            format!("variable `{name}` has {bytes} bytes, which are no {dtype} elements"),
        ));
    }
    Ok(bytes / dtype.size())
}
