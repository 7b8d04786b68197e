//! User-written modules: compiled or loaded for a device, their kernels found and launched within the device's limits.
//!
//! `compile_error` explains compiler errors, `headers` finds included files, `link` links with other code, `geometry`
//! chooses and checks grids, `launcher` calls host functions.

mod compile_error;
mod geometry;
mod headers;
mod launcher;
mod link;

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::{c_void, CStr, CString};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::compile::cache;
use super::compile::nvrtc::Target;
use super::compile::nvrtc::{self, Request};
use super::compile::{self, USUAL_SHARED};
use super::context::core::lock;
use super::context::device::Cuda;
use super::driver::api::{
    self, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue_union__bindgen_ty_1,
    CUlaunchConfig,
};
use super::driver::devices;
use super::driver::kernel::{Kernel, Shape};
use super::driver::library;
use crate::backend::Launch;
use crate::kernel::{is_mangled, Function, Module, Signature};
use crate::memory::buffer::Buffer;
use verdigris_ops::error::{Error, Kind, Result};

/// Options for users' sources. They lack `--fmad=false`: users' arithmetic is compiled as nvcc would.
const OPTIONS: &[&str] = &["--std=c++17", "--device-as-default-execution-space"];

/// A user's module on a device. A fatbin of several sources becomes several modules of the driver.
struct Loaded {
    modules: Vec<Arc<compile::Module>>,
    /// The token of `Backend::variables`: a buffer of no bytes at the address of the driver's module, which is no other
    /// buffer's address.
    variables: Option<Arc<Buffer>>,
    /// Template instances, as the user names them, and their mangled names.
    lowered: Vec<(String, String)>,
}

impl Loaded {
    fn new(cuda: &Cuda, modules: Vec<Arc<compile::Module>>, lowered: Vec<(String, String)>) -> Loaded {
        let variables = modules.first().map(|module| {
            let nothing: Box<dyn Any + Send + Sync> = Box::new(());
            Arc::new(Buffer::new(cuda.device(), module.handle.number() as u64, 0, nothing))
        });
        Loaded { modules, variables, lowered }
    }
}

/// Loaded modules, by the device's ordinal and a hash of the content.
type Known = HashMap<(u32, u128), Arc<Loaded>>;
/// An image, and its template instances with their mangled names.
type Named<'a> = (&'a [u8], Vec<(String, String)>);

/// A kernel on a device.
struct Ready {
    kernel: Arc<Kernel>,
    /// Bytes of each parameter, if the driver reports them.
    sizes: Option<Vec<usize>>,
    /// Bytes of shared memory that the source declares.
    shared: u32,
    /// Bytes of dynamic shared memory that it has been allowed so far; 0 stands for the usual limit.
    allowed: AtomicU32,
    /// Block sizes that `best_block` has found, by dynamic shared memory.
    blocks: Mutex<Vec<(u32, u32)>>,
}

/// Compiles a source for the first device or, without a device, for the newest architecture that NVRTC knows. False for
/// compiled code, and if there is no NVRTC.
///
/// # Errors
/// `Compile`, naming the line, with the compiler's log as detail.
pub fn check(module: &Module) -> Result<bool> {
    if module.format().is_some() {
        return Ok(false);
    }
    if devices::count().unwrap_or(0) > 0 {
        if let Ok(cuda) = Cuda::of(0) {
            return match loaded(cuda, module) {
                Err(e) if e.kind == Kind::Library => Ok(false),
                other => other.map(|_| true),
            };
        }
    }
    let Ok(nvrtc) = api::nvrtc() else { return Ok(false) };
    let Some(newest) = nvrtc::archs(nvrtc)?.into_iter().max() else { return Ok(false) };
    compiled(module, Target::Ptx(newest))?;
    Ok(true)
}

