//! Turns CUDA C and PTX into loaded kernels, by NVRTC (`nvrtc`) and the driver. Loaded modules are cached in memory,
//! compiled ones on disk (`cache`).

pub mod cache;
pub mod nvrtc;
pub mod prebuilt;
pub mod tier;

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::{c_void, CStr, CString};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

use self::nvrtc::{archs, Request, Target};
use self::prebuilt::Ptx;
use self::tier::Tier;
use super::context::background;
use super::context::core::lock;
use super::context::device::{Cuda, PerDevice};
use super::driver::api::{self, CUfunction_attribute, CUjitInputType, CUjit_option, Driver, Function, LinkState};
use super::driver::devices::driver_version;
use super::driver::kernel::Kernel;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::headers::HEADERS;

/// Without --fmad=false NVRTC would contract to fused multiply-adds: `x*x - y*y` must give R's result.
pub const OPTIONS: &[&str] = &["--fmad=false", "--std=c++17", "--device-as-default-execution-space"];

/// Bytes of shared memory, static and dynamic together, that a block may have without opting in.
pub const USUAL_SHARED: u32 = 48 << 10;
/// The most static shared memory in this package's kernels that are also launched with dynamic shared memory
/// (`rank.cuh`).
const DECLARED: u32 = 8 << 10;

/// The compiler options of a group of sources.
pub struct Style {
    /// The file name in the compiler's messages.
    pub label: &'static CStr,
    pub options: &'static [&'static str],
}

/// The style of this package's own sources.
static OWN: Style = Style { label: c"verdigris.cu", options: OPTIONS };

/// The output of NVRTC.
pub struct Image {
    /// A cubin, or PTX with its terminating zero.
    pub bytes: Vec<u8>,
}

/// The loaded modules of each device, by key.
static MODULES: PerDevice<Mutex<HashMap<String, Arc<Module>>>> = PerDevice::new();

/// A loaded module; modules are never unloaded.
pub struct Module {
    pub(crate) handle: api::Module,
    label: String,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

impl Cuda {
    /// The module compiled from a source. `key` must determine the source, which is only generated if the key is new.
    ///
    /// # Errors
    /// `Library` without NVRTC; `Compile`, with the compiler's log as detail.
    pub fn module(&self, key: &str, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        self.kept_module(key, || self.load_typed(&source(), key))
    }

    /// As `module`, for a source of another style; the key must determine the style too.
    pub fn module_as(&self, key: &str, style: &Style, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        self.kept_module(key, || self.load_as(&source(), key, style))
    }

    /// The cached module of a key, loaded by `load` at its first use.
    fn kept_module(&self, key: &str, load: impl FnOnce() -> Result<Module>) -> Result<Arc<Module>> {
        if let Some(module) = lock(MODULES.of(self)).get(key) {
            return Ok(module.clone());
        }
        let module = Arc::new(load()?);
        // if two threads loaded the same module, the first one's is used
        Ok(lock(MODULES.of(self)).entry(key.into()).or_insert(module).clone())
    }

    /// Loads one of this package's sources that depends on types alone, so that it may be prebuilt. Uses the package's
    /// machine code, or its PTX where NVRTC is missing or not to be used; otherwise compiles as `load`.
    pub(crate) fn load_typed(&self, source: &str, label: &str) -> Result<Module> {
        let code = prebuilt::machine_code_of(source, self.properties.capability);
        if let Some(module) = self.load_code(code, label) {
            return Ok(module);
        }
        let alone = tier::tier() == Tier::Interpreted || api::nvrtc().is_err();
        let prebuilt = if alone { prebuilt::find(source) } else { None };
        match prebuilt.map(|ptx| self.link(&ptx, label)) {
            Some(Ok(module)) => return Ok(module),
            // some drivers cannot compile PTX: containers may lack that library
            Some(Err(error)) if api::nvrtc().is_err() => return Err(error),
            _ => {}
        }
        self.load(source, label)
    }

    /// Compiles and loads one of this package's sources, or loads it from the disk cache.
    pub(crate) fn load(&self, source: &str, label: &str) -> Result<Module> {
        self.load_as(source, label, &OWN)
    }

