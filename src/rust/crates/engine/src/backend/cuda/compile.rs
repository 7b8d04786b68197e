//! From CUDA C and PTX to loaded kernels: NVRTC, the driver's compiler, and a cache in memory; `cache` is the one on disk.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

use super::api::{
    self, nvrtcProgram, nvrtcResult, CUfunction_attribute, CUjitInputType, CUjit_option, Driver, Function, LinkState,
    Nvrtc,
};
use super::device::{driver_version, lock, Cuda};
use super::interpret::{self, Family};
use super::launch::Kernel;
use super::shipped::{self, Ptx};
use super::tier::Tier;
use super::{cache, tier};
use crate::counters;
use crate::error::{Error, Kind, Result};

// HEADERS: name and text of every file in kernels/, which sources may include.
include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// No fused multiply-add that the text does not ask for: `x*x - y*y` must be R's.
pub const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17", "--device-as-default-execution-space"];

/// How a source is compiled.
pub struct Style {
    /// What the compiler's messages call it.
    pub label: &'static CStr,
    pub options: &'static [&'static str],
}

/// Sources of our own.
static OWN: Style = Style { label: c"verdigris.cu", options: OPTIONS };

/// What NVRTC made of a source.
pub struct Image {
    /// A cubin, or PTX with its closing zero.
    pub bytes: Vec<u8>,
}

/// A device's loaded modules, by key.
#[derive(Default)]
pub struct Kernels {
    modules: Mutex<HashMap<String, Arc<Module>>>,
    pub(super) plans: super::run::Plans,
    /// Where plans are carried out, and what is under way.
    pub(super) tiers: tier::Tiers,
    pub(super) interpreters: [OnceLock<Arc<Kernel>>; super::interpret::Family::ALL.len()],
}

/// A loaded module. Never unloaded.
pub struct Module {
    handle: api::Module,
    label: String,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

impl Cuda {
    /// The module that a source compiles to. `key` must determine the source, which is only made where
    /// the key is new.
    ///
    /// # Errors
    /// `Library` without NVRTC; `Compile`, with the compiler's log as detail.
    pub fn module(&self, key: &str, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        self.module_as(key, &OWN, source)
    }

    /// As `module`; the key must determine the style too.
    pub fn module_as(&self, key: &str, style: &Style, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        if let Some(module) = lock(&self.kernels.modules).get(key) {
            return Ok(module.clone());
        }
        let module = Arc::new(self.load_as(&source(), key, style)?);
        // where two threads compiled the same, the first one's is kept
        Ok(lock(&self.kernels.modules).entry(key.into()).or_insert(module).clone())
    }

    /// Compiles and loads a source, whatever was compiled before.
    pub(super) fn load(&self, source: &str, label: &str) -> Result<Module> {
        self.load_as(source, label, &OWN)
    }

    fn load_as(&self, source: &str, label: &str, style: &Style) -> Result<Module> {
        // NVRTC's are made for the very device
        let alone = tier::tier() == Tier::Interpreted || api::nvrtc().is_err();
        let shipped = if std::ptr::eq(style, &OWN) && alone { shipped::find(source) } else { None };
        let image = match shipped.map(|ptx| self.link(&ptx)) {
            Some(Ok(image)) => image,
            // a driver that does not compile PTX (containers may leave that part out)
            Some(Err(error)) if api::nvrtc().is_err() => return Err(error),
            _ => image(source, Target::of(self.properties.capability)?, style)?,
        };
        self.load_image(&image, label)
    }

    /// An interpreter: machine code that is shipped, else PTX that is shipped and the driver compiles, else from NVRTC.
    pub(super) fn interpreter(&self, family: Family) -> Result<Module> {
        let name = family.name();
        if let Some(code) = shipped::machine_code(name, self.properties.capability) {
            // a driver too old for it says so
            if let Ok(module) = self.load_image(&Image { bytes: code.to_vec() }, name) {
                return Ok(module);
            }
        }
        let linked = shipped::named(name)
            .ok_or_else(|| Error::new(Kind::Compile, format!("the package comes without its kernel `{name}`")))
            .and_then(|ptx| self.link(&ptx));
        match linked {
            Ok(image) => self.load_image(&image, name),
            Err(_) if api::nvrtc().is_ok() => self.load(&interpret::source::source(family), name),
            Err(error) => Err(error),
        }
    }