/// The result of compiling a source: machine code of an architecture (`90`), or PTX.
///
/// # Errors
/// `Library` without NVRTC; `Compile`.
pub fn image(module: &Module, arch: u32, ptx: bool) -> Result<Vec<u8>> {
    let mut bytes = compiled(module, if ptx { Target::Ptx(arch) } else { Target::Cubin(arch) })?.bytes;
    if ptx && bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn compiled(module: &Module, target: Target) -> Result<nvrtc::Compiled> {
    let label = CString::new(module.spec.label.as_str()).unwrap_or_default();
    let mut options: Vec<String> = OPTIONS.iter().map(|&o| o.into()).collect();
    let says = |prefixes: &[&str]| module.spec.options.iter().any(|o| prefixes.iter().any(|p| o.starts_with(p)));
    if says(&["--std", "-std"]) {
        options.remove(0);
    }
    if says(&["--gpu-architecture", "-arch"]) {
        return Err(Error::new(Kind::Argument, "`options` must not name an architecture: it is that of the device"));
    }
    if !module.spec.link.is_empty() {
        options.push("--relocatable-device-code=true".into());
    }
    options.extend(module.spec.options.iter().cloned());
    options.extend(headers::folders(module).iter().map(|folder| format!("-I{}", folder.display())));
    let request = Request {
        source: module.source(),
        label: &label,
        target,
        options,
        headers: false,
        expressions: &module.spec.names,
    };
    nvrtc::compile(&request).map_err(|e| compile_error::located(e, module))
}

/// Loads a module on a device. Modules of the same content are loaded once, and share their variables.
fn loaded(cuda: &Cuda, module: &Module) -> Result<Arc<Loaded>> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let ordinal = cuda.properties.ordinal;
    let slot = module.loaded.get(ordinal, || {
        let key = (ordinal, key(module));
        if let Some(known) = lock(&KNOWN).as_ref().and_then(|known| known.get(&key)) {
            return Ok(known.clone());
        }
        let fresh = Arc::new(load(cuda, module, key.1)?);
        Ok(lock(&KNOWN).get_or_insert_default().entry(key).or_insert(fresh).clone())
    })?;
    Ok(Arc::clone(&slot))
}

/// A hash of everything that a module is made of, the user's headers included.
fn key(module: &Module) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        module.hash_into(&mut hasher);
        headers::hash(module, &mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

fn load(cuda: &Cuda, module: &Module, key: u128) -> Result<Loaded> {
    let label = &module.spec.label;
    let load =
        |bytes: &[u8]| cuda.load_image(bytes, label).map(Arc::new).map_err(|e| compile_error::unloadable(e, module));
    let linked = !module.spec.link.is_empty();
    if module.format().is_some() {
        if linked {
            return Err(Error::new(Kind::Argument, "`link` joins compiled code with a source, but there is none"));
        }
        let modules = module.images().iter().map(|image| load(image)).collect::<Result<_>>()?;
        return Ok(Loaded::new(cuda, modules, Vec::new()));
    }
    // NVRTC is identified by its file: loading it would take longer than everything else here
    let name = library::expected(library::Library::Nvrtc).map(|file| {
        let mut hasher = DefaultHasher::new();
        (file, cuda.properties.capability, OPTIONS, headers::folders(module)).hash(&mut hasher);
        format!("{key:032x}{:016x}", hasher.finish())
    });
    let make = || {
        let mut made = compiled(module, Target::of(cuda.properties.capability)?)?;
        if linked {
            made.bytes = link::link(cuda, made.bytes, &module.spec.link)?;
        }
        Ok(packed(&made))
    };
    cache::kept(name.as_deref(), make, |bytes| {
        let (image, lowered) =
            unpacked(bytes, module).ok_or_else(|| Error::new(Kind::Compile, format!("{label} has other names")))?;
        Ok(Loaded::new(cuda, vec![load(image)?], lowered))
    })
}

/// The format of the disk cache: the number of lowered names, the names, each ended by a zero byte, and the image.
fn packed(compiled: &nvrtc::Compiled) -> Vec<u8> {
    let mut bytes = (compiled.lowered.len() as u32).to_le_bytes().to_vec();
    for name in &compiled.lowered {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    bytes.extend_from_slice(&compiled.bytes);
    bytes
}

/// Reads what `packed` wrote; `None` if its names are not as many as the module's.
fn unpacked<'a>(bytes: &'a [u8], module: &Module) -> Option<Named<'a>> {
    let (count, mut rest) = bytes.split_at_checked(4)?;
    let mut names = Vec::new();
    for _ in 0..u32::from_le_bytes(count.try_into().ok()?) {
        let name = CStr::from_bytes_until_nul(rest).ok()?;
        rest = &rest[name.to_bytes_with_nul().len()..];
        names.push(name.to_str().ok()?.to_string());
    }
    (names.len() == module.spec.names.len()).then(|| (rest, module.spec.names.iter().cloned().zip(names).collect()))
}