    fn load_as(&self, source: &str, label: &str, style: &Style) -> Result<Module> {
        let target = Target::of(self.properties.capability)?;
        let name = if cache::is_on() { Some(name(source, target, style)?) } else { None };
        let load = |bytes: &[u8]| self.load_image(bytes, label);
        cache::kept(name.as_deref(), || Ok(compile_as(source, target, style)?.bytes), load)
    }

    /// Loads prebuilt machine code; `None` where there is none or the driver refuses it as too new.
    fn load_code(&self, code: Option<&[u8]>, label: &str) -> Option<Module> {
        self.load_image(code?, label).ok()
    }

    /// A prebuilt module, loaded at its first use: from machine code, else from PTX compiled by the driver, else by
    /// NVRTC.
    pub(crate) fn prebuilt_module(&self, name: &str, source: impl FnOnce() -> String) -> Result<Arc<Module>> {
        self.kept_module(name, || self.load_prebuilt(name, source))
    }

    /// Loads a prebuilt module ahead of its first use if the package has machine code that the driver accepts. Compiles
    /// nothing.
    pub(crate) fn load_ahead(&self, name: &str) {
        let none = || Error::new(Kind::Compile, format!("no machine code of `{name}` for the device"));
        let code = prebuilt::machine_code(name, self.properties.capability);
        _ = self.kept_module(name, || self.load_code(code, name).ok_or_else(none));
    }

    fn load_prebuilt(&self, name: &str, source: impl FnOnce() -> String) -> Result<Module> {
        if let Some(module) = self.load_code(prebuilt::machine_code(name, self.properties.capability), name) {
            return Ok(module);
        }
        let linked = prebuilt::named(name)
            .ok_or_else(|| Error::new(Kind::Compile, format!("the package lacks its kernel `{name}`")))
            .and_then(|ptx| self.link(&ptx, name));
        match linked {
            Ok(module) => Ok(module),
            Err(_) if api::nvrtc().is_ok() => self.load(&source(), name),
            Err(error) => Err(error),
        }
    }

    /// If a prebuilt module can be loaded without compilation, the CUDA version that compiled it, since its math
    /// functions depend on that. Its machine code is in the package, or in the disk cache from an earlier compilation
    /// of the PTX.
    pub(crate) fn prebuilt_cuda_version(&self, name: &str) -> Option<(u32, u32)> {
        if prebuilt::machine_code(name, self.properties.capability).is_some() {
            return Some(prebuilt::CODE_IS_OF);
        }
        let linked = self.linked_name(&prebuilt::named(name)?).ok()?;
        cache::has(&linked).then_some(prebuilt::PTX_IS_OF)
    }

    /// The name in the disk cache of PTX compiled by this driver for this device.
    pub(crate) fn linked_name(&self, ptx: &Ptx) -> Result<String> {
        let (major, minor) = self.properties.capability;
        let version = driver_version()?;
        Ok(format!("{:032x}-sm_{major}{minor}-{}.{}", ptx.fingerprint(), version.0, version.1))
    }

    /// Compiles PTX by the driver and loads it, or loads it from the disk cache.
    pub(crate) fn link(&self, ptx: &Ptx, label: &str) -> Result<Module> {
        let load = |bytes: &[u8]| self.load_image(bytes, label);
        cache::kept(Some(&self.linked_name(ptx)?), || self.compile_ptx(ptx), load)
    }