    /// Whether an interpreter's machine code is there: shipped, or from an earlier compilation by the driver.
    pub(super) fn has_interpreter(&self, family: Family) -> bool {
        let name = family.name();
        shipped::machine_code(name, self.properties.capability).is_some()
            || shipped::named(name).and_then(|ptx| self.linked_name(&ptx).ok()).is_some_and(|name| cache::has(&name))
    }

    /// What compiled PTX is called on disk.
    fn linked_name(&self, ptx: &Ptx) -> Result<String> {
        let (major, minor) = self.properties.capability;
        let version = driver_version()?;
        Ok(format!("{:032x}-sm_{major}{minor}-{}.{}", ptx.fingerprint(), version.0, version.1))
    }

    /// Has the driver compile PTX for the device, unless that is on disk from before.
    fn link(&self, ptx: &Ptx) -> Result<Image> {
        let name = self.linked_name(ptx)?;
        if let Some(bytes) = cache::get(&name) {
            return Ok(Image { bytes });
        }
        let _entered = self.enter()?;
        let mut log = vec![0u8; 4096];
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
        let mut link = Link { driver: self.driver, handle: std::ptr::null_mut() };
        let (mut cubin, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: the log outlives the link; the text ends in zero, and its length counts that.
        let status = unsafe {
            let mut status = (self.driver.link_create)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut link.handle);
            if status == api::SUCCESS {
                status = (self.driver.link_add)(
                    link.handle,
                    CUjitInputType::CU_JIT_INPUT_PTX,
                    ptx.text().as_ptr().cast_mut().cast(),
                    ptx.text().len(),
                    c"verdigris.ptx".as_ptr(),
                    0,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                );
            }
            if status == api::SUCCESS {
                status = (self.driver.link_complete)(link.handle, &mut cubin, &mut bytes);
            }
            status
        };
        self.check(status, "cuLinkComplete").map_err(|e| {
            let end = log.iter().position(|&c| c == 0).unwrap_or(log.len());
            e.detail(String::from_utf8_lossy(&log[..end]).into_owned())
        })?;
        // SAFETY: the driver's memory, valid until the link is destroyed.
        let image = Image { bytes: unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), bytes) }.to_vec() };
        cache::put(&name, &image.bytes);
        Ok(image)
    }

    fn load_image(&self, image: &Image, label: &str) -> Result<Module> {
        let _entered = self.enter()?;
        let mut handle = api::Module::NULL;
        // SAFETY: the image is a whole cubin, or PTX that ends in zero.
        let status = unsafe { (self.driver.module_load)(&mut handle, image.bytes.as_ptr().cast()) };
        self.check(status, "cuModuleLoadData")?;
        Ok(Module { handle, label: label.into(), kernels: Mutex::default() })
    }

    /// A kernel of a module, by its (`extern "C"`) name.
    pub fn function(&self, module: &Module, name: &str) -> Result<Arc<Kernel>> {
        if let Some(kernel) = lock(&module.kernels).get(name) {
            return Ok(kernel.clone());
        }
        let _entered = self.enter()?;
        let symbol = CString::new(name)
            .map_err(|_| Error::new(Kind::Argument, "the name of a kernel must not contain a zero byte"))?;
        let mut function = Function::NULL;
        // SAFETY: a loaded module, and a string that ends in zero.
        let status = unsafe { (self.driver.module_function)(&mut function, module.handle, symbol.as_ptr()) };
        self.check(status, "cuModuleGetFunction").map_err(|e| {
            e.advise(format!("Is there an `extern \"C\" __global__` function `{name}` in `{}`?", module.label))
        })?;
        let get = |attribute: CUfunction_attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: writes a number.
            let status = unsafe { (self.driver.function_attribute)(&mut value, attribute, function) };
            self.check(status, "cuFuncGetAttribute")?;
            Ok(value.max(0) as u32)
        };
        let kernel = Arc::new(Kernel {
            function,
            name: name.into(),
            registers: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        });
        lock(&module.kernels).insert(name.into(), kernel.clone());
        Ok(kernel)
    }

    /// The kernel `name` of the module that a source compiles to: `module` and `function` in one.
    pub fn kernel(&self, key: &str, source: impl FnOnce() -> String, name: &str) -> Result<Arc<Kernel>> {
        self.function(&*self.module(key, source)?, name)
    }

    /// Lets a kernel use more shared memory, given at launch, than the 48 kB that all may use.
    pub fn allow_shared(&self, kernel: &Kernel, bytes: u32) -> Result<()> {
        let _entered = self.enter()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a loaded function.
        let status = unsafe { (self.driver.function_set)(kernel.function, attribute, bytes as i32) };
        self.check(status, "cuFuncSetAttribute")
    }

    /// Blocks of this size that a multiprocessor runs at once.
    pub fn occupancy(&self, kernel: &Kernel, threads: u32, shared: u32) -> Result<u32> {
        let _entered = self.enter()?;
        let mut blocks = 0;
        // SAFETY: writes a number.
        let status = unsafe { (self.driver.occupancy)(&mut blocks, kernel.function, threads as i32, shared as usize) };
        self.check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(blocks.max(1) as u32)
    }
}