/// The symbols of a module's functions; `None` if the driver does not report them.
fn symbols(cuda: &Cuda, module: &compile::Module) -> Option<Vec<String>> {
    let reflection = api::reflection()?;
    let _entered = cuda.enter().ok()?;
    let mut count = 0;
    // SAFETY: writes a number.
    if unsafe { (reflection.function_count)(&mut count, module.handle) } != api::SUCCESS {
        return None;
    }
    let mut functions = vec![api::Function::NULL; count as usize];
    // SAFETY: the vector has room for `count` handles.
    if unsafe { (reflection.functions)(functions.as_mut_ptr(), count, module.handle) } != api::SUCCESS {
        return None;
    }
    let mut names = Vec::new();
    for function in functions {
        let mut name = std::ptr::null();
        // SAFETY: returns a string that lives as long as the module.
        unsafe {
            if (reflection.function_name)(&mut name, function) == api::SUCCESS && !name.is_null() {
                names.push(CStr::from_ptr(name).to_string_lossy().into_owned());
            }
        }
    }
    Some(names)
}

/// The kernel of a name: a template instance, a symbol, or a C++ function, whose symbol is mangled.
fn find(cuda: &Cuda, loaded: &Loaded, function: &Function) -> Result<Arc<Kernel>> {
    let name = &function.name;
    if let Some((_, symbol)) = loaded.lowered.iter().find(|(given, _)| given == name) {
        return cuda.named(&loaded.modules[0], symbol, name);
    }
    let mut known = Vec::new();
    for module in &loaded.modules {
        // look up only symbols that the driver lists; if it lists none, try the name in each module, where a failure is
        // no error
        match symbols(cuda, module) {
            Some(symbols) => {
                let fitting =
                    symbols.iter().find(|s| *s == name).or_else(|| symbols.iter().find(|s| is_mangled(s, name)));
                if let Some(symbol) = fitting {
                    return cuda.named(module, symbol, name);
                }
                known.extend(symbols);
            }
            None => {
                if let Ok(kernel) = cuda.named(module, name, name) {
                    return Ok(kernel);
                }
            }
        }
    }
    let error = Error::new(Kind::Argument, format!("{} has no kernel `{name}`", function.module.spec.label));
    known.truncate(20);
    Err(if known.is_empty() {
        error.advise(
            "C++ mangles names: write `extern \"C\"`, or use a driver of CUDA 12.4 or later, which reports them.",
        )
    } else {
        error.advise(format!("It has {}.", known.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")))
    })
}

/// A kernel, ready to be launched on a device.
fn ready(cuda: &Cuda, function: &Function) -> Result<Arc<Ready>> {
    function.loaded.get(cuda.properties.ordinal, || {
        let kernel = find(cuda, &*loaded(cuda, &function.module)?, function)?;
        let mut shared = 0;
        let _entered = cuda.enter()?;
        // SAFETY: writes a number.
        let status = unsafe {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            (cuda.driver.function_attribute)(&mut shared, attribute, kernel.function)
        };
        cuda.check(status, "cuFuncGetAttribute")?;
        let sizes = sizes(&kernel);
        if let (Some(sizes), Some(signature)) = (&sizes, function.known_signature()) {
            agree(signature, sizes, function)?;
        }
        Ok(Ready { kernel, sizes, shared: shared.max(0) as u32, allowed: AtomicU32::new(0), blocks: Mutex::default() })
    })
}

/// Bytes of each parameter; `None` if the driver does not report them.
fn sizes(kernel: &Kernel) -> Option<Vec<usize>> {
    let reflection = api::reflection()?;
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: writes two numbers; past the last parameter it gives an error.
        if unsafe { (reflection.parameter)(kernel.function, sizes.len(), &mut offset, &mut size) } != api::SUCCESS {
            return Some(sizes);
        }
        sizes.push(size);
    }
}

/// Checks a known signature against the code's parameters: their number and sizes.
fn agree(signature: &Signature, sizes: &[usize], function: &Function) -> Result<()> {
    let error = |what: String| {
        Err(Error::new(Kind::Argument, format!("the signature `{signature}` does not match the code: {what}"))
            .advise(format!("What {} has takes {} bytes.", function.module.spec.label, listed(sizes))))
    };
    if sizes.len() != signature.parameters.len() {
        return error(format!("it has {} parameters, the code {}", signature.parameters.len(), sizes.len()));
    }
    for (k, (parameter, &size)) in signature.parameters.iter().zip(sizes).enumerate() {
        if let Some(said) = parameter.size().filter(|&said| said != size) {
            return error(format!("parameter {} has {said} bytes, but {size} in the code", k + 1));
        }
    }
    Ok(())
}

fn listed(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// See `Backend::parameters`.
pub fn parameters(cuda: &Cuda, function: &Function) -> Result<Vec<usize>> {
    let ready = ready(cuda, function)?;
    ready.sizes.clone().ok_or_else(|| {
        Error::new(Kind::Library, format!("this driver does not report the parameters of `{}`", function.name))
            .advise("Declare them by `signatures`; drivers of CUDA 12.4 and later report them.")
    })
}

/// See `Backend::global`.
pub fn global(cuda: &Cuda, module: &Module, name: &str) -> Result<Arc<Buffer>> {
    let loaded = loaded(cuda, module)?;
    let spaces: Vec<&str> = name.split("::").collect();
    let mangled = format!("_ZN{}E", spaces.iter().map(|s| format!("{}{s}", s.len())).collect::<String>());
    let symbol = CString::new(if spaces.len() > 1 { mangled.as_str() } else { name })
        .map_err(|_| Error::new(Kind::Argument, "the name of a variable must not contain a zero byte"))?;
    let _entered = cuda.enter()?;
    for part in &loaded.modules {
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: writes an address and a number.
        let status = unsafe { (cuda.driver.module_global)(&mut address, &mut bytes, part.handle, symbol.as_ptr()) };
        if status == api::SUCCESS {
            let nothing: Box<dyn Any + Send + Sync> = Box::new(());
            return Ok(Arc::new(Buffer::new(cuda.device(), address, bytes, nothing)));
        }
        if api::is_sticky(status) {
            cuda.check(status, "cuModuleGetGlobal")?;
        }
    }
    let known: Vec<String> = module.globals().iter().map(|g| format!("`{}`", g.name)).collect();
    let error = Error::new(Kind::Argument, format!("{} has no variable `{name}`", module.spec.label));
    Err(if known.is_empty() {
        error.advise("Variables are declared outside all functions: `__device__ float x[8];` or `__constant__ int n;`.")
    } else {
        error
            .advise(format!("It declares {}; the compiler may remove variables that are never used.", known.join(", ")))
    })
}

/// See `Backend::variables`.
pub fn variables(cuda: &Cuda, module: &Module) -> Result<Option<Arc<Buffer>>> {
    Ok(loaded(cuda, module)?.variables.clone())
}

/// See `Backend::launch`.
pub fn launch(cuda: &Cuda, launch: &Launch<'_>) -> Result<()> {
    if launch.function.host {
        return launcher::call(cuda, launch);
    }
    let ready = ready(cuda, launch.function)?;
    let kernel = &ready.kernel;
    for k in 0..launch.arguments.len() {
        let given = launch.arguments.bytes(k).len();
        let wanted = match &ready.sizes {
            Some(sizes) => sizes.get(k).copied(),
            None => launch.signature.parameters[k].size(),
        };
        match wanted {
            Some(wanted) if wanted == given => {}
            Some(wanted) => {
                let why = format!("it has {wanted} bytes, but the raw vector has {given}");
                return Err(launch.signature.misfit(k, &why));
            }
            None => {
                let why = "its size is not known without a driver of CUDA 12.4 or later";
                return Err(launch.signature.misfit(k, why));
            }
        }
    }
    let (grid, block) = geometry::geometry(cuda, &ready, launch)?;
    let shared = launch.geometry.shared;
    if shared + ready.shared > USUAL_SHARED && shared > ready.allowed.load(Ordering::Relaxed) {
        cuda.allow_shared(kernel, shared)?;
        ready.allowed.store(shared, Ordering::Relaxed);
    }
    let explain = |error: Error| {
        error.advise(format!(
            "Kernel `{}` was launched with grid {}, block {}, {shared} bytes of shared memory; arguments {}.",
            launch.function.name,
            geometry::shown(grid),
            geometry::shown(block),
            (launch.described)()
        ))
    };
    let asked = launch.geometry;
    let arguments = launch.arguments.all();
    if !asked.cooperative && asked.cluster.is_none() {
        // SAFETY: as many arguments as parameters, of their sizes.
        return unsafe { cuda.launch_explained(kernel, Shape { grid, block, shared }, &arguments, false, explain) };
    }
    let mut attributes: Vec<CUlaunchAttribute> = Vec::new();
    if asked.cooperative {
        // SAFETY: plain numbers, of which all bits zero are a value.
        let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attribute.value.cooperative = 1;
        attributes.push(attribute);
    }
    if let Some([x, y, z]) = asked.cluster {
        // SAFETY: as above.
        let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        attributes.push(attribute);
    }
    let config = CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared,
        hStream: cuda.stream().as_raw(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    };
    let mut pointers: Vec<*mut c_void> = arguments.iter().map(|bytes| bytes.as_ptr().cast_mut().cast()).collect();
    // SAFETY: as above; the attributes outlive the call.
    let call =
        || unsafe { (cuda.driver.launch_with)(&config, kernel.function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
    cuda.queue(kernel, "cuLaunchKernelEx", call, explain)
}