    fn compile_ptx(&self, ptx: &Ptx) -> Result<Vec<u8>> {
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
        Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), bytes) }.to_vec())
    }

    /// Loads a cubin, a fatbin, or PTX that ends in zero. If the driver refuses PTX, the error's detail is the driver's
    /// log.
    pub(crate) fn load_image(&self, image: &[u8], label: &str) -> Result<Module> {
        let _entered = self.enter()?;
        let mut handle = api::Module::NULL;
        let mut log = vec![0u8; 8192];
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
        // SAFETY: the image is whole, as above; the log outlives the call.
        let status = unsafe {
            let image = image.as_ptr().cast();
            (self.driver.module_load)(&mut handle, image, 2, options.as_mut_ptr(), values.as_mut_ptr())
        };
        self.check(status, "cuModuleLoadDataEx").map_err(|e| {
            let end = log.iter().position(|&c| c == 0).unwrap_or(log.len());
            if end == 0 {
                return e;
            }
            e.detail(String::from_utf8_lossy(&log[..end]).into_owned())
        })?;
        background::note_load();
        Ok(Module { handle, label: label.into(), kernels: Mutex::default() })
    }

    /// A kernel of a module by its (`extern "C"`) name.
    pub fn function(&self, module: &Module, name: &str) -> Result<Arc<Kernel>> {
        self.named(module, name, name)
    }

    /// A kernel of a module by its symbol; `shown` is its name in messages.
    pub(crate) fn named(&self, module: &Module, name: &str, shown: &str) -> Result<Arc<Kernel>> {
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
            name: shown.into(),
            registers: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            taken: Arc::default(),
        });
        lock(&module.kernels).insert(name.into(), kernel.clone());
        Ok(kernel)
    }

    /// The kernel `name` of the module compiled from a source: `module` and `function` in one.
    pub fn kernel(&self, key: &str, source: impl FnOnce() -> String, name: &str) -> Result<Arc<Kernel>> {
        self.function(&*self.module(key, source)?, name)
    }

    /// Allows a kernel this many bytes of dynamic shared memory, for more than `USUAL_SHARED`.
    pub fn allow_shared(&self, kernel: &Kernel, bytes: u32) -> Result<()> {
        let _entered = self.enter()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a loaded function.
        let status = unsafe { (self.driver.function_set)(kernel.function, attribute, bytes as i32) };
        self.check(status, "cuFuncSetAttribute")
    }

    /// The number of blocks of this size, with `shared` bytes of dynamic shared memory, that the whole device runs at
    /// once.
    pub fn wave(&self, kernel: &Kernel, threads: u32, shared: u32) -> Result<usize> {
        self.allow_dynamic_shared(kernel, shared)?;
        Ok(self.properties.multiprocessors as usize * self.occupancy(kernel, threads, shared)? as usize)
    }

    /// Allows a kernel `shared` bytes of dynamic shared memory if these may exceed the default limit together with what
    /// it declares.
    pub fn allow_dynamic_shared(&self, kernel: &Kernel, shared: u32) -> Result<()> {
        if shared > USUAL_SHARED - DECLARED {
            self.allow_shared(kernel, shared)?;
        }
        Ok(())
    }

    /// The number of blocks of this size that a multiprocessor runs at once; at least 1.
    pub fn occupancy(&self, kernel: &Kernel, threads: u32, shared: u32) -> Result<u32> {
        let _entered = self.enter()?;
        let mut blocks = 0;
        // SAFETY: writes a number.
        let status = unsafe { (self.driver.occupancy)(&mut blocks, kernel.function, threads as i32, shared as usize) };
        self.check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(blocks.max(1) as u32)
    }
}

/// The architectures that the loaded NVRTC compiles for.
pub fn known_archs() -> Result<Vec<u32>> {
    archs(api::nvrtc()?)
}

/// Compiles one of this package's sources, without any cache.
pub fn compile(source: &str, target: Target) -> Result<Image> {
    compile_as(source, target, &OWN)
}

/// As `compile`, with the options of another style.
pub fn compile_as(source: &str, target: Target, style: &Style) -> Result<Image> {
    let options = style.options.iter().map(|&o| o.into()).collect();
    let compiled =
        nvrtc::compile(&Request { source, label: style.label, target, options, headers: true, expressions: &[] })?;
    Ok(Image { bytes: compiled.bytes })
}

/// A link operation of the driver, destroyed on drop.
pub(crate) struct Link {
    pub driver: &'static Driver,
    pub handle: LinkState,
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created and destroyed once, in the context that is still current; a status cannot be used here.
            unsafe { (self.driver.link_destroy)(self.handle) };
        }
    }
}

/// A hash of all headers, since a source may include any.
fn headers() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        HEADERS.hash(&mut hasher);
        hasher.finish()
    })
}

/// The name of a compiled source in the disk cache: a hash of everything that its machine code depends on.
fn name(source: &str, target: Target, style: &Style) -> Result<String> {
    let version = nvrtc::version()?;
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, source, headers(), style.options, target, version).hash(&mut hasher);
        hasher.finish()
    };
    Ok(format!("{:016x}{:016x}", half(0), half(1)))
}