/// What to compile for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// Machine code of one architecture: `sm_90`.
    Cubin(u32),
    /// PTX for the driver to compile, where NVRTC does not know the device: `compute_90`.
    Ptx(u32),
}

impl Target {
    /// The target for a device that NVRTC serves best.
    pub fn of(capability: (u32, u32)) -> Result<Target> {
        let wanted = capability.0 * 10 + capability.1;
        let known = archs(api::nvrtc()?)?;
        if known.contains(&wanted) {
            return Ok(Target::Cubin(wanted));
        }
        known.iter().copied().filter(|&a| a < wanted).max().map(Target::Ptx).ok_or_else(|| {
            Error::new(
                Kind::Compile,
                format!(
                    "this NVRTC compiles for compute capability {}.{} and later, and the device has {}.{}",
                    known.iter().min().unwrap_or(&0) / 10,
                    known.iter().min().unwrap_or(&0) % 10,
                    capability.0,
                    capability.1
                ),
            )
            .advise("Install an NVRTC of an earlier CUDA version; `gpu_sitrep()` shows which one is in use.")
        })
    }

    fn option(self) -> String {
        match self {
            Target::Cubin(a) => format!("--gpu-architecture=sm_{a}"),
            Target::Ptx(a) => format!("--gpu-architecture=compute_{a}"),
        }
    }
}

/// The architectures that the loaded NVRTC compiles for.
pub fn known_archs() -> Result<Vec<u32>> {
    archs(api::nvrtc()?)
}

pub(super) fn archs(nvrtc: &Nvrtc) -> Result<Vec<u32>> {
    let mut count = 0;
    // SAFETY: writes a number.
    nvrtc_check(unsafe { (nvrtc.arch_count)(&mut count) }, "nvrtcGetNumSupportedArchs")?;
    let mut archs = vec![0i32; count.max(0) as usize];
    // SAFETY: there is room for as many as it said.
    nvrtc_check(unsafe { (nvrtc.archs)(archs.as_mut_ptr()) }, "nvrtcGetSupportedArchs")?;
    Ok(archs.into_iter().map(|a| a as u32).collect())
}

api::codes! {
    /// `nvrtcResult`.
    nvrtc_code: nvrtcResult {
        NVRTC_SUCCESS
        NVRTC_ERROR_OUT_OF_MEMORY
        NVRTC_ERROR_COMPILATION
        NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
    }
}

fn nvrtc_check(status: u32, function: &str) -> Result<()> {
    match nvrtc_code(status) {
        Some(nvrtcResult::NVRTC_SUCCESS) => Ok(()),
        Some(nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY) => {
            Err(Error::new(Kind::Memory, format!("`{function}`: out of host memory")))
        }
        Some(nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) => {
            Err(Error::new(Kind::Library, format!("`{function}`: NVRTC does not find its libnvrtc-builtins"))
                .advise("It must be in the same folder as libnvrtc; `gpu_sitrep()` shows where that is."))
        }
        _ => Err(Error::new(Kind::Compile, format!("`{function}` failed with code {status}"))),
    }
}

/// The compiled source, from the disk if it is there.
pub fn image(source: &str, target: Target, style: &Style) -> Result<Image> {
    if cache::place().is_none() {
        return compile_as(source, target, style);
    }
    let name = name(source, target, style)?;
    if let Some(bytes) = cache::get(&name) {
        counters::CACHE_HITS.add(1);
        return Ok(Image { bytes });
    }
    let image = compile_as(source, target, style)?;
    cache::put(&name, &image.bytes);
    Ok(image)
}

/// Compiles, without any cache.
pub fn compile(source: &str, target: Target) -> Result<Image> {
    compile_as(source, target, &OWN)
}

/// As `compile`, in another style.
pub fn compile_as(source: &str, target: Target, style: &Style) -> Result<Image> {
    let nvrtc = api::nvrtc()?;
    counters::COMPILED.add(1);
    let zeroed = |text: &str| {
        CString::new(text).map_err(|_| Error::new(Kind::Argument, "a kernel's source must not contain a zero byte"))
    };
    static HEADER_TEXTS: OnceLock<(Vec<CString>, Vec<CString>)> = OnceLock::new();
    let (names, texts) = HEADER_TEXTS.get_or_init(|| {
        let text = |s: &str| CString::new(s).unwrap_or_default();
        (HEADERS.iter().map(|h| text(h.0)).collect(), HEADERS.iter().map(|h| text(h.1)).collect())
    });
    let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
    let (names, texts) = (pointers(names), pointers(texts));
    let text = zeroed(source)?;
    let mut program = Program { nvrtc, handle: std::ptr::null_mut() };
    // SAFETY: all strings end in zero and outlive the program.
    let status = unsafe {
        let label = style.label.as_ptr();
        (nvrtc.create)(&mut program.handle, text.as_ptr(), label, names.len() as i32, texts.as_ptr(), names.as_ptr())
    };
    nvrtc_check(status, "nvrtcCreateProgram")?;
    let mut options = vec![zeroed(&target.option())?];
    for option in style.options {
        options.push(zeroed(option)?);
    }
    // SAFETY: a program, and strings that end in zero.
    let status = unsafe { (nvrtc.compile)(program.handle, options.len() as i32, pointers(&options).as_ptr()) };
    if nvrtc_code(status) == Some(nvrtcResult::NVRTC_ERROR_COMPILATION) {
        let log = program.text(nvrtc.log_size, nvrtc.log, "nvrtcGetProgramLog")?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        let first = log.lines().find(|l| l.contains("error")).unwrap_or("see the log").to_string();
        return Err(Error::new(Kind::Compile, format!("the CUDA compiler refused the kernel: {first}")).detail(log));
    }
    nvrtc_check(status, "nvrtcCompileProgram")?;
    let bytes = match target {
        Target::Cubin(_) => program.text(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN")?,
        Target::Ptx(_) => program.text(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX")?,
    };
    Ok(Image { bytes })
}

/// A link that the driver is asked for.
struct Link {
    driver: &'static Driver,
    handle: LinkState,
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created and destroyed once, in the context that is still current; a status cannot be used here.
            unsafe { (self.driver.link_destroy)(self.handle) };
        }
    }
}

struct Program {
    nvrtc: &'static Nvrtc,
    handle: nvrtcProgram,
}

impl Program {
    fn text(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        get: unsafe extern "C" fn(nvrtcProgram, *mut u8) -> u32,
        function: &str,
    ) -> Result<Vec<u8>> {
        let mut n = 0;
        // SAFETY: writes a number.
        nvrtc_check(unsafe { size(self.handle, &mut n) }, function)?;
        let mut bytes = vec![0u8; n];
        // SAFETY: there is room for as many as it said.
        nvrtc_check(unsafe { get(self.handle, bytes.as_mut_ptr()) }, function)?;
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created and destroyed once; a status cannot be used here.
            unsafe { (self.nvrtc.destroy)(&mut self.handle) };
        }
    }
}

/// A hash of all headers, which a source may include.
fn headers() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        HEADERS.hash(&mut hasher);
        hasher.finish()
    })
}

/// NVRTC's version.
///
/// # Errors
/// `Library` without NVRTC.
pub fn version() -> Result<(u32, u32)> {
    let nvrtc = api::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    nvrtc_check(unsafe { (nvrtc.version)(&mut major, &mut minor) }, "nvrtcVersion")?;
    Ok((major.max(0) as u32, minor.max(0) as u32))
}

/// The name of a compiled source on disk: a hash of all that goes into it.
fn name(source: &str, target: Target, style: &Style) -> Result<String> {
    let version = version()?;
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, source, headers(), style.options, target, version).hash(&mut hasher);
        hasher.finish()
    };
    Ok(format!("{:016x}{:016x}", half(0), half(1)))
}
